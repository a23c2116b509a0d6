"""B and O: one permutation taken for another, and tests that could not have noticed."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import torch
from typer.testing import CliRunner

from mono_gen import runtime
from mono_gen.algebra.ids import layout_id
from mono_gen.cli.app import app
from mono_gen.runtime.content import fingerprint
from tests.field_reports.product import (
    FN,
    FP4,
    U8,
    asserted,
    flagged,
    layer,
    made,
    numbered,
    own_ids,
    printed,
    ramp,
    refused,
    same_bytes,
    spec_refused,
    whats,
)

SEPARATED = """
struct Moe(layer) {
    w13 : fp4_e2m1[2, 64, 128] {
        segments row = gate:32 up:32
        tile shuffle_16x16  view layer.w13  attest shuffle_16x16 when layer.w13.is_shuffled
    }
    args table { w13 }
}
"""
INTERLEAVED = SEPARATED.replace("shuffle_16x16", "shuffle_16x16_gate_up")
SCALE_128X4 = """
layout scale_128x4(row, k) {
    split row = R a:4 b:32
    split k = K c:4
    store R K b a c
}
struct S(layer) { s : uint8[256, 8] { tile scale_128x4  convert uint8 row_major layer.s } }
"""


def test_b1_interleaved_shuffle_for_a_kernel_of_separated_halves(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SEPARATED, name="separated").module
    b = made(tmp_path / "b", INTERLEAVED, name="interleaved").module
    source = ramp(2, 64, 64, dtype=FP4)
    mine, other = a.pack_shuffle_16x16(source), b.pack_shuffle_16x16_gate_up(source)
    assert mine.shape == other.shape and not same_bytes(mine, other)
    a.Moe.from_layer(layer(w13=flagged(mine)))
    (problem,) = refused(b.Moe.from_layer, layer(w13=mine))
    assert (problem.field, problem.what) == ("w13", "layout")
    tile = 16 * 64  # bytes of 16 packed rows
    assert a.Moe.offset_w13(0, 16, 0) == (1 * tile, 0)
    assert b.Moe.offset_w13(0, 16, 0) == (2 * tile, 0)


def test_b2_deinterleave_of_what_was_in_halves(tmp_path: Path) -> None:
    spec = "struct S(layer) {{ w : fp8_e4m3fn[8, 32] {{ segments row = gate:4 up:4  tile row_major  convert {} }} }}"
    halves = made(tmp_path / "h", spec.format("fp8_e4m3fn row_major layer.w"), name="halves").module
    pairs = made(
        tmp_path / "p",
        spec.format("fp8_e4m3fn interleave_gate_up_rows layer.w  attest interleave_gate_up_rows when layer.pairs"),
        name="pairs",
    ).module
    rows = torch.arange(8, dtype=U8).view(8, 1).expand(8, 32).contiguous().view(FN)
    as_it_was, split = halves.S.from_layer(layer(w=rows)).w, pairs.S.from_layer(layer(w=rows, pairs=True)).w
    assert as_it_was.view(U8)[:, 0].tolist() == list(range(8))
    assert split.view(U8)[:, 0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert whats(refused(pairs.S.from_layer, layer(w=rows, pairs=False))) == [("w", "attest")]
    spec_refused(tmp_path, spec.format("fp8_e4m3fn layer.w"), "syntax-error")


def test_b4_another_activation_dispatches_another_kernel(tmp_path: Path) -> None:
    kernel = made(tmp_path / "kernel", SEPARATED, name="one")
    loader = made(tmp_path / "loader", INTERLEAVED, name="other")
    ids = own_ids(kernel, "Moe")
    runtime.require_ids(kernel.module.Moe, "swiglu", **ids)  # type: ignore[arg-type]
    (problem,) = refused(runtime.require_ids, loader.module.Moe, "swiglu", **ids)
    assert (problem.field, problem.what) == ("w13", "field id")


def test_b6_chunks_counted_in_bytes_here_and_elements_there(tmp_path: Path, aiter_module: ModuleType) -> None:
    offset = aiter_module.offset_shuffle_16x16
    assert [offset(0, k, (16, 128), 4) for k in (32, 16)] == [(256, 0), (8, 0)]
    assert offset(0, 16, (16, 128), 8) == 256
    asserted(
        made(tmp_path, SEPARATED, name="chunks"),
        "shuffle_16x16<16, 128, 4>::offset(0, 32).byte == 256",
        "shuffle_16x16<16, 128, 4>::offset(0, 16).byte == 8",
        "shuffle_16x16<16, 128, 8>::offset(0, 16) == 256",
    )


def test_b7_two_orders_that_look_equal(tmp_path: Path) -> None:
    orders = """
    layout first(row, k) {
        split row = N n:16
        split k = K g:4 b:16B
        store N K g n b
    }
    layout second(row, k) {
        split row = N n:16
        split k = K l:4 g:4 b:4B
        store N K n l g b
    }
    """
    module = made(tmp_path, orders, name="orders").module
    found = [getattr(module, f"storage_{name}")("t", 8, 16, 64).bound() for name in ("first", "second")]
    assert layout_id(found[0], 8) != layout_id(found[1], 8)
    clause = "same as torch view(row/16, 16, k/64B, 4, 4, 4B).permute(0, 2, 1, 3, 4, 5)"
    said = spec_refused(
        tmp_path, orders.replace("store N K g n b", f"store N K g n b\n        {clause}"), "same-as-torch"
    )
    places = [(row, k) for row in range(16) for k in range(64)]
    row, k = next(
        at for at in places if module.offset_first(*at, (16, 64), 8) != module.offset_second(*at, (16, 64), 8)
    )
    assert f"the element at (row {row}, k {k}) lies at" in said


def test_b8_kernel_moved_to_another_preparation(tmp_path: Path) -> None:
    text = """
    layout tiles(row, k) {
        split row = R r:16
        split k = K g:4 b:16
        store R K g r b
    }
    struct S(layer) { w : fp8_e4m3fn[64, 128] { tile tiles  convert fp8_e4m3fn row_major layer.w } }
    """
    old = made(tmp_path / "old", text, name="moved")
    new = made(tmp_path / "new", text.replace("r:16", "r:32"), name="moved")
    assert whats(refused(runtime.require_ids, old.module.S, "k", **own_ids(new, "S"))) == [("w", "field id")]
    specs, out = tmp_path / "specs", tmp_path / "out"
    specs.mkdir()
    spec = specs / "moved.layout"
    spec.write_text((old.folder / "moved.layout").read_text())
    command = [str(specs), "--out", str(out)]
    assert CliRunner().invoke(app, ["generate", *command]).exit_code == 0
    spec.write_text((new.folder / "moved.layout").read_text())
    (out / "moved.hpp").write_text(new.header)
    checked = CliRunner().invoke(app, ["check", *command])
    assert checked.exit_code == 3 and "moved.py" in checked.output


def test_b9_scale_swizzle_of_32x4_for_4x32(tmp_path: Path) -> None:
    product = made(tmp_path, SCALE_128X4, name="swizzled")
    wrong = made(tmp_path, SCALE_128X4.replace("a:4 b:32", "b:32 a:4"), name="factored").module
    offsets = [product.module.S.offset_s(*at) for at in ((1, 0), (32, 0), (33, 1))]
    closed = [(r % 32) * 16 + r // 32 * 4 + c for r, c in ((1, 0), (32, 0), (33, 1))]
    assert offsets == closed == [16, 4, 21]
    assert wrong.S.offset_s(1, 0) == 4
    asserted(product, "S::s::offset(1, 0) == 16", "S::s::offset(32, 0) == 4", "S::s::offset(33, 1) == 21")


def test_o1_dropped_interleave_passes_on_constant_data(tmp_path: Path) -> None:
    kept = made(tmp_path / "kept", _coupled("shuffle_16x16_gate_up", "shuffle_scale_a16w4_gate_up"), name="kept").module
    weight, scale = ramp(64, 256, dtype=FN), ramp(64, 8, below=251)
    for name, orders in {
        "dropped": ("shuffle_16x16", "e8m0_tiles"),
        "half": ("shuffle_16x16_gate_up", "e8m0_tiles"),
    }.items():
        other = made(tmp_path / name, _coupled(*orders), name=name).module
        mine, theirs = (m.Moe.from_layer(layer(w=weight, s=scale)) for m in (kept, other))
        assert not same_bytes(mine.s, theirs.s)
        assert same_bytes(mine.w, theirs.w) == (name == "half")
        assert kept.Moe.field_ids["w"] != other.Moe.field_ids["w"]
        constant = layer(w=torch.ones(64, 256).to(FN), s=torch.full((64, 8), 127, dtype=U8))
        assert same_bytes(kept.Moe.from_layer(constant).s, other.Moe.from_layer(constant).s), "why data are coded"


def _coupled(tile: str, scale: str) -> str:
    return f"""
    struct Moe(layer) {{
        w, s : mxfp8[64, 256] {{
            segments row = gate:32 up:32
            tile {tile}  scale {scale}  convert mxfp8 row_major layer.w, layer.s
        }}
    }}"""


def test_o2_all_ones_cannot_show_an_order(aiter_module: ModuleType) -> None:
    source = numbered(32, 64)
    assert source.unique().numel() == source.numel(), "no value stands twice"
    packed = aiter_module.pack_shuffle_16x16(source)
    chosen = random.Random(1)
    for _ in range(50):
        a, b = chosen.sample(range(source.numel()), 2)
        swapped = source.clone().view(-1)
        swapped[[a, b]] = swapped[[b, a]]
        other = aiter_module.pack_shuffle_16x16(swapped.view(32, 64))
        assert not same_bytes(packed, other)
        assert int(fingerprint(packed).value) != int(fingerprint(other).value)


def test_o4_strides_that_the_test_made_itself(tmp_path: Path) -> None:
    """The converter's bytes, read through the compiled header at every element of [48, 96]."""
    product = made(
        tmp_path, "struct S(layer) { w : int32[48, 96] { tile shuffle_16x16  convert int32 row_major layer.w } }"
    )
    source = numbered(48, 96)
    stored = product.module.S.from_layer(layer(w=source)).w.view(-1)
    places = torch.tensor(printed(product, "S::w::offset(i, j)", (48, 96)))
    assert torch.equal(stored[places // 4].view(48, 96), source)
