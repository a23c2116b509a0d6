"""What the bytes mean and how values change format: from the definitions, in integers and float64, without torch."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Bf16 = NDArray[np.uint16]  # the bits of bf16 values
Dialect = Literal["fn", "fnuz"]

FP8_MAX: dict[Dialect, int] = {"fn": 448, "fnuz": 240}
_BIAS: dict[Dialect, int] = {"fn": 7, "fnuz": 8}


def e8m0_value(code: Any) -> NDArray[np.float64]:
    """Return 2^(code - 127); 255 is NaN."""
    code = np.asarray(code, dtype=np.int64)
    return np.where(code == 255, np.nan, np.ldexp(1.0, code - 127))


@cache
def fp8_values(dialect: Dialect = "fn") -> NDArray[np.float64]:
    """Return the 256 values of e4m3 codes: exponent 0 is subnormal; NaN is 0x7F and 0xFF (fn), 0x80 alone (fnuz)."""
    values = np.empty(256, dtype=np.float64)
    bias = _BIAS[dialect]
    for code in range(256):
        sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
        magnitude = mantissa * 2.0 ** (-2 - bias) if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 3 - bias)
        is_nan = code & 0x7F == 0x7F if dialect == "fn" else code == 0x80
        values[code] = np.nan if is_nan else -magnitude if sign else magnitude
    return values


def bf16_value(bits: Bf16) -> NDArray[np.float32]:
    """Return the fp32 value of bf16 bits: the upper half of an fp32."""
    values: NDArray[np.float32] = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values


def fp32_to_bf16(values: NDArray[np.float32]) -> Bf16:
    """Return the bf16 bits nearest to fp32 values, ties to even, subnormals kept; the values are not NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    rounded: Bf16 = ((bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(
        np.uint16
    )
    return rounded


def fp32_to_fp8(values: NDArray[np.float32], dialect: Dialect = "fn") -> Bytes:
    """Return the e4m3 codes nearest to fp32 values, ties to even; |values| round to at most the dialect's maximum.

    In fnuz a negative value that rounds to zero is 0x00: there is no negative zero.
    """
    bias = _BIAS[dialect]
    bits = np.ascontiguousarray(values).view(np.uint32)
    magnitude = (bits & np.uint32(0x7FFFFFFF)).astype(np.int64)
    normal = (magnitude + 0x7FFFF + (magnitude >> 20 & 1) >> 20) - ((127 - bias) << 3)  # 3 of the 23 bits stay
    steps = np.rint(np.ldexp(np.abs(values).astype(np.float64), 2 + bias)).astype(np.int64)
    code = np.where(magnitude < (128 - bias) << 23, steps, normal)  # below the smallest normal, whole subnormal steps
    largest = 0x7E if dialect == "fn" else 0x7F
    assert int(code.max(initial=0)) <= largest, "a value past the dialect's maximum"
    sign = (bits >> np.uint32(24) & np.uint32(0x80)).astype(np.int64)
    if dialect == "fnuz":
        sign = np.where(code == 0, 0, sign)
    codes: Bytes = (code | sign).astype(np.uint8)
    return codes


def refused_blocks(data: Bytes, scale: Bytes) -> NDArray[np.bool_]:
    """Return the blocks that cannot be dequantized: scale 255, an fp8 NaN, a product past bf16's range."""
    product = np.abs(_products(data, scale)).reshape(*scale.shape, 32)
    largest = float(bf16_value(np.array([0x7F7F], dtype=np.uint16))[0])
    refused: NDArray[np.bool_] = np.any(~(product <= largest), axis=-1)
    return refused


def mxfp8_to_bf16(data: Bytes, scale: Bytes) -> Bf16:
    """Return the bf16 bits of fp8_e4m3fn[..., k] times 2^(e8m0 - 127) per 32 consecutive k.

    Four significant bits at a multiple of 2^-136 are exact in fp32, so there is one rounding at most.
    """
    return fp32_to_bf16(_products(data, scale).astype(np.float32))


def bf16_to_ptpc_fp8(bits: Bf16, dialect: Dialect = "fn") -> tuple[Bytes, NDArray[np.float32]]:
    """Return fp8 codes and the fp32 scale a row: q = x / scale, scale = amax * fp32(1 / max), 1 for zeros."""
    x = bf16_value(bits)
    amax = np.abs(x).max(axis=-1)
    reciprocal = np.float32(1) / np.float32(FP8_MAX[dialect])
    scale = np.where(amax == 0, np.float32(1), amax * reciprocal).astype(np.float32)
    return fp32_to_fp8(x / scale[..., None], dialect), scale


def mxfp8_to_ptpc_fp8(data: Bytes, scale: Bytes, dialect: Dialect = "fn") -> tuple[Bytes, NDArray[np.float32]]:
    """Return (fp8 codes, fp32 scale a row) of MXFP8 data by way of bf16, some rows at a time.

    Shapes:  data (rows, k), scale (rows, k / 32) -> (rows, k), (rows,)
    """
    codes, scales = np.empty_like(data), np.empty(len(data), dtype=np.float32)
    for begin in range(0, len(data), 128):
        rows = slice(begin, begin + 128)
        codes[rows], scales[rows] = bf16_to_ptpc_fp8(mxfp8_to_bf16(data[rows], scale[rows]), dialect)
    return codes, scales


def _products(data: Bytes, scale: Bytes) -> NDArray[np.float64]:
    """Return the exact products of MXFP8 data and scale."""
    values = fp8_values()[data].reshape(*scale.shape, 32)
    return (values * e8m0_value(scale)[..., None]).reshape(data.shape)
