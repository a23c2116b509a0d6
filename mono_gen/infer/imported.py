"""The whole of `import`: run, infer, write, resolve, verify, compare with the library."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mono_gen.algebra.layout import is_row_major
from mono_gen.infer.combine import AxisPattern, Pattern, combine
from mono_gen.infer.errors import CannotRun, FunctionRaised, NotALayout, NotOneLayout, Shape, shape_text
from mono_gen.infer.extents import AxisFacts, Tries, with_extent
from mono_gen.infer.find import Found, find
from mono_gen.infer.library import Equal, equals
from mono_gen.infer.names import axis_names, free_name, refused
from mono_gen.infer.probe import Probe
from mono_gen.infer.target import Target
from mono_gen.infer.text import Heading, spec_text
from mono_gen.infer.verify import bound, check, extents_of, resolve_text
from mono_gen.model import LayoutModel

_CHECKED_BYTES = 1 << 22
"""Bytes of the largest shape that is made up for checking; those that the user names may be larger."""

_LARGE_EXTENT = 4096

_TILES = (((5, 4), 0), ((7, 2), 2), ((2, 7), 5), ((4, 5), 3), ((3, 8), 7))
"""Numbers of tiles, by turns of the axes, and how many steps of the last tile are pads where an axis has some."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names that the user chose; empty where they are left to import."""

    spec: str = ""
    layout: str = ""
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """What came out: the text of a spec, and how it was found.

    found_at:   shapes that the layout was read off; `checked_at` others where every element was as the text says.
    is_identity: whether it is torch's own order.
    """

    text: str
    name: str
    found_at: tuple[Shape, ...]
    checked_at: tuple[Shape, ...]
    equals: tuple[Equal, ...]
    notes: tuple[str, ...]
    is_identity: bool
    runs: int


def import_layout(target: Target, dtypes: Sequence[torch.dtype], shapes: Sequence[Shape], names: Names) -> Imported:
    """Return the layout that a function has on tensors of these dtypes, written as a spec and verified.

    shapes: torch shapes, of one rank.
    Raises: NotALayout with the first evidence; CannotRun, FunctionRaised among it.
    """
    probes = [Probe(target.shown, target.call, dtype) for dtype in dtypes]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # thousands of small operations: on a busy machine each would wait for its threads
    try:
        return _import(target, probes, shapes, names, "")
    except NotOneLayout as fault:
        note = f"legal for multiples of {shape_text(shapes[0])} alone: other shapes have another order, or none"
        try:
            return _import(target, probes, shapes, names, note)
        except (NotALayout, CannotRun):
            raise fault from None
    finally:
        torch.set_num_threads(threads)


def _import(target: Target, probes: list[Probe], shapes: Sequence[Shape], names: Names, note: str) -> Imported:
    """Return the layout; with a note, that of whole multiples of the first shape."""
    found = [find(probe, shapes, shrinks=not note) for probe in probes]
    pattern = combine([f.order for f in found])
    said = [n for p, f in zip(probes, found, strict=True) for n in (*f.notes, *_remarks(p, f, len(probes) == 1))]
    notes = tuple(dict.fromkeys([*([note] if note else []), *said]))
    shown = _shown(target)
    heading = Heading(
        names.spec or free_name(target.stem, "imported"),
        names.layout or free_name(target.name, "imported"),
        _axes(names.axes, len(shapes[0]), found[0].order.batch, axis_names(pattern)),
        f"Imported from {shown}.",
        f"The order of {shown}, found by running it on {', '.join(p.dtype_name for p in probes)}.",
        tuple(line for note in notes for line in textwrap.wrap(note, 110)),
    )
    text = spec_text(pattern, heading)
    model = resolve_text(text)
    checked: dict[Shape, None] = {}
    for probe, one in zip(probes, found, strict=True):
        passed, more = _verify(probe, one, model, shapes)
        checked |= dict.fromkeys(passed)
        notes = (*notes, *(n for n in more if n not in notes))
    same = equals(model, pattern.widths)
    return Imported(
        text,
        heading.layout,
        tuple(dict.fromkeys(s for f in found for s in f.shapes)),
        tuple(checked),
        same,
        (*notes, *(() if same else _folded_equal(pattern, heading))),
        _is_identity(model, found[0]),
        sum(p.runs for p in probes),
    )


def check_names(names: Names) -> None:
    """Refuse names that no spec may have, before anything is run.

    Raises: CannotRun.
    """
    if names.layout and (why := refused(names.layout)) is not None:
        raise CannotRun(f"--name {names.layout}: {why}")
    for axis in names.axes:
        if (why := refused(axis)) is not None:
            raise CannotRun(f"--axes: '{axis}' cannot name an axis: {why}")
    if len(set(names.axes)) != len(names.axes):
        raise CannotRun(f"--axes {','.join(names.axes)}: an axis is named twice")


def _axes(wanted: tuple[str, ...], rank: int, batch: int, guessed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the layout's axes: those given, batch axes left out where they are named, too."""
    if not wanted:
        return guessed
    if len(wanted) == rank:
        return wanted[batch:]
    if len(wanted) == len(guessed):
        return wanted
    also = f", or {len(guessed)} without the batch axes" if batch else ""
    raise CannotRun(f"--axes names {len(wanted)} axes, and the tensors have {rank}{also}")


def _shown(target: Target) -> str:
    """Return how the user named the function, fit for a comment."""
    shown = "".join(c if c.isprintable() else "?" for c in target.shown)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _folded_equal(pattern: Pattern, heading: Heading) -> tuple[str, ...]:
    """Return what to say where the first axis folds a batch axis in, and each part of it is a layout of the library."""
    first = pattern.axes[0]
    parts = first.sizes[0]
    if parts is None or len(first.sizes) < 2 or None not in first.sizes or pattern.store[0] != (0, 0):
        return ()
    axis = AxisPattern(first.sizes[1:], None, (), None)
    store = tuple((a, i - 1 if a == 0 else i) for a, i in pattern.store[1:])
    inner = Pattern((axis, *pattern.axes[1:]), store, pattern.fill, pattern.widths)
    same = equals(resolve_text(spec_text(inner, heading)), pattern.widths)
    if not same:
        return ()
    return (
        f"{heading.axes[0]} is {parts} parts, one after another, as of experts: with a batch axis of {parts} in their "
        f"place each part is {same[0].name} of {same[0].file}{''.join(f', but {d}' for d in same[0].differences)}",
    )


def _remarks(probe: Probe, found: Found, is_alone: bool) -> list[str]:
    """Return what a reader of the spec should know beside the layout itself."""
    order = found.order
    remarks = list(probe.notes)
    if order.batch:
        axes = "axis is a batch axis" if order.batch == 1 else f"{order.batch} axes are batch axes"
        remarks.append(f"the leading {axes}, in torch's own order, and no part of the layout")
    if order.width < probe.bits:
        remarks.append(
            f"it parts the elements of {probe.dtype_name}: the layout is of {order.width}-bit ones, "
            f"{probe.bits // order.width} an element along the last axis, the low one first"
        )
    elif order.width == 4 and is_alone:
        remarks.append("the last axis counts 4-bit elements, two a byte, the low one first")
    return remarks


def _verify(probe: Probe, found: Found, model: LayoutModel, shapes: Sequence[Shape]) -> tuple[list[Shape], list[str]]:
    """Return the shapes at which the written layout is what the function does, and where the two take other shapes."""
    passed: list[Shape] = []
    notes: list[str] = []
    for shape in dict.fromkeys((*shapes, *_made_up(probe, found.facts))):
        if shape in found.shapes:
            continue
        try:
            is_legal = check(probe, model, found.order.width, shape)
        except FunctionRaised as error:
            if shape in shapes:
                raise
            notes.append(f"the layout takes {shape_text(shape)}, and the function does not: {error}")
            continue
        if is_legal:
            passed.append(shape)
        elif shape in shapes:
            units = shape_text(tuple(fact.step for fact in found.facts))
            raise NotOneLayout(f"the layout found takes multiples of {units}, and {shape_text(shape)} is none")
    return passed, [*notes[:1], *_beyond(probe, found, model)]


def _made_up(probe: Probe, facts: tuple[AxisFacts, ...]) -> list[Shape]:
    """Return shapes to check: the smallest, other numbers of tiles than were seen, pads of other lengths."""

    def extents(tiles: tuple[int, ...], live: int) -> Shape:
        result = []
        for axis, fact in enumerate(facts):
            count = tiles[axis % len(tiles)] if fact.factors else 1
            is_padded = fact.pad is not None and fact.step < fact.unit and count > 1
            result.append(count * fact.unit - (live * fact.step % fact.unit if is_padded else 0))
        return tuple(result)

    smallest = tuple(fact.step for fact in facts)
    made = [smallest, *(extents(*how) for how in _TILES)]
    made = [shape for shape in made if probe.bytes_of(shape) <= _CHECKED_BYTES]
    # A function may take another path for large sizes: each axis is checked at a large one, the others at two tiles.
    for axis, fact in enumerate(facts):
        count = -(-_LARGE_EXTENT // fact.unit)
        while count > 1 and probe.bytes_of(with_extent(extents((2,), 0), axis, count * fact.unit)) > _CHECKED_BYTES:
            count //= 2
        if fact.factors:
            made.append(with_extent(extents((2,), 0), axis, (count + 1) * fact.unit))
    return made


def _beyond(probe: Probe, found: Found, model: LayoutModel) -> list[str]:
    """Return extents on which function and layout disagree: sizes that only one of them takes."""
    tries = Tries(probe)
    whole = tuple(f.unit * (2 if 2 in f.factors else 1) for f in found.facts)
    notes = []
    for axis, fact in enumerate(found.facts):
        if not fact.factors:
            shape = with_extent(whole, axis, fact.unit)
            notes.append(
                f"axis {axis} was taken at {fact.unit} alone, of all that were tried around {shape_text(shape)}"
            )
            continue
        for extent in dict.fromkeys((fact.step // 2, fact.step + 1, 3 * fact.step // 2, 2 * fact.unit + 1)):
            shape = with_extent(whole, axis, extent)
            if extent % fact.step and tries.is_sound(shape) and not _takes(probe, found, model, shape):
                notes.append(f"{probe.name} also takes {shape_text(shape)}, which the layout does not")
                break
    return notes


def _takes(probe: Probe, found: Found, model: LayoutModel, shape: Shape) -> bool:
    extents = extents_of(probe, found.order.width, shape)
    return bound(model, extents[len(extents) - len(model.axes) :], found.order.width) is not None


def _is_identity(model: LayoutModel, found: Found) -> bool:
    """Return whether the layout is torch's own order, at two tiles an axis."""
    extents = tuple(
        axis.only or 2 * (axis.step if axis.pad is None else axis.step * axis.pad) for axis in found.order.axes
    )
    layout = bound(model, extents, found.order.width)
    return layout is not None and not model.template.has_pads and is_row_major(layout)
