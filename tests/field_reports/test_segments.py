"""G and P: parts of a fused axis in another order, interleaved or not, missing, or collapsed to one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mono_gen import runtime
from tests.field_reports.product import (
    FN,
    U8,
    Made,
    asserted,
    layer,
    made,
    own_ids,
    ramp,
    raw,
    refused,
    same_bytes,
    spec_refused,
    whats,
)


def test_g1_gate_up_for_a_kernel_of_up_gate(tmp_path: Path) -> None:
    text = """
    struct Moe(layer) { w13 : uint8[8, 32] {
        segments row = gate:4 up:4
        tile row_major  convert uint8 row_major layer.w13
    } }
    """
    loader = made(tmp_path / "loader", text, name="moe")
    kernel = made(tmp_path / "kernel", text.replace("gate:4 up:4", "up:4 gate:4"), name="moe")
    asserted(loader, "Moe::w13::kBegin_gate == 0", "Moe::w13::kBegin_up == 4")
    asserted(kernel, "Moe::w13::kBegin_up == 0", "Moe::w13::kBegin_gate == 4")
    up_first = torch.tensor([2] * 4 + [1] * 4, dtype=U8).view(8, 1).expand(8, 32).contiguous()
    w13 = kernel.module.Moe.from_layer(layer(w13=up_first)).w13
    begin, end = kernel.module.Moe.segments["w13"]["up"]
    assert set(raw(w13[begin:end])) == {2} and raw(w13)[0] == 2
    found = refused(runtime.require_ids, loader.module.Moe, "k", **own_ids(kernel, "Moe"))
    assert whats(found) == [("w13", "field id")], "equal shapes, equal bytes, other names"


def test_g3_halves_for_an_activation_of_pairs(tmp_path: Path) -> None:
    """I = 4; weight, bias and the scale of each row in the same order."""
    text = """
    layout rows(row, k) {{
        split row = gu:2 I {unit}
        store I gu {digit} k
    }}
    layout vector(row) {{
        split row = gu:2 I {unit}
        store I gu {digit}
    }}
    struct Moe(layer) {{
        w    : uint8[8, 2] {{ tile rows  convert uint8 row_major layer.w }}
        bias : uint8[8] {{ tile vector  convert uint8 row_major layer.bias }}
        s    : uint8[8] {{ tile vector  convert uint8 row_major layer.s }}
    }}
    """
    rows = torch.arange(8, dtype=U8)
    mine = layer(w=rows.view(8, 1).expand(8, 2).contiguous(), bias=rows.clone(), s=rows.clone())
    for unit, order in ((1, [0, 4, 1, 5, 2, 6, 3, 7]), (2, [0, 1, 4, 5, 2, 3, 6, 7])):
        parts = {"unit": f"u:{unit}", "digit": "u"} if unit > 1 else {"unit": "", "digit": ""}
        struct = made(tmp_path / str(unit), text.format(**parts), name=f"unit{unit}").module.Moe.from_layer(mine)
        assert raw(struct.bias) == raw(struct.s) == raw(struct.w)[::2] == order


def test_g4_interleaved_weights_for_a_separated_mode(tmp_path: Path) -> None:
    text = """
    layout rows(row, k) {
        split row = gu:2 I unit:16
        store I gu unit k
    }
    struct Moe(layer) { w13 : uint8[64, 2] { tile rows  convert uint8 row_major layer.w13 } }
    """
    asserted(made(tmp_path, text), "Moe::w13::layout::kSize_unit == 16", "Moe::w13::layout::kSize_gu == 2")
    said = spec_refused(tmp_path, text.replace("        split row = gu:2 I unit:16\n", ""), "unknown-name")
    assert "unit" in said


def test_g6_two_global_scales_collapsed_to_one(tmp_path: Path) -> None:
    module = made(tmp_path, "struct S(layer) { dim E  scale_2 : fp32[E] { view layer.scale_2 } }").module
    pair = torch.tensor([[3.85e-5, 4.83e-5]])
    assert whats(refused(module.S.from_layer, layer(scale_2=pair))) == [("scale_2", "shape")]
    assert whats(refused(module.S.from_layer, layer(scale_2=pair[:, :1]))) == [("scale_2", "shape")]
    assert module.S.from_layer(layer(scale_2=torch.full((4,), 3.85e-5))).E == 4


def test_g9_rotary_permutation_with_the_wrong_head_count(tmp_path: Path) -> None:
    """heads 8, kv 2, head_dim 4: the order is of one head, and the rows are kv of them."""
    text = """
    param KV = 2
    layout rotary(row, k) {
        split row = head h:2 d:2
        store head d h k
    }
    struct S(layer) { k_proj : uint8[KV * 4, 4] { tile rotary  convert uint8 row_major layer.k_proj } }
    """
    rows = torch.arange(8, dtype=U8).view(8, 1).expand(8, 4).contiguous()
    module = made(tmp_path, text).module
    assert raw(module.S.from_layer(layer(k_proj=rows)).k_proj)[::4] == [0, 2, 1, 3, 4, 6, 5, 7]
    wrong = torch.zeros(32, 4, dtype=U8)
    assert whats(refused(module.S.from_layer, layer(k_proj=wrong))) == [("k_proj", "shape")]
    spec_refused(tmp_path, text.replace("KV * 4, 4", "KV * 3, 4"), "not-divisible")


PAIR = """
struct S(layer) {
    w, s : mxfp8[4, 64] { tile row_major  scale row_major  view layer.w, layer.s }
}
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("pair"), PAIR, name="pair")


def test_p1_scales_dropped_as_unexpected_keys(pair: Made, tmp_path: Path) -> None:
    w, s = ramp(4, 64, dtype=FN), ramp(4, 2)
    struct = pair.module.S
    assert whats(refused(struct.from_layer, layer(w=w))) == [("s", "attribute")]
    (problem,) = refused(struct.from_layer, layer(w=w, weight_scale=s))
    assert (problem.field, problem.expected) == ("s", "layer.s")
    with pytest.raises(TypeError, match="weight_scale"):
        struct(w=w, s=s, weight_scale=s)
    with pytest.raises(TypeError, match="'s'"):
        struct(w=w)
    path = tmp_path / "pair.safetensors"
    runtime.save(struct.from_layer(layer(w=w, s=s)), path)
    assert set(runtime.load(path)) == {"w", "s"}
    _with_one_more(path)
    assert whats(refused(runtime.load, path)) == [("extra", "record")]


def _with_one_more(path: Path) -> None:
    """Write a tensor into a file of records, as a tool that knows none of them would."""
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    save_file({**load_file(path), "extra": torch.zeros(4)}, path, metadata=metadata)


QKV = "q:2048 k:128 v:128 iq:128 ik:128"


def test_p4_separate_shards_for_a_fused_parameter(tmp_path: Path) -> None:
    spec = """
    struct S(layer) {{ w : uint8[2560, 32] {{ segments row = {}  tile row_major  view layer.w }} }}
    """
    module = made(tmp_path, spec.format(QKV)).module
    segments = module.S.segments["w"]
    assert list(segments) == ["q", "k", "v", "iq", "ik"] and segments["ik"] == (2432, 2560)
    spec_refused(tmp_path, spec.format(QKV.removesuffix(" ik:128")), "segments-fill")
    spec_refused(tmp_path, spec.format(QKV.replace("iq:", "ik:")), "duplicate-name")
    for shard in ("q", "k"):
        begin, end = segments[shard]
        found = whats(refused(module.S.from_layer, layer(w=torch.zeros(end - begin, 32, dtype=U8))))
        assert found == [("w", "shape")]
    whole = ramp(2560, 32)
    supplied = torch.zeros_like(whole)
    for name in ("v", "ik", "q", "iq", "k"):  # whatever the order of supply
        begin, end = segments[name]
        supplied[begin:end] = whole[begin:end]
    assert same_bytes(module.S.from_layer(layer(w=supplied)).w, whole)
