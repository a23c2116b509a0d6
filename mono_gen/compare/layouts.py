"""Two layouts of one name: what moves at sample extents, ids and signatures, legal sizes, names, docs."""

from __future__ import annotations

from itertools import product

from mono_gen.algebra.template import bind
from mono_gen.compare.edits import Edits, edits
from mono_gen.compare.maps import map_of_layout
from mono_gen.compare.model import Change, Item, Move, Symbols
from mono_gen.compare.moves import move
from mono_gen.compare.words import hex_id, percent_sentence, plural, replaced
from mono_gen.model import LayoutModel
from mono_gen.plan.layouts import is_legal, legal_extents
from mono_gen.plan.model import LayoutPlan

MOST_SIZES = 4096
"""How far sizes of one axis are tried for one that only one side takes."""

MOST_SAMPLES = 64
"""How many combinations of extents are looked at for one that shows a change of pads."""


def compare_layouts(old: LayoutPlan, new: LayoutPlan, spec: str) -> Item | None:
    """Return what is different about a layout, None where nothing is."""
    told = edits(old.model.template, new.model.template)
    moved = sample_move(old.model, new.model) if old.model.template != new.model.template else None
    changes = [*_bytes(told, moved), *_abi(old, new, told), *_checks(old, new, told), *_names(old, new, told)]
    if moved is not None and moved.is_still:
        changes = [*(Change("abi", f"{phrase}; no byte moves") for phrase in told.phrases), *changes]
    if old.model.doc != new.model.doc:
        changes.append(Change("doc", "doc comment changed"))
    if old.id == new.id and not told.digits and not told.axes and old.torch_text != new.torch_text:
        changes.append(Change("doc", "`same as torch` is worded in another way"))
    if not changes:
        return None
    name = new.model.name
    moves = ((name, moved),) if moved is not None and not moved.is_still else ()
    return Item(
        spec, "layout", name, old.model.place, new.model.place, tuple(changes), moves, layout_symbols(spec, name)
    )


def layout_symbols(spec: str, name: str) -> Symbols:
    """Return the generated names of a layout."""
    python = tuple(f"{stem}_{name}" for stem in ("pack", "unpack", "offset", "storage"))
    return Symbols(python, (f"mono::{spec}::{name}",))


# --- bytes ---


def sample_move(old: LayoutModel, new: LayoutModel) -> Move | None:
    """Return what moves at extents that both layouts allow and where the change shows, None where there are none.

    The extents are the plan's samples, two tiles an axis with live pads; where these show nothing, those around the
    multiples of both pads. Elements have 8 bits, or another width where nothing shows at 8: sizes may be in bytes.
    """
    if len(old.axes) != len(new.axes):
        return None
    first: Move | None = None
    for bits in sorted((bits for bits in old.widths if bits in new.widths), key=lambda bits: (bits != 8, bits)):
        for extents in _extents(old, new, bits):
            found = _move_at(old, new, extents, bits)
            if not found.is_still:
                return found
            first = first or found
    return first


def _move_at(old: LayoutModel, new: LayoutModel, extents: tuple[int, ...], bits: int) -> Move:
    before, after = (map_of_layout(bind(side.template, extents, bits), side.axes, bits) for side in (old, new))
    sizes = ", ".join(f"{name} {n}" for name, n in zip(new.axes, extents, strict=True))
    return move(before, after, f"{sizes}, {bits} bits")


def _extents(old: LayoutModel, new: LayoutModel, bits: int) -> list[tuple[int, ...]]:
    """Return extents that are legal on both sides."""
    samples = [found for side in (new, old) if (found := legal_extents(side, bits)) is not None]
    columns: list[list[int]] = [[found[i] for found in samples] for i in range(len(new.axes))]
    for column, a, b in zip(columns, old.template.axes, new.template.axes, strict=True):
        if a.pad_to != b.pad_to:
            multiples = [axis.pad_to.at(bits) for axis in (a, b) if axis.pad_to is not None]
            column += [n + less for n in multiples for less in (1, -1) if n + less > 0]
    together = [tuple(max(column) for column in columns)] if samples else []
    every = [*samples, *together, *list(product(*columns))[:MOST_SAMPLES]]
    return [e for e in dict.fromkeys(every) if is_legal(old, e, bits) and is_legal(new, e, bits)]


def _bytes(told: Edits, moved: Move | None) -> list[Change]:
    """Return the edit and what it moves; an edit that moves nothing is one of ids and signatures."""
    if moved is None:
        reason = "no extents are legal on both sides: not compared element by element"
        return [Change("bytes", phrase) for phrase in (*told.phrases, reason)] if told.phrases else []
    if moved.is_still:
        return []
    return [*(Change("bytes", phrase) for phrase in told.phrases), Change("bytes", percent_sentence(moved))]


# --- ids and signatures ---


def _abi(old: LayoutPlan, new: LayoutPlan, told: Edits) -> list[Change]:
    """Return what else those see who were built with the other side: the id, and functions over digits."""
    found = []
    if old.id != new.id:
        found.append(f"id {hex_id(old.id)} -> {hex_id(new.id)}")
    before, after = ({g.label: g.digits for g in side.groups} for side in (old, new))
    for label, function in (("tile", "tile"), ("lane", "lane")):
        one = tuple(told.digits.get(d, d) for d in before.get(label, ()))
        two = after.get(label, ())
        if bool(one) != bool(two):
            found.append(f"{function}() {'added' if two else 'gone'}")
        elif one != two:
            shown = f"{function}({', '.join(one)}) -> {function}({', '.join(two)})" if label == "tile" else ""
            found.append(shown or f"lane number over ({', '.join(one)}) -> ({', '.join(two)})")
    one = tuple(told.digits.get(d.name, d.name) for d in old.digits)
    two = tuple(d.name for d in new.digits)
    if one != two:
        found.append(f"digits({', '.join(one)}) -> digits({', '.join(two)})")
    found += _axes_abi(old.model, new.model, told)
    if old.has_pack != new.has_pack:
        found.append(f"pack_{new.model.name} and unpack_{new.model.name} {'added' if new.has_pack else 'gone'}")
    return [Change("abi", text) for text in found]


def _axes_abi(old: LayoutModel, new: LayoutModel, told: Edits) -> list[str]:
    """Return what is different about the arguments of offset(), and of the class template."""
    found = []
    before = tuple(told.axes.get(name, name) for name in old.axes)
    if before != new.axes:
        found.append(f"offset({', '.join(before)}) -> offset({', '.join(new.axes)})")
    pads = tuple(tuple(i for i, axis in enumerate(s.template.axes) if axis.pad_to is not None) for s in (old, new))
    if pads[0] != pads[1]:
        found.append(f"the class template takes {plural(len(pads[1]), 'padded extent')}, not {len(pads[0])}")
    return found


# --- checks, names ---


def _checks(old: LayoutPlan, new: LayoutPlan, told: Edits) -> list[Change]:
    """Return which sizes and widths are refused now and were not, or the other way round."""
    rules = replaced([_with_names(rule.text, told) for rule in old.rules], [rule.text for rule in new.rules])
    found = [f"sizes: {rule}" for rule in rules]
    if not rules:
        found += _legal_now(old.model, new.model)
    less = [bits for bits in old.model.widths if bits not in new.model.widths]
    more = [bits for bits in new.model.widths if bits not in old.model.widths]
    if less:
        found.append(f"elements of {', '.join(map(str, less))} bits are refused now")
    if more:
        found.append(f"elements of {', '.join(map(str, more))} bits are accepted now")
    before, after = (tuple(f"{f.instruction}.{f.operand}" for f in side.model.feeds) for side in (old, new))
    found += [f"feeds {name} is no longer proved" for name in before if name not in after]
    found += [f"feeds {name} is proved now" for name in after if name not in before]
    return [Change("checks", text) for text in found]


def _legal_now(old: LayoutModel, new: LayoutModel) -> list[str]:
    """Return a size that only one side takes, of an axis that is padded to another multiple under the same rules."""
    bits = next((bits for bits in (8, *old.widths) if bits in old.widths and bits in new.widths), 0)
    sample = legal_extents(new, bits) if bits and len(old.axes) == len(new.axes) else None
    if sample is None or [a.pad_to for a in old.template.axes] == [a.pad_to for a in new.template.axes]:
        return []
    found = []
    for index, (a, b) in enumerate(zip(old.template.axes, new.template.axes, strict=True)):
        most = 2 * max(axis.pad_to.at(bits) if axis.pad_to is not None else 1 for axis in (a, b))
        for n in range(1, min(most, MOST_SIZES) + 1):
            extents = (*sample[:index], n, *sample[index + 1 :])
            was, now = is_legal(old, extents, bits), is_legal(new, extents, bits)
            if was != now:
                found.append(f"sizes: {b.name} {n} is {'accepted' if now else 'refused'} now")
                break
    return found


def _with_names(text: str, told: Edits) -> str:
    """Return a rule with the names that its axes have now."""
    return " ".join(told.axes.get(word, word) for word in text.split(" "))


def _names(old: LayoutPlan, new: LayoutPlan, told: Edits) -> list[Change]:
    """Return what has another name and is the same."""
    found = [f"layout {old.model.name} -> {new.model.name}"] if old.model.name != new.model.name else []
    found += [f"axis {a} -> {b}" for a, b in told.axes.items()]
    found += [f"digit {a} -> {b}" for a, b in told.digits.items() if a not in told.axes]
    return [Change("name", text) for text in found]
