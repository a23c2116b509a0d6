"""Byte moves: a box of digits is read in the order of one side, permuted in registers, written in that of the other."""

import triton
import triton.language as tl


@triton.jit
def spread(e, strides, SIZES: tl.constexpr, INNER: tl.constexpr, TIMES: tl.constexpr):
    """Return the offset of each flat index of a box on one side, whose spans are SIZES, slowest first."""
    offset = e * 0
    for i in tl.static_range(len(SIZES)):
        offset += (e // INNER[i] % SIZES[i]) * (strides[i] * TIMES[i])
    return offset


@triton.jit
def inside(e, firsts, sizes, BOX: tl.constexpr, INNER: tl.constexpr, RAGGED: tl.constexpr):
    """Return where a flat index of a box stands for a unit of the tensor: last boxes reach past the end of digits."""
    within = e >= 0
    for i in tl.static_range(len(BOX)):
        if RAGGED[i]:
            within = within & (firsts[i] + e // INNER[i] % BOX[i] < sizes[i])
    return within


@triton.jit
def no_pad(e, firsts, weights, extents, BOX: tl.constexpr, INNER: tl.constexpr, USES: tl.constexpr):
    """Return where a flat index of a box stands for a unit that is no pad: below the extent of every axis."""
    held = e >= 0
    for limit in tl.static_range(len(USES)):
        coordinate = e.to(tl.int64) * 0
        for i in tl.static_range(len(BOX)):
            if USES[limit][i]:
                coordinate += (firsts[i] + e // INNER[i] % BOX[i]) * weights[limit][i]
        held = held & (coordinate < extents[limit])
    return held


@triton.jit
def move(
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
    dims,
    permute,
    fill,
    BOX: tl.constexpr,
    COUNTED: tl.constexpr,
    RAGGED: tl.constexpr,
    USES: tl.constexpr,
    READ_TIMES: tl.constexpr,
    WRITTEN_TIMES: tl.constexpr,
    READ_INNER: tl.constexpr,
    WRITTEN_INNER: tl.constexpr,
    READ_SPAN_SIZES: tl.constexpr,
    READ_SPAN_INNER: tl.constexpr,
    READ_SPAN_TIMES: tl.constexpr,
    WRITTEN_SPAN_SIZES: tl.constexpr,
    WRITTEN_SPAN_INNER: tl.constexpr,
    WRITTEN_SPAN_TIMES: tl.constexpr,
    TILE: tl.constexpr,
    PERMUTES: tl.constexpr,
    MASKS_RAGGED: tl.constexpr,
    MASKS_READ: tl.constexpr,
    MASKS_WRITTEN: tl.constexpr,
    WIDE: tl.constexpr,
    WIDE_GRID: tl.constexpr,
):
    """Move the box of this program. Strides come divided by their TIMES; dims and permute are constants."""
    if WIDE_GRID:
        place = first_program + tl.program_id(0).to(tl.int64)
    else:
        place = tl.program_id(0).to(tl.uint32)
    firsts = ()
    source_base = tl.program_id(0).to(tl.int64) * 0
    target_base = source_base
    for i in tl.static_range(len(BOX) - 1, -1, -1):
        if COUNTED[i]:
            count = counts[i].to(place.dtype)
            first = (place % count).to(tl.int64) * BOX[i]
            place = place // count
            source_base += first * (read[i] * READ_TIMES[i])
            target_base += first * (written[i] * WRITTEN_TIMES[i])
        else:
            first = source_base * 0
        firsts = (first,) + firsts
    e = tl.arange(0, TILE)
    at = e.to(tl.int64) if WIDE else e
    source_at = spread(at, read_spans, READ_SPAN_SIZES, READ_SPAN_INNER, READ_SPAN_TIMES)
    target_at = spread(at, written_spans, WRITTEN_SPAN_SIZES, WRITTEN_SPAN_INNER, WRITTEN_SPAN_TIMES)
    readable = e >= 0
    writable = e >= 0
    if MASKS_RAGGED:
        readable = inside(e, firsts, sizes, BOX, READ_INNER, RAGGED)
        writable = inside(e, firsts, sizes, BOX, WRITTEN_INNER, RAGGED)
    if MASKS_READ:
        readable = readable & no_pad(e, firsts, weights, extents, BOX, READ_INNER, USES)
    if MASKS_WRITTEN:
        writable = writable & no_pad(e, firsts, weights, extents, BOX, WRITTEN_INNER, USES)
    if MASKS_RAGGED or MASKS_READ:
        x = tl.load(source + source_base + source_at, mask=readable, other=fill)
    else:
        x = tl.load(source + source_base + source_at)
    if PERMUTES:
        x = tl.reshape(tl.permute(tl.reshape(x, dims), permute), [TILE])
    if MASKS_RAGGED or MASKS_WRITTEN:
        tl.store(target + target_base + target_at, x, mask=writable)
    else:
        tl.store(target + target_base + target_at, x)
