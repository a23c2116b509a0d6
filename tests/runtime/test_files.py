"""A struct's tensors in a file: what comes back, and every file that is refused."""

from __future__ import annotations

import json
import struct as binary
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mono_gen import runtime
from mono_gen.runtime import content, files
from tests.runtime.made import E8M0, FN, FP4, SMALL, U8, layer, made, refused, small_layer, whats


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return made(tmp_path_factory.mktemp("small"), SMALL, "small")


@pytest.fixture
def loaded(small: ModuleType) -> Any:
    return small.Small.from_layer(small_layer(small, flags=True))


@pytest.fixture
def path(loaded: Any, tmp_path: Path) -> Path:
    found = tmp_path / "small.safetensors"
    runtime.save(loaded, found)
    return found


def metadata(path: Path) -> dict[str, Any]:
    """Return what stands under the key."""
    with safe_open(path, framework="pt") as file:
        found: dict[str, Any] = json.loads(file.metadata()["mono_gen"])
    return found


def rewrite(path: Path, body: Any = None, **changed: torch.Tensor | None) -> None:
    """Write a file anew, with other metadata or other tensors; a tensor that is None is left out."""
    tensors = {name: t.clone() for name, t in load_file(path).items()}
    body = metadata(path) if body is None else body
    tensors = {name: t for name, t in {**tensors, **changed}.items() if t is not None}
    path.unlink()
    save_file(tensors, path, metadata={"mono_gen": body if isinstance(body, str) else json.dumps(body)})


def test_every_tensor_comes_back_with_its_record(loaded: Any, path: Path) -> None:
    found = runtime.load(path)
    assert set(found) == set(loaded.tensors)
    for name, info in loaded.tensors.items():
        was, now = getattr(loaded, name), found[name]
        assert (was.dtype, was.shape) == (now.dtype, now.shape)
        assert torch.equal(was.view(-1).view(U8), now.view(-1).view(U8))
        record = runtime.record_of(now)
        assert record is not None and record.origin == "file" and record.layout == info.layout
        assert (record.layout_id, record.field_id, record.bits) == (info.layout_id, info.field_id, info.bits)
    assert {found[name].dtype for name in ("odd", "pairs", "cache")} == {E8M0, FP4, FN}
    assert runtime.record_of(found["odd"]).extents == (2, 40, 5)  # type: ignore[union-attr]


def test_the_records_stand_under_one_key(path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        assert list(file.metadata()) == ["mono_gen"]
    body = metadata(path)
    assert body["version"] == 1 and body["struct"] == "Small" and body["records"]["w"]["layout"] == "shuffle_16x16"


def test_the_records_of_a_file_stand_for_the_flags(small: ModuleType, loaded: Any, path: Path) -> None:
    """A view that a reader left at an odd address is refused for that alone."""
    source = small_layer(small, flags=False)
    found = {name: t for name, t in runtime.load(path).items() if name not in ("q", "qs")}
    for name, t in found.items():
        setattr(source, name, t)
    odd = [name for name, t in found.items() if t.data_ptr() % 16]
    if odd:
        assert sorted(whats(refused(small.Small.from_layer, source))) == sorted((name, "alignment") for name in odd)
        return
    again = small.Small.from_layer(source)
    assert torch.equal(again.w.view(U8), loaded.w.view(U8))


def test_a_file_whose_tensors_were_moved_to_aligned_memory(small: ModuleType, loaded: Any, path: Path) -> None:
    source = small_layer(small, flags=False)
    for name, t in runtime.load(path).items():
        record, aligned = runtime.record_of(t), t.clone()
        assert record is not None
        if name not in ("q", "qs", "parts", "pairs", "g", "table"):
            assert runtime.record_of(aligned) is None
            runtime.attest(aligned, record.layout, logical=None if name == "w" else record.extents[record.batch :])
            setattr(source, name, aligned)
    again = small.Small.from_layer(source)
    assert torch.equal(again.w.view(U8), loaded.w.view(U8)) and torch.equal(again.odd.view(U8), loaded.odd.view(U8))


def at_odd_address(t: torch.Tensor) -> torch.Tensor:
    """Return a copy 8 bytes past a multiple of 16, as readers of safetensors leave them."""
    room = torch.empty(t.nbytes + 32, dtype=U8)
    skip = -room.data_ptr() % 16 + 8
    moved = room[skip : skip + t.nbytes].view(t.dtype).view(t.shape)
    moved.view(U8).copy_(t.view(U8))
    return moved


def test_odd_addresses_suit_converters_and_no_kernel(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    source.q, source.qs = at_odd_address(source.q), at_odd_address(source.qs)
    small.Small.from_layer(source)
    w = at_odd_address(source.w)
    runtime.attest(w, "shuffle_16x16")
    source.w = w
    assert whats(refused(small.Small.from_layer, source)) == [("w", "alignment")]
    assert whats(refused(runtime.address_table, "t", (("w", w),))) == [("w", "alignment")]
    assert torch.equal(small.unpack_shuffle_16x16(w, tuple(w.shape)), small.unpack_shuffle_16x16(w.clone(), w.shape))


def test_a_file_without_records_is_unknown(loaded: Any, tmp_path: Path) -> None:
    path = tmp_path / "plain.safetensors"
    save_file({"g": loaded.g, "w": loaded.w.view(U8)}, path)
    found = runtime.load(path)
    assert set(found) == {"g", "w"} and all(runtime.record_of(t) is None for t in found.values())
    save_file({"g": loaded.g}, path, metadata={"format": "pt"})
    assert runtime.record_of(runtime.load(path)["g"]) is None


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("w", "layout", "row_major"),
        ("w", "layout_id", "0" * 16),
        ("s", "extents", [2, 256, 8]),
        ("g", "content", "0" * 16),
        ("pairs", "dtype", "uint8"),
    ],
)
def test_a_record_that_was_edited_by_hand(path: Path, name: str, key: str, value: Any) -> None:
    body = metadata(path)
    assert body["records"][name][key] != value
    body["records"][name][key] = value
    rewrite(path, body)
    (problem,) = refused(runtime.load, path)
    assert problem.what == "records" and "edited" in problem.help


def test_records_renamed_added_and_left_out(path: Path) -> None:
    for edit in ({"struct": "Other"}, {"note": "by hand"}, {"digest": "0" * 32}):
        body = {**metadata(path), **edit}
        copy = path.with_name("copy.safetensors")
        copy.write_bytes(path.read_bytes())
        rewrite(copy, body)
        assert [p.what for p in refused(runtime.load, copy)] == ["records"]
    body = metadata(path)
    del body["records"]["g"]
    rewrite(path, body)
    assert [p.what for p in refused(runtime.load, path)] == ["records"]


def test_bytes_that_were_edited(loaded: Any, path: Path) -> None:
    t = load_file(path)["s"].clone()
    t.view(-1)[77] ^= 4
    rewrite(path, s=t)
    assert whats(refused(runtime.load, path)) == [("s", "content")]


def test_two_tensors_exchanged(path: Path) -> None:
    found = load_file(path)
    rewrite(path, s=found["odd"].clone(), odd=found["s"].clone())
    assert whats(refused(runtime.load, path)) == [("odd", "content"), ("s", "content")]


def test_the_same_bytes_in_another_shape_or_type(loaded: Any, path: Path) -> None:
    found = load_file(path)
    rewrite(path, s=found["s"].view(2, 8, 256).clone(), g=found["g"].view(torch.float16).clone())
    assert whats(refused(runtime.load, path)) == [("g", "shape"), ("s", "shape")]


def test_missing_and_extra_tensors(path: Path) -> None:
    rewrite(path, g=None, more=torch.zeros(4))
    assert whats(refused(runtime.load, path)) == [("g", "tensor"), ("more", "record")]


@pytest.mark.parametrize("version", [2, 99, "1", None])
def test_a_file_of_another_version(path: Path, version: Any) -> None:
    rewrite(path, {**metadata(path), "version": version})
    (problem,) = refused(runtime.load, path)
    assert (problem.what, problem.expected) == ("version", "1") and "upgrade" in problem.help


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '"x"', '{"version": 1}', "null"])
def test_metadata_that_is_no_record(path: Path, text: str) -> None:
    tensors = {name: t.clone() for name, t in load_file(path).items()}
    path.unlink()
    save_file(tensors, path, metadata={"mono_gen": text})
    (problem,) = refused(runtime.load, path)
    assert problem.what == "records" and "JSON" in problem.expected


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 zip", b"\x08", b"\xff" * 64, binary.pack("<Q", 1 << 40) + b"{}"])
def test_what_is_no_safetensors_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(runtime.MonoUnsupported) as refusal:
        runtime.load(path)
    assert [p.what for p in refusal.value.problems] == ["file"] and str(path) in str(refusal.value)
    assert refusal.value.__cause__ is None and refusal.value.__suppress_context__


def test_a_file_cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    assert [p.what for p in refused(runtime.load, path)] == ["file"]


def test_a_struct_that_was_written_is_not_saved(loaded: Any, tmp_path: Path) -> None:
    loaded.g.add_(1)
    path = tmp_path / "x.safetensors"
    assert whats(refused(runtime.save, loaded, path)) == [("g", "overwritten")]
    assert not path.exists()


def test_tensors_of_one_storage_are_saved_apart(small: ModuleType, tmp_path: Path) -> None:
    source = small_layer(small, flags=True)
    both = torch.stack((source.g, source.g + 1))
    source.g, other = both[0], both[1]
    loaded = small.Small.from_layer(source)
    path = tmp_path / "x.safetensors"
    runtime.save(loaded, path)
    assert torch.equal(runtime.load(path)["g"], source.g) and not torch.equal(source.g, other)


def test_fnuz_comes_back(tmp_path: Path) -> None:
    text = "spec nuz\narch gfx942\nstruct N(layer) { f : fp8_e4m3fnuz[4, 16] { tile row_major view layer.f } }\n"
    module = made(tmp_path, text, "nuz")
    loaded = module.N.from_layer(layer(f=torch.arange(64, dtype=U8).view(4, 16).view(torch.float8_e4m3fnuz)))
    runtime.save(loaded, tmp_path / "x.safetensors")
    found = runtime.load(tmp_path / "x.safetensors")["f"]
    assert found.dtype is torch.float8_e4m3fnuz and torch.equal(found.view(U8), loaded.f.view(U8))


def test_every_byte_of_a_large_tensor_is_hashed_in_a_file(
    small: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "SAMPLE_ABOVE_BYTES", 64)
    loaded = small.Small.from_layer(small_layer(small, flags=True))
    path = tmp_path / "x.safetensors"
    runtime.save(loaded, path)
    t = load_file(path)["w"].clone()
    for place in range(0, t.numel(), 97):
        t.view(-1)[place] ^= 1
        rewrite(path, w=t)
        assert whats(refused(runtime.load, path)) == [("w", "content")], place
        t.view(-1)[place] ^= 1
    rewrite(path, w=t)
    assert runtime.record_of(runtime.load(path)["w"]) is not None


def test_types_by_bytes_are_those_that_readers_may_not_know() -> None:
    assert {FP4, E8M0} <= set(files.AS_BYTES)
