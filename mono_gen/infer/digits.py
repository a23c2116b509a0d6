"""From where every element went to the digits that say so: an axis at a time, since offsets are sums over the axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from mono_gen.infer.errors import NotOneLayout, Shape, at_text
from mono_gen.infer.probe import Probe
from mono_gen.infer.trace import FILL, UNDEFINED, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A trace in elements of one width.

    width:   bits of an element: the function's own, or fewer where it parts them.
    extents: logical, in such elements.
    places:  for each element, in row-major order, where it lies.
    pads:    for each element of storage whether it is a pad; `undefined` those that nobody wrote.
    fills:   the bit patterns of the pads that are written, each once.
    span:    elements of storage.
    """

    width: int
    extents: Shape
    places: torch.Tensor
    pads: torch.Tensor
    undefined: torch.Tensor
    fills: tuple[int, ...]
    span: int


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of an axis: its size and its stride, in elements."""

    size: int
    stride: int


def widths(probe: Probe) -> tuple[int, ...]:
    """Return the widths in which elements may move, the function's own first."""
    return tuple(w for w in (probe.bits, 32, 16, 8, 4) if w <= probe.bits)


def placed(probe: Probe, traced: Trace, width: int) -> Placed | None:
    """Return the trace in elements of this width; None where it parts them."""
    each = width // 4
    if len(traced.source) % each:
        return None
    source = traced.source.view(-1, each)
    first = source[:, 0]
    steps = torch.arange(each)
    moved = first >= 0
    whole = (first % each == 0) & (source == first[:, None] + steps).all(dim=1)
    pads = (source == FILL).all(dim=1) | (source == UNDEFINED).all(dim=1)
    if not (whole | pads)[moved].all() or not pads[~moved].all():
        return None
    places = torch.empty(traced.count // each, dtype=torch.int64)
    places[first[moved] // each] = moved.nonzero()[:, 0]
    undefined = first == UNDEFINED
    values = (traced.fill.view(-1, each).to(torch.int64) << (4 * steps)).sum(dim=1)
    fills = tuple(sorted({int(v) for v in values[first == FILL]}))
    last = traced.shape[-1] * probe.dtype.itemsize * 8 // width
    return Placed(width, (*traced.shape[:-1], last), places, pads, undefined, fills, len(first))


def axis_digits(probe: Probe, found: Placed, shape: Shape) -> tuple[tuple[Digit, ...], ...]:
    """Return the digits of each axis, slowest first, coalesced, one at least; where nothing is padded.

    Raises: NotOneLayout, with an element that no digits explain.
    """
    if found.span != prod(found.extents):
        raise NotOneLayout(
            f"on {probe.tensor_text(shape)} the output has {found.span * found.width // 8} bytes, the source "
            f"{prod(found.extents) * found.width // 8}, and no padding of an axis to a multiple makes that"
        )
    grid = found.places.view(found.extents)
    steps = [_along(grid, axis) for axis in range(grid.dim())]
    _check_sum(probe, found, grid, steps, shape)
    digits = tuple(_digits_of(probe, step.tolist(), axis, shape, found) for axis, step in enumerate(steps))
    inside = 1
    for digit in sorted((d for axis in digits for d in axis), key=lambda d: d.stride):
        if digit.stride != inside:
            raise NotOneLayout(
                f"on {probe.tensor_text(shape)} the digits of the axes leave gaps: one has stride {digit.stride} where "
                f"the faster ones fill {inside}"
            )
        inside *= digit.size
    return tuple(axis or (Digit(1, inside),) for axis in digits)


def _along(grid: torch.Tensor, axis: int) -> torch.Tensor:
    """Return where the elements lie whose other coordinates are 0."""
    return grid[tuple(slice(None) if i == axis else 0 for i in range(grid.dim()))]


def _check_sum(probe: Probe, found: Placed, grid: torch.Tensor, steps: list[torch.Tensor], shape: Shape) -> None:
    """Raise NotOneLayout unless every place is the sum of the places along the axes, and the first element is at 0."""
    total = torch.zeros((1,) * grid.dim(), dtype=torch.int64)
    for axis, step in enumerate(steps):
        total = total + step.view([-1 if i == axis else 1 for i in range(grid.dim())])
    first = int(grid.flatten()[0])
    where = f"on {probe.tensor_text(shape)}, element"
    if first != 0:
        raise NotOneLayout(
            f"{where} {at_text((0,) * grid.dim())} is at byte {first * found.width // 8}, and a layout has it at byte 0"
        )
    wrong = (total != grid).nonzero()
    if len(wrong):
        at = tuple(int(c) for c in wrong[0])
        here, said = (int(places[at]) * found.width // 8 for places in (grid, total))
        raise NotOneLayout(
            f"{where} {at_text(at)} is at byte {here}, where its coordinates one by one would put it at {said}: "
            "an XOR, a table, or another order in part of the tensor"
        )


def _digits_of(probe: Probe, steps: list[int], axis: int, shape: Shape, found: Placed) -> tuple[Digit, ...]:
    """Return the digits of one axis from where its elements lie."""
    fast_first: list[Digit] = []
    inside = 1
    while inside < len(steps):
        stride, size = steps[inside], 2
        while size * inside < len(steps) and steps[size * inside] == size * stride:
            size += 1
        fast_first.append(Digit(size, stride))
        inside *= size
    for c, place in enumerate(steps):
        rest, said = c, 0
        for digit in fast_first:
            rest, value = divmod(rest, digit.size)
            said += value * digit.stride
        if said != place or rest or inside != len(steps):
            at = at_text(tuple(c if i == axis else 0 for i in range(len(found.extents))))
            raise NotOneLayout(
                f"on {probe.tensor_text(shape)}, element {at} is at byte {place * found.width // 8}, and no digits of "
                f"fixed sizes make axis {axis} lie like that"
            )
    return tuple(reversed(fast_first))
