"""Byte moves on a GPU: the arguments of the Triton kernel for a plan of boxes, and its launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from mono_gen.runtime.boxes import WIDEST, Boxes, plan_boxes, times
from mono_gen.runtime.launches import Launch, launch, planned
from mono_gen.runtime.layouts import Storage

UNITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MOST_PROGRAMS = (1 << 31) - 1


def convert(
    source: torch.Tensor,
    target: torch.Tensor,
    *,
    batch: int,
    storage: Storage,
    bits: int,
    unpacks: bool,
) -> bool:
    """Return whether a dense tensor was moved, on the current stream: packed, or unpacked; else nothing was written.

    Units: the storage is of one batch item, in elements of `bits` bits.
    """
    alignment = math.gcd(
        WIDEST,
        source.data_ptr(),
        target.data_ptr(),
        source.storage_offset() * source.itemsize,
        target.storage_offset() * target.itemsize,
    )
    works = _planned(batch, storage, bits, alignment, unpacks)
    if works is None:
        return False
    for work in works:
        launch(work, source, target)
    return True


@lru_cache(maxsize=4096)
def _planned(batch: int, storage: Storage, bits: int, alignment: int, unpacks: bool) -> tuple[Launch, ...] | None:
    """Return the launches of a conversion; None where no unit holds whole elements, or whole patterns of pads."""
    boxes = plan_boxes(batch, storage, bits, alignment, unpacks)
    if boxes is None:
        return None
    pattern = unit_pattern(storage.fill or 0, bits, boxes.unit) if boxes.limits and not unpacks else 0
    return None if pattern is None else launches(boxes, pattern, unpacks)


def unit_pattern(fill: int, bits: int, unit: int) -> int | None:
    """Return the element's bit pattern all over a unit of bytes, signed; None where no unit holds whole patterns."""
    if not 0 <= fill < 1 << bits:
        return None
    pattern = fill * 0x11 if bits == 4 else fill
    element = pattern.to_bytes(max(bits // 8, 1), "little")
    if unit % len(element) and element != element[:unit] * (len(element) // unit):
        return None
    whole = (element * unit)[:unit]
    return int.from_bytes(whole, "little", signed=unit > 1)


def move(source: torch.Tensor, target: torch.Tensor, boxes: Boxes, fill: int, *, unpacks: bool, warps: int = 4) -> None:
    """Return nothing; write `target` from `source`, both dense, on the current stream; pads get `fill` a unit."""
    for work in launches(boxes, fill, unpacks, warps):
        launch(work, source, target)


@lru_cache(maxsize=4096)
def launches(boxes: Boxes, fill: int, unpacks: bool, warps: int = 4) -> tuple[Launch, ...]:
    """Return the launches of a plan: one, but for more programs than a grid takes."""
    from mono_gen.runtime.triton_kernels.move import move as kernel

    numbers, constants = arguments(boxes, unpacks)
    dtype = UNITS[boxes.unit]
    total = math.prod(boxes.counts())
    return tuple(
        planned(kernel, min(total - first, MOST_PROGRAMS), (dtype, dtype), (first, *numbers, fill), constants, warps)
        for first in range(0, total, MOST_PROGRAMS)
    )


def arguments(boxes: Boxes, unpacks: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a launch needs beside tensors: its numbers, and its constants by name."""
    import triton.language as tl

    counts, ragged = boxes.counts(), boxes.ragged()
    dims = [i for i in range(len(boxes.box)) if boxes.box[i] > 1]
    read_spans, written_spans = boxes.spans(True), boxes.spans(False)
    numbers = (
        boxes.sizes,
        counts,
        _over_times(boxes.read),
        _over_times(boxes.written),
        _over_times([stride for _, stride in read_spans]),
        _over_times([stride for _, stride in written_spans]),
        tuple(limit.weights for limit in boxes.limits),
        tuple(limit.extent for limit in boxes.limits),
        tuple(tl.constexpr(boxes.box[i]) for i in dims),
        tuple(tl.constexpr(dims.index(i)) for i in boxes.order if i in dims),
    )
    constants = {
        "BOX": boxes.box,
        "COUNTED": tuple(count > 1 for count in counts),
        "RAGGED": ragged,
        "USES": tuple(tuple(weight > 0 for weight in limit.weights) for limit in boxes.limits),
        "READ_TIMES": times(boxes.read),
        "WRITTEN_TIMES": times(boxes.written),
        "READ_INNER": _inner(boxes.box, range(len(boxes.box))),
        "WRITTEN_INNER": _inner(boxes.box, boxes.order),
        **_spans("READ", read_spans),
        **_spans("WRITTEN", written_spans),
        "TILE": math.prod(boxes.box),
        "PERMUTES": [i for i in boxes.order if i in dims] != dims,
        "MASKS_RAGGED": any(ragged),
        "MASKS_READ": bool(boxes.limits) and not unpacks,
        "MASKS_WRITTEN": bool(boxes.limits) and unpacks,
        "WIDE": _is_wide(read_spans) or _is_wide(written_spans),
        "WIDE_GRID": math.prod(counts) > MOST_PROGRAMS,
    }
    return numbers, constants


def _spans(side: str, spans: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Return the sizes of a side's spans, the units inside one step of each, and what is known of their strides."""
    sizes = tuple(size for size, _ in spans)
    return {
        f"{side}_SPAN_SIZES": sizes,
        f"{side}_SPAN_INNER": _inner(sizes, range(len(sizes))),
        f"{side}_SPAN_TIMES": times([stride for _, stride in spans]),
    }


def _inner(box: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Return for each digit the product of those that are faster in an order, slowest first."""
    inner = [1] * len(box)
    product = 1
    for i in reversed(order):
        inner[i] = product
        product *= box[i]
    return tuple(inner)


def _over_times(strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride // power for stride, power in zip(strides, times(strides), strict=True))


def _is_wide(spans: tuple[tuple[int, int], ...]) -> bool:
    """Return whether offsets inside one box pass 31 bits."""
    return sum((size - 1) * stride for size, stride in spans) >= 1 << 31
