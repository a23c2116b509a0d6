"""A tensor of a field: its byte offset with all numbers folded, its strides, its sample points."""

from __future__ import annotations

from math import gcd, prod

from mono_gen.algebra.ids import layout_id
from mono_gen.algebra.layout import Digit, coalesce, movable_run, offset
from mono_gen.model import TensorModel
from mono_gen.plan.layouts import telling_points
from mono_gen.plan.model import Sample, TensorPlan
from mono_gen.terms import Num, Step, Term, Var, add, div, mod, mul, total

WIDEST_UNIT = 16
"""Bytes of the widest element that torch moves bit for bit (complex128)."""


def plan_tensor(model: TensorModel) -> TensorPlan:
    """Return the plan of a tensor."""
    bits = model.element.bits
    item_bytes = model.bound.span * bits // 8
    strides = _batch_strides(model, item_bytes)
    shift = _shift(model)
    inner, nibble = _inner(model, shift)
    batch = [mul(Var(name), Num(stride)) for name, stride in zip(model.axes, strides, strict=False)]
    run_bytes = movable_run(model.bound) * bits // 8
    runtime = model.runtime_row
    return TensorPlan(
        model=model,
        layout_id=layout_id(model.bound, bits, 0 if runtime else None),
        item_bytes=item_bytes,
        strides=strides,
        byte=total([*batch, *inner]),
        inner_byte=total(inner),
        nibble=nibble,
        shift=shift,
        fits32=not runtime and item_bytes < 2**31,
        unit_bytes=gcd(run_bytes, WIDEST_UNIT) if run_bytes else 0,
        kernel_shape=(*model.extents[: model.batch], *(model.inner if runtime else model.bound.padded)),
        samples=_samples(model, strides),
    )


def _batch_strides(model: TensorModel, item_bytes: int) -> tuple[int, ...]:
    """Return the bytes of one step of each batch dim; the first extent, a run-time one or not, is in none."""
    numbers = [n for n in model.extents[1 : model.batch] if isinstance(n, int)]
    return tuple(item_bytes * prod(numbers[i:]) for i in range(model.batch))


def _shift(model: TensorModel) -> Term | None:
    """Return the storage coordinate of the segmented axis where segments are padded each, None elsewhere."""
    if not model.pad_each:
        return None
    name = model.axes[model.segment_axis]
    term: Term = Var(name)
    moved = 0
    for segment in model.segments:
        more = segment.padded_begin - segment.begin - moved
        if more:
            term = add(term, Step(name, segment.begin, more))
            moved += more
    return term


def _inner(model: TensorModel, shift: Term | None) -> tuple[list[Term], Term | None]:
    """Return the terms of the byte (and the nibble) of an element inside its item, those of whole bytes first."""
    bits = model.element.bits
    whole: list[Term] = []
    part: list[Term] = []
    for digit in _ordered(model):
        axis = model.batch + digit.axis
        coordinate = shift if shift is not None and axis == model.segment_axis else Var(model.axes[axis])
        value = div(coordinate, Num(digit.weight))
        slowest = digit.weight * digit.size >= model.bound.padded[digit.axis]
        value = value if slowest else mod(value, Num(digit.size))
        if digit.stride * bits % 8 == 0:
            whole.append(mul(value, Num(digit.stride * bits // 8)))
        else:
            part.append(mul(value, Num(digit.stride)))
    if bits >= 8:
        return whole, None
    rest = total(part)
    return [*whole, div(rest, Num(8 // bits))], mod(rest, Num(8 // bits))


def _ordered(model: TensorModel) -> list[Digit]:
    """Return the digits as a reader expects them: by axis, slowest first; a run-time row is one digit."""
    digits = sorted(coalesce(model.bound).digits, key=lambda d: (d.axis, -d.weight))
    if model.runtime_row:
        digits = [Digit("row", 0, 1, 1, model.bound.span), *(d for d in digits if d.axis != 0)]
    return digits


def _samples(model: TensorModel, strides: tuple[int, ...]) -> tuple[Sample, ...]:
    """Return sample points in logical coordinates, batch first: see `telling_points`."""
    if model.runtime_row:
        last = tuple(n - 1 for n in model.bound.extents[1:])
        wanted: tuple[tuple[int, ...], ...] = ((1, *(0 for _ in last)), (2, *(min(1, n) for n in last)), (3, *last))
    else:
        wanted = telling_points(model.bound, inside=1)
    points = []
    for number, inner in enumerate(wanted):
        is_last = number == len(wanted) - 1
        batch = tuple(_batch_coordinate(n, number, is_last) for n in model.extents[: model.batch])
        points.append(_sample(model, strides, batch, inner))
    return tuple(points)


def _batch_coordinate(extent: int | str, number: int, is_last: bool) -> int:
    """Return a batch coordinate for sample `number`: of a fixed dim, the last sample is at its end."""
    if isinstance(extent, str):
        return min(number, 1)
    return extent - 1 if is_last else min(number, extent - 1)


def _sample(model: TensorModel, strides: tuple[int, ...], batch: tuple[int, ...], inner: tuple[int, ...]) -> Sample:
    """Return an element with its place, worked out by the algebra."""
    bits = model.element.bits
    if model.runtime_row:
        at = inner[0] * model.bound.span + offset(model.bound, (0, *inner[1:]))
    else:
        at = offset(model.bound, _stored(model, inner))
    byte, rest = divmod(at * bits, 8)
    byte += sum(c * s for c, s in zip(batch, strides, strict=True))
    extents = tuple(1 if isinstance(n, str) else n for n in model.extents)
    return Sample(extents, bits, (*batch, *inner), byte, rest // bits if bits < 8 else None)


def _stored(model: TensorModel, inner: tuple[int, ...]) -> tuple[int, ...]:
    """Return storage coordinates of logical ones: segments padded each have moved."""
    if not model.pad_each:
        return inner
    axis = model.segment_axis - model.batch
    at = inner[axis]
    segment = next(s for s in model.segments if s.begin <= at < s.end)
    return tuple(at - segment.begin + segment.padded_begin if i == axis else c for i, c in enumerate(inner))
