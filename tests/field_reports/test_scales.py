"""C: scales permuted by half, addressed with the wrong stride, transposed, or in another order than their kernel's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.field_reports.product import (
    E8M0,
    FP32,
    asserted,
    layer,
    made,
    numbered,
    printed,
    ramp,
    refused,
    same_bytes,
    spec_refused,
    whats,
)

BLOCKS_128X4 = """
layout scale_128x4(row, k) {
    split row = R a:4 b:32
    split k = K c:4
    store R K b a c
}
layout rows_only(row, k) {
    split row = R a:4 b:32
    store R b a k
}
layout scale_128x4_padded(row, k) {
    pad row to 128, k to 4 fill 0x00
    split row = R a:4 b:32
    split k = K c:4
    store R K b a c
}
layout tiles_32x8(row, k) {
    pad row to 32, k to 8 fill 0x7F
    split row = R rh:2 r:16
    split k = K kh:2 g:4
    store tile R K | lane g r | byte kh rh
}
"""


def test_c1_second_interleave_left_out(tmp_path: Path) -> None:
    """Numbers of 32 bits stand in for scale bytes, so that all 2048 differ."""
    product = made(
        tmp_path,
        BLOCKS_128X4 + "struct S(layer) { s : int32[256, 8] { tile scale_128x4  convert int32 row_major layer.s } }",
    )
    source = numbered(256, 8)
    assert source.unique().numel() == 2048, "a constant scale would show nothing"
    stored = product.module.S.from_layer(layer(s=source)).s.view(-1)
    places = torch.tensor(printed(product, "S::s::offset(i, j)", (256, 8))) // 4
    assert int((stored[places].view(256, 8) == source).sum()) == 2048
    half_done = product.module.pack_rows_only(source).view(-1)
    assert int((half_done[places].view(256, 8) == source).sum()) < 0.05 * 2048


def test_c2_row_group_stride_of_the_valid_columns(tmp_path: Path, aiter_module: ModuleType) -> None:
    assert aiter_module.offset_e8m0_shuffle(32, 0, (256, 384 // 32), 8) == 512
    product = made(
        tmp_path, "struct S(layer) { w, s : mxfp8[256, 384] { tile row_major  scale e8m0_shuffle  "
        "convert mxfp8 row_major layer.w, layer.s } }"
    )  # fmt: skip
    asserted(product, "S::s::offset(32, 0) == 512", "S::s::kPadded_block == 16", "S::s::kExtent_block == 12")
    right = [product.module.S.offset_s(row, block) for row in range(256) for block in range(12)]
    wrong = [at - at // 512 * 128 for at in right]  # row groups of 12 x 32 bytes instead of 16 x 32
    assert sum(a != b for a, b in zip(right, wrong, strict=True)) == 2688


def test_c3_fewer_rows_than_a_tile(tmp_path: Path) -> None:
    module = made(tmp_path, BLOCKS_128X4 + "struct S(layer) { g : bf16[8] { view layer.g } }", name="few").module
    source = ramp(8, 8)
    for rows in (1, 2, 8, 16, 32):
        packed = module.pack_tiles_32x8(ramp(rows, 8))
        assert packed.shape == (32, 8) and packed.numel() == 256
    unpacked = module.unpack_tiles_32x8(module.pack_tiles_32x8(source), (8, 8))
    assert same_bytes(unpacked, source)
    said = spec_refused(
        tmp_path, "struct S(layer) { s : uint8[8, 8] { tile e8m0_tiles  convert uint8 row_major layer.s } }",
        "not-divisible",
    )  # fmt: skip
    assert "8, not a multiple of" in said or "32" in said


def test_c4_block_scales_transposed_at_load(tmp_path: Path) -> None:
    module = made(
        tmp_path, "struct S(layer) { s : fp32[512 / 128, 6144 / 128] { tile row_major  view layer.s } }"
    ).module
    scale = torch.arange(192, dtype=FP32)
    assert module.S.from_layer(layer(s=scale.view(4, 48))).s.shape == (4, 48)
    assert whats(refused(module.S.from_layer, layer(s=scale.view(48, 4)))) == [("s", "shape")]
    (problem,) = refused(module.S.from_layer, layer(s=scale.view(48, 4).t()))
    assert problem.what == "strides" and "1, 4" in problem.found


def test_c5_right_values_in_the_wrong_storage_order(tmp_path: Path) -> None:
    """M-major storage of [M, G] is [G, M] in row-major order: the spec says so, and the engine hands `scale.t()`."""
    spec = "struct S(layer) {{ s : fp32[4, {m}] {{ tile row_major  view layer.s }} }}"
    module = made(tmp_path, spec.format(m=32)).module
    m_major = torch.arange(128, dtype=FP32).as_strided((32, 4), (1, 32))
    g_major = torch.arange(128, dtype=FP32).view(32, 4)
    assert module.S.from_layer(layer(s=m_major.t())).s.data_ptr() == m_major.data_ptr()
    assert whats(refused(module.S.from_layer, layer(s=g_major.t()))) == [("s", "strides")]
    one = made(tmp_path / "one", spec.format(m=1), name="one").module
    for strides in ((1, 1), (4, 1), (1, 32)):  # of [M, G] = [1, 4]: both orders coincide
        t = torch.arange(128, dtype=FP32).as_strided((1, 4), (strides[0], 1))
        assert one.S.from_layer(layer(s=t.t())).s.shape == (4, 1)


def test_c7_swizzled_scale_reshaped_to_its_unpadded_size(tmp_path: Path) -> None:
    module = made(tmp_path, BLOCKS_128X4 + "struct S(layer) { g : bf16[8] { view layer.g } }", name="reshaped").module
    source = ramp(576, 120)
    packed = module.pack_scale_128x4_padded(source)
    assert packed.shape == (640, 120) and packed.numel() == 76800
    storage = module.storage_scale_128x4_padded("s", 8, 576, 120)
    assert (storage.extents, storage.padded) == ((576, 120), (640, 120))
    assert same_bytes(module.unpack_scale_128x4_padded(packed, (576, 120)), source)
    (problem,) = refused(module.unpack_scale_128x4_padded, packed.view(-1)[: 576 * 120].view(576, 120), (576, 120))
    assert problem.what in ("shape", "layout")


def test_c8_logical_sizes_over_padded_storage(tmp_path: Path) -> None:
    product = made(
        tmp_path, "struct S(layer) { w, s : mxfp4[256, 2880] { tile row_major  scale e8m0_shuffle  "
        "convert mxfp4 row_major layer.w, layer.s } }"
    )  # fmt: skip
    assert product.module.S.offset_s(32, 0) == 3072
    asserted(
        product, "S::s::offset(32, 0) == 3072", "S::s::kExtent_block == 90", "S::s::kPadded_block == 96",
        "S::s::kBytes == 256 * 96",
    )  # fmt: skip


def test_c9_swizzle_argument_is_ignored(tmp_path: Path) -> None:
    module = made(
        tmp_path, BLOCKS_128X4 + "struct S(layer) { s : e8m0[32, 8] { tile row_major  view layer.s } }"
    ).module
    swizzled = module.pack_tiles_32x8(ramp(32, 8, dtype=E8M0))
    (problem,) = refused(module.S.from_layer, layer(s=swizzled))
    assert (problem.field, problem.what) == ("s", "layout")
    assert "row_major" in problem.expected and "tiles_32x8" in problem.found


def test_c11_swizzled_buffer_read_in_plain_order(tmp_path: Path) -> None:
    product = made(
        tmp_path,
        BLOCKS_128X4 + "struct S(layer) { s : uint8[128, 4] { tile scale_128x4  convert uint8 row_major layer.s } }",
    )
    asserted(product, "S::s::offset(1, 0) == 16", "S::s::offset(1, 1) == 17")
    source = ramp(128, 4)
    stored = product.module.S.from_layer(layer(s=source)).s.view(-1)
    places = torch.tensor(printed(product, "S::s::offset(i, j)", (128, 4)))
    assert torch.equal(stored[places].view(128, 4), source)
    assert stored[16:18].tolist() == source[1, :2].tolist() != stored[4:6].tolist()


@pytest.mark.parametrize("kind", ["packed", "reordered"])
def test_c13_scales_packed_for_another_engine(tmp_path: Path, kind: str) -> None:
    module = made(
        tmp_path,
        """
        layout columns(row, k) {
            store k row
        }
        struct S(layer) { s : fp32[32, 64] { tile row_major  convert fp32 row_major layer.s } }
        """,
    ).module
    plain = torch.arange(32 * 64, dtype=FP32).view(32, 64)
    assert same_bytes(module.S.from_layer(layer(s=plain)).s, plain)
    other = torch.zeros(4096, 16, dtype=torch.int32) if kind == "packed" else module.pack_columns(plain)
    found = whats(refused(module.S.from_layer, layer(s=other)))
    assert found == ([("s", "dtype"), ("s", "shape")] if kind == "packed" else [("s", "layout")])
