"""Products and rows on a CPU: against exact fractions, where a table has the rest, rows of any length, the scratch."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported, cpu_values
from tests.reference import values as reference
from tests.runtime.test_numerics import FN, FNUZ, bf16, bits_of, codes_of, e8m0, flushing, fp8, products, random_mxfp8
from tools.bench.cpu_convert import peak_bytes

every_product = cache(products)


def exactly(codes: np.ndarray, scales: np.ndarray) -> torch.Tensor | None:
    """Return the products as bf16 where no table is asked, else None."""
    scratch = cpu_values.scratch_for(codes.size)
    wide = cpu_values.products(torch.from_numpy(codes), torch.from_numpy(scales), scratch)
    return None if wide is None else wide.to(torch.bfloat16)


@pytest.mark.parametrize("flush", [False, True])
def test_every_pair_of_code_and_scale(flush: bool) -> None:
    """All codes but the NaNs under all scales that are not left to the table, against fractions."""
    numbers = np.array([code for code in range(256) if code & 0x7F != 0x7F], dtype=np.uint8)
    scales = np.arange(cpu_values.LEAST_SCALE, cpu_values.LARGEST_SCALE + 1, dtype=np.uint8)
    codes = np.repeat(np.tile(numbers, len(scales)), 32).reshape(-1, 32)
    powers = np.repeat(scales, len(numbers)).reshape(-1, 1)
    if flush:
        with flushing():
            made = exactly(codes, powers)
    else:
        made = exactly(codes, powers)
    assert made is not None
    want = every_product()[powers[:, 0], codes[:, 0]]
    assert (want >= 0).all()
    assert (bits_of(made) == want[:, None]).all()


@pytest.mark.parametrize("scale", [0, 9, 10, 246, 247, 254, 255])
@pytest.mark.parametrize("code", [0x00, 0x80, 0x01, 0x7E, 0xFE, 0x7F, 0xFF])
def test_the_table_has_the_rest(code: int, scale: int) -> None:
    """One block of a code beside plain ones, under each scale at a limit."""
    codes, scales = np.full((2, 96), 0x38, dtype=np.uint8), np.full((2, 3), 127, dtype=np.uint8)
    codes[1, 32:64], scales[1, 1] = code, scale
    is_zero, is_nan = code & 0x7F == 0, code & 0x7F == 0x7F
    is_exact = not is_nan and scale <= 246 and (scale >= 10 or is_zero)
    assert (exactly(codes, scales) is not None) == is_exact
    want = int(every_product()[scale, code])
    data = fp8(codes), e8m0(scales)
    if want < 0:
        for call in (runtime.dequantize_mxfp8, lambda *a: runtime.mxfp8_to_ptpc_fp8(*a, dtype=FN)):
            with pytest.raises(MonoUnsupported, match="row 1, block 1; 1 in all"):
                call("w", *data)
        return
    made = bits_of(runtime.dequantize_mxfp8("w", *data))
    assert (made[1, 32:64] == want).all()
    made[1, 32:64] = 0x3F80
    assert (made == 0x3F80).all()


@pytest.mark.parametrize("dtype", [FN, FNUZ])
@pytest.mark.parametrize("chunk", [1, 32, 100, 5000])
def test_rows_longer_than_a_chunk(chunk: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in parts, their largest value in the first, a middle and the last one; a part that the table has."""
    monkeypatch.setattr(cpu_values, "CHUNK_ELEMENTS", chunk)
    data, scale = random_mxfp8(3, 320)
    scale.view(torch.uint8)[:, :] = 100
    for row, block in enumerate((0, 5, 9)):
        scale.view(torch.uint8)[row, block] = 130
    scale.view(torch.uint8)[0, 7] = 3
    q, s = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=dtype)
    want_q, want_s = reference.mxfp8_to_ptpc_fp8(codes_of(data), codes_of(scale), "fn" if dtype is FN else "fnuz")
    assert (codes_of(q) == want_q).all()
    assert (s.numpy() == want_s).all()
    wide = runtime.dequantize_mxfp8("w", data, scale)
    assert (bits_of(wide) == reference.mxfp8_to_bf16(codes_of(data), codes_of(scale))).all()
    again = runtime.quantize_ptpc_fp8("w", wide[:, :317].contiguous(), dtype)
    want = reference.bf16_to_ptpc_fp8(bits_of(wide)[:, :317], "fn" if dtype is FN else "fnuz")
    assert (codes_of(again[0]) == want[0]).all()
    assert (again[1].numpy() == want[1]).all()


@pytest.mark.parametrize("chunk", [32, 1 << 21])
def test_zeros_of_both_signs_under_any_scale(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_values, "CHUNK_ELEMENTS", chunk)
    codes = np.zeros((3, 64), dtype=np.uint8)
    codes[1:, ::2] = 0x80
    codes[2, 40] = 0x38
    scales = np.array([[0, 254], [1, 120], [0, 127]], dtype=np.uint8)
    q, s = runtime.mxfp8_to_ptpc_fp8("w", fp8(codes), e8m0(scales), dtype=FN)
    want_q, want_s = reference.mxfp8_to_ptpc_fp8(codes, scales, "fn")
    assert (codes_of(q) == want_q).all()
    assert (s.numpy() == want_s).all()
    assert s[:2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("shape", [(2048, 8192), (1, 1 << 24)])
def test_scratch_is_bounded(shape: tuple[int, int]) -> None:
    """An fp32 copy alone would take 64 MiB. A row may be the whole tensor."""
    rows, k = shape
    codes = torch.full(shape, 0x38, dtype=torch.uint8)
    data, scale = codes.view(FN), torch.full((rows, k // 32), 120, dtype=torch.uint8)
    out = torch.zeros_like(codes).view(FN), torch.zeros(rows)
    assert peak_bytes(lambda: runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN, out=out)) < 32 << 20
    wide = runtime.dequantize_mxfp8("w", data, scale)
    assert peak_bytes(lambda: runtime.dequantize_mxfp8("w", data, scale)) - wide.nbytes < 32 << 20
    assert peak_bytes(lambda: runtime.quantize_ptpc_fp8("w", wide, FN)) - codes.nbytes < 32 << 20


def test_scratch_is_bounded_where_the_table_is_asked() -> None:
    codes = torch.full((2048, 8192), 0x38, dtype=torch.uint8)
    data, scale = codes.view(FN), torch.full((2048, 256), 2, dtype=torch.uint8)
    out = torch.zeros_like(codes).view(FN), torch.zeros(2048)
    assert peak_bytes(lambda: runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN, out=out)) < 64 << 20
    codes[2047, 8191] = 0x7F

    def refused() -> None:
        with pytest.raises(MonoUnsupported, match="row 2047, block 255; 1 in all"):
            runtime.dequantize_mxfp8("w", data, scale)

    assert peak_bytes(refused) - 2 * codes.nbytes < 64 << 20  # the bf16 values that were on their way


def test_a_cast_is_bounded() -> None:
    values = torch.full((1 << 24,), 1.1)
    assert peak_bytes(lambda: runtime.cast_bf16("g", values)) - values.nbytes // 2 < 64 << 20


def test_rows_of_bf16_that_are_not_finite_are_counted() -> None:
    values = np.zeros((4, 64), dtype=np.uint16)
    values[1, 3], values[3, 60] = 0x7FC0, 0xFF80
    with pytest.raises(MonoUnsupported, match=r"an infinity or a NaN at row 1; 2 in all"):
        runtime.quantize_ptpc_fp8("w", bf16(values), FN)
