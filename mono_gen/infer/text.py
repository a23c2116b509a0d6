"""A pattern to the text of a spec, in the house style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mono_gen.algebra.monomial import ONE, Size, product
from mono_gen.infer.combine import AxisPattern, Pattern
from mono_gen.infer.names import digit_names
from mono_gen.syntax.format import format_text
from mono_gen.syntax.source import Source

_WAVES = (64, 32)
_LANE_BYTES = 32
_FEWEST_LANES = 16


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above the layout: the names, doc comments of spec and layout, and remarks a line each."""

    spec: str
    layout: str
    axes: tuple[str, ...]
    source: str
    about: str
    remarks: tuple[str, ...]


def spec_text(pattern: Pattern, heading: Heading) -> str:
    """Return the whole text of a spec with this one layout."""
    names = digit_names(pattern, heading.axes)
    clauses = [
        *_require(pattern, heading.axes),
        *_pad(pattern, heading.axes),
        *_splits(pattern, heading.axes, names),
        _store(pattern, names),
        _same_as(pattern, heading.axes),
    ]
    lines = [
        f"## {heading.source}",
        f"spec {heading.spec}",
        "",
        *(f"# {remark}" for remark in heading.remarks),
        *([""] if heading.remarks else []),
        f"## {heading.about}",
        f"layout {heading.layout}({', '.join(heading.axes)}) {{",
        *clauses,
        "}",
    ]
    return format_text(Source("imported.layout", "\n".join(lines) + "\n"))


def _require(pattern: Pattern, axes: Sequence[str]) -> list[str]:
    """Return the `require` clause, where the function takes less than what the digits imply."""
    conditions = []
    for name, axis in zip(axes, pattern.axes, strict=True):
        conditions += [f"{name} % {step} == 0" for step in axis.steps if step != ONE]
        if axis.only is not None and None in axis.sizes:
            conditions.append(f"{name} == {axis.only}")
    return [f"require {', '.join(conditions)}"] if conditions else []


def _pad(pattern: Pattern, axes: Sequence[str]) -> list[str]:
    """Return the `pad` clause."""
    padded = [f"{name} to {axis.pad}" for name, axis in zip(axes, pattern.axes, strict=True) if axis.pad is not None]
    if not padded:
        return []
    fill = "undefined" if pattern.fill is None else f"0x{pattern.fill:02X}"
    return [f"pad {', '.join(padded)} fill {fill}"]


def _splits(pattern: Pattern, axes: Sequence[str], names: tuple[tuple[str, ...], ...]) -> list[str]:
    """Return a `split` clause an axis of several digits, their `=` one below the other."""
    split = [i for i, axis in enumerate(pattern.axes) if len(axis.sizes) > 1]
    column = max((len(axes[i]) for i in split), default=0)
    lines = []
    for i in split:
        digits = [
            name if size is None else f"{name}:{size}"
            for name, size in zip(names[i], pattern.axes[i].sizes, strict=True)
        ]
        lines.append(f"split {axes[i]:{column}} = {' '.join(digits)}")
    return lines


def _store(pattern: Pattern, names: tuple[tuple[str, ...], ...]) -> str:
    """Return the `store` clause, with the groups tile, lane and byte where it is clear which digits they are."""
    order = [names[axis][i] for axis, i in pattern.store]
    cuts = _groups(pattern)
    if cuts is None:
        return f"store {' '.join(order)}"
    first, second = cuts
    return (
        f"store tile {' '.join(order[:first])} | lane {' '.join(order[first:second])} | byte {' '.join(order[second:])}"
    )


def _groups(pattern: Pattern) -> tuple[int, int] | None:
    """Return where the lane and the byte group begin in the store order; None where that would be a guess.

    All digits without a size belong to the tile. A lane group has the lanes of a wave, or at least 16 of them beside a
    byte group of one digit that is contiguous in the source; a lane holds at most 32 bytes.
    """
    sizes = [pattern.axes[axis].sizes[i] for axis, i in pattern.store]
    first = max((at for at, size in enumerate(sizes) if size is None), default=-1) + 1
    bits = pattern.widths[0]
    known = [0 if size is None else size.at(bits) for size in sizes]

    def fits(cut: int) -> bool:
        return first < cut < len(sizes) and prod(known[cut:]) * bits <= 8 * _LANE_BYTES

    if first == 0:
        return None
    for lanes in _WAVES:
        for cut in range(first + 1, len(sizes)):
            if prod(known[first:cut]) == lanes and fits(cut):
                return first, cut
    cut = len(sizes) - 1
    axis, i = pattern.store[-1]
    is_run = i == len(pattern.axes[axis].sizes) - 1
    return (first, cut) if is_run and fits(cut) and prod(known[first:cut]) >= _FEWEST_LANES else None


def _same_as(pattern: Pattern, axes: Sequence[str]) -> str:
    """Return the `same as torch` clause."""
    view: list[str] = []
    places: dict[tuple[int, int], int] = {}
    for index, (name, axis) in enumerate(zip(axes, pattern.axes, strict=True)):
        for i, size in enumerate(axis.sizes):
            places[index, i] = len(view)
            view.append(_left_over(name, axis) if size is None else str(size))
    permute = ", ".join(str(places[digit]) for digit in pattern.store)
    return f"same as torch view({', '.join(view)}).permute({permute})"


def _left_over(name: str, axis: AxisPattern) -> str:
    """Return the dim of the digit that takes what is left: `row/16`, `k/64B`."""
    sized = [size for size in axis.sizes if size is not None]
    whole: Size = product(tuple(sized))
    if whole == ONE:
        return name
    return f"{name}/{whole}" if whole.power < 2 else "/".join([name, *map(str, sized)])
