"""What each lane of a matrix instruction holds, as vendors' documents and public kernels state it, closed formulas.

Written the other way round than tables of lanes: for an element of the tile, the lane and the place in it. Sources:
AMD's matrix instruction calculator (v_mfma_f32_16x16x32_fp8_fp8: A[i][k] is in lane 16 * (k / 8) + i, byte k % 8;
D[i][j] in lane 16 * (i / 4) + j, register i % 4); composable_kernel, test/mx_mfma_op/mx_mfma_op.hpp, the register
mappings above load_A_col_major and load_mx_A_row_major (16x16x128 f8f6f4). B is A with columns for rows.
"""

from __future__ import annotations

from collections.abc import Callable

ROWS = 16

Holder = Callable[[int, int], tuple[int, int]]
"""(row, k) of an element of the tile -> (lane, element of the lane)."""


def dense(row: int, k: int) -> tuple[int, int]:
    """16x16x32, fp8 and bf16: eight k a lane, in order."""
    return 16 * (k // 8) + row, k % 8


def scaled_fp8(row: int, k: int) -> tuple[int, int]:
    """16x16x128 f8f6f4, fp8: lane group g has k 16g..16g+15 in registers 0-3, and 64+16g..64+16g+15 in 4-7."""
    group, register, byte = k % 64 // 16, k // 64 * 4 + k % 16 // 4, k % 4
    return 16 * group + row, 4 * register + byte


def scaled_fp4(row: int, k: int) -> tuple[int, int]:
    """16x16x128 f8f6f4, fp4: lane group g has k 32g..32g+31 in registers 0-3, eight nibbles each, low first."""
    group, register, nibble = k // 32, k % 32 // 8, k % 8
    return 16 * group + row, 8 * register + nibble


def dissent_fp8(row: int, k: int) -> tuple[int, int]:
    """What FlyDSL's atom says of scaled fp8, against the others: k contiguous in a lane."""
    return 16 * (k // 32) + row, k % 32


def scale(row: int, block: int) -> tuple[int, int]:
    """The lane whose scale multiplies 32-block `block` of a row: not always one that holds k of it."""
    return 16 * block + row, 0


def accumulator(row: int, column: int) -> tuple[int, int]:
    """The lane and the register of an element of D, in all of them."""
    return 16 * (row // 4) + column, row % 4


DATA: dict[tuple[str, str], tuple[int, Holder]] = {
    ("mfma_f32_16x16x32_fp8_fp8", "fp8"): (32, dense),
    ("mfma_f32_16x16x32_bf16", "bf16"): (32, dense),
    ("mfma_scale_f32_16x16x128_f8f6f4", "fp8"): (128, scaled_fp8),
    ("mfma_scale_f32_16x16x128_f8f6f4", "fp4"): (128, scaled_fp4),
}
"""By instruction and type of elements: the k of a tile, and where its elements are."""

SCALED = "mfma_scale_f32_16x16x128_f8f6f4"

ARCHS = {
    "mfma_f32_16x16x32_fp8_fp8": {"gfx942", "gfx950"},
    "mfma_f32_16x16x32_bf16": {"gfx950"},
    SCALED: {"gfx950"},
}
