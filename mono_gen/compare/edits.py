"""The smallest edit between two layouts, in words: what became of pads, splits, store order and pitches."""

from __future__ import annotations

from collections.abc import Mapping

from mono_gen.algebra.monomial import Size, product
from mono_gen.algebra.template import AxisTemplate, Factor, Template
from mono_gen.frozen import frozen


@frozen
class Edits:
    """What was edited, a phrase an entry, and what was only renamed: {old name: new name} of axes and digits."""

    phrases: tuple[str, ...]
    axes: Mapping[str, str]
    digits: Mapping[str, str]


def edits(old: Template, new: Template) -> Edits:
    """Return the edit that leads from one template to the other."""
    if len(old.axes) != len(new.axes):
        listed = (", ".join(axis.name for axis in t.axes) for t in (old, new))
        return Edits((f"axes ({') -> ('.join(listed)})",), {}, {})
    pairs = list(zip(old.axes, new.axes, strict=True))
    names = {a.name for a in new.axes}
    axes = {a.name: b.name for a, b in pairs if a.name != b.name and a.name not in names}
    axes = {a: b for a, b in axes.items() if b not in {axis.name for axis in old.axes}}
    digits = _renamed(old, new)
    phrases = []
    before, after = tuple(axes.get(a.name, a.name) for a in old.axes), tuple(a.name for a in new.axes)
    if before != after:
        phrases.append(f"axes ({', '.join(before)}) -> ({', '.join(after)})")
    for a, b in pairs:
        phrases += _split(a, b, digits)
    phrases += _store(old, new, digits)
    phrases += _pads(old, new)
    phrases += _pitches(old, new, digits)
    return Edits(tuple(phrases), axes, digits)


# --- names ---


def _renamed(old: Template, new: Template) -> dict[str, str]:
    """Return the digits that have another name and are the same: those of their axis' place and size."""
    gone = set(old.order) - set(new.order)
    come = set(new.order) - set(old.order)
    renamed: dict[str, str] = {}
    for a, b in zip(old.axes, new.axes, strict=True):
        if len(a.factors) != len(b.factors):
            continue
        for x, y in zip(a.factors, b.factors, strict=True):
            if x.name in gone and y.name in come and x.size == y.size:
                renamed[x.name] = y.name
    return renamed


# --- splits ---


def _split(old: AxisTemplate, new: AxisTemplate, names: Mapping[str, str]) -> list[str]:
    """Return what became of the digits of an axis."""
    before = tuple(Factor(names.get(f.name, f.name), f.size) for f in old.factors)
    after = new.factors
    if before == after:
        return []
    if {f.name for f in before} == {f.name for f in after}:
        return _resized(before, after) if _names(before) == _names(after) else _reordered(new.name, before, after)
    return _recut(new.name, before, after)


def _names(factors: tuple[Factor, ...]) -> tuple[str, ...]:
    return tuple(f.name for f in factors)


def _resized(before: tuple[Factor, ...], after: tuple[Factor, ...]) -> list[str]:
    """Return the digits that have another size."""
    pairs = zip(before, after, strict=True)
    return [f"digit {a.name}: size {_size(a)} -> {_size(b)}" for a, b in pairs if a.size != b.size]


def _size(factor: Factor) -> str:
    return str(factor.size) if factor.size is not None else "what is left"


def _reordered(axis: str, before: tuple[Factor, ...], after: tuple[Factor, ...]) -> list[str]:
    """Return that digits of an axis stand in another order."""
    pairs = list(zip(before, after, strict=True))
    apart = [(a, b) for a, b in pairs if a != b]
    if len(apart) == 2 and apart[0] == apart[1][::-1]:
        return [f"digits {apart[0][0].name} and {apart[1][0].name} exchanged in split {axis}"]
    return [_split_text(axis, before, after)]


def _split_text(axis: str, before: tuple[Factor, ...], after: tuple[Factor, ...]) -> str:
    """Return both splits as the spec has them."""
    texts = (" ".join(f.name if f.size is None else f"{f.name}:{f.size}" for f in side) for side in (before, after))
    return f"split {axis} = {' -> '.join(texts)}"


def _recut(axis: str, before: tuple[Factor, ...], after: tuple[Factor, ...]) -> list[str]:
    """Return how digits were cut up or put together, where only neighbours were; otherwise both splits."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    sizes = tuple(_product(side) for side in (old, new))
    if sizes[0] is not None and sizes[0] == sizes[1] and 1 in (len(old), len(new)):
        texts = tuple(" ".join(f"{f.name}:{f.size}" for f in side) for side in (old, new))
        return [f"digit {texts[0]} cut into {texts[1]}" if len(old) == 1 else f"digits {texts[0]} made one, {texts[1]}"]
    return [_split_text(axis, before, after)]


def _product(factors: tuple[Factor, ...]) -> Size | None:
    """Return the size of digits together, None where one takes what is left."""
    sizes = tuple(f.size for f in factors if f.size is not None)
    return product(sizes) if len(sizes) == len(factors) and factors else None


# --- store ---


def _store(old: Template, new: Template, names: Mapping[str, str]) -> list[str]:
    """Return what became of the store order, over the digits that both sides have."""
    before = [(g.label, names.get(d, d)) for g in old.store for d in g.digits]
    after = [(g.label, d) for g in new.store for d in g.digits]
    shared = {d for _, d in before} & {d for _, d in after}
    old_order, new_order = ([p for p in side if p[1] in shared] for side in (before, after))
    if old_order == new_order:
        return (
            []
            if len(before) == len(after) == len(shared) or _is_recut(old, new, before, after)
            else [_stores(old, new)]
        )
    one, two = [d for _, d in old_order], [d for _, d in new_order]
    if one == two:
        return [_regrouped(old_order, new_order)]
    labels = tuple(tuple(label for label, _ in side) for side in (old_order, new_order))
    apart = [i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    if labels[0] == labels[1] and len(apart) == 2:
        return [f"digits {one[apart[0]]} and {one[apart[1]]} exchanged"]
    moved = next((d for d in one if _without(old_order, d) == _without(new_order, d)), None)
    if moved is not None:
        return [_moved(moved, {d: g for g, d in old_order}, new_order)]
    return [_stores(old, new)]


def _is_recut(old: Template, new: Template, before: list[tuple[str, str]], after: list[tuple[str, str]]) -> bool:
    """Return whether digits that were cut up or put together stand where they stood, as neighbours."""
    here, there = {d for _, d in before}, {d for _, d in after}
    for a, b in zip(old.axes, new.axes, strict=True):
        parts = [f.name for f in b.factors if f.name not in here]
        whole = [f.name for f in a.factors if f.name not in there]
        if not parts and not whole:
            continue
        if len(whole) == 1:
            before = [
                p for group, d in before for p in ([(group, n) for n in parts] if d == whole[0] else [(group, d)])
            ]
        elif len(parts) == 1:
            after = [p for group, d in after for p in ([(group, n) for n in whole] if d == parts[0] else [(group, d)])]
    return before == after


def _stores(old: Template, new: Template) -> str:
    """Return both store orders as the spec has them."""
    return " -> ".join(_store_text(side) for side in (old, new))


def _without(order: list[tuple[str, str]], digit: str) -> list[tuple[str, str]]:
    return [pair for pair in order if pair[1] != digit]


def _moved(digit: str, groups: Mapping[str, str], order: list[tuple[str, str]]) -> str:
    """Return where one digit went."""
    names = [d for _, d in order]
    at = names.index(digit)
    label = order[at][0]
    if label and groups[digit] != label:
        return f"digit {digit} moved from {groups[digit] or 'no group'} to {label}"
    where = f"behind {names[at - 1]}" if at else f"before {names[1]}"
    return f"digit {digit} moved {where}"


def _regrouped(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> str:
    """Return which digits another group has, in the same order."""
    apart = [(a[0], b[0], a[1]) for a, b in zip(old, new, strict=True) if a != b]
    if all(not a for a, _, _ in apart):
        return "groups named, in the same order"
    if all(not b for _, b, _ in apart):
        return "groups no longer named, in the same order"
    words = (f"digit {digit} counted to {b}, not {a}" for a, b, digit in apart)
    return f"{', '.join(words)}, in the same order"


def _store_text(template: Template) -> str:
    return "store " + " | ".join(" ".join(((g.label,) if g.label else ()) + g.digits) for g in template.store)


# --- pads and pitches ---


def _pads(old: Template, new: Template) -> list[str]:
    """Return what became of pads and their fill."""
    found = []
    for a, b in zip(old.axes, new.axes, strict=True):
        if a.pad_to == b.pad_to:
            continue
        if a.pad_to is None:
            found.append(f"pad {b.name} to {b.pad_to} added")
        elif b.pad_to is None:
            found.append(f"pad {b.name} to {a.pad_to} dropped")
        else:
            found.append(f"pad {b.name} to {a.pad_to} -> {b.pad_to}")
    if old.has_pads and new.has_pads and old.fill != new.fill:
        found.append(f"fill {fill_text(old.fill)} -> {fill_text(new.fill)}")
    return found


def fill_text(fill: int | None) -> str:
    """Return a fill as the spec has it."""
    return "undefined" if fill is None else f"0x{fill:02X}"


def _pitches(old: Template, new: Template, names: Mapping[str, str]) -> list[str]:
    """Return what became of pitches."""
    before = {names.get(name, name): size for name, size in old.pitches}
    after = dict(new.pitches)
    found = []
    for name in dict.fromkeys((*before, *after)):
        if name not in before:
            found.append(f"pitch {name} = {after[name]} added")
        elif name not in after:
            found.append(f"pitch {name} = {before[name]} dropped")
        elif before[name] != after[name]:
            found.append(f"pitch {name} = {before[name]} -> {after[name]}")
    return found
