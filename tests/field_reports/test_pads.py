"""D: what pads hold, where they stand, in which unit they are counted, and whose stride they are in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported
from tests.field_reports.product import (
    BF16,
    FN,
    FP4,
    U8,
    asserted,
    layer,
    made,
    ramp,
    refused,
    same_bytes,
    spec_refused,
    whats,
)

PADDED = """
layout groups8(row, k) {
    pad k to 8 fill 0x00
    split k = K g:8
    store K row g
}
layout columns128(row, k) {
    pad k to 128 fill 0x00
    store row k
}
"""


def test_d1_pads_of_one_for_almost_zero(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        PADDED
        + """
        struct S(layer) { w, s : mxfp8[32, 384] {
            tile row_major  scale groups8  convert mxfp8 row_major layer.w, layer.s
        } }
        struct V(layer) { s : e8m0[32, 12] { tile groups8  view layer.s  attest groups8 when layer.promised } }
        """,
        name="pads",
    ).module
    scale = torch.full((32, 12), 127, dtype=U8)
    struct = module.S.from_layer(layer(w=ramp(32, 384, below=97).view(FN), s=scale))
    assert struct.s.shape == (32, 16)
    logical = struct.s.view(U8).view(2, 32, 8).permute(1, 0, 2).reshape(32, 16)
    assert logical[:, 12:].eq(0).all() and logical[:, :12].eq(127).all()
    assert runtime.verify_all((struct,)) == "verified"
    spoiled = struct.s.view(U8).clone()
    spoiled[16 + 5, 7] = 127  # of the last groups of eight: a pad
    view = module.V.from_layer(layer(s=spoiled, promised=True))
    (problem,) = refused(runtime.verify_all, (view,))
    assert (problem.field, problem.what) == ("s", "pads") and "1 others" in problem.found


def test_d2_shuffled_buffer_without_initialisation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = made(tmp_path, PADDED + "struct S(layer) { g : bf16[8] { view layer.g } }", name="poison").module
    honest = torch.empty

    def poisoned(*args: object, **options: object) -> torch.Tensor:
        t = honest(*args, **options)  # type: ignore[call-overload]
        t.reshape(-1).view(U8).fill_(0xFF)
        return t  # type: ignore[no-any-return]

    monkeypatch.setattr(torch, "empty", poisoned)
    assert not (module.pack_groups8(ramp(8, 3, below=200)) == 0xFF).any()
    field = "w, s : mxfp8[8, 96] { tile row_major  scale x  convert mxfp8 row_major layer.w, layer.s }"
    layout = "layout x(row, k) {{ pad k to 8{} split k = K g:8 store K row g }}\n"
    spec_refused(tmp_path, layout.format(" fill 0xFF") + f"struct S(layer) {{ {field} }}", "fill-nan")
    spec_refused(tmp_path, layout.format("") + f"struct S(layer) {{ {field} }}", "fill-missing")


def test_d3_padded_weights_of_uninitialised_memory(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        PADDED
        + """
        struct S(layer) { w2 : fp8_e4m3fn[64, 704] { tile columns128  convert fp8_e4m3fn row_major layer.w2 } }
        struct V(layer) { w2 : fp8_e4m3fn[64, 704] {
            tile columns128  view layer.w2  attest columns128 when layer.promised
        } }
        """,
        name="tails",
    ).module
    w2 = module.S.from_layer(layer(w2=ramp(64, 704, below=97).view(FN))).w2
    assert w2.shape == (64, 768) and w2.view(U8)[:, 704:].eq(0).all()
    tail = w2.view(U8).clone()
    tail[63, 767] = 1
    view = module.V.from_layer(layer(w2=tail.view(FN), promised=True))
    assert whats(refused(runtime.verify_all, (view,))) == [("w2", "pads")]


@pytest.fixture
def eight_ranks() -> Iterator[object]:
    """Yield a group of eight ranks, of which this process is the last; no bytes move in it."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=7, world_size=8)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


def test_d5_padded_size_as_stride_into_the_checkpoint(eight_ranks: object) -> None:
    """A rank brings its share of the logical extent, whatever the layout pads; shares tile the axis exactly once."""
    load = runtime.Load("S", "x.layout")
    share = load.gathered("w", eight_ranks, segment="i", elements=1536, rest=0, world=8)
    assert share == 192 and [rank * 192 for rank in range(8)] == list(range(0, 1345, 192))
    padded = layer(w=torch.zeros(256, 32, dtype=U8))
    load.source("w", (padded, "layer.w"), dtypes=(U8,), shape=(share, 32), bits=8)
    load.gathered("v", eight_ranks, segment="i", elements=1540, rest=0, world=None)
    with pytest.raises(MonoUnsupported) as refusal:
        load.check()
    found = [(p.field, p.what, p.found) for p in refusal.value.problems]
    assert found == [("w", "shape", "256 x 32 elements"), ("v", "group", "8 ranks, 1540 % 8 == 4")]


def test_d7_pad_right_for_a_half_and_wrong_for_the_fused_tensor(tmp_path: Path) -> None:
    half = 704 // 4
    spec = """
    layout fused(row, k) {{
        {pad}
        split row = R r:128
        store R k r
    }}
    struct S(layer) {{ w : bf16[2 * 176, 64] {{
        segments row = gate:176 up:176 {each}
        tile fused  convert bf16 row_major layer.w
    }} }}
    """
    assert "352" in spec_refused(tmp_path, spec.format(pad="", each=""), "not-divisible")
    assert "352" in spec_refused(tmp_path, spec.format(pad="pad row to 16 fill 0", each="pad each"), "not-divisible")
    product = made(tmp_path, spec.format(pad="pad row to 64 fill 0", each="pad each"))
    w = product.module.S.from_layer(layer(w=torch.ones(2 * half, 64, dtype=BF16))).w
    assert w.shape == (384, 64)
    asserted(product, "S::w::kPadded_row == 384", "S::w::kExtent_row == 352", "S::w::kBegin_up == 176")
    assert product.module.S.offset_w(176, 0) == (192 // 128 * 128 * 64 + 192 % 128) * 2


def test_d9_group_count_that_the_swizzle_does_not_divide(tmp_path: Path) -> None:
    field = "struct S(layer) { s : e8m0[5760, 90] { tile e8m0_tiles  convert e8m0 row_major layer.s } }"
    said = spec_refused(tmp_path, field, "not-divisible")
    assert "90" in said and "8" in said
    assert made(tmp_path, field.replace("e8m0_tiles", "shuffle_scale_a16w4")).module.S.offset_s(32, 0) == 96 * 32


def test_d10_pad_before_packing_and_tile_after(tmp_path: Path) -> None:
    """Two elements a byte, where the report has four: 160 of them are its 80 bytes."""
    spec = """
    layout bytes64(row, k) {{
        pad k to {unit} fill 0
        split k = K b:64B
        store K row b
    }}
    struct S(layer) {{ w : fp4_e2m1[4, 160] {{ tile bytes64  convert fp4_e2m1 row_major layer.w }} }}
    """
    assert "192" in spec_refused(tmp_path, spec.format(unit="64"), "not-divisible")
    product = made(tmp_path, spec.format(unit="64B"))
    packed = product.module.S.from_layer(layer(w=ramp(4, 80, dtype=FP4))).w
    assert packed.shape == (4, 128), "bytes of a row"
    asserted(product, "S::w::kBytes == 4 * 128", "S::w::kPadded_k == 256", "S::w::kExtent_k == 160")


def test_d11_padded_width_leaks_into_the_logical_width(tmp_path: Path) -> None:
    product = made(
        tmp_path,
        """
        layout wide(row, k) {
            pad k to 1024 fill 0
            store row k
        }
        struct S(layer) { w : bf16[4, 2880] { tile wide  convert bf16 row_major layer.w } }
        """,
    )
    asserted(product, "S::w::kExtent_k == 2880", "S::w::kPadded_k == 3072", "S::w::kBytes == 4 * 3072 * 2")
    storage = product.module.storage_wide("w", 16, 4, 2880)
    assert (storage.extents, storage.padded) == ((4, 2880), (4, 3072))
    struct = product.module.S.from_layer(layer(w=torch.ones(4, 2880, dtype=BF16)))
    assert struct.w.shape == (4, 3072)
    assert product.module.unpack_wide(struct.w, (4, 2880)).numel() == 4 * 2880
    assert struct.fields[0].shape == "4 x 2880", "what the model works with"


def test_d12_reorder_leaves_the_tail_of_the_last_block(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        layout from_blocks(row, k) {
            pad row to 16 fill 0x7FC0
            split row = R r:16
            store R k r
        }
        layout to_blocks(row, k) {
            pad row to 16 fill 0x3F80
            split row = R r:16
            store k R r
        }
        struct S(layer) { w : bf16[17, 8] {
            tile to_blocks
            convert bf16 from_blocks layer.w
            attest from_blocks when layer.promised
        } }
        """,
        name="blocks",
    ).module
    source = torch.arange(17 * 8, dtype=torch.int16).view(BF16).view(17, 8)
    blocked = module.pack_from_blocks(source)
    assert blocked.shape == (32, 8) and blocked.isnan().any()
    moved = module.S.from_layer(layer(w=blocked, promised=True)).w
    logical = moved.view(torch.int16).view(8, 32).t()
    assert logical[17:].eq(0x3F80).all()
    assert same_bytes(logical[:17].contiguous(), source)
