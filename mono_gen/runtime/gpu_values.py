"""Value changes on a GPU: what each Triton kernel is launched with. Checks stand in numerics.py, which calls these."""

from __future__ import annotations

from functools import lru_cache

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.boxes import times
from mono_gen.runtime.gpu import converts_fp8
from mono_gen.runtime.launches import Launch, ask, launch, planned
from mono_gen.runtime.layouts import Storage
from mono_gen.runtime.places import WORD, Places, plan_places

BLOCK = 32
WORDS_A_PROGRAM = 8192
"""Words of codes that one program keeps in registers, at most: 16 a thread of 16 warps."""

WORDS_A_THREAD = 16


@frozen
class Split:
    """How rows are shared out: `rows` a program, of `chunks` of `blocks` blocks each; chunks 0 is a loop, twice."""

    rows: int
    blocks: int
    chunks: int
    warps: int


def plan_split(blocks: int, rows: int | None = None, warps: int | None = None) -> Split:
    """Return how rows of so many blocks are shared out; `rows` and `warps` set what is chosen otherwise."""
    whole = blocks & -blocks
    chunk, chunks = (whole, blocks // whole) if blocks // whole <= 4 else (1 << (blocks - 1).bit_length(), 1)
    words = chunk * chunks * BLOCK // 4
    if words > WORDS_A_PROGRAM // 4:
        chunk, chunks = min(chunk, 256), 0
        words = chunk * BLOCK // 4
    rows = rows or max(4, min(16, _power_below(WORDS_A_PROGRAM // words)))
    warps = warps or min(16, _power_below(rows * words // (32 * WORDS_A_THREAD)))
    return Split(rows, chunk, chunks, warps)


def _power_below(n: int) -> int:
    """Return the largest power of two that is at most n, and at least 1."""
    return 1 << max(n.bit_length() - 1, 0)


def quantize(
    data: torch.Tensor,
    exponents: torch.Tensor,
    q: torch.Tensor,
    scale: torch.Tensor,
    storage: Storage,
    reciprocal: float,
) -> bool | None:
    """Return whether a block was refused, after one wait for the device; None where the kernel cannot do it.

    Shapes: as of mxfp8_to_ptpc; `q` in the order of the storage of one batch item. Its writes are counted.
    """
    rows, k = data.shape[-2:]
    batch = data.numel() // (rows * k)
    starts = (data.data_ptr(), data.storage_offset(), q.data_ptr(), q.storage_offset())
    if any(n % WORD for n in starts) or batch * rows >= 1 << 31:
        return None
    fnuz = q.dtype is torch.float8_e4m3fnuz
    ptx = not fnuz and converts_fp8(data.device)
    works = _quantizers(batch, rows, k, storage, reciprocal, fnuz, ptx)
    if works is None:
        return None
    fast, slow = works
    refused, is_slow = ask(fast, data, exponents, q, scale, outputs=(q, scale))
    if is_slow and not refused:  # nobody waits for this one: its verdict has memory of its own
        launch(slow, data, exponents, q, scale, torch.empty(2, dtype=torch.int32, device=data.device))
    return refused


@lru_cache(maxsize=1024)
def _quantizers(
    batch: int, rows: int, k: int, storage: Storage, reciprocal: float, fnuz: bool, ptx: bool
) -> tuple[Launch, Launch] | None:
    """Return the launches, fast and slow, for matrices stored as `storage` says; None where the kernel cannot."""
    places = plan_places(batch, (rows, k), storage.padded, storage.view, storage.permute)
    if places is None:
        return None
    blocks = k // BLOCK
    split = plan_split(blocks)
    fast, slow = (
        _quantizer(places, batch * rows, blocks, reciprocal, fnuz, fast, ptx, split) for fast in (True, False)
    )
    return fast, slow


@lru_cache(maxsize=1024)
def _quantizer(
    places: Places, rows: int, blocks: int, reciprocal: float, fnuz: bool, fast: bool, ptx: bool, split: Split
) -> Launch:
    """Return the launch for so many rows of so many blocks."""
    from mono_gen.runtime.triton_kernels.values import mxfp8_to_ptpc as kernel

    row_times, unit_times = times(places.rows.strides), times(places.units.strides)
    constants = {
        "ROWS": split.rows,
        "BLOCKS": split.blocks,
        "CHUNKS": split.chunks,
        "UNIT": places.unit,
        "ROW_SIZES": places.rows.sizes,
        "ROW_INNER": places.rows.inner,
        "ROW_TIMES": row_times,
        "UNIT_SIZES": places.units.sizes,
        "UNIT_INNER": places.units.inner,
        "UNIT_TIMES": unit_times,
        "ROWS_INSIDE": places.rows_inside,
        "MASKED": rows % split.rows != 0 or blocks % split.blocks != 0,
        "FAST": fast,
        "PTX": ptx,
        "FNUZ": fnuz,
    }
    numbers = (
        rows,
        blocks,
        tuple(n // m for n, m in zip(places.rows.strides, row_times, strict=True)),
        tuple(n // m for n, m in zip(places.units.strides, unit_times, strict=True)),
        reciprocal,
    )
    dtypes = (torch.int32, torch.uint8, torch.int32, torch.float32, torch.int32)
    return planned(kernel, -(-rows // split.rows), dtypes, numbers, constants, split.warps)


def mxfp8_to_ptpc(
    data: torch.Tensor,
    exponents: torch.Tensor,
    q: torch.Tensor,
    scale: torch.Tensor,
    places: Places,
    reciprocal: float,
    *,
    fnuz: bool,
    fast: bool,
    ptx: bool,
    split: Split | None = None,
) -> torch.Tensor:
    """Return (a block was refused, a row needs divisions), as a tensor on the device; write `q`, in the places' order,
    and `scale`.

    Shapes: data fp8 [..., rows, k], exponents [..., rows, k / 32], all dense, data and q at multiples of 4 bytes.
    fast:   quotients by a corrected reciprocal, which needs a fused multiply-add; else divisions.
    ptx:    conversions by NVIDIA's instructions; else by integers.
    """
    blocks = data.shape[-1] // BLOCK
    rows = data.numel() // data.shape[-1]
    work = _quantizer(places, rows, blocks, reciprocal, fnuz, fast, ptx, split or plan_split(blocks))
    lost = torch.zeros(2, dtype=torch.int32, device=data.device)
    launch(work, data, exponents, q, scale, lost)
    return lost


def dequantize(data: torch.Tensor, exponents: torch.Tensor, out: torch.Tensor) -> bool:
    """Return whether a product was refused, after one wait for the device; write the bf16 products."""
    return ask(_dequantizer(data.numel() // BLOCK), data, exponents, out)[0]


@lru_cache(maxsize=1024)
def _dequantizer(total: int) -> Launch:
    from mono_gen.runtime.triton_kernels.values import mxfp8_to_bf16 as kernel

    blocks = 64
    dtypes = (torch.uint8, torch.uint8, torch.int16, torch.int32)
    return planned(kernel, -(-total // blocks), dtypes, (total,), {"BLOCKS": blocks})


def cast(values: torch.Tensor, out: torch.Tensor) -> bool:
    """Return whether a value was refused, after one wait for the device; write the fp32 values as bf16."""
    return ask(_caster(values.numel()), values, out)[0]


@lru_cache(maxsize=1024)
def _caster(total: int) -> Launch:
    from mono_gen.runtime.triton_kernels.values import fp32_to_bf16 as kernel

    tile = 2048
    return planned(kernel, -(-total // tile), (torch.int32, torch.int16, torch.int32), (total,), {"TILE": tile})
