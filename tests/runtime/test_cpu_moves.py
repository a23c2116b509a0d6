"""Moves on a CPU against numpy's transpose: each way that a move can take, odd sizes, gaps, any address and chunk."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen import runtime
from mono_gen.runtime import cpu_moves
from mono_gen.runtime.cpu_moves import _joined, _plan_pairs, move
from tests.runtime.test_moves import Case as Padded
from tests.runtime.test_moves import coded, raw_bytes, rules, tensor_of
from tests.runtime.test_moves import expected as packed_by_numpy
from tools.bench.cpu_convert import peak_bytes

E8M0 = ((6, 2, 16, 24, 2, 4), (0, 3, 5, 2, 4, 1))
"""The digits of rows and blocks, and the order of aiter's e8m0_shuffle."""


def moved(source: NDArray[Any], order: tuple[int, ...], skip: int = 0, skip_out: int = 0) -> tuple[Any, Any]:
    """Return what `move` makes of a permuted array, and what numpy makes of it."""
    dtype = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[source.itemsize]
    t = tensor_of(source, dtype, source.shape, skip).permute(order)
    out = tensor_of(np.zeros_like(source), dtype, tuple(t.shape), skip_out)
    move(out, t)
    return raw_bytes(out), source.transpose(order).reshape(-1).view(np.uint8).tolist()


@pytest.mark.parametrize("seed", range(200))
def test_move_is_the_transpose(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(cpu_moves, "_LEAST_BYTES", 0)
    monkeypatch.setattr(cpu_moves, "_SHORT", draw.choice([1, 64, 1 << 40]))
    monkeypatch.setattr(cpu_moves, "_RUN", draw.choice([1, 8, 64]))
    monkeypatch.setattr(cpu_moves, "MOST_CHUNK_BYTES", draw.choice([2, 200, 4096, 1 << 18]))
    sizes = tuple(draw.choice([1, 2, 2, 4, 8, 16, 3, 5, 12]) for _ in range(draw.randint(1, 6)))
    while math.prod(sizes) > 1 << 16:
        sizes = sizes[1:]
    order = list(range(len(sizes)))
    draw.shuffle(order)
    bits = draw.choice([8, 8, 8, 16, 32, 64])
    skips = [draw.choice([0, 0, 8, bits // 8, 4 * bits // 8]) for _ in range(2)]
    got, want = moved(coded(math.prod(sizes), bits).reshape(sizes), tuple(order), *skips)
    assert got == want


def is_paired(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Return whether bytes can move in pairs."""
    return _plan_pairs(_joined(target, source), target) is not None


@pytest.mark.parametrize("chunk", [2, 130, 999, 5000, 1 << 19])
@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((3, 2, 5, 96), (0, 2, 3, 1)),  # halves of two rows
        ((7, 6, 80), (0, 2, 1)),  # six rows: three pairs
        ((4, 3, 64, 2), (1, 2, 3, 0)),  # the pairs' axis is the slowest of the source
        ((130, 70), (1, 0)),  # a transpose
        ((5, 4, 2, 33, 2), (0, 3, 4, 2, 1)),  # narrow axes two and four, a run of two axes
    ],
)
def test_pairs_of_chunks(
    sizes: tuple[int, ...], order: tuple[int, ...], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_moves, "_LEAST_BYTES", 0)
    monkeypatch.setattr(cpu_moves, "_SHORT", 1 << 40)
    monkeypatch.setattr(cpu_moves, "MOST_CHUNK_BYTES", chunk)
    source = coded(math.prod(sizes), 8).reshape(sizes)
    t = torch.from_numpy(source).permute(order)
    assert is_paired(torch.empty(t.shape, dtype=torch.uint8), t)
    got, want = moved(source, order)
    assert got == want


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1)])
def test_gaps_between_pairs(order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_moves, "_LEAST_BYTES", 0)
    monkeypatch.setattr(cpu_moves, "_SHORT", 1 << 40)
    source = coded(3 * 4 * 80, 8).reshape(3, 4, 80)
    want = source.transpose(order)
    for gap, paired in ((2, True), (1, False)):  # an odd stride leaves no place for 16 bits
        room = torch.full((*want.shape[:-1], want.shape[-1] + gap), 0xA5, dtype=torch.uint8)
        target, t = room[..., : want.shape[-1]], torch.from_numpy(source).permute(order)
        assert is_paired(target, t) == paired
        move(target, t)
        assert (target.numpy() == want).all()
        assert room[..., want.shape[-1] :].eq(0xA5).all()


@pytest.mark.parametrize(("size", "gap", "every"), [(3, 1, 1), (4, 0, 2)])
def test_what_does_not_lie_in_pairs(size: int, gap: int, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three neighbours and a gap; every other byte."""
    monkeypatch.setattr(cpu_moves, "_LEAST_BYTES", 0)
    source = torch.from_numpy(coded(5 * size * 80, 8).reshape(5, size, 80)).permute(0, 2, 1)
    room = torch.full((5, 80, (size + gap) * every), 0xA5, dtype=torch.uint8)
    target = room[..., : size * every : every]
    assert not is_paired(target, source)
    move(target, source)
    assert torch.equal(target, source)
    assert int(room.eq(0xA5).sum()) >= room.numel() - source.numel()


def test_scales_move_in_pairs_both_ways() -> None:
    sizes, order = E8M0
    source = coded(math.prod(sizes), 8).reshape(sizes)
    t = torch.from_numpy(source)
    packed = torch.empty(tuple(sizes[axis] for axis in order), dtype=torch.uint8)
    back = tuple(order.index(axis) for axis in range(len(order)))
    assert is_paired(packed, t.permute(order))
    assert is_paired(torch.empty_like(t), packed.permute(back))
    assert packed.nbytes > cpu_moves._LEAST_BYTES
    got, want = moved(source, order)
    assert got == want


@pytest.mark.parametrize(("skip", "skip_out"), [(1, 0), (0, 2), (3, 3), (4, 0), (0, 8)])
def test_scales_at_any_address(skip: int, skip_out: int) -> None:
    sizes, order = E8M0
    got, want = moved(coded(math.prod(sizes), 8).reshape(sizes), order, skip, skip_out)
    assert got == want


@pytest.mark.parametrize("order", [(0, 3, 5, 2, 4, 1), (3, 0, 1, 5, 4, 2)])
def test_a_target_with_gaps_keeps_them(order: tuple[int, ...]) -> None:
    """Each digit of the target is one longer than what is written."""
    sizes = E8M0[0]
    source = coded(math.prod(sizes), 8).reshape(sizes)
    room = torch.full(tuple(sizes[axis] + 4 for axis in order), 0xA5, dtype=torch.uint8)
    there = tuple(slice(0, sizes[axis]) for axis in order)
    move(room[there], torch.from_numpy(source).permute(order))
    want = np.full(tuple(room.shape), 0xA5, dtype=np.uint8)
    want[there] = source.transpose(order)
    assert (room.numpy() == want).all()


# --- through the runtime ---


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("rows", "blocks"), [(512, 128), (700, 61), (257, 9), (1, 1)])
def test_padded_scales(rows: int, blocks: int, batch: tuple[int, ...]) -> None:
    up_rows, up_blocks = -(-rows // 256) * 256, -(-blocks // 8) * 8
    case = Padded(
        (rows, blocks), (up_rows, up_blocks), (up_rows // 32, 2, 16, up_blocks // 8, 2, 4), (0, 3, 5, 2, 4, 1)
    )
    elements = coded(math.prod(batch) * rows * blocks, 8).reshape(-1, rows, blocks)
    t = tensor_of(elements, torch.float8_e8m0fnu, (*batch, rows, blocks))
    out = torch.full((*batch, up_rows, up_blocks), 0xA5, dtype=torch.uint8).view(t.dtype)
    address = out.data_ptr()
    for fill in (0x7F, 0):
        runtime.pack("pack_x", t, **rules(case, fill=fill), out=out)
        assert raw_bytes(out) == packed_by_numpy(elements, case, fill).reshape(-1).tolist()
    assert out.data_ptr() == address
    assert raw_bytes(runtime.unpack("unpack_x", out, t.shape, **rules(case))) == raw_bytes(t)


@pytest.mark.parametrize("rows", [8192, 8191])
def test_scratch_is_bounded(rows: int) -> None:
    """12 MiB are enough for 24 MiB, padded or not: a scratch of one item would be as large as the item."""
    case = Padded((rows, 3072), (8192, 3072), (256, 2, 16, 384, 2, 4), (0, 3, 5, 2, 4, 1))
    t = torch.ones(rows, 3072, dtype=torch.uint8)
    out = torch.zeros(8192, 3072, dtype=torch.uint8)
    assert peak_bytes(lambda: runtime.pack("pack_x", t, **rules(case, fill=0x7F), out=out)) < 12 << 20
    result = t.nbytes
    assert peak_bytes(lambda: runtime.unpack("unpack_x", out, (rows, 3072), **rules(case))) < result + (12 << 20)


def test_chunks_of_many_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1000)
    axis, step = cpu_moves._chunk((1 << 20, 64))
    assert (axis, 2 * 64 * step) == (0, 8 << 20)
