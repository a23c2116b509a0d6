"""A and L: what is known of the bytes is lost, stale, missing, or acted on twice."""

from __future__ import annotations

import ctypes
import dataclasses
from pathlib import Path
from types import ModuleType

import pytest
import torch

from mono_gen import runtime
from tests.field_reports.product import (
    FN,
    U8,
    Made,
    flagged,
    layer,
    made,
    not_compiled,
    ramp,
    raw,
    refused,
    same_bytes,
    spec_refused,
    whats,
)

WEIGHT = """
struct Weight(layer) {
    w : fp8_e4m3fn[32, 64] { tile shuffle_16x16  view layer.w  attest shuffle_16x16 when layer.w.is_shuffled }
    args table { w }
}
struct Converted(layer) {
    w : fp8_e4m3fn[32, 64] {
        tile shuffle_16x16  convert fp8_e4m3fn row_major layer.w  attest not layer.w.is_shuffled
    }
    args addresses { w }
}
struct Unflagged(layer) { w_qkv : fp8_e4m3fn[32, 64] { tile shuffle_16x16  view layer.w } }
"""


@pytest.fixture(scope="module")
def weight(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("weight"), WEIGHT, name="weight")


def test_a1_mark_lost_in_new_parameter(weight: Made) -> None:
    packed = flagged(weight.module.pack_shuffle_16x16(ramp(32, 64, dtype=FN)))
    wrapped = torch.nn.Parameter(packed, requires_grad=False)
    assert not hasattr(wrapped, "is_shuffled")
    assert weight.module.Weight.from_layer(layer(w=wrapped)).w.data_ptr() == packed.data_ptr()
    assert whats(refused(weight.module.Converted.from_layer, layer(w=wrapped))) == [("w", "layout")]
    assert [p.what for p in refused(weight.module.pack_shuffle_16x16, wrapped)] == ["layout"]


@pytest.mark.parametrize("k", [64, 128])
def test_a3_reload_hook_shuffles_twice(weight: Made, k: int) -> None:
    packed = weight.module.pack_shuffle_16x16(ramp(32, k, dtype=FN))
    (problem,) = refused(weight.module.pack_shuffle_16x16, packed)
    assert (problem.what, problem.expected, problem.found) == ("layout", "a row_major source", "shuffle_16x16")


def test_a5_one_shuffled_flag_for_two_shuffles(tmp_path: Path) -> None:
    kernels = made(
        tmp_path,
        """
        layout a_tiles(row, k) {
            split row = R r:16
            split k = K half:2 g:4 b:16
            store R K g r half b
        }
        struct A(layer) {
            w : fp8_e4m3fn[32, 256] { tile shuffle_16x16  view layer.w  attest shuffle_16x16 when layer.w.is_shuffled }
        }
        struct B(layer) {
            w : fp8_e4m3fn[32, 256] { tile a_tiles  view layer.w  attest a_tiles when layer.w.is_shuffled }
        }
        """,
        name="kernels",
    ).module
    places = [(row, k) for row in range(32) for k in range(256)]
    assert sum(kernels.A.offset_w(*at) == kernels.B.offset_w(*at) for at in places) == 128
    mine = layer(w=flagged(kernels.pack_shuffle_16x16(ramp(32, 256, dtype=FN))))
    kernels.A.from_layer(mine)
    (problem,) = refused(kernels.B.from_layer, mine)
    assert (problem.field, problem.what) == ("w", "layout")
    assert "a_tiles" in problem.expected and "shuffle_16x16" in problem.found


def test_a7_layout_defaults_to_not_preshuffled(tmp_path: Path, weight: Made) -> None:
    said = spec_refused(tmp_path, "struct S(layer) { w : fp8_e4m3fn[32, 64] { view layer.w } }", "layout-missing")
    assert "row_major" in said, "it must be said, not assumed"
    said = not_compiled(weight, "mono::weight::offset<32, 64, 8>(1, 0) == 64")
    assert "static assertion" not in said and "offset" in said, "no accessor without a layout's name"


def test_a9_second_load_writes_checkpoint_order(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        struct Moe(layer) {
            w13 : uint8[64, 64] {
                segments row = gate:32 up:32
                tile shuffle_16x16_gate_up
                view layer.w13
                attest shuffle_16x16_gate_up when layer.w13.is_shuffled
            }
        }
        """,
        name="second_load",
    ).module
    source, later = ramp(64, 64), ramp(64, 64).flip(0).contiguous()
    live = flagged(module.pack_shuffle_16x16_gate_up(source))
    struct = module.Moe.from_layer(layer(w13=live))
    live.copy_(later)
    assert whats(refused(module.Moe.from_layer, layer(w13=live))) == [("w13", "layout")]
    assert whats(refused(runtime.recheck, struct)) == [("w13", "overwritten")]
    module.pack_shuffle_16x16_gate_up(later, out=live)
    assert same_bytes(module.Moe.from_layer(layer(w13=live)).w13, module.pack_shuffle_16x16_gate_up(later.clone()))


def test_a9_a_loader_that_writes_through_data_is_seen_by_its_content(weight: Made) -> None:
    """`.data` has a write counter of its own: structure cannot see the write, content does."""
    live = torch.nn.Parameter(weight.module.pack_shuffle_16x16(ramp(32, 64, below=97).view(FN)), requires_grad=False)
    struct = weight.module.Weight.from_layer(layer(w=live))
    assert runtime.recheck(struct) == "unverified"
    live.data.view(U8).copy_(ramp(32, 64, below=89))
    assert whats(refused(runtime.recheck, struct, content=True)) == [("w", "overwritten")]
    assert whats(refused(weight.module.Weight.from_layer, layer(w=live))) == [("w", "layout")]


def test_a11_front_end_without_preshuffle(weight: Made) -> None:
    (problem,) = refused(weight.module.Unflagged.from_layer, layer(w=ramp(32, 64, dtype=FN)))
    assert (problem.field, problem.what) == ("w_qkv", "attest") and "shuffle_16x16" in problem.expected
    plain = ramp(32, 64, dtype=FN)
    plain.is_shuffled = False  # type: ignore[attr-defined]
    assert whats(refused(weight.module.Weight.from_layer, layer(w=plain))) == [("w", "attest")]


def test_l1_conversion_leaves_captured_graphs_with_the_old_address(weight: Made) -> None:
    module = weight.module
    out = torch.empty(32, 64, dtype=U8)
    address = out.data_ptr()
    assert module.pack_shuffle_16x16(ramp(32, 64), out=out).data_ptr() == address
    struct = module.Converted.from_layer(layer(w=ramp(32, 64, below=97).view(FN)))
    address = struct.w.data_ptr()
    fresh = module.Converted.from_layer(layer(w=ramp(32, 64, below=89).view(FN)))
    runtime.refresh(struct, fresh)
    assert struct.w.data_ptr() == address and same_bytes(struct.w, fresh.w)
    with pytest.raises(dataclasses.FrozenInstanceError):
        struct.w = fresh.w
    table = struct.addresses()
    assert runtime.recheck_table(table) > 0
    struct.w.data = fresh.w.clone()
    (problem,) = refused(runtime.recheck, struct)
    assert (problem.field, problem.what) == ("w", "moved")
    assert f"{address:#x}" in problem.expected and f"{struct.w.data_ptr():#x}" in problem.found
    (problem,) = refused(runtime.recheck_table, table)
    assert (problem.field, problem.what) == ("w", "moved")
    assert f"{address:#x}" in problem.expected and f"{struct.w.data_ptr():#x}" in problem.found


def test_l4_weights_discarded_in_sleep(weight: Made) -> None:
    packed = weight.module.pack_shuffle_16x16(ramp(32, 64, below=97).view(FN))
    struct = weight.module.Weight.from_layer(layer(w=packed))
    before = (struct.w.data_ptr(), struct.w.shape, struct.w.stride(), struct.w.dtype)
    ctypes.memset(packed.data_ptr(), 0, packed.nbytes)
    assert before == (struct.w.data_ptr(), struct.w.shape, struct.w.stride(), struct.w.dtype)
    assert runtime.recheck(struct) == "unverified", "structure does not claim what it has not read"
    (problem,) = refused(runtime.recheck, struct, content=True)
    assert (problem.field, problem.what) == ("w", "overwritten")


def test_l5_converted_latch_survives_the_reload(weight: Made) -> None:
    live = flagged(weight.module.pack_shuffle_16x16(ramp(32, 64, dtype=FN)))
    weight.module.Weight.from_layer(layer(w=live))
    live.view(U8).copy_(ramp(32, 64))
    assert live.is_shuffled, "the flag of the producer stays"  # type: ignore[attr-defined]
    (problem,) = refused(weight.module.Weight.from_layer, layer(w=live))
    assert (problem.field, problem.what) == ("w", "layout") and "written" in problem.found
    assert raw(live) == raw(ramp(32, 64))


def test_l5_module_is_loaded_from_a_state_dict(weight: Made, aiter_module: ModuleType) -> None:
    linear = torch.nn.Module()
    linear.weight = torch.nn.Parameter(aiter_module.pack_shuffle_16x16(ramp(32, 64)), requires_grad=False)
    linear.load_state_dict({"weight": ramp(32, 64)})
    assert runtime.record_of(linear.weight) is None
