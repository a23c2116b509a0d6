"""Which layout each aiter digest speaks about, and how its source is presented to that layout."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference.data import position_coded

HERE = Path(__file__).parent
ROWS: list[dict[str, Any]] = json.loads((HERE / "aiter_vectors.json").read_text())
VECTORS = {row["case"]: row for row in ROWS}


@dataclass(frozen=True, slots=True)
class Covered:
    """A row that a layout covers; `shape` is the source's torch shape, batch axes first, where not the row's own."""

    module: str  # aiter (the library), minimax_m3 (the spec), caches (the test's own)
    layout: str
    shape: tuple[int, ...] | None = None
    inverse: bool = False  # the row's function unpacks: its input is the storage, its output the logical tensor


def _library(layout: str, shape: tuple[int, ...] | None = None) -> Covered:
    return Covered("aiter", layout, shape)


def _cache(layout: str, shape: tuple[int, ...]) -> Covered:
    return Covered("caches", layout, shape)


COVERED: dict[str, Covered] = {
    "sw_fp8_32x64": _library("shuffle_16x16"),
    "sw_fp8_3d_2x32x64": _library("shuffle_16x16"),
    "sw_bf16_32x64": _library("shuffle_16x16"),
    "sw_f32_16x32": _library("shuffle_16x16"),
    "sw_i8_layout32x16_64x64": _library("shuffle_32x16"),
    "sw_fp8_padk128_16x192": _library("shuffle_16x16_pad_k128"),
    "sw_int4_in_i8_32x64": _library("shuffle_16x16_int4"),
    "sw_gui_gateup_fp8_2x64x128": _library("shuffle_16x16_gate_up"),
    "sw_gui_nogate_fp8_2x64x128": _library("shuffle_16x16"),
    "sw_a16w4_gateup_fp4x2_2x64x64": _library("shuffle_16x16_gate_up"),
    "interleave_gate_up_rows_u8_2x8x4": _library("interleave_gate_up_rows"),
    "nk_16_64_fp8_32x128": _library("shuffle_weight_NK_16x64"),
    "nk_16_32_bf16_32x64": _library("shuffle_weight_NK_16x32"),
    "gfx1250_2d_u8_32x64": _library("shuffle_16x16"),
    "f4_weight_fp4x2_32x64": _library("shuffle_weight_f4"),
    "f4_scale_mx_u8_64x16": _library("shuffle_scale_f4"),
    "mxfp8fp4_a_fp8_4x256": _library("shuffle_mxfp8fp4_a"),
    "mxfp8fp4_b_fp4x2_32x64": _library("shuffle_mxfp8fp4_b"),
    "mxfp8fp4_scale_e8m0_64x8": _library("shuffle_mxfp8fp4_scale"),
    "e8m0_256x8": _library("e8m0_shuffle"),
    "e8m0_pad_100x5_fill00": _library("e8m0_shuffle_zero"),
    "e8m0_pad_100x5_fill7f": _library("e8m0_shuffle"),
    "scale_a16w4_gateup_128x8_E2": _library("shuffle_scale_a16w4_gate_up", (2, 64, 8)),
    "scale_a16w4_nogate_128x8_E2": _library("shuffle_scale_a16w4", (2, 64, 8)),
    "n32k4_3d_2x64x8": _library("shuffle_scale_n32k4"),
    "moe_scale_gfx1250_128x8_E2": _library("shuffle_scale_n32k4", (2, 64, 8)),
    "int4_scale_bf16_2x4x16": _library("shuffle_scale_for_int4"),
    "tri_scale_gemm_gfx950_64x16": _library("e8m0_tiles"),
    "tri_scale_gemm_gfx1250_64x16": _library("shuffle_scale_gemm_gfx1250"),
    "tri_scale_moe_gfx1250_2x16x64": _library("shuffle_scale_moe_gfx1250"),
    "seed_w13_E2_fp4x2_1536x3072": _library("shuffle_16x16"),
    "seed_s13_E2_3072x192": _library("e8m0_shuffle"),
    "seed_w_qkv_fp8_2560x6144": _library("shuffle_16x16"),
    "seed_w_o_fp8_6144x2048": _library("shuffle_16x16"),
    "seed_sh_w13_1536x6144": Covered("minimax_m3", "mxfp8_a_tiles"),
    "seed_sh_s13_1536x192": _library("e8m0_tiles"),
    "seed_sh_s2_6144x24": _library("e8m0_tiles"),
    "seed_a_tiles_small_32x256": Covered("minimax_m3", "mxfp8_a_tiles"),
    "seed_a_scales_small_64x16": _library("e8m0_tiles"),
    "kv_fp4_preshuffle_64x64_b64": Covered("minimax_m3", "page16_k"),
    "rac_k_fp8_32x1x128_b16": _cache("key_cache", (2, 16, 1, 128)),
    "rac_k_bf16_32x2x64_b16": _cache("key_cache", (2, 16, 2, 64)),
    "rac_v_fp8_32x1x128_b16": _cache("value_cache", (2, 16, 1, 128)),
    "rac_v_asm_fp8_32x1x128_b16": _cache("value_cache_asm", (2, 16, 1, 128)),
    "asm_V_shuffle_fp8_2x1x128x16": _cache("asm_v_shuffle", (2, 1, 128, 16)),
    "mxfp8_out_scale_unpack_128x4": Covered("caches", "mxfp8_out_scale", (128, 4), inverse=True),
}

NOT_COVERED: dict[str, str] = {
    "pack_i8_to_i4_16x32": "nibble digits: int8 values are packed in pairs v[j] | v[j+4] << 4 (A4)",
    "sw_int4_then_pack_i4_32x64": "nibble digits: shuffle_16x16_int4, which is covered, then the packing of A4",
}

# Entries of the catalogue's aiter section that have no digest and are no layout of the library.
NOT_IN_LIBRARY: dict[str, str] = {
    "A4 pack_int8_to_packed_int4": "nibble digits",
    "A7 shuffle_weight_NK(use_int4=True)": "reads two rows as one in aiter; has no caller",
    "A29 winograd prepacks": "a value step (G g G^T)",
    "A32 FP6 V field permutation": "6-bit fields",
}


def bits(row: dict[str, Any]) -> int:
    """Return the bits of a row's elements."""
    return {
        "float4_e2m1fn_x2": 4,
        "uint8": 8,
        "int8": 8,
        "float8_e4m3fn": 8,
        "float8_e8m0fnu": 8,
        "bfloat16": 16,
        "float32": 32,
    }[row["in_dtype"]]


def source(case: str) -> NDArray[Any]:
    """Return the row's input as unsigned units, batch axes first; a pair of 4-bit elements is one uint8."""
    row = VECTORS[case]
    unit = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}[bits(row)]
    return position_coded(row["in_nbytes"]).view(unit).reshape(COVERED[case].shape or tuple(row["in_shape"]))
