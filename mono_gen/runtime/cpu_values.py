"""Value changes on a CPU: mxfp8 products and ptpc_fp8 rows, chunk by chunk in one scratch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.products import BLOCK, bf16_bits

CHUNK_ELEMENTS = 1 << 21
"""Elements that are worked on together, in 12 MiB of scratch: threads, which meet after each operation, seldom wait."""

# Scales under which no fp8 value but zero leaves the normal range of fp32 and bf16, which both have 8 exponent bits.
LEAST_SCALE, LARGEST_SCALE = 10, 246

HALF_OVER_FP8 = 8  # an fp8_e4m3fn's bits, put into an fp16, are its value x 2^-8


@frozen
class Scratch:
    """The scratch of a call: `halves` int16 and `wide` fp32, an element each."""

    halves: torch.Tensor
    wide: torch.Tensor


def scratch_for(elements: int) -> Scratch:
    """Return scratch for a call on so many elements: of one chunk."""
    count = min(elements, max(CHUNK_ELEMENTS, BLOCK))
    halves, wide = (torch.empty(count, dtype=dtype, device="cpu") for dtype in (torch.int16, torch.float32))
    return Scratch(halves, wide)


def products(codes: torch.Tensor, exponents: torch.Tensor, scratch: Scratch) -> torch.Tensor | None:
    """Return code x 2^(exponent - 127) as fp32 [rows, k], all exact in bf16; None where a table has to say.

    Shapes: codes uint8 [rows, k], exponents uint8 [rows, k / 32]; no more elements than `scratch` has.
    Units:  None: an fp8 NaN, or a scale at which products leave the normal range or bf16's. No operand and no result is
            subnormal here but fp16's, which conversions keep under every flushing mode.
    Law:    tests/runtime/test_cpu_values.py::test_every_pair_of_code_and_scale
    """
    if not _is_plain(codes, exponents):
        return None
    halves = scratch.halves[: codes.numel()].view(codes.shape)
    halves.copy_(codes.view(torch.int8))  # the sign goes to all upper bits
    halves.mul_(1 << 7)
    halves.bitwise_and_(~0x4000)
    wide = scratch.wide[: codes.numel()].view(codes.shape)
    wide.copy_(halves.view(torch.float16))
    powers = exponents.to(torch.int32).add_(HALF_OVER_FP8).bitwise_left_shift_(23).view(torch.float32)
    wide.view(*exponents.shape, BLOCK).mul_(powers.unsqueeze(-1))
    return wide


def _is_plain(codes: torch.Tensor, exponents: torch.Tensor) -> bool:
    """Return whether no code is a NaN and every product is zero or normal."""
    if codes.amax() == 0xFF or codes.view(torch.int8).amax() == 0x7F or exponents.amax() > LARGEST_SCALE:
        return False
    if exponents.amin() >= LEAST_SCALE:
        return True
    blocks = codes.bitwise_and(0x7F).view(*exponents.shape, BLOCK).amax(-1)
    return not bool(blocks.masked_fill_(exponents >= LEAST_SCALE, 0).any())  # a block of zeros may have any scale


def wide_products(
    codes: torch.Tensor, exponents: torch.Tensor, scratch: Scratch, start: int, stop: int
) -> torch.Tensor:
    """Return columns of the products that bf16 has, as fp32, in the scratch; NaN where one is refused."""
    codes, exponents = codes[:, start:stop], exponents[:, start // BLOCK : stop // BLOCK]
    exact = products(codes, exponents, scratch)
    if exact is not None:
        return exact
    return wide_rows(bf16_bits(codes, exponents).view(torch.bfloat16), scratch, 0, stop - start)


def wide_rows(values: torch.Tensor, scratch: Scratch, start: int, stop: int) -> torch.Tensor:
    """Return columns of bf16 values as fp32, in the scratch."""
    part = values[:, start:stop]
    return scratch.wide[: part.numel()].view(part.shape).copy_(part)


def quantize_rows(
    load: Callable[[int, int], torch.Tensor], reciprocal: float, q: torch.Tensor, scale: torch.Tensor
) -> None:
    """Return nothing; write q [rows, k] and scale [rows] of fp32 rows; `load(start, stop)` gives columns of them.

    A row that is longer than a chunk is loaded twice, in parts: for its scale, then for its values.
    """
    k = q.shape[-1]
    step = k if k <= CHUNK_ELEMENTS else max(CHUNK_ELEMENTS // BLOCK, 1) * BLOCK
    parts = [(start, min(start + step, k)) for start in range(0, k, step)]
    x = load(*parts[0])
    peaks = _peaks(x)
    for part in parts[1:]:
        peaks = torch.maximum(peaks, _peaks(load(*part)))
    scale.copy_(peaks.mul_(reciprocal))
    scale.masked_fill_(scale == 0, 1.0)
    for start, stop in parts:
        x = x if len(parts) == 1 else load(start, stop)
        q[:, start:stop].copy_(x.div_(scale.unsqueeze(-1)))


def _peaks(x: torch.Tensor) -> torch.Tensor:
    """Return the largest magnitude of each row, NaN where the row holds one."""
    return torch.maximum(x.amax(dim=-1), x.amin(dim=-1).neg_())
