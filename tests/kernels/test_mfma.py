"""The model of the matrix instructions against numpy in float64, with the vendor's facts as closed formulas."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen.operands import ROWS, OperandRow, maps_header
from tests.kernels.executor import load_library, write_maps

SOURCE = "mfma_cases.cpp"
Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]
FP8, FP4 = 0, 4  # cbsz and blgp
SELECTS = (0, 1, 2, 3)


# --- a second witness of the maps: [lane, element] of every (row, k), and lanes of scales and results ---


def dense(k: int) -> tuple[int, int]:
    """Return the lane group and the element that hold k: 16x16x32. AMD's matrix instruction calculator."""
    return k // 8, k % 8


def scaled_fp8(k: int) -> tuple[int, int]:
    """Return the same for 16x16x128 fp8: 16g..16g+15 in registers 0-3, and 64 more in 4-7. CK's mx_mfma_op."""
    return k % 64 // 16, k // 64 * 16 + k % 16


def scaled_fp4(k: int) -> tuple[int, int]:
    """Return the same for 16x16x128 fp4: 32g..32g+31, low nibble first. CK's mx_mfma_op."""
    return k // 32, k % 32


def in_lanes(codes: Bytes | NDArray[np.uint16], of_k: Callable[[int], tuple[int, int]]) -> NDArray[np.uint16]:
    """Return the elements [lane, element] of an operand's codes [row, k]."""
    out = np.zeros((64, codes.shape[1] // 4), dtype=np.uint16)
    for i, k in np.ndindex(*codes.shape):
        group, element = of_k(k)
        out[16 * group + i, element] = codes[i, k]
    return out


def registers(elements: NDArray[np.uint16], bits: int) -> NDArray[np.uint32]:
    """Return 32-bit registers [lane, n], element 0 in the lowest bits."""
    out = np.zeros((64, elements.shape[1] * bits // 32), dtype=np.uint32)
    for e in range(elements.shape[1]):
        out[:, e * bits // 32] |= elements[:, e].astype(np.uint32) << np.uint32(e * bits % 32)
    return out


def scale_words(scales: Bytes, select: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Return a dword a lane: byte `select` of lane 16*b + i is the scale of row i, block b; the others are noise."""
    words = rng.integers(0, 1 << 32, 64, dtype=np.uint32) & ~np.uint32(255 << 8 * select)
    return words | scales.T.reshape(64).astype(np.uint32) << np.uint32(8 * select)


def tile(d: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return D[row, column] of accumulators [lane, register]: D[i][j] is in lane 16*(i/4) + j, register i%4."""
    return d.reshape(4, 16, 4).transpose(0, 2, 1).reshape(16, 16)


def untile(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(values.reshape(4, 4, 16).transpose(0, 2, 1).reshape(64, 4))


# --- values of codes, by torch and by the OCP's table ---


def of_fp8(codes: Bytes) -> Array:
    return torch.from_numpy(codes).view(torch.float8_e4m3fn).double().numpy()


def of_fp4(codes: Bytes) -> Array:
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes % 8] * np.where(codes >= 8, -1.0, 1.0)


def of_bf16(codes: NDArray[np.uint16]) -> Array:
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def of_e8m0(codes: Bytes) -> Array:
    return np.where(codes == 255, np.nan, np.exp2(codes.astype(np.float64) - 127))


VALUES = {FP8: of_fp8, FP4: of_fp4}
BITS = {FP8: 8, FP4: 4}
MAPS = {FP8: scaled_fp8, FP4: scaled_fp4}


def expected(
    a: Array, b: Array, d: NDArray[np.float32], scales: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """Return d + a b.T, each block of 32 scaled, and the sum of the absolute values of all that was added up."""
    exact, size = d.astype(np.float64), np.abs(d).astype(np.float64)
    for block in range(a.shape[1] // 32):
        of_a, of_b = a[:, block * 32 :][:, :32], b[:, block * 32 :][:, :32]
        scale = np.outer(scales[0][:, block], scales[1][:, block]) if scales is not None else np.ones((16, 16))
        exact, size = exact + of_a @ of_b.T * scale, size + np.abs(of_a) @ np.abs(of_b.T) * scale
    return exact, size


def agree(found: NDArray[np.float32], exact: Array, size: Array) -> bool:
    """Return whether each number is NaN where it must be, and else what float sums of 32 products may give."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = 34 * 2.0**-24 * size + 2.0**-149
        low, high = (exact - spread).astype(np.float32), (exact + spread).astype(np.float32)
        return bool(((low <= found) & (found <= high) | np.isnan(exact) & np.isnan(found)).all())


# --- calls ---


class Instructions:
    """The instructions of a library that was made with some maps."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def fp8(self, a: Bytes, b: Bytes, d: NDArray[np.float32]) -> NDArray[np.float32]:
        regs = [registers(in_lanes(x, dense), 8) for x in (a, b)]
        return self._call("fp8_dense", (), regs, d, [])

    def bf16(self, a: NDArray[np.uint16], b: NDArray[np.uint16], d: NDArray[np.float32]) -> NDArray[np.float32]:
        regs = [registers(in_lanes(x, dense), 16) for x in (a, b)]
        return self._call("bf16_dense", (), regs, d, [])

    def scaled(self, kinds: tuple[int, int], selects: tuple[int, int], a: Bytes, b: Bytes, d: NDArray[np.float32],
               scale_a: Bytes, scale_b: Bytes) -> NDArray[np.float32]:  # fmt: skip
        rng = np.random.default_rng(99)
        regs = [registers(in_lanes(x, MAPS[kind]), BITS[kind]) for x, kind in zip((a, b), kinds, strict=True)]
        words = [scale_words(s, select, rng) for s, select in zip((scale_a, scale_b), selects, strict=True)]
        return self._call("scaled", (*kinds, *selects), regs, d, words)

    def _call(self, name: str, codes: tuple[int, ...], regs: list[NDArray[np.uint32]], d: NDArray[np.float32],
              scales: list[NDArray[np.uint32]]) -> NDArray[np.float32]:  # fmt: skip
        out = untile(d.astype(np.float32))
        call = getattr(self.library, name)
        call.restype = ctypes.c_bool
        assert call(*codes, *(x.ctypes.data_as(ctypes.c_void_p) for x in (*regs, out, *scales)))
        return tile(out)


@pytest.fixture(scope="module")
def instructions(tmp_path_factory: pytest.TempPathFactory) -> Instructions:
    """Return the instructions with the maps of the operand table."""
    return Instructions(load_library(SOURCE, write_maps(tmp_path_factory.mktemp("mfma"))))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def codes_of(kind: int, rng: np.random.Generator, k: int = 128) -> Bytes:
    """Return random codes [16, k] of all finite values."""
    codes = rng.integers(0, 256 if kind == FP8 else 16, (16, k), dtype=np.uint8)
    return np.where((kind == FP8) & (codes % 128 == 127), codes - 1, codes).astype(np.uint8)


def start(rng: np.random.Generator) -> NDArray[np.float32]:
    return (rng.standard_normal((16, 16)) * 1000).astype(np.float32)


# --- numbers ---


def test_fp8(instructions: Instructions, rng: np.random.Generator) -> None:
    for _ in range(20):
        a, b, d = codes_of(FP8, rng, 32), codes_of(FP8, rng, 32), start(rng)
        assert agree(instructions.fp8(a, b, d), *expected(of_fp8(a), of_fp8(b), d))


def test_bf16(instructions: Instructions, rng: np.random.Generator) -> None:
    for power in (0, 20, -20):
        a, b = ((rng.standard_normal((16, 32)) * 2.0**power).astype(np.float32) for _ in range(2))
        a, b = ((x.view(np.uint32) >> np.uint32(16)).astype(np.uint16) for x in (a, b))
        d = start(rng)
        assert agree(instructions.bf16(a, b, d), *expected(of_bf16(a), of_bf16(b), d))


@pytest.mark.parametrize("kinds", list(product((FP8, FP4), repeat=2)), ids=["fp8-fp8", "fp8-fp4", "fp4-fp8", "fp4-fp4"])
@pytest.mark.parametrize("low_high", [(110, 140), (0, 255), (0, 2), (253, 255), (127, 128)])
def test_scaled_with_every_byte(
    kinds: tuple[int, int], low_high: tuple[int, int], instructions: Instructions, rng: np.random.Generator
) -> None:
    for selects in product(SELECTS, repeat=2):
        a, b, d = codes_of(kinds[0], rng), codes_of(kinds[1], rng), start(rng)
        scales = [rng.integers(*low_high, (16, 4), dtype=np.uint8) for _ in range(2)]
        found = instructions.scaled(kinds, selects, a, b, d, *scales)
        values = VALUES[kinds[0]](a), VALUES[kinds[1]](b)
        assert agree(found, *expected(*values, d, (of_e8m0(scales[0]), of_e8m0(scales[1])))), selects


def test_every_code_is_decoded(instructions: Instructions) -> None:
    one = np.zeros((16, 128), dtype=np.uint8)
    np.fill_diagonal(one[:, :16], 0x38)  # 1.0 in column j at k = j
    zero, unit = np.zeros((16, 16), dtype=np.float32), np.full((16, 4), 127, dtype=np.uint8)
    codes = np.zeros((16, 128), dtype=np.uint8)
    for begin in range(0, 256, 16):
        codes[0, :16] = np.arange(begin, begin + 16)
        if begin not in (112, 240):
            found = instructions.scaled((FP8, FP8), (0, 0), codes, one, zero, unit, unit)
            assert np.array_equal(found[0], of_fp8(codes[0, :16]))
    codes[0, :16] = range(16)
    assert np.array_equal(
        instructions.scaled((FP4, FP8), (0, 0), codes, one, zero, unit, unit)[0], of_fp4(codes[0, :16])
    )


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_a_nan_of_an_element_reaches_its_row_or_column_alone(
    code: int, instructions: Instructions, rng: np.random.Generator
) -> None:
    a, b, d = codes_of(FP8, rng), codes_of(FP8, rng), start(rng)
    unit = np.full((16, 4), 127, dtype=np.uint8)
    a[3, 70] = b[9, 127] = code
    is_nan = np.isnan(instructions.scaled((FP8, FP8), (0, 0), a, b, d, unit, unit))
    assert is_nan[3].all() and is_nan[:, 9].all() and is_nan.sum() == 31
    is_nan = np.isnan(instructions.fp8(a[:, 64:96], b[:, 96:], d))
    assert is_nan[3].all() and is_nan[:, 9].all() and is_nan.sum() == 31


def test_a_nan_of_a_scale_reaches_its_row_or_column_alone(instructions: Instructions, rng: np.random.Generator) -> None:
    a, b, d = np.zeros((16, 128), dtype=np.uint8), codes_of(FP8, rng), start(rng)
    scale_a, scale_b = (np.full((16, 4), 127, dtype=np.uint8) for _ in range(2))
    scale_a[5, 3] = scale_b[0, 1] = 255
    is_nan = np.isnan(instructions.scaled((FP4, FP8), (1, 2), a, b, d, scale_a, scale_b))
    assert is_nan[5].all() and is_nan[:, 0].all() and is_nan.sum() == 31


def test_the_accumulator_is_added_to(instructions: Instructions, rng: np.random.Generator) -> None:
    d, zero = start(rng), np.zeros((16, 32), dtype=np.uint8)
    assert np.array_equal(instructions.fp8(zero, zero, d), d)
    d[2, 11] = np.inf
    assert np.array_equal(instructions.fp8(zero, zero, d), d)


# --- other maps, other builds ---


def mutated(name: str) -> tuple[OperandRow, ...]:
    """Return the table with one map wrong, in a way that someone once believed or mistyped."""
    rows = list(ROWS)
    for i, row in enumerate(rows):
        match name:
            case "contiguous k" if row.bits == 8 and row.scale is not None:
                data = replace(row.data, splits=("row = r:16", "k = g:4 b:32"), order="lane g r | element b")
                rows[i] = replace(row, data=data)
            case "scales of a quarter row a lane" if row.scale is not None:
                rows[i] = replace(row, scale=replace(row.scale, order="lane r g"))
            case "accumulator transposed":
                transposed = replace(row.accumulator, splits=("row = j:16", "col = g:4 e:4"))
                rows[i] = replace(row, accumulator=transposed)
    assert rows != list(ROWS)
    return tuple(rows)


@pytest.mark.parametrize("name", ["contiguous k", "scales of a quarter row a lane", "accumulator transposed"])
def test_a_wrong_map_gives_other_results_beside_a_right_one(
    name: str, instructions: Instructions, rng: np.random.Generator, tmp_path: Path
) -> None:
    wrong = Instructions(load_library(SOURCE, write_maps(tmp_path, maps_header(mutated(name))), "-O0"))
    a, b, d = codes_of(FP8, rng), codes_of(FP8, rng), start(rng)
    scales = [rng.integers(120, 134, (16, 4), dtype=np.uint8) for _ in range(2)]
    exact = expected(of_fp8(a), of_fp8(b), d, (of_e8m0(scales[0]), of_e8m0(scales[1])))
    assert not agree(wrong.scaled((FP8, FP8), (0, 0), a, b, d, *scales), *exact)
    assert agree(instructions.scaled((FP8, FP8), (0, 0), a, b, d, *scales), *exact)
    unit = [np.full((16, 4), 127, dtype=np.uint8)] * 2
    exact = expected(of_fp8(a), of_fp8(b), d)
    # Without scales the order of k is the same in A and B, and cancels.
    cancels = name != "accumulator transposed"
    assert agree(wrong.scaled((FP8, FP8), (0, 0), a, b, d, *unit), *exact) == cancels


def test_a_map_that_holds_an_element_twice_does_not_compile(tmp_path: Path) -> None:
    text = maps_header()
    first = text.index("a_k[64][32]")
    twice = text[:first] + text[first:].replace("{0, 1, 2, 3,", "{0, 1, 2, 2,", 1)
    with pytest.raises(AssertionError, match="a map holds every element of its tile once"):
        load_library(SOURCE, write_maps(tmp_path, twice))


def test_all_builds_give_the_same_bits(instructions: Instructions, rng: np.random.Generator, tmp_path: Path) -> None:
    options = ("-DMONO_HOST_NO_AVX2", "-ffp-contract=off", "-O0")
    plain = Instructions(load_library(SOURCE, write_maps(tmp_path), *options))
    for kinds in product((FP8, FP4), repeat=2):
        a, b, d = codes_of(kinds[0], rng), codes_of(kinds[1], rng), start(rng)
        scales = [rng.integers(0, 255, (16, 4), dtype=np.uint8) for _ in range(2)]
        found = [i.scaled(kinds, (2, 3), a, b, d, *scales).tobytes() for i in (instructions, plain)]
        assert found[0] == found[1]
    for low, high in ((0, 0x7F80), (0x1B00, 0x1C80)):  # all; products of 2^-146 to 2^-140, which float rounds
        a16, b16 = (rng.integers(low, high, (16, 32), dtype=np.uint16) for _ in range(2))
        zero = np.zeros((16, 16), dtype=np.float32)
        assert instructions.bf16(a16, b16, zero).tobytes() == plain.bf16(a16, b16, zero).tobytes() != zero.tobytes()
