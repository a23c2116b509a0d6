"""Looking again: moved, freed, recycled and overwritten memory; codes and pads; tables of addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import content, recheck_table
from mono_gen.runtime.fields import TensorInfo
from mono_gen.runtime.recheck import bad_codes, wrong_pads
from tests.runtime.made import E8M0, FN, FP4, SMALL, U8, made, refused, small_layer, whats


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return made(tmp_path_factory.mktemp("small"), SMALL, "small")


@pytest.fixture
def loaded(small: ModuleType) -> Any:
    return small.Small.from_layer(small_layer(small, flags=True))


def test_what_nobody_touched_has_a_state_for_each_depth(loaded: Any) -> None:
    assert runtime.recheck(loaded) == "unverified"
    assert runtime.recheck(loaded, content=True) == runtime.verify_all((loaded,)) == "verified"
    assert runtime.verify_all(()) == "verified"


FIELDS = ("g", "table", "cache", "w", "s", "odd", "parts", "pairs", "q", "qs")


def freed(t: torch.Tensor) -> None:
    t.untyped_storage().resize_(0)


def moved(t: torch.Tensor) -> None:
    t.set_(t.clone())  # type: ignore[call-overload]


def rebound(t: torch.Tensor) -> None:
    t.data = t.clone()


def shrunk(t: torch.Tensor) -> None:
    t.untyped_storage().resize_(t.nbytes // 2)


def grown(t: torch.Tensor) -> None:
    t.untyped_storage().resize_(2 * t.nbytes)


def restrided(t: torch.Tensor) -> None:
    t.as_strided_((t.numel() // 2,), (2,))


def reshaped(t: torch.Tensor) -> None:
    t.resize_(t.numel())


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    ("how", "what"),
    [
        (freed, "freed"),
        (moved, "moved"),
        (rebound, "moved"),
        (shrunk, "moved"),
        (grown, "moved"),
        (restrided, "strides"),
        (reshaped, "strides"),
    ],
)
def test_structure_finds_memory_that_is_no_longer_the_loads(
    loaded: Any, name: str, how: Callable[[torch.Tensor], None], what: str
) -> None:
    if name in ("g", "qs") and how is reshaped:
        return  # of one axis already
    how(getattr(loaded, name))
    assert whats(refused(runtime.recheck, loaded)) == [(name, what)]
    assert whats(refused(runtime.recheck, loaded, content=True)) == [(name, what)], "nothing of it is read"
    assert whats(refused(runtime.recheck, loaded, changing=(name,))) == [(name, what)]


def test_another_dtype_over_the_same_bytes(loaded: Any) -> None:
    loaded.qs.data = loaded.qs.view(torch.int32)
    assert whats(refused(runtime.recheck, loaded)) == [("qs", "strides")]


def test_recycled_storage_at_the_same_address(small: ModuleType) -> None:
    room = bytearray(128 + 16)
    skip = -torch.frombuffer(room, dtype=U8).data_ptr() % 16

    def over() -> torch.Tensor:
        return torch.frombuffer(room, dtype=torch.bfloat16, count=64, offset=skip)

    source = small_layer(small, flags=True)
    source.g = over()
    loaded = small.Small.from_layer(source)
    loaded.g.set_(over())
    assert loaded.g.data_ptr() == source.g.data_ptr()
    assert whats(refused(runtime.recheck, loaded)) == [("g", "recycled")]


def test_storage_that_went_and_came_back_at_the_same_address_is_found_by_content(loaded: Any) -> None:
    """A pool may give the same memory: pointers say nothing then."""
    storage, address = loaded.w.untyped_storage(), loaded.w.data_ptr()
    nbytes = storage.nbytes()
    storage.resize_(0)
    storage.resize_(nbytes)
    loaded.w.data.view(U8).fill_(3)
    found = whats(refused(runtime.recheck, loaded, content=True))
    assert found in ([("w", "overwritten")], [("w", "moved")]), address


@pytest.mark.parametrize("name", FIELDS)
def test_counted_writes_are_structure_and_others_are_content(loaded: Any, name: str) -> None:
    t = getattr(loaded, name)
    if name != "qs":
        t.data.view(-1).view(U8)[5] ^= 1
    else:
        t.data[5] *= 2
    assert runtime.recheck(loaded) == "unverified", "`.data` counts apart"
    assert whats(refused(runtime.recheck, loaded, content=True)) == [(name, "overwritten")]
    assert runtime.recheck(loaded, content=True, changing=(name,)) == "verified"
    t.view(-1)[:1] = t.view(-1)[:1].clone()
    assert whats(refused(runtime.recheck, loaded)) == [(name, "overwritten")]
    assert runtime.recheck(loaded, changing=(name,)) == "unverified"


def test_a_write_of_the_same_values_is_verified_by_content(loaded: Any) -> None:
    loaded.g.copy_(loaded.g.clone())
    assert whats(refused(runtime.recheck, loaded)) == [("g", "overwritten")]
    assert runtime.recheck(loaded, content=True) == "verified"


def test_a_name_that_is_no_tensor_shields_nothing(loaded: Any) -> None:
    for content_too in (False, True):
        found = refused(runtime.recheck, loaded, content=content_too, changing=("cahce", "g"))
        assert whats(found) == [("cahce", "changing")]


def test_inference_tensors(small: ModuleType) -> None:
    with torch.inference_mode():
        loaded = small.Small.from_layer(small_layer(small, flags=True))
        assert loaded.q.is_inference() and loaded.g.is_inference()
        assert runtime.recheck(loaded) == "unverified"
        loaded.g.add_(1)
        assert runtime.recheck(loaded) == "unverified", "nobody counts these writes"
        assert whats(refused(runtime.recheck, loaded, content=True)) == [("g", "overwritten")]


def test_every_problem_of_every_struct_in_one_verdict(small: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    structs = [small.Small.from_layer(small_layer(small, flags=True, plus=plus)) for plus in (0, 1, 2)]
    structs[0].g.data.view(U8)[3] ^= 1
    structs[0].odd.data.view(U8)[0, 0, 0] ^= 1
    structs[2].s.untyped_storage().resize_(0)
    structs[2].q.data.view(U8)[0, 0] = 0x7F
    reads = []
    real = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda t: reads.append(t.shape) or real(t))
    found = whats(refused(runtime.verify_all, structs))
    assert found == [
        ("Small 0: g", "overwritten"),
        ("Small 0: odd", "overwritten"),
        ("Small 2: s", "freed"),
        ("Small 2: q", "overwritten"),
        ("Small 2: q", "content"),
    ]
    assert len(reads) == 1, "all verdicts are read together"


# --- codes and pads ---


def info(element: str, bits: int) -> TensorInfo:
    return TensorInfo("t", element, bits, "row_major", 0, 0)


@pytest.mark.parametrize(
    ("element", "dtype", "bad"),
    [
        ("e8m0", U8, [0xFF]),
        ("e8m0", E8M0, [0xFF]),
        ("fp8_e4m3fn", FN, [0x7F, 0xFF]),
        ("fp8_e4m3fnuz", torch.float8_e4m3fnuz, [0x80]),
        ("uint8", U8, []),
        ("fp4_e2m1", FP4, []),
    ],
)
def test_codes_that_no_kernel_survives(element: str, dtype: torch.dtype, bad: list[int]) -> None:
    for code in range(256):
        t = torch.full((7, 3), code, dtype=U8).view(dtype)
        assert int(bad_codes(t, info(element, 8))) == (21 if code in bad else 0), code


@pytest.mark.parametrize(
    ("element", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)]
)
def test_infinities_and_nans(element: str, dtype: torch.dtype) -> None:
    t = torch.ones(9, dtype=dtype)
    assert int(bad_codes(t, info(element, 16))) == 0
    t[2], t[5], t[7] = float("inf"), float("-inf"), float("nan")
    assert int(bad_codes(t, info(element, 16))) == 3


@pytest.mark.parametrize(
    ("name", "place", "code", "expected"),
    [
        ("g", 3, (0x80, 0x7F), "no infinity or NaN"),
        ("s", 0, (0xFF,), "no scale byte 0xFF (NaN)"),
        ("odd", 7, (0xFF,), "no scale byte 0xFF (NaN)"),
        ("cache", 9, (0x7F,), "no NaN code"),
    ],
)
def test_content_names_the_codes(
    small: ModuleType, name: str, place: int, code: tuple[int, ...], expected: str
) -> None:
    """The layer brought them: they were there at load, the fingerprint is the same."""
    source = small_layer(small, flags=True)
    t = getattr(source, name)
    t.view(-1).view(U8)[2 * place : 2 * place + len(code)] = torch.tensor(code, dtype=U8)
    if name != "g":
        runtime.attest(t, "small_page" if name == "cache" else "e8m0_shuffle")
        if name == "odd":
            runtime.attest(t, "e8m0_shuffle", logical=(40, 5))
    loaded = small.Small.from_layer(source)
    found = [p for p in refused(runtime.recheck, loaded, content=True) if p.what == "content"]
    assert [(p.field, p.expected, p.found) for p in found] == [(name, expected, "1 of them")]


def places_of_pads(small: ModuleType) -> dict[str, list[int]]:
    """Return the flat torch bytes of `odd`, `parts` and `pairs` that hold pads, from the offset of each element."""
    odd = {small.offset_e8m0_shuffle(r, k, (256, 8), 8) for r in range(256) for k in range(8) if r >= 40 or k >= 5}
    live = [*range(25), *range(32, 67)]
    parts = {
        small.offset_small_halves(r, k, (80, 64), 8) for r in range(80) for k in range(64) if r not in live or k >= 8
    }
    pairs = {
        small.offset_small_halves(r, k, (32, 128), 4)[0] for r in range(32) for k in range(128) if r >= 20 or k >= 96
    }
    return {"odd": sorted(odd) + [2048 + p for p in sorted(odd)], "parts": sorted(parts), "pairs": sorted(pairs)}


@pytest.mark.parametrize("name", ["odd", "parts", "pairs"])
def test_every_wrong_pad_is_found_and_nothing_else(small: ModuleType, loaded: Any, name: str) -> None:
    t, told = getattr(loaded, name), loaded.tensors[name]
    pads = set(places_of_pads(small)[name])
    assert pads and len(pads) < t.numel()
    assert int(wrong_pads(t, told)) == 0
    flat = t.data.view(-1).view(U8)
    for place in range(0, flat.numel(), 1 if flat.numel() < 3000 else 3):
        flat[place] ^= 0x01
        assert int(wrong_pads(t, told)) == (place in pads), place
        flat[place] ^= 0x01
    flat[sorted(pads)] ^= 0x11
    per_byte = 2 if name == "pairs" else 1
    assert int(wrong_pads(t, told)) == per_byte * len(pads)


def test_pads_of_four_bits_count_by_nibble_and_in_either_dtype(small: ModuleType, loaded: Any) -> None:
    told = loaded.tensors["pairs"]
    place = places_of_pads(small)["pairs"][-1]
    for dtype in (U8, FP4):
        t = loaded.pairs.clone().view(dtype)
        t.view(U8).view(-1)[place] ^= 0x10
        assert int(wrong_pads(t, told)) == 1
        t.view(U8).view(-1)[place] ^= 0x01
        assert int(wrong_pads(t, told)) == 2


def test_undefined_pads_are_not_looked_at(loaded: Any) -> None:
    told = loaded.tensors["odd"]
    spared = TensorInfo(
        told.name, told.element, told.bits, told.layout, 0, 0, told.batch, None, told.pads, told.storage
    )
    assert int(wrong_pads(torch.full_like(loaded.odd.view(U8), 9), spared)) == 0


def test_pads_that_the_layer_brought_wrong_are_named(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    source.odd.view(U8).view(-1)[places_of_pads(small)["odd"][7]] = 0
    runtime.attest(source.odd, "e8m0_shuffle", logical=(40, 5))
    (problem,) = refused(runtime.recheck, small.Small.from_layer(source), content=True)
    assert (problem.field, problem.what, problem.found) == ("odd", "pads", "1 others") and "0x7F" in problem.expected


def test_wide_elements_are_compared_whole(small: ModuleType, tmp_path: Path) -> None:
    text = """
spec wide
arch gfx950
layout padded(row, k) { pad k to 8 fill 0x3F800102 store row k }
struct Wide(layer) { f : fp32[4, 6] { tile padded  view layer.f  attest padded when layer.f.is_padded } }
"""
    module = made(tmp_path, text, "wide")
    f = module.pack_padded(torch.ones(4, 6))
    loaded = module.Wide.from_layer(type("L", (), {"f": f})())
    assert runtime.recheck(loaded, content=True) == "verified"
    for byte in range(4):
        changed = loaded.f.clone()
        changed.view(-1).view(U8)[4 * 7 + byte] ^= 0x20
        assert int(wrong_pads(changed, loaded.tensors["f"])) == 1, byte


def test_large_tensors_are_verified_by_samples(small: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "SAMPLE_ABOVE_BYTES", 1024)
    loaded = small.Small.from_layer(small_layer(small, flags=True))
    loaded.w.data.view(U8)[1].fill_(0)
    (problem,) = refused(runtime.recheck, loaded, content=True)
    assert (problem.field, problem.what) == ("w", "overwritten") and "samples of every batch item" in problem.expected


# --- tables ---


@pytest.fixture
def table(loaded: Any) -> torch.Tensor:
    return loaded.k1(torch.zeros(64, dtype=U8))


def test_a_table_has_a_generation(loaded: Any) -> None:
    first, second = loaded.k2(), loaded.k2()
    assert recheck_table(second) == recheck_table(first) + 1 == recheck_table(second.view(-1)[1:])


@pytest.mark.parametrize("name", ["g", "table", "w", "s", "q", "qs"])
@pytest.mark.parametrize(("how", "what"), [(freed, "freed"), (moved, "moved"), (rebound, "moved"), (grown, "moved")])
def test_a_table_whose_tensor_moved(
    loaded: Any, table: torch.Tensor, name: str, how: Callable[[torch.Tensor], None], what: str
) -> None:
    recheck_table(table)
    how(getattr(loaded, name))
    assert whats(refused(recheck_table, table)) == [(name, what)]


def test_an_extra_of_a_table_that_moved(loaded: Any) -> None:
    scratch = torch.zeros(64, dtype=U8)
    table = loaded.k1(scratch)
    scratch.data = torch.zeros(64, dtype=U8)
    assert whats(refused(recheck_table, table)) == [("scratch", "moved")]


def test_a_table_keeps_what_nobody_else_holds(loaded: Any) -> None:
    table = loaded.k1(torch.zeros(64, dtype=U8))
    assert recheck_table(table) > 0
    assert recheck_table(loaded.k1(0x1000)) > 0, "an address that the caller vouches for"


def test_a_table_that_was_written_over(table: torch.Tensor) -> None:
    table[1] = 0
    assert whats(refused(recheck_table, table)) == [("k1", "overwritten")]


def test_what_is_no_table(table: torch.Tensor) -> None:
    assert whats(refused(recheck_table, table.clone())) == [("recheck_table", "table")]
    assert whats(refused(recheck_table, torch.zeros(4, dtype=torch.int64))) == [("recheck_table", "table")]


def test_a_struct_reads_by_types_and_shapes(loaded: Any) -> None:
    text = repr(loaded)
    assert text.startswith("Small(g: bfloat16 (64,) row_major, ") and "q: float8_e4m3fn (32, 64) shuffle_16x16" in text
    assert "tensor(" not in text
