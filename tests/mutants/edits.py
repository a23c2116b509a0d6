"""Layouts as text with their clauses apart, and what goes wrong with them in an edit: the mutants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

Part = tuple[str, str]  # a digit and its size as written, or empty


@dataclass(frozen=True, slots=True)
class Block:
    """The clauses of one layout, as written."""

    name: str
    axes: tuple[str, ...]
    requires: tuple[str, ...]
    pads: tuple[tuple[str, str], ...]  # axis and multiple
    fill: str
    splits: tuple[tuple[str, tuple[Part, ...]], ...]
    store: tuple[tuple[str, tuple[str, ...]], ...]  # label and digits
    restated: tuple[str, ...]  # the `same as` and `feeds` clauses

    @property
    def order(self) -> tuple[str, ...]:
        """Return the digits in store order."""
        return tuple(digit for _, digits in self.store for digit in digits)


def read_blocks(text: str) -> dict[str, Block]:
    """Return the layouts of a formatted spec."""
    found = re.findall(r"^layout (\w+)\(([^)]*)\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {name: _block(name, axes, body.splitlines()) for name, axes, body in found}


def _block(name: str, axes: str, lines: list[str]) -> Block:
    block = Block(name, tuple(a.strip() for a in axes.split(",")), (), (), "", (), (), ())
    for line in (line.strip() for line in lines):
        word, _, rest = line.partition(" ")
        match word:
            case "require":
                block = replace(block, requires=(*block.requires, rest))
            case "pad":
                pads, _, fill = rest.partition(" fill ")
                pairs = tuple((axis, size) for axis, _, size in (p.strip().partition(" to ") for p in pads.split(",")))
                block = replace(block, pads=pairs, fill=fill.strip())
            case "split":
                axis, _, parts = rest.partition("=")
                pieces = tuple((digit, size) for digit, _, size in (p.partition(":") for p in parts.split()))
                block = replace(block, splits=(*block.splits, (axis.strip(), pieces)))
            case "store":
                groups = [g.split() for g in rest.split("|")]
                labelled = tuple((g[0], tuple(g[1:])) for g in groups if g[0] in ("tile", "lane", "byte"))
                block = replace(block, store=labelled if labelled else (("", tuple(groups[0])),))
            case "same" | "feeds":
                block = replace(block, restated=(*block.restated, line))
            case _:
                raise AssertionError(f"{name}: no mutants are made of `{line}`")
    assert block.store, name
    return block


def write(block: Block, *, restated: bool = False) -> str:
    """Return a layout in the language, with its restatements only where they are asked for."""
    lines = [f"layout {block.name}({', '.join(block.axes)}) {{"]
    lines += [f"    require {rule}" for rule in block.requires]
    if block.pads:
        lines.append(f"    pad {', '.join(f'{axis} to {n}' for axis, n in block.pads)} fill {block.fill}")
    for axis, parts in block.splits:
        lines.append(f"    split {axis} = {' '.join(f'{d}:{n}' if n else d for d, n in parts)}")
    lines.append("    store " + " | ".join(" ".join(filter(None, (label, *digits))) for label, digits in block.store))
    lines += [f"    {line}" for line in block.restated if restated]
    return "\n".join([*lines, "}\n"])


def mutants(block: Block) -> dict[str, Block]:
    """Return mutants by what was done: orders, sizes, pads, fills, axes; and edits that change no byte."""
    found: dict[str, Block] = {}
    for what, mutant in (
        *_orders(block),
        *_sizes(block),
        *_splits(block),
        *_axes(block),
        *_pads(block),
        *_words(block),
    ):
        if mutant != block and mutant not in found.values():
            found.setdefault(what, mutant)
    return found


Mutants = Iterator[tuple[str, Block]]


def _stored(block: Block, order: tuple[str, ...]) -> Block:
    """Return the block with another order, its groups as long as before."""
    store, rest = [], list(order)
    for label, digits in block.store:
        store.append((label, tuple(rest[: len(digits)])))
        rest = rest[len(digits) :]
    return replace(block, store=tuple(store))


def _orders(block: Block) -> Mutants:
    order = block.order
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            swapped = list(order)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            yield f"store: {order[i]} and {order[j]} exchanged", _stored(block, tuple(swapped))
    yield "store: the first digit moved to the end", _stored(block, (*order[1:], order[0]))
    yield "store: the last digit moved to the front", _stored(block, (order[-1], *order[:-1]))
    yield "store: reversed", _stored(block, order[::-1])


def _scaled(size: str, up: int, down: int) -> str | None:
    """Return a size times up / down, or None where that is not whole."""
    number, unit = int(size.removesuffix("B"), 0), "B" if size.endswith("B") else ""
    return None if number * up % down or number * up // down < 1 else f"{number * up // down}{unit}"


def _sizes(block: Block) -> Mutants:
    for index, (axis, parts) in enumerate(block.splits):
        for position, (digit, size) in enumerate(parts):
            if not size:
                continue
            other_unit = size.removesuffix("B") if size.endswith("B") else f"{size}B"
            changes = {"halved": _scaled(size, 1, 2), "doubled": _scaled(size, 2, 1), "in other units": other_unit}
            for what, new in changes.items():
                if new is not None:
                    changed = (*parts[:position], (digit, new), *parts[position + 1 :])
                    yield f"{axis}: {digit} {what}", _split(block, index, changed)


def _split(block: Block, index: int, parts: tuple[Part, ...]) -> Block:
    splits = list(block.splits)
    splits[index] = (splits[index][0], parts)
    return replace(block, splits=tuple(splits))


def _splits(block: Block) -> Mutants:
    for index, (axis, parts) in enumerate(block.splits):
        for i in range(len(parts) - 1):
            swapped = (*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :])
            yield f"split {axis}: {parts[i][0]} and {parts[i + 1][0]} exchanged", _split(block, index, swapped)
        for i, (_, size) in enumerate(parts):
            if not size:
                first = (parts[i], *parts[:i], *parts[i + 1 :])
                yield f"split {axis}: what is left slowest", _split(block, index, first)
                last = (*parts[:i], *parts[i + 1 :], parts[i])
                yield f"split {axis}: what is left fastest", _split(block, index, last)
    split = {axis for axis, _ in block.splits}
    for axis in block.axes:
        if axis in split:
            continue
        pieces = (axis, ((f"{axis}_h", ""), (f"{axis}_l", "2")))
        at = block.order.index(axis)
        rest = tuple(d for d in block.order if d != axis)
        for place in range(len(rest) + 1):
            with_high = (*rest[:at], f"{axis}_h", *rest[at:])
            target = place if place <= at else place + 1
            order = (*with_high[:target], f"{axis}_l", *with_high[target:])
            added = replace(block, splits=(*block.splits, pieces), store=(("", order),))
            yield f"{axis} split, its pairs at place {target}", added
        reversed_pair = (axis, ((f"{axis}_l", "2"), (f"{axis}_h", "")))
        order = (*rest[:at], f"{axis}_h", f"{axis}_l", *rest[at:])
        yield (
            f"{axis} split in two halves, interleaved",
            replace(block, splits=(*block.splits, reversed_pair), store=(("", order),)),
        )


def _axes(block: Block) -> Mutants:
    for i in range(len(block.axes) - 1):
        a, b = block.axes[i], block.axes[i + 1]
        swapped = (*block.axes[:i], b, a, *block.axes[i + 2 :])
        yield f"axes {a} and {b} exchanged", replace(block, axes=swapped)
        other = {a: b, b: a}
        if any(axis in other for axis, _ in block.splits) and all(block.order.count(axis) == 0 for axis in other):
            splits = tuple((other.get(axis, axis), parts) for axis, parts in block.splits)
            yield f"the splits of {a} and {b} exchanged", replace(block, splits=splits)


def _pads(block: Block) -> Mutants:
    for i, (axis, multiple) in enumerate(block.pads):
        rest = (*block.pads[:i], *block.pads[i + 1 :])
        yield f"pad of {axis} dropped", replace(block, pads=rest)
        for what, new in (("halved", _scaled(multiple, 1, 2)), ("doubled", _scaled(multiple, 2, 1))):
            if new is not None:
                pads = (*block.pads[:i], (axis, new), *block.pads[i + 1 :])
                yield f"pad of {axis} {what}", replace(block, pads=pads)
    for fill in ("0x00", "0x7F", "0x01", "undefined"):
        if block.pads and fill != block.fill:
            yield f"fill {fill}", replace(block, fill=fill)
    if len(block.pads) == 2:
        (a, m), (b, n) = block.pads
        yield "pads exchanged", replace(block, pads=((a, n), (b, m)))
    for axis in block.axes:
        if axis not in dict(block.pads):
            pads = (*block.pads, (axis, "64"))
            yield f"pad of {axis} to 64 added", replace(block, pads=pads, fill=block.fill or "0x7F")


def _words(block: Block) -> Mutants:
    """Yield edits that change no byte: names, groups, a piece taken apart, a legal size narrowed."""
    renamed = {d: f"{d}_again" for d in block.order if d not in block.axes}
    splits = tuple((axis, tuple((renamed.get(d, d), n) for d, n in parts)) for axis, parts in block.splits)
    store = tuple((label, tuple(renamed.get(d, d) for d in digits)) for label, digits in block.store)
    yield "digits renamed", replace(block, splits=splits, store=store)
    yield "groups left out", replace(block, store=(("", block.order),))
    yield "sizes narrowed", replace(block, requires=(*block.requires, f"{block.axes[0]} % 2 == 0"))
    for index, (axis, parts) in enumerate(block.splits):
        for position, (digit, size) in enumerate(parts):
            half = _scaled(size, 1, 2) if size else None
            if half is not None and half not in ("1", "1B"):
                pair: tuple[Part, ...] = ((f"{digit}_h", "2"), (f"{digit}_l", half))
                apart = (*parts[:position], *pair, *parts[position + 1 :])
                store = tuple(
                    (label, tuple(x for d in digits for x in ((pair[0][0], pair[1][0]) if d == digit else (d,))))
                    for label, digits in block.store
                )
                yield f"{axis}: {digit} taken apart", replace(_split(block, index, apart), store=store)
