"""Pieces of padded items against numpy: together they are the item, and windows hold what is no pad."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import moves
from mono_gen.runtime.pieces import pieces, windows
from tests.runtime.test_moves import (
    BYTES_ONLY,
    CASES,
    DTYPES,
    FILLS,
    coded,
    expected,
    pairs,
    raw_bytes,
    rules,
    tensor_of,
)

PADDED = {name: case for name, case in (CASES | BYTES_ONLY).items() if case.logical != case.padded}


@pytest.mark.parametrize("seed", range(100))
def test_windows_are_the_elements_that_are_no_pad(seed: int) -> None:
    draw = random.Random(seed)
    padded = tuple(draw.randint(1, 6) for _ in range(draw.randint(1, 4)))
    extents = tuple(draw.randint(1, extent) for extent in padded)
    item = np.arange(1, math.prod(extents) + 1).reshape(extents)
    whole = np.zeros(padded, dtype=item.dtype)
    whole[tuple(slice(0, extent) for extent in extents)] = item
    for _ in range(10):
        start = draw.randint(0, whole.size)
        stop = draw.randint(start, whole.size)
        made = np.zeros(stop - start, dtype=item.dtype)
        for window in windows(extents, padded, start, stop):
            part = item[window.place]
            box = made[window.start : window.start + math.prod(window.box)].reshape(window.box)
            box[tuple(slice(0, n) for n in part.shape)] = part
        assert (made == whole.reshape(-1)[start:stop]).all()


@pytest.mark.parametrize("seed", range(50))
def test_pieces_are_the_item_in_order(seed: int) -> None:
    draw = random.Random(seed)
    sizes = tuple(draw.choice([1, 2, 3, 16, 40]) for _ in range(draw.randint(1, 4)))
    most = draw.choice([16, 20, 100, 1 << 20])
    item = np.arange(math.prod(sizes)).reshape(sizes)
    found = list(pieces(sizes, most))
    assert [n for piece in found for n in item[piece.place].reshape(-1).tolist()] == list(range(item.size))
    for piece in found:
        assert item[piece.place].size == piece.count <= most
        assert item[piece.place].reshape(-1)[0] == piece.start
        assert piece.place[-1].start % 16 == 0  # no run is cut inside an element


@pytest.mark.parametrize("most", [256, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PADDED)
def test_small_pieces_give_the_same_bytes(
    name: str, dtype: torch.dtype, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces that end inside a row, inside a tile, and wholly among the pads."""
    monkeypatch.setattr(moves, "PIECE_BYTES", most)
    case, bits = PADDED[name], 8 * dtype.itemsize
    elements = coded(3 * math.prod(case.logical), bits).reshape(3, *case.logical)
    t = tensor_of(elements, dtype, (3, *case.logical), dtype.itemsize)
    packed = runtime.pack("pack_x", t, **rules(case, fill=FILLS[bits]))
    assert raw_bytes(packed) == expected(elements, case, FILLS[bits]).reshape(-1).view(np.uint8).tolist()
    assert raw_bytes(runtime.unpack("unpack_x", packed, t.shape, **rules(case))) == raw_bytes(t)


@pytest.mark.parametrize("name", [name for name in PADDED if name in CASES])
def test_small_pieces_of_pairs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "PIECE_BYTES", 256)
    case = PADDED[name]
    nibbles = coded(2 * math.prod(case.logical), 4).reshape(2, *case.logical)
    shape = (2, *case.logical[:-1], case.logical[-1] // 2)
    t = tensor_of(pairs(nibbles), torch.float4_e2m1fn_x2, shape)
    packed = runtime.pack("pack_x", t, **rules(case, fill=0x6))
    assert raw_bytes(packed) == pairs(expected(nibbles, case, 0x6)).tolist()
    assert raw_bytes(runtime.unpack("unpack_x", packed, shape, **rules(case))) == raw_bytes(t)
