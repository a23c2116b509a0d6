"""Where the elements of a tensor lie, in bits, as a sum over digits of coordinates; and what lies at a place."""

from __future__ import annotations

from math import prod

from mono_gen.algebra.layout import Layout
from mono_gen.frozen import frozen
from mono_gen.plan.model import TensorPlan


@frozen
class Part:
    """A digit of an axis: coordinate // weight % size, at `stride` bits.

    top: whether it is the slowest of its axis, so that its value needs no remainder.
    """

    axis: int
    weight: int
    size: int
    stride: int
    top: bool


@frozen
class Piece:
    """A range of an axis in logical coordinates, and what its storage coordinates have more."""

    begin: int
    end: int
    shift: int


@frozen
class TensorMap:
    """A tensor with all numbers known: batch dims are digits like others.

    names:   a coordinate name a dim; extents, padded: logical and of storage.
    pieces:  the ranges of axis `moved_axis` where segments are padded each; empty elsewhere.
    size:    bits of storage.
    """

    names: tuple[str, ...]
    extents: tuple[int, ...]
    padded: tuple[int, ...]
    parts: tuple[Part, ...]
    moved_axis: int
    pieces: tuple[Piece, ...]
    bits: int
    size: int
    fill: int | None

    @property
    def pad_bits(self) -> int:
        """Return the bits of storage that hold pads; gaps of a pitch are none."""
        return (prod(self.padded) - prod(self.extents)) * self.bits


def map_of_layout(layout: Layout, names: tuple[str, ...], bits: int) -> TensorMap:
    """Return the map of a bound layout."""
    parts = _parts(layout, bits, 0)
    return TensorMap(names, layout.extents, layout.padded, parts, 0, (), bits, layout.span * bits, layout.fill)


def map_of_tensor(plan: TensorPlan, runtime: int) -> TensorMap:
    """Return the map of a field's tensor; `runtime` stands for a run-time extent."""
    model, bits = plan.model, plan.model.element.bits
    bound, batch = model.bound, model.batch
    extents = tuple(runtime if isinstance(n, str) else n for n in model.extents)
    parts = [Part(i, 1, extents[i], stride * 8, True) for i, stride in enumerate(plan.strides)]
    inner = _parts(bound, bits, batch)
    padded = (*extents[:batch], *bound.padded)
    size = plan.item_bytes * 8 * prod(extents[:batch])
    if model.runtime_row:
        inner = (Part(0, 1, runtime, bound.span * bits, True), *(p for p in inner if p.axis != 0))
        padded = (runtime, *bound.padded[1:])
        size *= runtime
    pieces: tuple[Piece, ...] = ()
    if model.pad_each:
        pieces = tuple(Piece(s.begin, s.end, s.padded_begin - s.begin) for s in model.segments)
    every = (*parts, *inner)
    return TensorMap(model.axes, extents, padded, every, model.segment_axis, pieces, bits, size, bound.fill)


def _parts(layout: Layout, bits: int, first: int) -> tuple[Part, ...]:
    """Return a bound layout's digits, its axes counted from `first`; a digit of size 1 says nothing."""
    return tuple(
        Part(first + d.axis, d.weight, d.size, d.stride * bits, d.weight * d.size >= layout.padded[d.axis])
        for d in layout.digits
        if d.size > 1
    )


def place(parts: tuple[Part, ...], coordinate: int) -> int:
    """Return what a coordinate of one axis, in storage coordinates, adds to the place: bits."""
    values = ((coordinate // p.weight if p.top else coordinate // p.weight % p.size) * p.stride for p in parts)
    return sum(values)


def shifted(tensor: TensorMap, axis: int, coordinate: int) -> int:
    """Return the storage coordinate of a logical one."""
    if axis != tensor.moved_axis or not tensor.pieces:
        return coordinate
    return coordinate + next(p.shift for p in tensor.pieces if p.begin <= coordinate < p.end)


def content(tensor: TensorMap, bit: int) -> str:
    """Return what lies at a place: the coordinates of an element, a pad with its fill, a gap, or that it is outside."""
    if bit >= tensor.size:
        return "past the end"
    found = [0] * len(tensor.extents)
    rest = bit
    for part in sorted(tensor.parts, key=lambda p: (-p.stride, -p.size)):
        value, rest = divmod(rest, part.stride)
        if value >= part.size:
            return "a gap"
        found[part.axis] += value * part.weight
    if rest >= tensor.bits:
        return "a gap"
    logical = tuple(_logical(tensor, axis, value) for axis, value in enumerate(found))
    if any(c is None for c in logical):
        return "an undefined pad" if tensor.fill is None else f"fill 0x{tensor.fill:02X}"
    return " ".join(f"{name} {c}" for name, c in zip(tensor.names, logical, strict=True))


def _logical(tensor: TensorMap, axis: int, coordinate: int) -> int | None:
    """Return the logical coordinate of one of storage, None for a pad."""
    if axis == tensor.moved_axis and tensor.pieces:
        inside = (p for p in tensor.pieces if p.begin + p.shift <= coordinate < p.end + p.shift)
        piece = next(inside, None)
        return coordinate - piece.shift if piece is not None else None
    return coordinate if coordinate < tensor.extents[axis] else None


def first_pad(tensor: TensorMap) -> int | None:
    """Return the first place, in bits, that holds a pad; None where there is none."""
    places = [
        place(tuple(p for p in tensor.parts if p.axis == axis), value)
        for axis, (extent, padded) in enumerate(zip(tensor.extents, tensor.padded, strict=True))
        if padded != extent
        for value in (range(padded) if axis == tensor.moved_axis and tensor.pieces else range(extent, padded))
        if _logical(tensor, axis, value) is None
    ]
    return min(places, default=None)
