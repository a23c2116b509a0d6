"""Byte moves: a box of digits is read in the order of one side, permuted in registers, written in that of the other."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from mono_gen.runtime.boxes import Boxes, times

UNITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MOST_PROGRAMS = (1 << 31) - 1


@triton.jit
def _spread(e, strides, SIZES: tl.constexpr, TIMES: tl.constexpr):
    """Return the offset of each flat index of a box: spans slowest first."""
    offset = e * 0
    inner: tl.constexpr = 1
    for j in tl.static_range(len(SIZES)):
        i: tl.constexpr = len(SIZES) - 1 - j
        inner = 1
        for m in tl.static_range(i + 1, len(SIZES)):
            inner = inner * SIZES[m]
        offset += (e // inner % SIZES[i]) * (strides[i] * TIMES[i])
    return offset


@triton.jit
def _digit(e, at: tl.constexpr, BOX: tl.constexpr, SEQUENCE: tl.constexpr):
    """Return the digit that stands at a place of the sequence in which flat indices count the box."""
    inner: tl.constexpr = 1
    for m in tl.static_range(at + 1, len(SEQUENCE)):
        inner = inner * BOX[SEQUENCE[m]]
    return e // inner % BOX[SEQUENCE[at]]


@triton.jit
def _inside(e, firsts, sizes, BOX: tl.constexpr, SEQUENCE: tl.constexpr, RAGGED: tl.constexpr):
    """Return where a flat index of a box stands for a unit of the tensor: last boxes reach past the end of digits."""
    inside = e >= 0
    for at in tl.static_range(len(SEQUENCE)):
        if RAGGED[SEQUENCE[at]]:
            inside = inside & (firsts[SEQUENCE[at]] + _digit(e, at, BOX, SEQUENCE) < sizes[SEQUENCE[at]])
    return inside


@triton.jit
def _no_pad(e, firsts, weights, extents, BOX: tl.constexpr, SEQUENCE: tl.constexpr, USES: tl.constexpr):
    """Return where a flat index of a box stands for a unit that is no pad."""
    held = e >= 0
    for limit in tl.static_range(len(USES)):
        coordinate = e.to(tl.int64) * 0
        for at in tl.static_range(len(SEQUENCE)):
            if USES[limit][SEQUENCE[at]]:
                digit = firsts[SEQUENCE[at]] + _digit(e, at, BOX, SEQUENCE)
                coordinate += digit * weights[limit][SEQUENCE[at]]
        held = held & (coordinate < extents[limit])
    return held


@triton.jit
def _move(
    source,
    target,
    first_program,
    sizes,
    counts,
    read,
    written,
    read_spans,
    written_spans,
    weights,
    extents,
    fill,
    BOX: tl.constexpr,
    READ_TIMES: tl.constexpr,
    WRITTEN_TIMES: tl.constexpr,
    READ_SIZES: tl.constexpr,
    READ_SPAN_TIMES: tl.constexpr,
    WRITTEN_SIZES: tl.constexpr,
    WRITTEN_SPAN_TIMES: tl.constexpr,
    COUNTED: tl.constexpr,
    RAGGED: tl.constexpr,
    USES: tl.constexpr,
    READING: tl.constexpr,
    WRITING: tl.constexpr,
    DIMS: tl.constexpr,
    PERMUTE: tl.constexpr,
    TILE: tl.constexpr,
    PADS_READ: tl.constexpr,
    WIDE: tl.constexpr,
):
    place = first_program + tl.program_id(0).to(tl.int64)
    firsts = ()
    read_base = place * 0
    written_base = place * 0
    for j in tl.static_range(len(BOX)):
        i: tl.constexpr = len(BOX) - 1 - j
        if COUNTED[i]:
            first = place % counts[i] * BOX[i]
            place = place // counts[i]
            read_base += first * (read[i] * READ_TIMES[i])
            written_base += first * (written[i] * WRITTEN_TIMES[i])
        else:
            first = place * 0
        firsts = (first,) + firsts
    e = tl.arange(0, TILE)
    if WIDE:
        at = e.to(tl.int64)
    else:
        at = e
    held = e >= 0
    written_mask = e >= 0
    MASKED: tl.constexpr = True in RAGGED
    if MASKED:
        held = _inside(e, firsts, sizes, BOX, READING, RAGGED)
        written_mask = _inside(e, firsts, sizes, BOX, WRITING, RAGGED)
    PADDED: tl.constexpr = len(USES) > 0
    if PADDED:
        if PADS_READ:
            held = held & _no_pad(e, firsts, weights, extents, BOX, READING, USES)
        else:
            written_mask = written_mask & _no_pad(e, firsts, weights, extents, BOX, WRITING, USES)
    source_at = source + read_base + _spread(at, read_spans, READ_SIZES, READ_SPAN_TIMES)
    target_at = target + written_base + _spread(at, written_spans, WRITTEN_SIZES, WRITTEN_SPAN_TIMES)
    if MASKED or (PADDED and PADS_READ):
        x = tl.load(source_at, mask=held, other=fill)
    else:
        x = tl.load(source_at)
    if len(DIMS) > 1:
        x = tl.reshape(tl.permute(tl.reshape(x, DIMS), PERMUTE), [TILE])
    if MASKED or (PADDED and not PADS_READ):
        tl.store(target_at, x, mask=written_mask)
    else:
        tl.store(target_at, x)


def move(source: torch.Tensor, target: torch.Tensor, boxes: Boxes, *, unpacks: bool, fill: int, warps: int = 4) -> None:
    """Return nothing; write `target` from `source`, both flat bytes, on the current stream. Pads get units of `fill`."""
    dims = [i for i in range(len(boxes.box)) if boxes.box[i] > 1]
    order = [i for i in boxes.order if i in dims]
    counts = boxes.counts()
    read_spans, written_spans = boxes.spans(True), boxes.spans(False)
    total = math.prod(counts)
    for first in range(0, total, MOST_PROGRAMS):
        _move[(min(total - first, MOST_PROGRAMS),)](
            source.view(UNITS[boxes.unit]),
            target.view(UNITS[boxes.unit]),
            first,
            boxes.sizes,
            counts,
            _over_times(boxes.read),
            _over_times(boxes.written),
            _over_times([stride for _, stride in read_spans]),
            _over_times([stride for _, stride in written_spans]),
            tuple(limit.weights for limit in boxes.limits),
            tuple(limit.extent for limit in boxes.limits),
            fill,
            BOX=boxes.box,
            READ_TIMES=times(boxes.read),
            WRITTEN_TIMES=times(boxes.written),
            READ_SIZES=tuple(size for size, _ in read_spans),
            READ_SPAN_TIMES=times([stride for _, stride in read_spans]),
            WRITTEN_SIZES=tuple(size for size, _ in written_spans),
            WRITTEN_SPAN_TIMES=times([stride for _, stride in written_spans]),
            COUNTED=tuple(count > 1 for count in counts),
            RAGGED=boxes.ragged(),
            USES=tuple(tuple(weight > 0 for weight in limit.weights) for limit in boxes.limits),
            READING=tuple(range(len(boxes.box))),
            WRITING=boxes.order,
            DIMS=tuple(boxes.box[i] for i in dims),
            PERMUTE=tuple(dims.index(i) for i in order),
            TILE=math.prod(boxes.box),
            PADS_READ=not unpacks,
            WIDE=_is_wide(read_spans) or _is_wide(written_spans),
            num_warps=warps,
        )


def _over_times(strides: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(stride // power for stride, power in zip(strides, times(strides), strict=True))


def _is_wide(spans: tuple[tuple[int, int], ...]) -> bool:
    """Return whether offsets inside one box pass 31 bits."""
    return sum((size - 1) * stride for size, stride in spans) >= 1 << 31
