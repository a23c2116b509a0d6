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
from mono_gen.runtime import cpu_moves, cpu_strided, cpu_turns
from mono_gen.runtime.cpu_moves import move
from mono_gen.runtime.cpu_strided import joined
from mono_gen.runtime.cpu_turns import Turns, plan_turns
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


def any_size_is_turned(patch: pytest.MonkeyPatch, chunk: int = 1 << 23) -> None:
    """Let small moves be turned as large ones are, in chunks of so many bytes."""
    patch.setattr(cpu_moves, "_LEAST_BYTES", 0)
    patch.setattr(cpu_moves, "SHORT", 1 << 40)
    patch.setattr(cpu_turns, "MOST_CHUNK_BYTES", chunk)
    patch.setattr(cpu_turns, "_MOST_COST", 1e9)


def plan_of(target: torch.Tensor, source: torch.Tensor) -> Turns | None:
    return plan_turns(joined(target, source))


@pytest.mark.parametrize("seed", range(300))
def test_move_is_the_transpose(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    any_size_is_turned(monkeypatch, draw.choice([1, 2, 200, 4096, 1 << 18]))
    monkeypatch.setattr(cpu_strided, "SHORT", draw.choice([1, 64, 1 << 40]))
    monkeypatch.setattr(cpu_turns, "_RUN", draw.choice([1, 8, 64]))
    monkeypatch.setattr(cpu_turns, "_LONG", draw.choice([4, 64, 256]))
    cpu_turns._cheapest.cache_clear()
    sizes = tuple(draw.choice([1, 2, 2, 4, 8, 16, 3, 5, 12]) for _ in range(draw.randint(1, 6)))
    while math.prod(sizes) > 1 << 16:
        sizes = sizes[1:]
    order = list(range(len(sizes)))
    draw.shuffle(order)
    bits = draw.choice([8, 8, 8, 16, 32, 64])
    skips = [draw.choice([0, 0, 8, bits // 8, 4 * bits // 8]) for _ in range(2)]
    got, want = moved(coded(math.prod(sizes), bits).reshape(sizes), tuple(order), *skips)
    cpu_turns._cheapest.cache_clear()
    assert got == want


@pytest.mark.parametrize("chunk", [64, 130, 999, 5000, 1 << 19])
@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((3, 2, 5, 96), (0, 2, 3, 1)),
        ((7, 6, 80), (0, 2, 1)),
        ((4, 3, 64, 2), (1, 2, 3, 0)),
        ((130, 70), (1, 0)),
        ((5, 4, 2, 33, 2), (0, 3, 4, 2, 1)),
        ((2, 6, 16, 20, 2, 4), (1, 3, 5, 2, 4, 0)),  # halves far apart that become neighbours
    ],
)
def test_turns_of_chunks(
    sizes: tuple[int, ...], order: tuple[int, ...], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    any_size_is_turned(monkeypatch, chunk)
    monkeypatch.setattr(cpu_turns, "_RUN", 1)
    cpu_turns._cheapest.cache_clear()
    source = coded(math.prod(sizes), 8).reshape(sizes)
    t = torch.from_numpy(source).permute(order)
    plan = plan_of(torch.empty(t.shape, dtype=torch.uint8), t)
    got, want = moved(source, order)
    cpu_turns._cheapest.cache_clear()
    assert plan is not None
    assert plan.step * math.prod(dim.size for dim in plan.dims[plan.cut + 1 :]) <= chunk
    assert got == want


@pytest.mark.parametrize("chunk", [1 << 16, 1 << 17, 1 << 19])
@pytest.mark.parametrize("sizes", [(512, 768), (192, 1280), (64, 4096), (640, 100)])
def test_matrices_in_tiles(sizes: tuple[int, int], chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_turns, "MOST_CHUNK_BYTES", chunk)
    source = coded(math.prod(sizes), 8).reshape(sizes)
    t = torch.from_numpy(source).t()
    assert plan_of(torch.empty(t.shape, dtype=torch.uint8), t) is not None
    got, want = moved(source, (1, 0))
    assert got == want


@pytest.mark.parametrize("gap", [1, 2])
@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1)])
def test_gaps_between_rows_of_a_target(order: tuple[int, ...], gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    any_size_is_turned(monkeypatch)
    source = coded(3 * 128 * 80, 8).reshape(3, 128, 80)
    want = source.transpose(order)
    room = torch.full((*want.shape[:-1], want.shape[-1] + gap), 0xA5, dtype=torch.uint8)
    target, t = room[..., : want.shape[-1]], torch.from_numpy(source).permute(order)
    assert plan_of(target, t) is not None
    move(target, t)
    assert (target.numpy() == want).all()
    assert room[..., want.shape[-1] :].eq(0xA5).all()


@pytest.mark.parametrize(("size", "gap", "every"), [(3, 1, 1), (4, 0, 2)])
def test_what_has_no_runs_is_not_turned(size: int, gap: int, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three neighbours and a gap; every other byte."""
    any_size_is_turned(monkeypatch)
    source = torch.from_numpy(coded(5 * size * 80, 8).reshape(5, size, 80)).permute(0, 2, 1)
    room = torch.full((5, 80, (size + gap) * every), 0xA5, dtype=torch.uint8)
    target = room[..., : size * every : every]
    assert plan_of(target, source) is None
    move(target, source)
    assert torch.equal(target, source)
    assert int(room.eq(0xA5).sum()) >= room.numel() - source.numel()


def test_a_matrix_is_turned_in_tiles_that_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    t = torch.zeros(6144, 2048, dtype=torch.uint8).t()
    plan = plan_of(torch.empty(2048, 6144, dtype=torch.uint8), t)
    assert plan is not None
    sizes = (plan.step, *(dim.size for dim in plan.dims[plan.cut + 1 :]))
    ((count, rows, columns),) = cpu_turns._matrices(tuple(sizes[i] for i in plan.read), plan.turns)
    assert count >= 8 and (rows, columns) == (256, 256)


def test_scales_are_turned_both_ways() -> None:
    sizes, order = E8M0
    source = coded(math.prod(sizes), 8).reshape(sizes)
    t = torch.from_numpy(source)
    packed = torch.empty(tuple(sizes[axis] for axis in order), dtype=torch.uint8)
    back = tuple(order.index(axis) for axis in range(len(order)))
    assert plan_of(packed, t.permute(order)) is not None
    assert plan_of(torch.empty_like(t), packed.permute(back)) is not None
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
    axis, step = cpu_turns.chunk((1 << 20, 64))
    assert (axis, 64 * step) == (0, 8 << 20)
