"""Segments padded one by one: each range of an axis moved to its own multiple, the gaps filled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mono_gen.runtime.errors import refuse
from mono_gen.runtime.tensors import dtype_bits, joined, plain


def pad_segments(
    name: str, t: torch.Tensor, *, axis: int, segments: Sequence[tuple[int, int]], fill: int
) -> torch.Tensor:
    """Return t with each (length, padded length) range of an axis followed by its pads, in new memory.

    Shapes: t [..., sum of lengths, ...]; the result [..., sum of padded lengths, ...], of t's dtype, row-major.
    Units:  elements of the axis; `fill` is the bit pattern of one element.
    Raises: MonoUnsupported, where the axis is not the sum of the lengths or 4-bit pairs would come apart.
    Law:    tests/runtime/test_segments.py
    """
    bits = dtype_bits(t.dtype)
    pair = 2 if bits == 4 and axis == t.dim() - 1 else 1
    if any(n % pair or padded % pair for n, padded in segments):
        raise refuse(name, "segments", "whole bytes: an even number of 4-bit elements each", str(tuple(segments)))
    if t.shape[axis] * pair != sum(n for n, _ in segments):
        raise refuse(name, "segments", f"{sum(n for n, _ in segments)} on axis {axis}", f"torch {joined(t.shape)}")
    shape = list(t.shape)
    shape[axis] = sum(padded for _, padded in segments) // pair
    source = _bytes(plain(t))
    out = torch.empty(shape, dtype=t.dtype, device=t.device)
    target = _bytes(out)
    pattern = fill * 0x11 if bits == 4 else fill
    pads = torch.tensor(list(pattern.to_bytes(max(bits // 8, 1), "little")), dtype=torch.uint8, device=t.device)
    read = write = 0
    for length, padded in segments:
        n, room = length // pair, padded // pair
        target.narrow(axis, write, n).copy_(source.narrow(axis, read, n))
        target.narrow(axis, write + n, room - n).copy_(pads)
        read, write = read + n, write + room
    return out


def _bytes(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements as bytes on an axis of their own, behind the others."""
    return t.view(torch.uint8).view(*t.shape, t.element_size())
