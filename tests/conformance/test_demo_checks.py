"""The demo's own checks fail when a byte, a length or an offset is wrong; its stand-in is in aiter's order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.reference.data import Bytes, mixed
from tests.reference.layouts import byte_offset, pack
from tools.demo.expected import Place, first_mismatch, wrong_offset
from tools.demo.sources import Experts
from tools.demo.stand_in import stack_experts

DATA = mixed(6 * 64, seed=9)


def _chunks(data: Bytes) -> Iterator[Bytes]:
    yield from np.split(data, 3)


def test_first_mismatch_is_none_where_all_bytes_are_the_same() -> None:
    assert first_mismatch(torch.from_numpy(DATA.copy()).view(torch.float8_e4m3fn).view(6, 64), _chunks(DATA)) is None


@pytest.mark.parametrize("at", [0, 127, 128, 383])
def test_first_mismatch_names_the_byte(at: int) -> None:
    other = DATA.copy()
    other[at] ^= 1
    assert str(first_mismatch(torch.from_numpy(other), _chunks(DATA))).startswith(f"byte {at}: expected 0x")


def test_first_mismatch_sees_a_tensor_too_short_and_too_long() -> None:
    assert "byte 300: expected" in str(first_mismatch(torch.from_numpy(DATA[:300].copy()), _chunks(DATA)))
    longer = torch.from_numpy(np.append(DATA, np.uint8(7)))
    assert str(first_mismatch(longer, _chunks(DATA))) == "byte 384: expected nothing, found 0x07"


def test_wrong_offset_sees_another_formula() -> None:
    place = Place("shuffle_16x16", (64, 256), 8, item_bytes=64 * 256, batch=3)

    def right(e: int, row: int, k: int) -> int:
        return e * 16384 + int(byte_offset("shuffle_16x16", (row, k), (64, 256), 8))

    assert wrong_offset(right, place) is None
    assert wrong_offset(lambda e, row, k: right(e, row, k) + (e == 2), place) is not None
    assert wrong_offset(lambda e, row, k: right(e, row, k ^ 16), place) is not None


def test_the_stand_in_is_in_the_order_of_the_closed_formulas() -> None:
    experts = Experts(mixed(64 * 128, seed=11).reshape(64, 128), blocks=8, seed=12)
    weights, scales = stack_experts(experts, 3)
    for expert in range(3):
        logical = experts.first + np.uint8(experts.weight_shift(expert))
        assert weights.view(torch.uint8)[expert].numpy().tobytes() == pack("shuffle_16x16", logical, bits=4).tobytes()
        assert scales[expert].numpy().tobytes() == pack("e8m0_tiles", experts.scale(expert)).tobytes()
    assert weights.is_shuffled is True  # type: ignore[attr-defined]
    assert len({weights.view(torch.uint8)[e].numpy().tobytes() for e in range(3)}) == 3
