"""E, J and K: two elements a byte, offsets past 32 bits, extents that are no whole tile or nothing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import torch

from tests.field_reports.product import (
    BF16,
    FP4,
    U8,
    asserted,
    layer,
    made,
    not_compiled,
    ramp,
    raw,
    refused,
    spec_refused,
    whats,
)


def test_e1_split_nibbles_read_as_linear_pairs(tmp_path: Path) -> None:
    """One nibble order has a name; bytes in another can only be told by a name, and there is none for them."""
    spec = "struct S(layer) {{ w : {}[1, 32] {{ tile row_major  view layer.w }} }}"
    product = made(tmp_path, spec.format("fp4_e2m1"))
    values = [n % 16 for n in range(32)]
    linear = [0] * 16
    for k, value in enumerate(values):
        byte, nibble = product.module.S.offset_w(0, k)
        linear[byte] |= value << 4 * nibble
    assert linear[:2] == [0x10, 0x32]
    asserted(product, "S::w::offset(0, 16).byte == 8", "S::w::offset(0, 16).nibble == 0")
    assert "fp4_e2m1" in spec_refused(tmp_path, spec.format("fp4_e2m1_split"), "unknown-format")


def test_e2_first_value_in_the_high_nibble(tmp_path: Path) -> None:
    spec = "struct S(layer) {{ w : fp4_e2m1[2, 32] {{ tile row_major  convert {} row_major layer.w }} }}"
    product = made(tmp_path, spec.format("fp4_e2m1"))
    asserted(
        product, "S::w::offset(0, 0).nibble == 0", "S::w::offset(0, 1).nibble == 1", "S::w::offset(0, 1).byte == 0"
    )
    packed = product.module.S.from_layer(layer(w=torch.full((2, 16), 0x2A, dtype=U8))).w
    byte, nibble = product.module.S.offset_w(0, 0)
    assert raw(packed)[byte] >> 4 * nibble & 15 == 0xA, "code of -1.0, first"
    spec_refused(tmp_path, spec.format("fp4_e2m1_high_first"), "unknown-format")


def test_e4_reshape_for_a_transpose(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        layout taps(d, k) {
            store k d
        }
        struct S(layer) { w : uint8[3, 2] { tile taps  convert uint8 row_major layer.w } }
        """,
    ).module
    assert raw(module.S.from_layer(layer(w=ramp(3, 2))).w) == [0, 2, 4, 1, 3, 5]


def test_e6_packed_extent_against_a_logical_limit(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        layout wide(row, k) {
            require k % 256 == 0
            store row k
        }
        struct S(layer) { w : fp4_e2m1[16, 256] { tile row_major  view layer.w } }
        struct T(layer) { w : fp4_e2m1[16, 256] { tile wide  convert fp4_e2m1 row_major layer.w } }
        """,
    ).module
    assert module.S.from_layer(layer(w=ramp(16, 128))).w.shape == (16, 128)
    assert module.pack_wide(ramp(16, 128, dtype=FP4)).shape == (16, 128)
    (problem,) = refused(module.S.from_layer, layer(w=ramp(16, 192)))
    assert problem.found == "16 x 384 elements (torch 16 x 192, two a byte)"
    assert problem.expected == "16 x 256 elements (torch 16 x 128, two a byte)"
    (problem,) = refused(module.pack_wide, ramp(16, 192, dtype=FP4))
    assert (problem.expected, problem.found) == ("k % 256 == 0", "k = 384")


HUGE = """
struct S(layer) {
    w    : bf16[512, 2048, 4096] { tile row_major  view layer.w }
    fp4  : fp4_e2m1[385, 4096, 7168] { tile row_major  view layer.fp4 }
    w13  : fp4_e2m1[129, 6144, 6144] { tile row_major  view layer.w13 }
    flat : uint8[3, 49152, 65536] { tile row_major  view layer.flat }
    rows : uint8[49152, 65536] { tile row_major  view layer.rows }
}
"""


def test_j1_expert_times_stride_in_32_bits(tmp_path: Path) -> None:
    product = made(tmp_path, HUGE, name="huge")
    assert product.module.S.offset_w(256, 0, 0) // 2 == 2**31
    last = ((511 * 2048 + 2047) * 4096 + 4095) * 2
    assert product.module.S.offset_w(511, 2047, 4095) == last
    asserted(
        product,
        f"S::w::offset(511, 2047, 4095) == {last}LL",
        "S::w::base(256) == 2LL << 31",
        "sizeof(S::w::offset(0, 0, 0)) == 8",
        "sizeof(S::w::base(0)) == 8",
    )
    assert f"offset(511, 2047, 4095) == {last}" in product.header, "the last element is a sample"


def test_j2_expert_stack_beyond_a_32_bit_buffer(tmp_path: Path) -> None:
    product = made(tmp_path, HUGE, name="huge")
    asserted(
        product,
        "S::fp4::kBytes == 5651824640LL",
        "S::fp4::base(1) == 14680064",
        "S::fp4::base(292) < (1LL << 32) && S::fp4::base(293) >= (1LL << 32)",
        "sizeof(S::fp4::inner(0, 0).byte) == 4",
    )
    assert product.module.S.offset_fp4(293, 0, 0) == (4301258752, 0)
    asserted(product, "S::w13::kBytes == 2434793472LL", "S::w13::base(128) == 2415919104LL")


def test_j5_stride_product_in_int(tmp_path: Path) -> None:
    product = made(tmp_path, HUGE, name="huge")
    asserted(product, "S::flat::base(1) == 3221225472LL", "S::rows::kBytes == 3221225472LL")
    assert f"S::flat::offset(2, 49151, 65535) == {3 * 3221225472 - 1}LL" in product.header


def test_j7_every_stride_in_64_bits(tmp_path: Path) -> None:
    product = made(tmp_path, HUGE, name="huge")
    asserted(
        product,
        "sizeof(S::w::base(0)) == 8 && sizeof(S::w::inner(0, 0)) == 4",
        "sizeof(S::fp4::base(0)) == 8 && sizeof(S::fp4::inner(0, 0).byte) == 4",
        "sizeof(S::flat::base(0)) == 8 && sizeof(S::flat::inner(0, 0)) == 8",
    )


def test_k1_padded_tiles_beyond_the_scales(tmp_path: Path) -> None:
    spec = """
    layout tiles(row, k) {{
        pad row to {multiple} fill 0
        split row = R r:128
        store R k r
    }}
    struct S(layer) {{ s : uint8[12448, 4] {{ tile tiles  convert uint8 row_major layer.s }} }}
    """
    tile = made(tmp_path, spec.format(multiple=128), name="by_tile")
    asserted(tile, "S::s::layout::kSize_R == 98", "S::s::kPadded_row == 98 * 128", "S::s::kBytes == 98 * 128 * 4")
    raster = made(tmp_path, spec.format(multiple=16 * 128), name="by_raster")
    asserted(raster, "S::s::layout::kSize_R == 112", "S::s::kBytes == 112 * 128 * 4")
    assert raster.module.pack_tiles(torch.zeros(12448, 4, dtype=U8)).shape == (112 * 128, 4)


def test_k3_vector_load_on_a_shorter_tail(tmp_path: Path) -> None:
    spec = """
    layout vectors(row, k) {
        split k = K b:16
        store row K b
    }
    struct S(layer) { w : uint8[4, 56] { tile vectors  convert uint8 row_major layer.w } }
    """
    said = spec_refused(tmp_path, spec, "not-divisible")
    assert "56" in said and "16" in said and "8" in said
    made(tmp_path, spec.replace("split k", "pad k to 16 fill 0\n        split k"))


def test_k4_extents_of_nothing(tmp_path: Path, aiter_module: ModuleType) -> None:
    spec = "struct S(layer) {{ {dim} w : bf16[{extents}] {{ tile row_major  view layer.w }} }}"
    for extents in ("0, 64", "64, 0"):
        spec_refused(tmp_path, spec.format(dim="", extents=extents), "bad-extent")
    spec_refused(tmp_path, spec.format(dim="dim E in { 0, 2 }", extents="E, 4, 64"), "bad-extent")
    product = made(tmp_path, spec.format(dim="dim E", extents="E, 64"))
    (problem,) = refused(product.module.S.from_layer, layer(w=torch.zeros(0, 64, dtype=BF16)))
    assert (problem.field, problem.what) == ("w", "extent") and "0 x 64" in problem.found
    assert whats(refused(aiter_module.pack_shuffle_16x16, torch.zeros(0, 64, dtype=U8)))[0][1] == "extent"
    assert "row >= 1" in not_compiled(
        made(tmp_path, "struct S(layer) { w : uint8[16, 32] { tile shuffle_16x16  convert uint8 row_major layer.w } }"),
        "shuffle_16x16<0, 64, 8>::kBytes >= 0",
    )
