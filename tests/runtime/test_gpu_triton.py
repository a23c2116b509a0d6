"""The Triton kernels on a GPU: the bytes of the CPU, for every layout and dtype, however they are launched."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.algebra.layout import offset
from mono_gen.runtime import MonoUnsupported, Storage, gpu, gpu_values
from mono_gen.runtime.content import counted, fingerprint
from mono_gen.runtime.gpu_values import Split
from mono_gen.runtime.layouts import LayoutRef, known_layouts
from mono_gen.runtime.places import plan_places
from mono_gen.runtime.tensors import dtype_bits

pytestmark = pytest.mark.gpu
FN, FNUZ, U8 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.uint8
DTYPES = (
    *(U8, torch.int8, FN, FNUZ, torch.float8_e5m2, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2),
    *(torch.bfloat16, torch.float16, torch.int16, torch.float32, torch.int32, torch.float64, torch.int64),
)
# extents in elements, of which a layout takes those of its rank that are legal: with live pads where it has pads
EXTENTS = ((270, 70), (96, 512), (64, 9), (40, 5), (70, 6, 10), (128, 7, 9))
TILES: dict[str, Any] = {"padded": (768, 256), "view": (48, 16, 2, 2, 4, 16), "permute": (0, 2, 4, 1, 3, 5)}
SCALES: dict[str, Any] = {"padded": (768, 256), "view": (24, 2, 16, 32, 2, 4), "permute": (0, 3, 5, 2, 4, 1)}


@pytest.fixture(autouse=True)
def kernels_are_there() -> None:
    assert gpu.has_kernels(torch.zeros(1, device="cuda")), "the GPU is there, Triton is not"


@pytest.fixture(scope="module")
def layouts(aiter_module: ModuleType, minimax_module: ModuleType) -> tuple[LayoutRef, ...]:
    return known_layouts()


def random_bytes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=U8, generator=torch.Generator().manual_seed(sum(shape)))


def numbers(*shape: int) -> torch.Tensor:
    """Return random fp8 bytes without the NaN codes."""
    codes = random_bytes(*shape)
    return torch.where((codes & 0x7F) == 0x7F, codes ^ 1, codes).view(FN)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether the bytes of two dense tensors are equal, wherever they lie."""
    return torch.equal(a.view(-1).view(U8).cpu(), b.view(-1).view(U8).cpu())


def legal(ref: LayoutRef, bits: int) -> list[Storage]:
    """Return a layout at the first extents that it takes, and at the first with live pads."""
    found: list[Storage] = []
    for extents in EXTENTS:
        if len(extents) != len(ref.axes) or (bits == 4 and extents[-1] % 2):
            continue
        try:
            found.append(ref.storage("test", bits, *extents))
        except MonoUnsupported:
            continue
    padded = [s for s in found if s.padded != s.extents and s.fill is not None]
    return [*found[:1], *(s for s in padded[:1] if s is not found[0])]


def comes_apart(storage: Storage) -> bool:
    """Return whether neighbours along the last axis are not neighbours in storage: no pair of 4 bits can be moved."""
    layout = storage.bound()
    at = (0,) * (len(layout.extents) - 1)
    return offset(layout, (*at, 1)) != offset(layout, (*at, 0)) + 1


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(MonoUnsupported) as refused:
        call()
    return str(refused.value)


@pytest.mark.parametrize("bits", [4, 8, 16, 32, 64])
def test_every_layout_and_dtype(layouts: tuple[LayoutRef, ...], bits: int) -> None:
    dtypes = [d for d in DTYPES if dtype_bits(d) == bits]
    moved = 0
    for ref in layouts:
        for storage in legal(ref, bits):
            form: dict[str, Any] = {"padded": storage.padded, "view": storage.view, "permute": storage.permute}
            shape = (3, *storage.extents[:-1], storage.extents[-1] // (2 if bits == 4 else 1))
            for dtype in dtypes:
                t = random_bytes(*shape[:-1], shape[-1] * dtype.itemsize).view(dtype)
                if bits == 4 and comes_apart(storage):
                    pack_it = partial(runtime.pack, ref.name, fill=storage.fill, **form)
                    assert refusal(lambda c=pack_it, t=t: c(t.cuda())) == refusal(lambda c=pack_it, t=t: c(t))
                    continue
                packed = runtime.pack(ref.name, t, fill=storage.fill, **form)
                out = torch.full_like(packed.view(U8), 0xA5).cuda().view(dtype)
                assert runtime.pack(ref.name, t.cuda(), fill=storage.fill, out=out, **form) is out
                assert same(out, packed), (ref.name, dtype, storage)
                back = runtime.unpack(ref.name, out, tuple(t.shape), **form)
                assert back.is_cuda
                assert same(back, t), (ref.name, dtype, storage)
                moved += 1
    assert moved >= 8 * len(dtypes)


@pytest.mark.parametrize("form", [TILES, SCALES], ids=["tiles", "scales"])
@pytest.mark.parametrize("skip", [1, 2, 4, 8, 24])
def test_odd_offsets(form: dict[str, Any], skip: int) -> None:
    for shape in ((2, 768, 256), (2, 700, 250)):
        room = random_bytes(2 * 768 * 256 + 64)
        t, there = (r[skip:][: shape[0] * shape[1] * shape[2]].view(shape) for r in (room, room.cuda()))
        packed = runtime.pack("x", t, fill=0x7F, **form)
        target = torch.zeros(packed.numel() + 64, dtype=U8, device="cuda")
        for begin in (0, skip):
            out = target[begin:][: packed.numel()].view(packed.shape)
            assert same(runtime.pack("x", there, fill=0x7F, out=out, **form), packed)
            assert same(runtime.unpack("x", out, shape, **form), t)
        assert int(target[packed.numel() + skip :].max()) == 0


def test_more_than_4_gib() -> None:
    rows, k = (1 << 16) + 32, 1 << 16
    t = torch.empty(rows, k, dtype=U8, device="cuda")
    t.view(torch.int32).copy_(torch.arange(rows * k // 4, device="cuda", dtype=torch.int32).view(rows, -1) * 2654435)
    form: dict[str, Any] = {"padded": (rows, k), "view": (rows // 16, 16, k // 32, 2, 16), "permute": (0, 2, 3, 1, 4)}
    packed = runtime.pack("x", t, **form)
    for tile in (0, rows // 32, rows // 16 - 1):
        wanted = t[16 * tile : 16 * tile + 16].view(16, k // 32, 2, 16).permute(1, 2, 0, 3).reshape(-1)
        assert torch.equal(packed[16 * tile : 16 * tile + 16].view(-1), wanted)
    assert torch.equal(runtime.unpack("x", packed, (rows, k), **form), t)
    before = int(fingerprint(t).value)
    t[-1, -1] ^= 1
    assert int(fingerprint(t).value) != before
    del packed
    t = t.view(-1)[: 5 * (1 << 29)].view(5, 1 << 13, 1 << 16)  # more than 2 GiB, padded
    form = {"padded": (1 << 13, (1 << 16) + 64), "view": (1 << 9, 16, (1 << 12) + 4, 16), "permute": (0, 2, 1, 3)}
    packed = runtime.pack("x", t, fill=7, **form)
    assert int((packed.view(5, 1 << 9, (1 << 12) + 4, 256)[:, :, -4:] != 7).sum()) == 0
    assert torch.equal(runtime.unpack("x", packed, tuple(t.shape), **form), t)


def test_another_stream() -> None:
    t = random_bytes(768, 256)
    wanted = runtime.pack("x", t, **TILES)
    source = torch.zeros_like(t, device="cuda")
    runtime.pack("x", source, **TILES)  # compiled before the clock runs
    pinned = t.pin_memory()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        source.copy_(pinned, non_blocking=True)
        packed = runtime.pack("x", source, **TILES)
        hashed = fingerprint(source).value
    stream.synchronize()
    assert same(packed, wanted)
    assert int(hashed) == int(fingerprint(t, sampled=False).value)


def test_inference_mode() -> None:
    t = random_bytes(768, 256)
    wanted = runtime.pack("x", t, **TILES)
    with torch.inference_mode():
        made = torch.empty(768, 256, dtype=U8, device="cuda")
        assert same(runtime.pack("x", t.cuda(), out=made, **TILES), wanted)
        made.zero_()
    assert same(runtime.pack("x", t.cuda(), out=made, **TILES), wanted)
    out = torch.empty(768, 256, dtype=U8, device="cuda")
    with torch.inference_mode():
        assert same(runtime.pack("x", t.cuda(), out=out, **TILES), wanted)
        assert same(runtime.unpack("x", out, (768, 256), **TILES), t)


def test_captured_in_a_graph() -> None:
    source, out = (torch.zeros(768, 256, dtype=U8, device="cuda") for _ in range(2))
    runtime.pack("x", source, out=out, **TILES)
    fingerprint(source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        runtime.pack("x", source, out=out, **TILES)
        hashed = fingerprint(source).value
    for seed in (1, 2):
        t = random_bytes(768, 256 + seed)[:, seed:].contiguous()
        source.copy_(t)
        graph.replay()
        assert same(out, runtime.pack("x", t, **TILES))
        assert int(hashed) == int(fingerprint(t, sampled=False).value)


def test_a_write_is_counted() -> None:
    out = torch.zeros(768, 256, dtype=U8, device="cuda")
    before = out._version
    runtime.pack("x", random_bytes(768, 256).cuda(), out=out, **TILES)
    assert out._version > before


def every_code(exponents: range) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows that hold every code under a range of scales, each row with a largest code of its own."""
    codes = torch.arange(256, dtype=U8)
    codes = torch.where((codes & 0x7F) == 0x7F, 0, codes).repeat(len(exponents))
    most = torch.arange(1, 0x7F, dtype=U8).view(-1, 1).expand(-1, 32)
    data = torch.cat((most, codes.expand(len(most), -1)), dim=1)
    scale = torch.tensor([exponents[-1], *(e for e in exponents for _ in range(8))], dtype=U8)
    return data.view(FN), scale.expand(len(most), -1).contiguous()


@pytest.mark.parametrize("dtype", [FN, FNUZ])
@pytest.mark.parametrize("exponents", [range(95, 128), range(20), range(30, 60), range(220, 240)], ids=str)
def test_every_quotient(exponents: range, dtype: torch.dtype) -> None:
    data, scale = every_code(exponents)
    here = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=dtype)
    there = runtime.mxfp8_to_ptpc_fp8("w", data.cuda(), scale.cuda(), dtype=dtype)
    assert same(here[1], there[1])
    assert same(here[0], there[0])


@pytest.mark.parametrize("k", [32, 96, 160, 768, 6144, 8192, 40960])
@pytest.mark.parametrize("rows", [1, 37])
def test_requantized_rows_of_every_length(rows: int, k: int) -> None:
    data, scale = numbers(2, rows, k), random_bytes(2, rows, k // 32) // 4 + 100
    data.view(U8)[0, 0] &= 0x80  # a row of zeros, some of them negative
    here = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    there = runtime.mxfp8_to_ptpc_fp8("w", data.cuda(), scale.cuda(), dtype=FN)
    assert all(same(a, b) for a, b in zip(here, there, strict=True))
    assert same(runtime.dequantize_mxfp8("w", data, scale), runtime.dequantize_mxfp8("w", data.cuda(), scale.cuda()))


def test_requantized_into_every_layout(layouts: tuple[LayoutRef, ...]) -> None:
    data, scale = numbers(3, 64, 512), random_bytes(3, 64, 16) // 4 + 100
    q, q_scale = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    by_kernel = 0
    for ref in (ref for ref in layouts if len(ref.axes) == 2):
        try:
            storage = ref.storage("test", 8, 64, 512)
        except MonoUnsupported:
            continue
        form: dict[str, Any] = {"padded": storage.padded, "view": storage.view, "permute": storage.permute}
        wanted = runtime.pack("w", q, fill=storage.fill, **form)
        out = torch.empty(wanted.shape, dtype=FN, device="cuda"), torch.empty(3, 64, device="cuda")
        made = runtime.mxfp8_to_ptpc_fp8("w", data.cuda(), scale.cuda(), dtype=FN, storage=storage, out=out)
        assert made is out
        assert same(out[0], wanted), ref.name
        assert same(out[1], q_scale), ref.name
        by_kernel += plan_places(3, storage.extents, storage.padded, storage.view, storage.permute) is not None
    assert by_kernel >= 12


@pytest.mark.parametrize("ptx", [False, True])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("split", [Split(4, 64, 3, 8), Split(8, 16, 0, 4), Split(16, 256, 1, 16)], ids=str)
def test_every_form_of_the_kernel(ptx: bool, fast: bool, split: Split) -> None:
    data, scale = numbers(77, 6144), random_bytes(77, 192) // 4 + 100
    q, q_scale = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
    places = plan_places(1, (77, 6144), (77, 6144), (77, 6144), (0, 1))
    assert places is not None
    out, scales = torch.empty(77, 6144, dtype=FN, device="cuda"), torch.empty(77, device="cuda")
    reciprocal = float(torch.tensor(1 / 448, dtype=torch.float64).float())
    found = gpu_values.mxfp8_to_ptpc(
        data.cuda(), scale.cuda(), out, scales, places, reciprocal, fnuz=False, fast=fast, ptx=ptx, split=split
    )
    assert found.tolist() == [0, 0]
    assert same(scales, q_scale)
    assert same(out, q)


@pytest.mark.parametrize("bad", ["scale", "code", "overflow"])
def test_refusals_are_the_cpus(bad: str) -> None:
    data, scale = numbers(64, 256), random_bytes(64, 8) // 4 + 100
    match bad:
        case "scale":
            scale[7, 3] = 255
        case "code":
            data.view(U8)[63, 255] = 0xFF
        case "overflow":
            scale[0, 0], data.view(U8)[0, 5] = 250, 0x70
    for convert in (
        lambda d, s: runtime.mxfp8_to_ptpc_fp8("w", d, s, dtype=FN),
        lambda d, s: runtime.dequantize_mxfp8("w", d, s),
    ):
        assert refusal(lambda c=convert: c(data, scale)) == refusal(lambda c=convert: c(data.cuda(), scale.cuda()))


def test_refusals_of_threads_with_streams_of_their_own() -> None:
    data, scale = numbers(64, 256).cuda(), (random_bytes(64, 8) // 4 + 100).cuda()
    bad = scale.clone()
    bad[7, 3] = 255
    wanted = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)

    def convert(is_bad: bool) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                if is_bad:
                    assert "at row 7, block 3" in refusal(lambda: runtime.mxfp8_to_ptpc_fp8("w", data, bad, dtype=FN))
                else:
                    made = runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN)
                    assert all(same(a, b) for a, b in zip(made, wanted, strict=True))

    torch.cuda.synchronize()
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(convert, n % 2 == 0) for n in range(4)]:
            done.result()


def test_casts() -> None:
    bits = random_bytes(1024, 4097 * 4)[:, 4:].contiguous().view(torch.int32)
    values = torch.where((bits & 0x7F800000) >= 0x7F000000, bits & 0x3FFFFFFF, bits).view(torch.float32)
    for t in (values, values[:1, :1], values.view(-1)[3:]):
        assert same(runtime.cast_bf16("g", t), runtime.cast_bf16("g", t.cuda()))
    values[5, 7], values[9, 1], values[1023, 4095] = float("nan"), float("-inf"), 3.4e38
    assert refusal(lambda: runtime.cast_bf16("g", values)) == refusal(lambda: runtime.cast_bf16("g", values.cuda()))


def test_bad_codes_are_counted_in_the_same_pass() -> None:
    recheck = sys.modules["mono_gen.runtime.recheck"]  # the package has a function of that name
    t = random_bytes(3 * 262144 + 12)
    for element, codes in recheck.BAD_CODES.items():
        info = importlib.import_module("mono_gen.runtime.fields").TensorInfo("t", element, codes.bits, "", 0, 0)
        value, count = counted(t.cuda(), codes).tolist()
        assert value == int(fingerprint(t, sampled=False).value)
        assert count == int(recheck.bad_codes(t, info)), element


def test_memory_beyond_the_output() -> None:
    rows, k = 4096, 8192
    data, scale = numbers(rows, k).cuda(), (random_bytes(rows, k // 32) // 4 + 100).cuda()
    storage = Storage((rows, k), (rows, k), (rows // 16, 16, k // 32, 2, 16), (0, 2, 3, 1, 4))
    out = torch.empty_like(data), torch.empty(rows, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN, storage=storage, out=out)
    assert torch.cuda.max_memory_allocated() - before < 1 << 20
