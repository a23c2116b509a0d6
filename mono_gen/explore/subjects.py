"""What `draw` draws: a layout at some extents, or a tensor of a field, found by its name in the specs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import lcm, prod

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.template import NarrowPitch, NotDivisible, Template, bind, row_major_template
from mono_gen.explore.names import Unfound, find_tensor
from mono_gen.frozen import frozen
from mono_gen.model import LayoutModel, Segment, TensorModel
from mono_gen.plan.layouts import is_legal
from mono_gen.plan.model import SpecPlan
from mono_gen.resolve.report import near
from mono_gen.terms import holds

MOST_ROWS, MOST_COLUMNS = 32, 256
"""What a picture shows unless more is asked for."""

MOST_ELEMENTS = MOST_ROWS * MOST_COLUMNS

_SMALL = 16  # of an axis that no digit with a size cuts
_TRIED_TILES = 16  # an axis, when legal extents are looked for


class DrawError(Exception):
    """Nothing can be drawn as asked; the message says what was expected."""


@frozen
class Subject:
    """What is drawn: a layout bound to extents.

    layout:   the name of the layout; `name` is that of the field, where it is one.
    axes:     names of the layout's axes, slowest first; `bound` has an extent each.
    batch:    batch axes of a field, which stay at 0.
    segments: named ranges of `axes[segment_axis]`.
    format:   the element's name; empty for a layout alone.
    runtime:  the dim that is the first axis' extent, where that is known only at load; `bound` then has some extent.
    """

    name: str
    layout: str
    axes: tuple[str, ...]
    template: Template
    bound: Layout
    bits: int
    batch: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()
    segment_axis: int = 0
    format: str = ""
    runtime: str = ""

    def logical(self, axis: int, stored: int) -> int | None:
        """Return the logical coordinate at a coordinate of storage, or None in a pad."""
        if self.segments and axis == self.segment_axis:
            inside = next((s for s in self.segments if s.padded_begin <= stored < s.padded_end), None)
            at = None if inside is None else inside.begin + stored - inside.padded_begin
            return at if inside is not None and at is not None and at < inside.end else None
        return stored if stored < self.bound.extents[axis] else None

    def stored(self, axis: int, logical: int) -> int:
        """Return the coordinate of storage of a logical one: another one where `pad each` moves segments."""
        for segment in self.segments if axis == self.segment_axis else ():
            if segment.begin <= logical < segment.end:
                return segment.padded_begin + logical - segment.begin
        return logical


Drawable = LayoutModel | TensorModel | None
"""What a name stands for; None is `row_major`."""


def find(name: str, plans: Sequence[SpecPlan]) -> Drawable:
    """Return the layout, or the tensor of a field, that a name stands for, looked for in the specs in turn.

    Raises: Unfound, with what is near.
    """
    if name == "row_major":
        return None
    layouts = [plan.model for spec in plans for plan in spec.layouts]
    for model in layouts:
        if model.name == name:
            return model
    try:
        return find_tensor(plans, name).tensor.model
    except Unfound:
        if "." in name:
            raise
    known = {model.name for model in layouts} | {"row_major"}
    known |= {t.model.name for spec in plans for s in spec.structs for field in s.fields for t in field.tensors}
    specs = " or ".join(f"`{spec.model.name}`" for spec in plans)
    raise Unfound(f"there is no layout or tensor `{name}` in {specs}; {near(name, known)}")


def of_tensor(tensor: TensorModel, rows: int) -> Subject:
    """Return a field's tensor as it is drawn: one batch item; `rows` of an extent that is known only at load."""
    axes = tensor.axes[tensor.batch :]
    template = tensor.layout.template if tensor.layout is not None else row_major_template(axes)
    bound = tensor.bound
    if tensor.runtime_row:
        inner = tuple(rows if isinstance(n, str) else n for n in tensor.inner)
        bound = bind(template, inner, tensor.element.bits)
    return Subject(
        tensor.name,
        tensor.layout_name,
        axes,
        template,
        bound,
        tensor.element.bits,
        tensor.axes[: tensor.batch],
        tensor.segments,
        tensor.segment_axis - tensor.batch,
        tensor.element.name,
        tensor.runtime_dim or "" if tensor.runtime_row else "",
    )


def of_layout(
    model: LayoutModel | None, bits: int, extents: tuple[int, ...], axes: tuple[str, ...] = ("row", "k")
) -> Subject:
    """Return a layout as it is drawn, at these logical extents; `model` None is `row_major` of the axes.

    Raises: DrawError, for a width or extents that the layout refuses.
    """
    named = "row_major" if model is None else model.name
    axes = axes if model is None else model.axes
    if len(extents) != len(axes):
        wanted = f"{len(axes)} number{'s' if len(axes) > 1 else ''}"
        raise DrawError(f"{named} has the axes {', '.join(axes)}: {wanted} expected, found {len(extents)}")
    if min(extents) < 1:
        raise DrawError(f"{named} cannot have {axes[extents.index(min(extents))]} {min(extents)}: at least 1")
    if model is None:
        template = row_major_template(axes)
        return Subject("", named, axes, template, bind(template, extents, bits), bits)
    _check_width(model, bits)
    written = ", ".join(f"{axis} {n}" for axis, n in zip(axes, extents, strict=True))
    try:
        bound = bind(model.template, extents, bits)
    except NotDivisible as fault:
        rule = "equal to" if fault.exact else "a multiple of"
        made = f" that {', '.join(f'`{d}`' for d in fault.digits)} make" if fault.digits else ""
        raise DrawError(
            f"{named} cannot have {written}: {axes[fault.axis]} is {fault.extent} in storage, "
            f"not {rule} the {fault.divisor}{made}"
        ) from fault
    except NarrowPitch as fault:
        raise DrawError(f"{named} cannot have {written}: {fault}") from fault
    values = {"bits": bits, **dict(zip(axes, extents, strict=True))}
    for rule_ in model.rules:
        if not holds(rule_.condition, values):
            raise DrawError(f"{named} cannot have {written}: `require {rule_.text}` does not hold")
    return Subject("", named, axes, model.template, bound, bits)


def tile_extents(model: LayoutModel | None, bits: int) -> tuple[int, ...]:
    """Return the extents of one tile: all digits that are not of the tile group. Where no groups are named: a few
    elements of each axis, as its sizes allow.

    Raises: DrawError, for a width that the layout refuses.
    """
    if model is None:
        return (_SMALL, _SMALL)
    _check_width(model, bits)
    outer = {name for group in model.template.store if group.label == "tile" for name in group.digits}
    grouped = any(group.label for group in model.template.store)
    extents = []
    for axis in model.template.axes:
        inner = [f.size.at(bits) for f in axis.factors if f.size is not None and not (grouped and f.name in outer)]
        size, sized = prod(inner), axis.sized.at(bits)
        if not axis.is_fixed and (size < 4 or size % sized):
            size = sized * max(1, -(-_SMALL // sized)) if size < 4 else -(-size // sized) * sized
        extents.append(size)
    return tuple(extents)


def legal_extents(models: Sequence[LayoutModel | None], bits: int, least: tuple[int, ...]) -> tuple[int, ...]:
    """Return small extents that every layout takes: `least` or more where that can be, without live pads.

    Raises: DrawError, where none is found.
    """
    real = [model for model in models if model is not None]
    steps = []
    for index in range(len(least)):
        axes = [model.template.axes[index] for model in real]
        whole = [axis.sized.at(bits) for axis in axes] + [a.pad_to.at(bits) for a in axes if a.pad_to is not None]
        steps.append(lcm(*whole))
    for low in (least, (1,) * len(least)):
        first = [-(-at_least // step) for at_least, step in zip(low, steps, strict=True)]
        tried = product(*([step * (f + n) for n in range(_TRIED_TILES)] for step, f in zip(steps, first, strict=True)))
        for extents in sorted(tried, key=lambda sizes: (prod(sizes), sizes)):
            if all(is_legal(model, extents, bits) for model in real):
                return extents
    named = " and ".join(model.name for model in real)
    raise DrawError(f"found no small extents that {named} takes; give some with --shape")


def _check_width(model: LayoutModel, bits: int) -> None:
    if bits not in model.widths:
        widths = ", ".join(map(str, model.widths))
        raise DrawError(f"{model.name} is not for elements of {bits} bits: give --bits one of {widths}")
