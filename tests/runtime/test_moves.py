"""pack and unpack against numpy: pad, reshape, transpose; position-coded elements, every dtype and alignment."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported
from mono_gen.runtime.moves import _coalesce, _movable


class Case(NamedTuple):
    logical: tuple[int, ...]  # elements
    padded: tuple[int, ...]
    view: tuple[int, ...]
    permute: tuple[int, ...]


CASES = {
    "tiles 16x16": Case((32, 96), (32, 96), (2, 16, 3, 32), (0, 2, 1, 3)),
    "mxfp8 tiles": Case((48, 256), (48, 256), (3, 16, 2, 2, 4, 16), (0, 2, 4, 1, 3, 5)),
    "identity": Case((6, 10), (6, 10), (6, 10), (0, 1)),
    "joined digits": Case((8, 96), (8, 96), (2, 4, 3, 2, 16), (0, 2, 3, 1, 4)),
    "digits of one": Case((8, 32), (8, 32), (2, 1, 4, 1, 32, 1), (3, 2, 0, 1, 5, 4)),
    "pads both axes": Case((35, 42), (48, 64), (3, 16, 4, 16), (0, 2, 1, 3)),
    "pads rows": Case((35, 64), (48, 64), (3, 16, 4, 16), (0, 2, 1, 3)),
    "pads k": Case((32, 20), (32, 32), (2, 16, 2, 16), (0, 2, 1, 3)),
    "three axes": Case((3, 5, 12), (4, 6, 16), (2, 2, 6, 4, 4), (0, 3, 2, 1, 4)),
    "one axis": Case((22,), (24,), (3, 2, 4), (1, 0, 2)),
}
BYTES_ONLY = {  # the fastest digit moves: 4-bit elements cannot
    "e8m0": Case((64, 24), (64, 24), (2, 2, 16, 3, 2, 4), (0, 3, 5, 2, 4, 1)),
    "e8m0 padded": Case((70, 13), (96, 16), (3, 2, 16, 2, 2, 4), (0, 3, 5, 2, 4, 1)),
    "transposed": Case((6, 10), (6, 10), (6, 10), (1, 0)),
    "one element": Case((1, 1), (1, 1), (1, 1), (1, 0)),
}
DTYPES = [
    torch.uint8,
    torch.int8,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e8m0fnu,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.int32,
    torch.int64,
]
FILLS = {8: 0x7F, 16: 0xBEEF, 32: 0xDEADBEEF, 64: 0xFEDCBA9876543210}
HOLDERS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def coded(count: int, bits: int) -> NDArray[Any]:
    """Return `count` elements that depend on their place in every byte, NaN patterns among them."""
    mixed = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(64 - bits)).astype(HOLDERS.get(bits, np.uint8))


def expected(elements: NDArray[Any], case: Case, fill: int) -> NDArray[Any]:
    """Return the packed elements of [batch, *logical], by numpy alone."""
    room = np.full((len(elements), *case.padded), fill, dtype=elements.dtype)
    room[(slice(None), *(slice(0, extent) for extent in case.logical))] = elements
    order = (0, *(axis + 1 for axis in case.permute))
    return room.reshape(-1, *case.view).transpose(order).reshape(-1, *case.padded)


def tensor_of(raw: NDArray[Any], dtype: torch.dtype, shape: tuple[int, ...], skip: int = 0) -> torch.Tensor:
    """Return a tensor over the bytes of `raw`, `skip` bytes behind the start of an aligned allocation."""
    room = torch.zeros(raw.nbytes + skip + 64, dtype=torch.uint8)
    start = -room.data_ptr() % 64 + skip
    part = room[start : start + raw.nbytes]
    part.copy_(torch.from_numpy(np.ascontiguousarray(raw).reshape(-1).view(np.uint8)))
    if part.storage_offset() % dtype.itemsize:  # an address that is aligned, an offset that is not
        raise AssertionError("ask for another skip")
    return part.view(dtype).view(shape)


def raw_bytes(t: torch.Tensor) -> list[int]:
    return t.contiguous().view(-1).view(torch.uint8).tolist()  # type: ignore[no-any-return]


def pairs(nibbles: NDArray[Any]) -> NDArray[Any]:
    """Return bytes of two 4-bit elements each, the even one low."""
    flat = nibbles.reshape(-1)
    return (flat[0::2] | flat[1::2] << 4).astype(np.uint8)


def rules(case: Case, **more: Any) -> dict[str, Any]:
    return {"padded": case.padded, "view": case.view, "permute": case.permute, **more}


ALL = [*((name, dtype) for name in (CASES | BYTES_ONLY) for dtype in DTYPES)]


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_pack_is_pad_view_permute(name: str, dtype: torch.dtype, batch: tuple[int, ...]) -> None:
    case = (CASES | BYTES_ONLY)[name]
    bits = 8 * dtype.itemsize
    elements = coded(math.prod(batch) * math.prod(case.logical), bits).reshape(-1, *case.logical)
    t = tensor_of(elements, dtype, (*batch, *case.logical))
    before = raw_bytes(t)
    packed = runtime.pack("pack_x", t, **rules(case, fill=FILLS[bits]))
    want = expected(elements, case, FILLS[bits])
    assert packed.dtype == dtype
    assert packed.shape == (*batch, *case.padded)
    assert raw_bytes(packed) == want.reshape(-1).view(np.uint8).tolist()
    back = runtime.unpack("unpack_x", packed, t.shape, **rules(case))
    assert back.dtype == dtype
    assert back.shape == t.shape
    assert back.is_contiguous()
    assert raw_bytes(back) == before == raw_bytes(t)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", CASES)
def test_four_bit_elements_move_in_pairs(name: str, batch: tuple[int, ...]) -> None:
    case = CASES[name]
    nibbles = coded(math.prod(batch) * math.prod(case.logical), 4).reshape(-1, *case.logical)
    torch_shape = (*batch, *case.logical[:-1], case.logical[-1] // 2)
    t = tensor_of(pairs(nibbles), torch.float4_e2m1fn_x2, torch_shape)
    packed = runtime.pack("pack_x", t, **rules(case, fill=0x6))
    assert packed.dtype == torch.float4_e2m1fn_x2
    assert packed.shape == (*batch, *case.padded[:-1], case.padded[-1] // 2)
    assert raw_bytes(packed) == pairs(expected(nibbles, case, 0x6)).tolist()
    back = runtime.unpack("unpack_x", packed, torch_shape, **rules(case))
    assert back.dtype == t.dtype
    assert back.shape == t.shape
    assert raw_bytes(back) == raw_bytes(t)


def test_unpack_is_the_inverse() -> None:
    """Every permutation of four unequal digits, there and back."""
    import itertools

    elements = coded(2 * 3 * 4 * 5, 16)
    t = tensor_of(elements, torch.bfloat16, (6, 20))
    for permute in itertools.permutations(range(4)):
        case = Case((6, 20), (6, 20), (2, 3, 4, 5), permute)
        packed = runtime.pack("pack_x", t, **rules(case))
        assert raw_bytes(packed) == expected(elements.reshape(1, 6, 20), case, 0).reshape(-1).view(np.uint8).tolist()
        assert raw_bytes(runtime.unpack("unpack_x", packed, (6, 20), **rules(case))) == raw_bytes(t)


@pytest.mark.parametrize("skip", [1, 2, 4, 8, 3, 16])
@pytest.mark.parametrize("skip_out", [0, 1, 2, 4, 8])
def test_a_misaligned_source_or_target_gives_the_same_bytes(skip: int, skip_out: int) -> None:
    case = CASES["tiles 16x16"]
    elements = coded(32 * 96, 8).reshape(1, 32, 96)
    t = tensor_of(elements, torch.float8_e4m3fn, (32, 96), skip)
    out = tensor_of(np.zeros(32 * 96, dtype=np.uint8), torch.float8_e4m3fn, (32, 96), skip_out)
    packed = runtime.pack("pack_x", t, **rules(case), out=out)
    assert raw_bytes(packed) == expected(elements, case, 0).reshape(-1).tolist()
    assert raw_bytes(runtime.unpack("unpack_x", out, (32, 96), **rules(case))) == raw_bytes(t)


def test_an_aligned_address_behind_an_odd_storage_offset() -> None:
    """torch refuses to view such a tensor in 16 bytes: the offset counts, not the address alone."""
    case = CASES["tiles 16x16"]
    buffer = bytearray(32 * 96 + 64)
    start = torch.frombuffer(buffer, dtype=torch.uint8).data_ptr()
    room = torch.frombuffer(buffer, dtype=torch.uint8, offset=(5 - start) % 16)  # storage 5 past a multiple of 16
    t = room[11 : 11 + 32 * 96].view(32, 96)
    assert (t.data_ptr() % 16, t.storage_offset() % 16) == (0, 11)
    elements = coded(32 * 96, 8).reshape(1, 32, 96)
    t.copy_(torch.from_numpy(elements[0]))
    packed = runtime.pack("pack_x", t, **rules(case))
    assert raw_bytes(packed) == expected(elements, case, 0).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("case", "dtype", "source", "target", "unit"),
    [
        ("tiles 16x16", torch.float8_e4m3fn, 0, 0, 16),
        ("tiles 16x16", torch.float8_e4m3fn, 8, 0, 8),
        ("tiles 16x16", torch.float8_e4m3fn, 0, 4, 4),
        ("tiles 16x16", torch.float8_e4m3fn, 2, 4, 2),
        ("tiles 16x16", torch.float8_e4m3fn, 0, 1, 1),
        ("mxfp8 tiles", torch.float8_e4m3fn, 0, 0, 16),
        ("one axis", torch.float8_e4m3fn, 0, 0, 4),
        ("one axis", torch.float4_e2m1fn_x2, 0, 0, 2),
        ("one axis", torch.int64, 0, 0, 16),
        ("digits of one", torch.uint8, 0, 0, 16),
        ("transposed", torch.float32, 0, 0, 4),
        ("transposed", torch.uint8, 0, 0, 1),
    ],
)
def test_the_widest_unit_that_run_and_addresses_allow(
    case: str, dtype: torch.dtype, source: int, target: int, unit: int
) -> None:
    chosen = (CASES | BYTES_ONLY)[case]
    flats = [tensor_of(np.zeros(256, dtype=np.uint8), torch.uint8, (1, 256), skip) for skip in (source, target)]
    assert _movable("x", chosen.view, chosen.permute, dtype, *flats).unit_bytes == unit


def test_coalesce_joins_neighbours_and_drops_ones() -> None:
    assert _coalesce((2, 16, 3, 2, 16), (0, 2, 3, 1, 4)) == ((2, 16, 6, 16), (0, 2, 1, 3))
    assert _coalesce((2, 3, 4), (0, 1, 2)) == ((24,), (0,))
    assert _coalesce((2, 1, 3), (2, 1, 0)) == ((2, 3), (1, 0))
    assert _coalesce((1, 1), (1, 0)) == ((), ())


# --- pads ---


def test_pads_are_written_on_every_call() -> None:
    case = CASES["pads both axes"]
    elements = coded(2 * 35 * 42, 8).reshape(2, 35, 42)
    t = tensor_of(elements, torch.uint8, (2, 35, 42))
    out = torch.full((2, 48, 64), 0xA5, dtype=torch.uint8)
    for fill, byte in ((0x7F, 0x7F), (None, 0), (0, 0)):
        runtime.pack("pack_x", t, **rules(case, fill=fill), out=out)
        assert raw_bytes(out) == expected(elements, case, byte).reshape(-1).tolist()


@pytest.mark.parametrize("fill", [-1, 0x100])
def test_a_fill_that_is_not_one_element_is_refused(fill: int) -> None:
    with pytest.raises(MonoUnsupported, match="fill: expected a pattern of 8 bits"):
        runtime.pack("pack_x", torch.zeros(35, 42, dtype=torch.uint8), **rules(CASES["pads both axes"], fill=fill))


# --- out ---


def test_out_is_kept_and_returned() -> None:
    case = CASES["tiles 16x16"]
    elements = coded(32 * 96, 8).reshape(1, 32, 96)
    t = tensor_of(elements, torch.uint8, (32, 96))
    out = torch.nn.Parameter(torch.zeros(32, 96, dtype=torch.uint8), requires_grad=False)
    address = out.data_ptr()
    assert runtime.pack("pack_x", t, **rules(case), out=out) is out
    assert out.data_ptr() == address
    assert raw_bytes(out) == expected(elements, case, 0).reshape(-1).tolist()


def test_an_inference_tensor_may_be_out_and_source() -> None:
    case = CASES["pads both axes"]
    elements = coded(35 * 42, 8).reshape(1, 35, 42)
    with torch.inference_mode():
        out = torch.zeros(48, 64, dtype=torch.uint8)
        t = tensor_of(elements, torch.uint8, (35, 42))
    runtime.pack("pack_x", t, **rules(case, fill=1), out=out)
    assert raw_bytes(out) == expected(elements, case, 1).reshape(-1).tolist()
    with torch.inference_mode():
        assert raw_bytes(runtime.unpack("unpack_x", out, (35, 42), **rules(case))) == raw_bytes(t)


def test_a_parameter_that_wants_a_gradient_gives_a_plain_result() -> None:
    case = CASES["tiles 16x16"]
    t = torch.nn.Parameter(torch.zeros(32, 96, dtype=torch.bfloat16))
    packed = runtime.pack("pack_x", t, **rules(case))
    assert type(packed) is torch.Tensor
    assert not packed.requires_grad
    out = torch.nn.Parameter(torch.ones(32, 96, dtype=torch.bfloat16))
    assert runtime.pack("pack_x", t, **rules(case), out=out) is out
    assert out.eq(0).all()


def test_a_default_device_changes_nothing() -> None:
    with torch.device("meta"):
        packed = runtime.pack(
            "pack_x", torch.zeros(35, 42, dtype=torch.uint8, device="cpu"), **rules(CASES["pads both axes"])
        )
        assert runtime.unpack("unpack_x", packed, (35, 42), **rules(CASES["pads both axes"])).device.type == "cpu"
    assert packed.device.type == "cpu"


def good() -> torch.Tensor:
    return torch.zeros(32, 96, dtype=torch.bfloat16)


SHARED = torch.zeros(64, 96, dtype=torch.bfloat16)
BAD_OUT = [
    ("dtype", lambda: torch.zeros(32, 96, dtype=torch.float16), "expected bfloat16, found float16"),
    ("shape", lambda: torch.zeros(96, 32, dtype=torch.bfloat16), "expected 32 x 96 elements, found 96 x 32 elements"),
    ("strides", lambda: torch.zeros(96, 32, dtype=torch.bfloat16).t(), "expected 96, 1"),
    ("strides", lambda: torch.zeros(32, 128, dtype=torch.bfloat16)[:, :96], "expected 96, 1"),
    ("kind", lambda: torch.zeros(32, 96, dtype=torch.bfloat16, device="meta"), "found a meta tensor"),
    ("memory", lambda: SHARED[31:63], "bytes shared with the source"),
    ("memory", lambda: SHARED[:32], "bytes shared with the source"),
]


@pytest.mark.parametrize(("what", "make", "text"), BAD_OUT)
def test_an_out_that_does_not_fit_is_refused_and_not_written(what: str, make: Any, text: str) -> None:
    out = make()
    with pytest.raises(MonoUnsupported, match=f"out: {what}: .*{text}"):
        runtime.pack("pack_x", SHARED[:32], **rules(CASES["tiles 16x16"]), out=out)
    assert out.is_meta or out.eq(0).all()


def test_an_out_beside_the_source_in_one_storage_is_taken() -> None:
    both = torch.zeros(64, 96, dtype=torch.bfloat16)
    for source, out in ((both[:32], both[32:]), (both[32:], both[:32])):
        runtime.pack("pack_x", source, **rules(CASES["tiles 16x16"]), out=out)


# --- refusals ---

BAD_SOURCE = [
    (lambda: good().t(), "strides: expected 32, 1"),
    (lambda: good()[:, ::2], "strides"),
    (lambda: good()[:1].expand(32, 96), "strides"),
    (lambda: good()[:0], "extent: expected at least 1"),
    (lambda: [1], "kind"),
    (lambda: good().to("meta"), "kind"),
]


@pytest.mark.parametrize(("make", "text"), BAD_SOURCE)
def test_a_source_that_is_not_dense_is_refused_by_each(make: Any, text: str) -> None:
    case = CASES["tiles 16x16"]
    for call in (
        lambda t: runtime.pack("f", t, **rules(case)),
        lambda t: runtime.unpack("f", t, (32, 96), **rules(case)),
        lambda t: runtime.extents("f", t, ("row", "k")),
        lambda t: runtime.shape_extents("f", t, (32, 96), ("row", "k")),
    ):
        with pytest.raises(MonoUnsupported, match=text):
            call(make())


def test_a_run_that_splits_a_byte_is_refused() -> None:
    t = torch.zeros(8, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(MonoUnsupported, match=r"unit: expected an innermost run of whole bytes.*a run of 1 elements"):
        runtime.pack("pack_x", t, padded=(8, 16), view=(8, 16), permute=(1, 0))
    with pytest.raises(MonoUnsupported, match="found a run of 3 elements of 4 bits"):
        runtime.pack(
            "pack_x",
            torch.zeros(8, 9, dtype=torch.uint8).view(t.dtype),
            padded=(8, 18),
            view=(8, 6, 3),
            permute=(1, 0, 2),
        )


def test_an_odd_padded_axis_of_pairs_is_refused() -> None:
    t = torch.zeros(8, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(MonoUnsupported, match="an even last axis"):
        runtime.pack("pack_x", t, padded=(8, 9), view=(8, 9), permute=(0, 1))


@pytest.mark.parametrize("shape", [(32, 98), (33, 96), (16,)])
def test_a_source_larger_than_its_padded_extents_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(MonoUnsupported, match="shape: expected at most torch 32 x 96"):
        runtime.pack("pack_x", torch.zeros(shape, dtype=torch.bfloat16), **rules(CASES["tiles 16x16"]))


@pytest.mark.parametrize("shape", [(2, 48, 64), (2, 35, 42), (48, 64), (3, 64, 48)])
def test_unpack_takes_exactly_the_packed_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        MonoUnsupported, match="shape: expected 3 x 48 x 64 elements, the packed form of torch 3 x 35 x 42"
    ):
        runtime.unpack("unpack_x", torch.zeros(shape, dtype=torch.uint8), (3, 35, 42), **rules(CASES["pads both axes"]))


# --- what generated code asks first ---


def test_element_bits() -> None:
    assert runtime.element_bits("f", torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)) == 4
    assert runtime.element_bits("f", torch.zeros(2, dtype=torch.uint8)) == 8
    assert runtime.element_bits("f", torch.zeros(2, dtype=torch.bfloat16)) == 16
    assert runtime.element_bits("f", torch.zeros(2, dtype=torch.int64)) == 64


def test_extents_are_the_last_axes_in_elements() -> None:
    t = torch.zeros(5, 3, 4, dtype=torch.uint8)
    assert runtime.extents("f", t, ("row", "k")) == (3, 4)
    assert runtime.extents("f", t.view(torch.float4_e2m1fn_x2), ("row", "k")) == (3, 8)
    assert runtime.shape_extents("f", t, (5, 2, 3), ("row", "k")) == (2, 3)
    assert runtime.shape_extents("f", t.view(torch.float4_e2m1fn_x2), (5, 2, 3), ("row", "k")) == (2, 6)


def test_too_few_axes() -> None:
    with pytest.raises(MonoUnsupported, match="rank: expected at least 2 axes, the last ones row, k, found torch 4"):
        runtime.extents("f", torch.zeros(4), ("row", "k"))
    with pytest.raises(MonoUnsupported, match="rank: expected at least 2 axes"):
        runtime.shape_extents("f", torch.zeros(4, 4), (4,), ("row", "k"))


@pytest.mark.parametrize("shape", [(4, 0), (-4, 4), (4, 4.0), (True, 4)])
def test_a_shape_that_is_not_one(shape: Any) -> None:
    with pytest.raises(MonoUnsupported, match="shape: expected whole numbers from 1"):
        runtime.shape_extents("f", torch.zeros(4, 4), shape, ("row", "k"))


def test_require_legal_says_everything_that_does_not_hold() -> None:
    runtime.require_legal("f", ((True, "row % 32 == 0", "row = 32"),))
    with pytest.raises(MonoUnsupported) as refusal:
        runtime.require_legal(
            "f", ((False, "row % 32 == 0", "row = 3"), (True, "n", "n"), (False, "k % 8 == 0", "k = 9"))
        )
    assert [(p.expected, p.found) for p in refusal.value.problems] == [
        ("row % 32 == 0", "row = 3"),
        ("k % 8 == 0", "k = 9"),
    ]


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device."""

    device = torch.device("cuda", 1)  # type: ignore[assignment]


def test_what_is_no_tensor_has_no_elements() -> None:
    with pytest.raises(MonoUnsupported, match="x: kind"):
        runtime.element_bits("x", [1, 2])  # type: ignore[arg-type]


def test_out_on_another_device() -> None:
    out = torch.zeros(4, 4).as_subclass(Elsewhere)
    with pytest.raises(MonoUnsupported, match="out: device: expected cpu, found cuda:1"):
        runtime.pack("x", torch.zeros(4, 4), padded=(4, 4), view=(4, 4), permute=(1, 0), out=out)
