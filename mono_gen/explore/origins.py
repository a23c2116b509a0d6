"""What goes with an element: its scale, the data that a scale serves, and the source that both come from."""

from __future__ import annotations

from math import prod

from mono_gen.algebra.layout import offset
from mono_gen.algebra.template import bind
from mono_gen.explore.names import Found
from mono_gen.explore.where import Spot, locate
from mono_gen.frozen import frozen
from mono_gen.model import AxisExtent, ConvertModel, FieldModel, GatherModel, TensorModel, ViewModel

Index = tuple[int | tuple[int, int], ...]
"""An index of a tensor, an entry a dim: one number, or (first, last) of a whole axis."""


@frozen
class Origin:
    """Where a place comes from.

    path:     as the spec writes it.
    index:    the element in the source's own shape; None where it depends on what is known at load alone.
    order:    the source's order; of a view the field's own.
    byte:     of the element in the source, where the spec tells.
    is_view:  whether the source's bytes are the field's.
    """

    path: str
    format: str
    order: str
    index: Index | None
    byte: int | None
    is_view: bool = False


@frozen
class Rank:
    """Which rank brings an element that is gathered; None where the world's size is known at load alone."""

    segment: str
    group: str
    rank: int | None
    row: int | None
    world: int | None


def scale_of(found: Found, spot: Spot) -> Spot | None:
    """Return the place of the scale of an element of data; None for a pad, for a scale, and where there is none."""
    if found.index or len(found.field.tensors) < 2 or spot.is_pad:
        return None
    block = found.field.model.format.block
    at = tuple(c for c in spot.at if c is not None)
    return locate(found.other(1), (*at[:-1], at[-1] // block) if block else at[:-1])


def covered_by(found: Found, spot: Spot) -> tuple[Spot, ...]:
    """Return the places of the data that a scale serves, along the last axis; none for pads and for data."""
    if not found.index or spot.is_pad:
        return ()
    first, last = covered_range(found, spot)
    at = tuple(c for c in spot.at if c is not None)
    rest = at[:-1] if found.field.model.format.block else at
    return tuple(locate(found.other(0), (*rest, k)) for k in range(first, last + 1))


def covered_range(found: Found, spot: Spot) -> tuple[int, int]:
    """Return the first and last coordinate, on the data's last axis, that a scale serves.

    Requires: a place of a scale that is no pad.
    """
    block, extent = found.field.model.format.block, found.field.tensors[0].model.extents[-1]
    if not block:
        assert isinstance(extent, int), "a run-time dim is the first of several"
        return 0, extent - 1
    at = spot.at[-1]
    assert at is not None, "no pad"
    return at * block, at * block + block - 1


def rank_of(found: Found, spot: Spot) -> Rank | None:
    """Return which rank brings an element; None where nothing is gathered, or this element is every rank's own."""
    gather = found.field.model.gather
    data = found.field.tensors[0].model
    if gather is None or spot.is_pad or data.segment_axis >= len(spot.at):
        return None
    at = spot.at[data.segment_axis]
    begin, end = _gathered(found.tensor.model, gather)
    if at is None or not begin <= at < end:
        return None
    if gather.world is None:
        return Rank(gather.segment.name, gather.group, None, None, None)
    rank, row = divmod(at - begin, (end - begin) // gather.world)
    return Rank(gather.segment.name, gather.group, rank, begin + row, gather.world)


def origins_of(found: Found, spot: Spot) -> tuple[Origin, ...]:
    """Return the sources of a place: of a pad none, of a converted one its data and its scale."""
    field = found.field.model
    if isinstance(field.origin, ViewModel):
        return (_viewed(found, field.origin, spot),)
    if spot.is_pad:
        return ()
    extents, at = _before_gather(found, tuple(c for c in spot.at if c is not None))
    theirs, mine = field.origin.format, field.format
    if found.index and (theirs.scale, theirs.block) == (mine.scale, mine.block):
        return (_converted(field, 1, extents, at),)
    if found.index:
        cut = field.gather is not None and field.tensors[0].segment_axis == len(
            at or ()
        )  # each rank has a part of a row
        whole: Index | None = None if at is None or cut else (*at, covered_range(found, spot))
        return tuple(_of_row(field, index, whole) for index in range(len(field.origin.sources)))
    return (_converted(field, 0, extents, at), *_source_scale(field, extents, at))


def lets_of(found: Found, path: str) -> tuple[str, ...]:
    """Return the lets that a path begins with, each as the spec writes it: `attn = layer.self_attn`."""
    struct = found.struct.model
    lets = {let.name: let.paths for optional in struct.optionals for let in optional.lets}
    lets |= {let.name: let.paths for let in struct.lets}
    waiting, said = [path.partition(".")[0]], {}
    while waiting:
        root = waiting.pop()
        if root in lets and root not in said:
            said[root] = f"{root} = {' or '.join(map(str, lets[root]))}"
            waiting += [p.root for p in lets[root]]
    return tuple(said.values())


# --- one source ---


def _viewed(found: Found, origin: ViewModel, spot: Spot) -> Origin:
    """Return the source of a view: the same byte, and its index in the source's own shape."""
    source, model = origin.sources[found.index], found.tensor.model
    item = found.tensor.item_bytes * 8 // model.element.bits
    position = spot.element + (spot.item // found.tensor.item_bytes) * item
    shape = source.shape or tuple((n,) for n in found.tensor.kernel_shape)
    form = found.field.model.format
    name = form.name if found.index == 0 or form.scale is None else form.scale.name
    return Origin(str(source.path), name, model.layout_name, _unravelled(position, shape), spot.byte, True)


def _converted(field: FieldModel, index: int, extents: tuple[AxisExtent, ...], at: tuple[int, ...] | None) -> Origin:
    """Return the source of converted data or scale at logical coordinates of the tensor that it becomes."""
    assert isinstance(field.origin, ConvertModel), "of a view the bytes stay"
    source, form, order = field.origin.sources[index], field.origin.format, field.origin.order
    element = form.data if index == 0 else form.scale
    assert element is not None, "a source that is there"
    name = form.name if index == 0 else element.name
    if at is None:
        return Origin(str(source.path), name, order.name if order is not None else "row_major", None, None)
    if order is not None:
        rank = len(order.axes)
        inner = tuple(n for n in extents[len(extents) - rank :] if isinstance(n, int))
        bound = bind(order.template, inner, element.bits)
        place = _linear(at[: len(at) - rank], extents[: len(extents) - rank]) * bound.span
        place += offset(bound, at[len(at) - rank :])
        shape = source.shape or tuple((n,) for n in (*extents[: len(extents) - rank], *bound.padded))
    else:
        place = _linear(at, extents)
        shape = source.shape or tuple((n,) for n in extents)
    order_name = order.name if order is not None else "row_major"
    return Origin(str(source.path), name, order_name, _unravelled(place, shape), place * element.bits // 8)


def _source_scale(field: FieldModel, data: tuple[AxisExtent, ...], at: tuple[int, ...] | None) -> tuple[Origin, ...]:
    """Return the source's own scale of an element of data, where the source has one."""
    assert isinstance(field.origin, ConvertModel), "of a view the bytes stay"
    form = field.origin.format
    if len(field.origin.sources) < 2:
        return ()
    last = data[-1]
    assert isinstance(last, int), "a run-time dim is the first of several"
    extents = (*data[:-1], last // form.block) if form.block else data[:-1]
    scaled = None if at is None else (*at[:-1], at[-1] // form.block) if form.block else at[:-1]
    return (_converted(field, 1, extents, scaled),)


def _of_row(field: FieldModel, index: int, at: Index | None) -> Origin:
    """Return the source of a scale a row: the whole row, from which it is worked out."""
    assert isinstance(field.origin, ConvertModel), "a scale of a row is worked out"
    source, form = field.origin.sources[index], field.origin.format
    if at is not None and index and form.block:
        _, last = at[-1] if isinstance(at[-1], tuple) else (0, at[-1])
        at = (*at[:-1], (0, last // form.block))
    element = form.data if index == 0 else form.scale
    name = form.name if index == 0 or element is None else element.name
    order = field.origin.order.name if field.origin.order is not None else "row_major"
    plain = source.shape is None and field.origin.order is None
    return Origin(str(source.path), name, order, at if plain else None, None)


def _before_gather(found: Found, at: tuple[int, ...]) -> tuple[tuple[AxisExtent, ...], tuple[int, ...] | None]:
    """Return the extents and coordinates on the rank that brings an element.

    The coordinates are None where they depend on the world's size, which is known at load alone.
    """
    gather, model = found.field.model.gather, found.tensor.model
    axis = found.field.tensors[0].model.segment_axis
    if gather is None or axis >= len(at):
        return model.extents, at
    begin, end = _gathered(model, gather)
    if gather.world is None:
        return model.extents, at if at[axis] < begin else None
    less = (end - begin) - (end - begin) // gather.world
    own = at[axis]
    if begin <= own < end:
        own = begin + (own - begin) % (end - begin - less)
    elif own >= end:
        own -= less
    extents = tuple(n - less if i == axis and isinstance(n, int) else n for i, n in enumerate(model.extents))
    return extents, tuple(own if i == axis else c for i, c in enumerate(at))


def _gathered(model: TensorModel, gather: GatherModel) -> tuple[int, int]:
    """Return where the gathered segment begins and ends on this tensor's axis."""
    mine = next((s for s in model.segments if s.name == gather.segment.name), gather.segment)
    return mine.begin, mine.end


def _linear(at: tuple[int, ...], extents: tuple[AxisExtent, ...]) -> int:
    """Return the row-major index; the first extent, which may be a run-time one, does not count."""
    index = 0
    for c, n in zip(at, extents, strict=True):
        index = index * (n if isinstance(n, int) else 1) + c
    return index


def _unravelled(place: int, shape: tuple[tuple[AxisExtent, ...], ...]) -> tuple[int, ...] | None:
    """Return a row-major index taken apart in a shape, whose run-time dims are known only in the first dim."""
    index: list[int] = []
    for dim in reversed(shape[1:]):
        if any(isinstance(n, str) for n in dim):
            return None
        place, value = divmod(place, prod(n for n in dim if isinstance(n, int)))
        index.append(value)
    return (place, *reversed(index))
