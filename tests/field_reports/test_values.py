"""F: dialects, encodings and holders of numbers taken for one another; values changed where bytes should move."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

from mono_gen import runtime
from tests.field_reports.product import (
    BF16,
    E8M0,
    FN,
    FNUZ,
    FP4,
    FP32,
    U8,
    layer,
    made,
    own_ids,
    ramp,
    raw,
    refused,
    spec_refused,
    whats,
)

PTPC = """
struct S(layer) {
    w, s : ptpc_fp8[32, 64] { tile row_major  convert mxfp8 row_major layer.w, layer.s via bf16 }
}
"""


def codes(*values: int) -> torch.Tensor:
    """Return bytes."""
    return torch.tensor(values, dtype=U8)


def test_f1_bytes_of_one_dialect_viewed_as_the_other(tmp_path: Path) -> None:
    byte = codes(0x38)
    assert (byte.view(FN).float().item(), byte.view(FNUZ).float().item()) == (1.0, 0.5)
    field = "struct S(layer) {{ kv : {}[4, 32] {{ tile row_major  view layer.kv }} }}"
    said = spec_refused(tmp_path, field.format("fp8_e4m3fn"), "dialect", arch="gfx942")
    assert "0x38" in said
    module = made(tmp_path, field.format("fp8_e4m3fnuz"), arch="gfx942").module
    (problem,) = refused(module.S.from_layer, layer(kv=ramp(4, 32, dtype=FN)))
    assert (problem.what, problem.expected, problem.found) == ("dtype", "float8_e4m3fnuz", "float8_e4m3fn")


def test_f2_kernel_encodes_one_dialect_and_python_the_other(tmp_path: Path) -> None:
    kernel = made(tmp_path / "old", PTPC, arch="gfx942", name="dialect")
    loader = made(tmp_path / "new", PTPC, arch="gfx950", name="dialect")
    assert whats(refused(runtime.require_ids, loader.module.S, "k", **own_ids(kernel, "S"))) == [("w, s", "field id")]


def test_f4_negative_zero_is_nan_in_fnuz() -> None:
    data, scale = codes(0x7E, 0x80, 0x38).view(FN).view(1, 3), torch.tensor([2.0])
    moved, doubled = runtime.fn_to_fnuz("w", data, scale)
    assert moved.dtype is FNUZ and raw(moved) == [0x7E, 0x00, 0x38] and doubled.item() == 4.0
    assert torch.equal(moved.float() * doubled, data.float() * scale)
    assert data.float().to(FNUZ).isnan().any(), "what a cast would make of 448"
    assert whats(refused(runtime.fn_to_fnuz, "w", codes(0x7F, 0x01, 0x02).view(FN).view(1, 3), scale)) == [
        ("w", "fp8 code")
    ]


def test_f5_copy_between_dialects_converts_numbers(aiter_module: ModuleType) -> None:
    source = torch.full((16, 32), 0x38, dtype=U8).view(FN)
    by_number = torch.empty(1, dtype=U8).view(FNUZ)
    by_number.copy_(source[0, :1])
    assert raw(by_number) == [0x40], "what copy_ does"
    assert set(raw(aiter_module.pack_shuffle_16x16(source))) == {0x38}
    out = torch.empty(16, 32, dtype=U8).view(FNUZ)
    assert whats(refused(aiter_module.pack_shuffle_16x16, source, out=out)) == [("out", "dtype")]
    moved, doubled = runtime.fn_to_fnuz("w", source, torch.ones(16))
    assert set(raw(moved)) == {0x38} and doubled.eq(2).all()


def test_f6_e8m0_scales_copied_into_uint8(tmp_path: Path) -> None:
    scale = codes(120, 125, 127, 130, 140).view(1, 5)
    numeric = torch.empty(1, 5, dtype=U8)
    numeric.copy_(scale.view(E8M0))
    assert raw(numeric)[:4] == [0, 0, 1, 8], "what copy_ does"
    module = made(
        tmp_path,
        """
        struct V(layer) { s : e8m0[1, 5] { tile row_major  view layer.s } }
        struct C(layer) { s : e8m0[1, 5] { tile row_major  convert e8m0 row_major layer.s } }
        """,
    ).module
    for struct in (module.V, module.C):
        for held in (scale, scale.view(E8M0)):
            assert raw(struct.from_layer(layer(s=held)).s) == [120, 125, 127, 130, 140]


def test_f7_scale_bytes_used_as_linear_numbers(tmp_path: Path) -> None:
    one = torch.full((1, 32), 0x38, dtype=U8).view(FN)
    assert runtime.dequantize_mxfp8("w", one, codes(127).view(1, 1)).eq(1.0).all()
    field = "struct S(layer) {{ w, s : {} [4, 32] {{ tile row_major  scale row_major  view layer.w, layer.s }} }}"
    spec_refused(tmp_path, field.format("uint8"), "wrong-arity")
    spec_refused(tmp_path, field.format("u8"), "unknown-format")


@pytest.mark.parametrize("cast", [BF16, torch.float16])
def test_f8_blanket_cast_of_every_scale(tmp_path: Path, cast: torch.dtype) -> None:
    module = made(
        tmp_path,
        "struct S(layer) { w, s : mxfp8[4, 64] { tile row_major  scale row_major  view layer.w, layer.s } }",
    ).module
    values = torch.full((4, 2), 127, dtype=U8).view(E8M0).float().to(cast)
    (problem,) = refused(module.S.from_layer, layer(w=ramp(4, 64, dtype=FN), s=values))
    assert (problem.field, problem.what) == ("s", "dtype")
    assert problem.expected == "float8_e8m0fnu or uint8" and problem.found == str(cast).removeprefix("torch.")


def test_f9_packing_fp32_scales_leaks_mantissa_bits(tmp_path: Path) -> None:
    """No op makes exponent bytes of fp32 scales, so none can round or shift them wrongly."""
    field = "struct S(layer) {{ w, s : mxfp8[4, 32] {{ tile row_major  scale row_major  {} }} }}"
    spec_refused(tmp_path, field.format("convert ptpc_fp8 row_major layer.w, layer.s via bf16"), "not-built-yet")
    single = "struct S(layer) { s : e8m0[4, 32] { tile row_major  convert fp32 row_major layer.s } }"
    spec_refused(tmp_path, single, "no-conversion")
    module = made(tmp_path, field.format("view layer.w, layer.s")).module
    scales = torch.full((4, 1), 0.006975, dtype=FP32)
    assert whats(refused(module.S.from_layer, layer(w=ramp(4, 32, dtype=FN), s=scales))) == [("s", "dtype")]


def test_f10_small_tensor_punned_as_fp32(tmp_path: Path) -> None:
    module = made(tmp_path, "struct S(layer) { s_qkv : fp32[2560] { view layer.s_qkv } }").module
    found = whats(refused(module.S.from_layer, layer(s_qkv=torch.zeros(2560, dtype=BF16))))
    assert found == [("s_qkv", "dtype")]
    found = whats(refused(module.S.from_layer, layer(s_qkv=torch.zeros(5120, dtype=BF16))))
    assert found == [("s_qkv", "dtype"), ("s_qkv", "shape")]


def test_f12_uint8_where_the_packed_dtype_is_wanted(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        struct V(layer) { w : fp4_e2m1[32, 64] { tile row_major  view layer.w } }
        struct C(layer) { w : fp4_e2m1[32, 64] { tile shuffle_16x16  convert fp4_e2m1 row_major layer.w } }
        """,
    ).module
    source = ramp(32, 32)
    for held in (source, source.view(FP4)):
        struct = module.V.from_layer(layer(w=held))
        assert struct.w.data_ptr() == source.data_ptr() and struct.w.dtype is held.dtype
    converted = [module.C.from_layer(layer(w=held)).w for held in (source, source.view(FP4))]
    assert converted[0].dtype is converted[1].dtype is FP4 and raw(converted[0]) == raw(converted[1])
    assert whats(refused(module.V.from_layer, layer(w=source.view(torch.int8)))) == [("w", "dtype")]
