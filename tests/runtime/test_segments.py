"""pad_segments: every segment moved to its own multiple, its pads written, and what cannot be cut is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported

FP4 = torch.float4_e2m1fn_x2
LENGTHS = ((3, 4), (5, 8), (2, 2))


@pytest.mark.parametrize(
    ("dtype", "fill"), [(torch.uint8, 0x5A), (torch.int16, 0x1234), (torch.float32, 0x3F800000), (torch.int64, 7)]
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_segment_is_followed_by_its_own_pads(dtype: torch.dtype, fill: int, axis: int) -> None:
    shape = [2, 4, 6]
    shape[axis] = sum(n for n, _ in LENGTHS)
    source = torch.arange(int(np.prod(shape)), dtype=dtype if dtype is not torch.float32 else torch.int32)
    values = source.view(shape)
    pieces, begin = [], 0
    for n, padded in LENGTHS:
        width = [(0, padded - n if a == axis else 0) for a in range(3)]
        piece = np.take(values.numpy(), range(begin, begin + n), axis=axis)
        pieces.append(np.pad(piece, width, constant_values=fill))
        begin += n
    got = runtime.pad_segments("w", values.view(dtype), axis=axis, segments=LENGTHS, fill=fill)
    assert got.dtype is dtype and got.is_contiguous()
    assert np.array_equal(got.view(values.dtype).numpy(), np.concatenate(pieces, axis=axis))


def test_four_bit_elements_are_counted_and_filled_by_pairs() -> None:
    source = torch.tensor([[0x21, 0x43, 0x65]], dtype=torch.uint8).view(FP4)
    got = runtime.pad_segments("w", source, axis=1, segments=((4, 8), (2, 2)), fill=0xA)
    assert got.dtype is FP4 and got.view(torch.uint8).tolist() == [[0x21, 0x43, 0xAA, 0xAA, 0x65]]


@pytest.mark.parametrize("segments", [((3, 4), (3, 4)), ((4, 5), (2, 2))])
def test_a_pair_that_would_come_apart(segments: tuple[tuple[int, int], ...]) -> None:
    source = torch.zeros(1, 3, dtype=torch.uint8).view(FP4)
    with pytest.raises(MonoUnsupported, match="w: segments: expected whole bytes"):
        runtime.pad_segments("w", source, axis=1, segments=segments, fill=0)


def test_an_axis_that_is_not_the_sum_of_its_segments() -> None:
    with pytest.raises(MonoUnsupported, match="w: segments: expected 10 on axis 0, found torch 11 x 2"):
        runtime.pad_segments("w", torch.zeros(11, 2), axis=0, segments=LENGTHS, fill=0)
