"""A GPU gives the CPU's bytes, and the structure checks of a load wait for nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from mono_gen import runtime

pytestmark = pytest.mark.gpu
FN = torch.float8_e4m3fn


def random_bytes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(sum(shape)))


def numbers(*shape: int) -> torch.Tensor:
    """Return random fp8 bytes without the NaN codes."""
    codes = random_bytes(*shape)
    return torch.where((codes & 0x7F) == 0x7F, codes ^ 1, codes).view(FN)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.cpu().contiguous().view(-1).view(torch.uint8), b.cpu().contiguous().view(-1).view(torch.uint8))


@pytest.mark.parametrize("skip", [0, 1, 8])
def test_pack_and_unpack(skip: int) -> None:
    rules = {"padded": (768, 256), "view": (24, 2, 16, 32, 2, 4), "permute": (0, 3, 5, 2, 4, 1)}
    tiles = {"padded": (768, 256), "view": (48, 16, 2, 2, 4, 16), "permute": (0, 2, 4, 1, 3, 5)}
    room = random_bytes(3 * 700 * 250 + skip)
    on_gpu = room.cuda()
    for form in (rules, tiles):
        t, g = (whole[skip:].view(3, 700, 250) for whole in (room, on_gpu))
        packed = runtime.pack("x", t, fill=0x7F, **form)  # type: ignore[arg-type]
        packed_there = runtime.pack("x", g, fill=0x7F, **form)  # type: ignore[arg-type]
        assert packed_there.is_cuda
        assert same(packed, packed_there)
        assert same(runtime.unpack("x", packed_there, (3, 700, 250), **form), t)  # type: ignore[arg-type]
    whole = random_bytes(2, 768, 256)
    assert same(runtime.pack("x", whole, **tiles), runtime.pack("x", whole.cuda(), **tiles))  # type: ignore[arg-type]
    pairs = whole.view(torch.float4_e2m1fn_x2)
    tiles = {"padded": (768, 512), "view": (48, 16, 16, 32), "permute": (0, 2, 1, 3)}
    assert same(runtime.pack("x", pairs, **tiles), runtime.pack("x", pairs.cuda(), **tiles))  # type: ignore[arg-type]


def test_every_pair_of_code_and_scale() -> None:
    codes = torch.arange(256, dtype=torch.uint8).repeat_interleave(32).view(1, -1).repeat(255, 1)
    scale = torch.arange(255, dtype=torch.uint8).view(-1, 1).repeat(1, 256)
    fine = (codes & 0x7F) != 0x7F
    codes = torch.where(fine & (scale < 240).repeat_interleave(32, dim=1), codes, 0).view(FN)
    assert same(runtime.dequantize_mxfp8("w", codes, scale), runtime.dequantize_mxfp8("w", codes.cuda(), scale.cuda()))


@pytest.mark.parametrize("dtype", [FN, torch.float8_e4m3fnuz])
def test_values_change_alike(dtype: torch.dtype) -> None:
    data, scale = numbers(2048, 2048), random_bytes(2048, 64) // 2 + 60
    here = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=dtype)
    there = runtime.mxfp8_to_ptpc_fp8("w", data.cuda(), scale.cuda(), dtype=dtype)
    assert all(same(a, b) for a, b in zip(here, there, strict=True))
    bits = random_bytes(2048, 512).view(torch.int16)
    bf16 = torch.where((bits & 0x7F80) == 0x7F80, bits & 0x3FFF, bits).view(torch.bfloat16)
    here, there = (runtime.quantize_ptpc_fp8("w", t, dtype) for t in (bf16, bf16.cuda()))
    assert all(same(a, b) for a, b in zip(here, there, strict=True))


def test_casts_alike() -> None:
    bits = random_bytes(1024, 4096).view(torch.int32)
    values = torch.where((bits & 0x7F800000) >= 0x7F000000, bits & 0x3FFFFFFF, bits).view(torch.float32)
    assert same(runtime.cast_bf16("g", values), runtime.cast_bf16("g", values.cuda()))
    data, scale = numbers(64, 256), torch.rand(64)
    here, there = runtime.fn_to_fnuz("w", data, scale), runtime.fn_to_fnuz("w", data.cuda(), scale.cuda())
    assert all(same(a, b) for a, b in zip(here, there, strict=True))


def test_a_refusal_names_the_same_place() -> None:
    data, scale = numbers(64, 256), random_bytes(64, 8) // 2 + 60
    scale[7, 3] = 255
    with pytest.raises(runtime.MonoUnsupported, match=r"255 .* at row 7, block 3; 1 in all"):
        runtime.dequantize_mxfp8("w", data.cuda(), scale.cuda())


def test_structure_checks_and_packs_wait_for_nothing() -> None:
    layer = SimpleNamespace(w=torch.zeros(4, 64, 64, device="cuda", dtype=torch.uint8))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        load = runtime.Load("S", "x.layout")
        e = load.dim("E")
        w = load.view("w", (layer, "layer.w"), dtypes=(torch.uint8,), shape=(e, 64, 64), bits=8, batch=1)
        load.check()
        packed = runtime.pack("x", w, padded=(64, 96), fill=3, view=(4, 16, 6, 16), permute=(0, 2, 1, 3))
        runtime.unpack("x", packed, (4, 64, 64), padded=(64, 96), view=(4, 16, 6, 16), permute=(0, 2, 1, 3))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert e.value == 4


def test_tensors_of_two_devices_are_refused() -> None:
    load = runtime.Load("S", "x.layout")
    for name, t in (("a", torch.zeros(4, device="cuda")), ("b", torch.zeros(4))):
        load.view(name, (SimpleNamespace(t=t), "layer.t"), dtypes=(torch.float32,), shape=(4,), bits=32)
    with pytest.raises(runtime.MonoUnsupported, match="b: device: expected cuda:0, as a, found cpu"):
        load.check()
    with pytest.raises(runtime.MonoUnsupported, match="w scale: device: expected cuda:0, found cpu"):
        runtime.dequantize_mxfp8("w", numbers(4, 32).cuda(), torch.ones(4, 1, dtype=torch.uint8))
    with pytest.raises(runtime.MonoUnsupported, match="out: device"):
        runtime.pack(
            "x", torch.zeros(4, 4), padded=(4, 4), view=(4, 4), permute=(1, 0), out=torch.zeros(4, 4, device="cuda")
        )
