"""Value changes against exact fractions, brute force over the fp8 codes, and the reference formulas."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported, cpu_values
from mono_gen.runtime import products as products_module
from tests.reference import values as reference

FN, FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz


def fp8(codes: Any, dtype: torch.dtype = FN) -> torch.Tensor:
    return torch.from_numpy(np.asarray(codes, dtype=np.uint8)).view(dtype)


def e8m0(codes: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(codes, dtype=np.uint8)).view(torch.float8_e8m0fnu)


def bf16(bits: NDArray[np.uint16]) -> torch.Tensor:
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)


def bits_of(t: torch.Tensor) -> NDArray[np.uint16]:
    return t.view(torch.int16).numpy().view(np.uint16)


def codes_of(t: torch.Tensor) -> NDArray[np.uint8]:
    return t.view(torch.uint8).numpy()


def random_mxfp8(rows: int, k: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(seed)
    codes = draw.integers(0, 256, (rows, k), dtype=np.uint8)
    codes[codes & 0x7F == 0x7F] ^= 1
    return fp8(codes), e8m0(draw.integers(90, 160, (rows, k // 32), dtype=np.uint8))


@contextmanager
def flushing() -> Iterator[None]:
    """Return a context in which the CPU takes subnormals for zero, where it can."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


# --- mxfp8 -> bf16 ---


POWERS = [Fraction(2) ** n for n in range(300)]


def fraction_of(code: int) -> Fraction:
    """Return the value of an fp8_e4m3fn code that is not NaN."""
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = Fraction(8 + mantissa) * Fraction(2) ** (exponent - 10) if exponent else Fraction(mantissa, 512)
    return -magnitude if code >> 7 else magnitude


def bf16_bits(value: Fraction, negative: bool) -> int | None:
    """Return the bits of the bf16 nearest to a value, ties to even, or None past the largest."""
    magnitude = abs(value)
    top = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()  # the denominator is a power of two
    exponent = max(top, -126) if magnitude else -126
    units = magnitude * POWERS[135 - exponent] / POWERS[128]  # of 2^(exponent - 7)
    whole, rest = divmod(units.numerator, units.denominator)
    twice = Fraction(2 * rest, units.denominator)
    whole += twice > 1 or (twice == 1 and whole % 2 == 1)
    code = whole + (exponent + 126) * 128  # a carry into the exponent is what it should be
    return None if code >= 0x7F80 else code | negative << 15


def products() -> NDArray[np.int64]:
    """Return the bf16 bits of every (scale, code), -1 where it is refused."""
    table = np.full((256, 256), -1, dtype=np.int64)
    values = {code: fraction_of(code) for code in range(256) if code & 0x7F != 0x7F}
    for scale in range(255):
        power = Fraction(2) ** (scale - 127)
        for code, value in values.items():
            bits = bf16_bits(value * power, code >= 128)
            table[scale, code] = -1 if bits is None else bits
    return table


@pytest.fixture(scope="module")
def every_product() -> NDArray[np.int64]:
    return products()


@pytest.mark.parametrize("flush", [False, True])
def test_every_pair_of_code_and_scale(every_product: NDArray[np.int64], flush: bool) -> None:
    """All 65536: a block of 32 equal codes each, those that are refused left out and then refused one by one."""
    products_module.product_table.cache_clear()
    scales, codes = (axis.reshape(-1).astype(np.uint8) for axis in np.meshgrid(range(256), range(256), indexing="ij"))
    fine = every_product.reshape(-1) >= 0
    data = fp8(np.repeat(codes[fine][:, None], 32, axis=1))
    scale = e8m0(scales[fine][:, None])
    if flush:
        with flushing():
            result = runtime.dequantize_mxfp8("w", data, scale)
    else:
        result = runtime.dequantize_mxfp8("w", data, scale)
    assert (bits_of(result) == every_product.reshape(-1)[fine][:, None]).all()
    table = products_module.product_table(torch.device("cpu")).numpy().view(np.uint16)
    assert ((table == 0x7FFF) == ~fine).all()
    assert int((~fine).sum()) > 256 + 2 * 255


def test_blocks_take_their_own_scale() -> None:
    data, scale = random_mxfp8(6, 96)
    result = runtime.dequantize_mxfp8("w", data, scale)
    assert (bits_of(result) == reference.mxfp8_to_bf16(codes_of(data), codes_of(scale))).all()
    by_bytes = runtime.dequantize_mxfp8("w", data, scale.view(torch.uint8))
    assert (bits_of(by_bytes) == bits_of(result)).all()


def test_batch_axes_are_rows_of_their_own() -> None:
    data, scale = random_mxfp8(12, 64)
    whole = runtime.dequantize_mxfp8("w", data, scale)
    batched = runtime.dequantize_mxfp8("w", data.view(2, 2, 3, 64), scale.view(2, 2, 3, 2))
    assert batched.shape == (2, 2, 3, 64)
    assert (bits_of(batched).reshape(12, 64) == bits_of(whole)).all()


@pytest.mark.parametrize("codes", [0x7F, 0xFF])
def test_an_fp8_nan_is_refused_by_row_and_block(codes: int) -> None:
    data, scale = random_mxfp8(4, 96)
    data.view(torch.uint8)[2, 40] = codes
    data.view(torch.uint8)[3, 0:3] = codes
    with pytest.raises(MonoUnsupported, match=r"w: fp8 code: .*NaN .* at row 2, block 1; 2 in all") as refusal:
        runtime.dequantize_mxfp8("w", data, scale)
    assert len(refusal.value.problems) == 1


def test_a_scale_of_255_is_refused_even_over_zeros() -> None:
    data, scale = random_mxfp8(4, 96)
    scale.view(torch.uint8)[1, 2] = 255
    data.view(torch.uint8)[1, 64:] = 0
    with pytest.raises(
        MonoUnsupported, match=r"w: e8m0 scale: expected 0..254, found 255 \(NaN\) at row 1, block 2; 1 in all"
    ):
        runtime.dequantize_mxfp8("w", data, scale)


def test_a_product_past_bf16_is_refused_and_the_largest_is_not() -> None:
    data, scale = fp8(np.full((2, 64), 0x7E)), e8m0(np.full((2, 2), 246))
    assert (bits_of(runtime.dequantize_mxfp8("w", data, scale)) == 0x7F60).all()  # 448 * 2^119 = 1.75 * 2^127
    scale.view(torch.uint8)[1, 0] = 247
    with pytest.raises(MonoUnsupported, match=r"w: product: .*an overflow at row 1, block 0; 1 in all"):
        runtime.dequantize_mxfp8("w", data, scale)


def test_everything_that_is_wrong_is_said_with_its_batch_place() -> None:
    data, scale = (t.view(2, 3, -1) for t in random_mxfp8(6, 64))
    data.view(torch.uint8)[1, 2, 33] = 0x7F
    scale.view(torch.uint8)[0, 1, 0] = 255
    data.view(torch.uint8)[1, 0, 0] = 0x7E
    scale.view(torch.uint8)[1, 0, 0] = 254
    with pytest.raises(MonoUnsupported) as refusal:
        runtime.dequantize_mxfp8("w", data, scale)
    text = str(refusal.value)
    assert len(refusal.value.problems) == 3
    assert "batch axis 0 0, row 1, block 0" in text
    assert "batch axis 0 1, row 2, block 1" in text
    assert "batch axis 0 1, row 0, block 0" in text


# --- bf16 -> ptpc_fp8 ---


def nearest_code(q: np.float32, dialect: reference.Dialect) -> set[int]:
    """Return the fp8 code nearest to q, by trying them all; of two equally near, the even one."""
    table = reference.fp8_values(dialect)
    distance = np.abs(table - np.float64(q))
    best = np.flatnonzero(distance == np.nanmin(distance))
    even = [int(code) for code in best if len({int(code) & 0x7F for code in best}) == 1 or code % 2 == 0]
    return set(even)


@pytest.mark.parametrize(("dtype", "dialect"), [(FN, "fn"), (FNUZ, "fnuz")])
def test_ptpc_is_the_direct_formula(dtype: torch.dtype, dialect: reference.Dialect) -> None:
    draw = np.random.default_rng(3)
    bits = draw.integers(0, 0x7F80, (64, 48), dtype=np.uint16) | draw.integers(0, 2, (64, 48), dtype=np.uint16) << 15
    bits[:32] = bits[:32] & 0x87FF | 0x3800  # magnitudes near each other
    bits[1] = 0  # a row of zeros
    bits[2] = 0x8000  # and of negative zeros
    bits[3] &= 0x807F  # bf16 subnormals
    bits[4] = np.arange(48, dtype=np.uint16)  # the smallest of them
    bits[5] = 1
    bits[6, :] = 0
    bits[6, 7] = 0x7F7F  # the largest bf16 alone
    q, scale = runtime.quantize_ptpc_fp8("w", bf16(bits), dtype)
    want_q, want_scale = reference.bf16_to_ptpc_fp8(bits, dialect)
    assert q.dtype == dtype
    assert scale.shape == (64,)
    assert (scale.numpy().view(np.uint32) == want_scale.view(np.uint32)).all()
    assert (codes_of(q) == want_q).all()
    assert (scale[1:3] == 1).all()


@pytest.mark.parametrize(("dtype", "dialect"), [(FN, "fn"), (FNUZ, "fnuz")])
def test_ptpc_takes_the_nearest_code_by_trying_all(dtype: torch.dtype, dialect: reference.Dialect) -> None:
    """A row whose scale is a power of two, so that q runs over every multiple of 1/8 of a step: ties among them."""
    largest = reference.FP8_MAX[dialect]
    steps = np.arange(-256, 257).astype(np.float32)
    for power in (-9, -6, -3, 0):
        x = np.concatenate([steps * np.float32(2.0**power), [np.float32(largest)]]).astype(np.float32)[None]
        bits = reference.fp32_to_bf16(x)
        q, scale = runtime.quantize_ptpc_fp8("w", bf16(bits), dtype)
        quotient = reference.bf16_value(bits) / scale.numpy()[:, None]
        table = reference.fp8_values(dialect)
        for code, value in zip(codes_of(q)[0], quotient[0], strict=True):
            assert table[code] in {table[near] for near in nearest_code(value, dialect)}


def test_ties_go_to_the_even_code() -> None:
    """amax 448 makes the scale exactly fp32(1/448) * 448; where that is 1, 17 and 19 halves of a step are ties."""
    scale_of_448 = np.float32(448) * np.float32(1 / 448)
    assert scale_of_448 == 1.0
    x = np.array([[448, 17, 19, 17 * 2.0**-10, -17, 1.0625, 1.1875]], dtype=np.float32)
    q, _ = runtime.quantize_ptpc_fp8("w", bf16(reference.fp32_to_bf16(x)), FN)
    assert reference.fp8_values("fn")[codes_of(q)[0]].tolist() == [448, 16, 20, 16 * 2.0**-10, -16, 1.0, 1.25]


def test_the_scale_is_a_product_and_not_a_division() -> None:
    """More than a third of all amax differ: these are rows where amax * fp32(1/448) is not amax / 448."""
    bits = np.arange(0x3F80, 0x4000, dtype=np.uint16)[:, None].repeat(4, axis=1)
    amax = reference.bf16_value(bits)[:, 0]
    _, scale = runtime.quantize_ptpc_fp8("w", bf16(bits), FN)
    product, quotient = amax * np.float32(1 / 448), amax / np.float32(448)
    differ = product != quotient
    assert differ.sum() > 40
    assert (scale.numpy() == product).all()
    assert (scale.numpy()[differ] != quotient[differ]).all()


def test_the_quotient_is_a_division_and_not_a_product() -> None:
    """For bf16 values x / scale and x * (1 / scale) never give other fn codes; in fnuz they do, at a tie."""
    bits = np.array([[0x403E, 0x3CAB, 0xBCAB, 0]], dtype=np.uint16)
    q, scale = runtime.quantize_ptpc_fp8("w", bf16(bits), FNUZ)
    x, s = reference.bf16_value(bits), scale.numpy()[:, None]
    by_division = reference.fp32_to_fp8(x / s, "fnuz")
    by_product = reference.fp32_to_fp8(np.minimum(x * (np.float32(1) / s), np.float32(240)), "fnuz")
    assert (codes_of(q) == by_division).all()
    assert by_division[0, 1] != by_product[0, 1]


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0, 0xFFFF])
def test_a_row_that_is_not_finite_is_refused(bits: int) -> None:
    values = np.zeros((2, 3, 32), dtype=np.uint16)
    values[1, 0, 5] = values[1, 2, 1] = bits
    with pytest.raises(MonoUnsupported, match=r"w: value: .*an infinity or a NaN at batch axis 0 1, row 0; 2 in all"):
        runtime.quantize_ptpc_fp8("w", bf16(values), FN)


# --- mxfp8 -> ptpc_fp8 ---


@pytest.mark.parametrize(("dtype", "dialect"), [(FN, "fn"), (FNUZ, "fnuz")])
def test_mxfp8_to_ptpc_is_both_steps(dtype: torch.dtype, dialect: reference.Dialect) -> None:
    data, scale = random_mxfp8(33, 96)
    q, s = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=dtype)
    want_q, want_s = reference.mxfp8_to_ptpc_fp8(codes_of(data), codes_of(scale), dialect)
    assert (codes_of(q) == want_q).all()
    assert (s.numpy() == want_s).all()
    two_q, two_s = runtime.quantize_ptpc_fp8("w", runtime.dequantize_mxfp8("w", data, scale), dtype)
    assert (codes_of(two_q) == codes_of(q)).all()
    assert (two_s == s).all()


def test_chunks_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    data, scale = random_mxfp8(33, 96)
    whole = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    wide = runtime.dequantize_mxfp8("w", data, scale)
    fp32 = wide.float() * 1.001
    cast = runtime.cast_bf16("w", fp32)
    monkeypatch.setattr(cpu_values, "CHUNK_ELEMENTS", 200)
    parts = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    assert (codes_of(whole[0]) == codes_of(parts[0])).all()
    assert (whole[1] == parts[1]).all()
    assert (bits_of(runtime.dequantize_mxfp8("w", data, scale)) == bits_of(wide)).all()
    assert (bits_of(runtime.cast_bf16("w", fp32)) == bits_of(cast)).all()
    data.view(torch.uint8)[0, 1] = 0x7F  # in the first chunk, not in the last
    with pytest.raises(MonoUnsupported, match="row 0, block 0"):
        runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    with pytest.raises(MonoUnsupported, match="row 0, block 0"):
        runtime.dequantize_mxfp8("w", data, scale)
    fp32[0, 0] = torch.inf
    with pytest.raises(MonoUnsupported, match="row 0, k 0"):
        runtime.cast_bf16("w", fp32)


def test_out_is_kept_and_returned() -> None:
    data, scale = random_mxfp8(6, 64)
    out = torch.zeros(6, 64, dtype=torch.uint8).view(FN), torch.zeros(6)
    pointers = [t.data_ptr() for t in out]
    returned = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN, out=out)
    fresh = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    assert returned is out
    assert [t.data_ptr() for t in out] == pointers
    assert (codes_of(out[0]) == codes_of(fresh[0])).all()
    assert (out[1] == fresh[1]).all()


@pytest.mark.parametrize(
    ("q", "scale", "text"),
    [
        (torch.zeros(6, 64, dtype=torch.uint8), torch.zeros(6), "out: dtype: expected float8_e4m3fn"),
        (torch.zeros(6, 32, dtype=torch.uint8).view(FN), torch.zeros(6), "out: shape"),
        (torch.zeros(6, 64, dtype=torch.uint8).view(FN), torch.zeros(6, 1), "out: shape"),
        (torch.zeros(6, 64, dtype=torch.uint8).view(FN), torch.zeros(6, dtype=torch.bfloat16), "out: dtype"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(q: torch.Tensor, scale: torch.Tensor, text: str) -> None:
    with pytest.raises(MonoUnsupported, match=text):
        runtime.mxfp8_to_ptpc_fp8("w", *random_mxfp8(6, 64), dtype=FN, out=(q, scale))


def test_out_over_the_source_is_refused() -> None:
    data, scale = random_mxfp8(6, 64)
    with pytest.raises(MonoUnsupported, match="out: memory"):
        runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN, out=(data, torch.zeros(6)))


# --- fp32 -> bf16 ---


@pytest.mark.parametrize("flush", [False, True])
def test_cast_is_to_nearest_even_with_subnormals(flush: bool) -> None:
    draw = np.random.default_rng(7)
    bits = draw.integers(0, 0x7F7F8000, 4096, dtype=np.uint32) | draw.integers(0, 2, 4096, dtype=np.uint32) << 31
    ties = (np.arange(0, 0x7F7F, 61, dtype=np.uint32) << 16) + 0x8000
    edges = np.array(
        [0, 1, 0x80000000, 0x80000001, 0x7FFFFF, 0x7FFF, 0x8000, 0x8001, 0x18000, 0x7F7F7FFF], dtype=np.uint32
    )
    all_bits = np.concatenate([bits, ties, ties + 1, ties - 1, edges])
    values = torch.from_numpy(all_bits.view(np.float32).copy())
    if flush:
        with flushing():
            result = runtime.cast_bf16("gate", values)
    else:
        result = runtime.cast_bf16("gate", values)
    assert (bits_of(result) == reference.fp32_to_bf16(all_bits.view(np.float32))).all()


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x7F7F8000, "one that would become infinite"),
        (0xFF7FFFFF, "one that would become infinite"),
        (0x7F800000, "an infinity"),
        (0xFF800000, "an infinity"),
        (0x7F800001, "a NaN"),
        (0x7FFFFFFF, "a NaN"),
        (0xFFFFFFFF, "a NaN"),
    ],
)
def test_a_value_that_bf16_does_not_hold_is_refused(bits: int, text: str) -> None:
    values = torch.zeros(3, 4)
    values.view(torch.int32)[1, 2] = struct.unpack("<i", struct.pack("<I", bits))[0]
    with pytest.raises(MonoUnsupported, match=rf"gate: value: .*{text} at row 1, k 2; 1 in all") as refusal:
        runtime.cast_bf16("gate", values)
    assert len(refusal.value.problems) == 1


def test_a_vector_may_be_cast() -> None:
    assert runtime.cast_bf16("bias", torch.tensor([1.0, -2.5])).tolist() == [1.0, -2.5]


# --- fn -> fnuz ---


def test_fn_to_fnuz_keeps_bytes_and_values() -> None:
    codes = np.array([code for code in range(256) if code & 0x7F != 0x7F], dtype=np.uint8).reshape(2, 127)
    scale = np.array([0.5, 3.0], dtype=np.float32)
    data, doubled = runtime.fn_to_fnuz("w", fp8(codes), torch.from_numpy(scale))
    assert data.dtype == FNUZ
    assert (codes_of(data) == np.where(codes == 0x80, 0, codes)).all()
    before = reference.fp8_values("fn")[codes] * scale[:, None]
    after = reference.fp8_values("fnuz")[codes_of(data)] * doubled.numpy()[:, None]
    assert (before == after).all()


def test_fn_to_fnuz_adds_one_to_block_exponents() -> None:
    data, scale = runtime.fn_to_fnuz("w", fp8([[0x7E, 0x80, 0x38] + [0] * 29]), e8m0([[253]]))
    assert codes_of(data)[0, :3].tolist() == [0x7E, 0x00, 0x38]
    assert scale.dtype == torch.float8_e8m0fnu
    assert codes_of(scale).tolist() == [[254]]


@pytest.mark.parametrize(
    ("code", "scale", "text"),
    [
        (0x7F, torch.ones(2), "fp8 code: .*row 1, k 3; 1 in all"),
        (0xFF, torch.ones(2), "fp8 code: .*row 1, k 3; 1 in all"),
        (0, torch.tensor([1.0, 3e38]), "scale: .*row 1; 1 in all"),
        (0, torch.tensor([1.0, torch.nan]), "scale: .*row 1; 1 in all"),
        (0, e8m0([[1], [254]]), "e8m0 scale: .*row 1, block 0; 1 in all"),
        (0, e8m0([[1], [255]]), "e8m0 scale: .*row 1, block 0; 1 in all"),
    ],
)
def test_fn_to_fnuz_refuses_what_has_no_double(code: int, scale: torch.Tensor, text: str) -> None:
    codes = np.zeros((2, 32), dtype=np.uint8)
    codes[1, 3] = code
    with pytest.raises(MonoUnsupported, match=f"w: {text}"):
        runtime.fn_to_fnuz("w", fp8(codes), scale)


# --- what is no mxfp8, no matrix, no target ---

DATA, SCALE = random_mxfp8(4, 64)
SHAPES = [
    (DATA.view(torch.uint8), SCALE, "w: dtype: expected float8_e4m3fn, found uint8"),
    (DATA.view(FNUZ), SCALE, "w: dtype: expected float8_e4m3fn, found float8_e4m3fnuz"),
    (DATA, SCALE.view(torch.int8), "w scale: dtype: expected float8_e8m0fnu or uint8, found int8"),
    (DATA, SCALE[:, :1].contiguous(), "w scale: shape: expected 4 x 2 elements, found 4 x 1 elements"),
    (DATA, SCALE.view(-1), "w scale: shape: expected 4 x 2 elements, found 8 elements"),
    (DATA, SCALE.view(2, 4), "w scale: shape"),
    (DATA[:, :48].contiguous(), SCALE[:, :1].contiguous(), "w: size: expected k % 32 == 0, found k = 48"),
    (DATA.t(), SCALE, "w: strides"),
    (DATA, torch.zeros(2, 4, dtype=torch.uint8).t(), "w scale: strides"),
    (DATA[0], SCALE[0], "w: rank: expected at least 2 axes"),
    (DATA.to("meta"), SCALE, "w: kind"),
]


@pytest.mark.parametrize(("data", "scale", "text"), SHAPES)
def test_what_is_not_mxfp8_is_refused(data: torch.Tensor, scale: torch.Tensor, text: str) -> None:
    with pytest.raises(MonoUnsupported, match=text):
        runtime.dequantize_mxfp8("w", data, scale)
    with pytest.raises(MonoUnsupported, match=text):
        runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)


def test_other_wrong_inputs_are_refused() -> None:
    with pytest.raises(MonoUnsupported, match="w: dtype: expected bfloat16, found float32"):
        runtime.quantize_ptpc_fp8("w", torch.zeros(2, 3), FN)
    with pytest.raises(
        MonoUnsupported, match="w: target dtype: expected float8_e4m3fn or float8_e4m3fnuz, found float8_e5m2"
    ):
        runtime.quantize_ptpc_fp8("w", torch.zeros(2, 3, dtype=torch.bfloat16), torch.float8_e5m2)
    with pytest.raises(MonoUnsupported, match="w: target dtype"):
        runtime.mxfp8_to_ptpc_fp8("w", DATA, SCALE, dtype=torch.bfloat16)
    with pytest.raises(MonoUnsupported, match="gate: dtype: expected float32, found float64"):
        runtime.cast_bf16("gate", torch.zeros(2, dtype=torch.float64))
    with pytest.raises(MonoUnsupported, match="gate: rank: expected at least 1 axis"):
        runtime.cast_bf16("gate", torch.zeros(()))
    with pytest.raises(MonoUnsupported, match="w: dtype: expected float8_e4m3fn, found float8_e4m3fnuz"):
        runtime.fn_to_fnuz("w", DATA.view(FNUZ), torch.ones(4))
    with pytest.raises(MonoUnsupported, match="dtype: expected float32 or float8_e8m0fnu or uint8, found bfloat16"):
        runtime.fn_to_fnuz("w", DATA, torch.ones(4, 2, dtype=torch.bfloat16))
    with pytest.raises(MonoUnsupported, match="found an object of type list"):
        runtime.dequantize_mxfp8("w", [1, 2], SCALE)  # type: ignore[arg-type]
    with pytest.raises(MonoUnsupported, match="w scale: shape: expected 4 elements, found 4 x 1 elements"):
        runtime.fn_to_fnuz("w", DATA, torch.ones(4, 1))


def test_sources_are_not_written() -> None:
    data, scale = random_mxfp8(6, 64)
    before = codes_of(data).copy(), codes_of(scale).copy()
    runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    runtime.fn_to_fnuz("w", data, scale)
    values = torch.nn.Parameter(torch.randn(4, 8))
    kept = values.detach().clone()
    assert not runtime.cast_bf16("g", values).requires_grad
    assert (codes_of(data) == before[0]).all()
    assert (codes_of(scale) == before[1]).all()
    assert (values == kept).all()


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device."""

    device = torch.device("cuda", 1)  # type: ignore[assignment]


def test_a_scale_on_another_device() -> None:
    data = torch.zeros(2, 32, dtype=torch.uint8).view(torch.float8_e4m3fn)
    scale = torch.full((2, 1), 127, dtype=torch.uint8).as_subclass(Elsewhere)
    with pytest.raises(MonoUnsupported, match="w scale: device: expected cpu, found cuda:1"):
        runtime.dequantize_mxfp8("w", data, scale)
