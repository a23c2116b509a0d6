"""Value changes on a GPU: what each Triton kernel is launched with. Checks stand in numerics.py, which calls these."""

from __future__ import annotations

import math

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.boxes import times
from mono_gen.runtime.gpu import converts_fp8, on_device_of
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

    Shapes: as of mxfp8_to_ptpc; `q` in the order of the storage of one batch item.
    """
    rows, k = data.shape[-2:]
    batch = data.numel() // (rows * k)
    places = plan_places(batch, (rows, k), storage.padded, storage.view, storage.permute)
    starts = (n for t in (data, q) for n in (t.data_ptr(), t.storage_offset()))
    if places is None or any(n % WORD for n in starts) or batch * rows >= 1 << 31:
        return None
    fnuz = q.dtype is torch.float8_e4m3fnuz
    ptx = not fnuz and converts_fp8(data.device)
    found = mxfp8_to_ptpc(data, exponents, q, scale, places, reciprocal, fnuz=fnuz, fast=True, ptx=ptx)
    refused, slow = found.tolist()
    if slow and not refused:
        mxfp8_to_ptpc(data, exponents, q, scale, places, reciprocal, fnuz=fnuz, fast=False, ptx=ptx)
    return bool(refused)


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
    from mono_gen.runtime.triton_kernels.values import mxfp8_to_ptpc as kernel

    blocks = data.shape[-1] // BLOCK
    rows = data.numel() // data.shape[-1]
    split = split or plan_split(blocks)
    lost = torch.zeros(2, dtype=torch.int32, device=data.device)
    with on_device_of(data):
        kernel[(-(-rows // split.rows),)](
            data.view(-1).view(torch.int32),
            exponents.view(-1).view(torch.uint8),
            q.view(-1).view(torch.int32),
            scale.view(-1),
            lost,
            rows,
            blocks,
            tuple(n // m for n, m in zip(places.rows.strides, times(places.rows.strides), strict=True)),
            tuple(n // m for n, m in zip(places.units.strides, times(places.units.strides), strict=True)),
            reciprocal,
            ROWS=split.rows,
            BLOCKS=split.blocks,
            CHUNKS=split.chunks,
            UNIT=places.unit,
            ROW_SIZES=places.rows.sizes,
            ROW_INNER=places.rows.inner,
            ROW_TIMES=times(places.rows.strides),
            UNIT_SIZES=places.units.sizes,
            UNIT_INNER=places.units.inner,
            UNIT_TIMES=times(places.units.strides),
            ROWS_INSIDE=places.rows_inside,
            MASKED=rows % split.rows != 0 or blocks % split.blocks != 0,
            FAST=fast,
            PTX=ptx,
            FNUZ=fnuz,
            num_warps=split.warps,
        )
    return lost


def dequantize(data: torch.Tensor, exponents: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return whether a product was refused, as a tensor on the device; write the bf16 products."""
    from mono_gen.runtime.triton_kernels.values import mxfp8_to_bf16 as kernel

    lost = torch.zeros((), dtype=torch.int32, device=data.device)
    total, blocks = data.numel() // BLOCK, 64
    with on_device_of(data):
        kernel[(-(-total // blocks),)](
            data.view(-1).view(torch.uint8),
            exponents.view(-1).view(torch.uint8),
            out.view(-1).view(torch.int16),
            lost,
            total,
            BLOCKS=blocks,
        )
    return lost


def cast(values: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return whether a value was refused, as a tensor on the device; write the fp32 values as bf16."""
    from mono_gen.runtime.triton_kernels.values import fp32_to_bf16 as kernel

    lost = torch.zeros((), dtype=torch.int32, device=values.device)
    total, tile = values.numel(), 2048
    with on_device_of(values):
        kernel[(math.ceil(total / tile),)](
            values.view(-1).view(torch.int32), out.view(-1).view(torch.int16), lost, total, TILE=tile
        )
    return lost
