"""The comparison: silent on what convert wrote, and the first wrong byte of anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mono_gen.checkpoint.folder import open_checkpoint
from mono_gen.checkpoint.jobs import plan_work
from mono_gen.checkpoint.names import read_map
from mono_gen.checkpoint.pieces import Share
from mono_gen.checkpoint.target import find_target
from mono_gen.checkpoint.verify import Compared, verify
from tests.checkpoint import made
from tests.checkpoint.test_convert import padded as padded
from tests.checkpoint.test_convert import run

LAYER = f"{made.PREFIX}.1.SparseMoeLayer"
SHARE = Share(1, 4)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_spec(tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "in")


@pytest.fixture
def out(folder: Path, spec: Path, tmp_path: Path) -> Path:
    run(folder, spec, tmp_path / "out", rank=SHARE.rank)
    return tmp_path / "out"


@pytest.fixture
def compare(folder: Path, spec: Path, out: Path) -> Callable[..., Compared]:
    target, names = find_target(spec, "SparseMoeLayer", {}), read_map(spec.with_suffix(".map"))
    checkpoint = open_checkpoint(folder)
    work = plan_work(checkpoint, target, names, SHARE, None)
    return lambda sample=None: verify(checkpoint, target, work, SHARE, out, sample, lambda _: None)


def edit(out: Path, name: str, byte: int) -> tuple[int, int]:
    """Change a byte of a tensor in place, its record left as it is; return what it was and is."""
    found = open_checkpoint(out)
    path, entry = found.shards[found.places[name]].path, found.entry(name)
    data = bytearray(path.read_bytes())
    was = data[entry.begin + byte]
    data[entry.begin + byte] ^= 0x10
    path.write_bytes(data)
    return was, was ^ 0x10


def test_what_convert_wrote_is_right(compare: Callable[..., Compared], out: Path) -> None:
    total = sum(e.nbytes for s in open_checkpoint(out).shards.values() for e in s.entries.values())
    assert compare() == Compared((), 45, total)
    sampled = compare(8)
    assert (sampled.differences, sampled.tensors) == ((), 45) and 0 < sampled.nbytes < total / 4


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("g_in", (17,)),
        ("w_qkv", (65, 130)),
        ("s_qkv", (200,)),
        ("gate", (3, 77)),
        ("bias", (5,)),
        ("w13", (5, 500, 254)),
        ("s13", (2, 300, 5)),
        ("w2", (0, 0, 2)),
        ("s2", (5, 255, 7)),
        ("sh_w13", (511, 255)),
        ("sh_s2", (17, 3)),
    ],
)
def test_a_changed_byte_is_named_with_its_coordinates(
    spec: Path, out: Path, compare: Callable[..., Compared], name: str, at: tuple[int, ...]
) -> None:
    offset = getattr(find_target(spec, "SparseMoeLayer", {}).struct, f"offset_{name}")
    found = offset(*at)
    byte = found[0] if isinstance(found, tuple) else found
    was, now = edit(out, f"{LAYER}.{name}", byte)
    last = "block" if name[-3:].startswith("s") or name.startswith("sh_s") else "k"
    axes = {1: ("row",), 2: ("row", last), 3: ("e", "row", last)}[len(at)]
    place = ", ".join(f"{axis} {n}" for axis, n in zip(axes, at, strict=True))
    wanted = f"byte {byte} ({place}): expected 0x{was:02x}, found 0x{now:02x}"
    assert compare().differences == ((f"{LAYER}.{name}", wanted),)


def test_of_two_wrong_bytes_the_first_is_named(out: Path, compare: Callable[..., Compared]) -> None:
    edit(out, f"{LAYER}.w13", 900)
    edit(out, f"{LAYER}.w13", 120)
    assert "byte 120 (" in compare().differences[0][1]


def test_a_wrong_byte_of_a_copied_tensor(out: Path, compare: Callable[..., Compared]) -> None:
    name = "language_model.model.embed_tokens.weight"
    was, now = edit(out, name, 100_001)
    assert compare().differences == ((name, f"byte 100001: expected 0x{was:02x}, found 0x{now:02x}"),)


def test_a_copied_tensor_of_another_type(out: Path, compare: Callable[..., Compared]) -> None:
    """The same bytes, and another number in each of them."""
    path, name = out / "model-00004-of-00004.safetensors", "language_model.model.norm.weight"
    tensors = {one: t.clone() for one, t in load_file(path).items()}
    tensors[name] = tensors[name].view(torch.int16)
    path.unlink()
    save_file(tensors, path)
    assert compare().differences == ((name, "expected BF16 [256], found I16 [256]"),)


def test_a_sample_finds_what_is_wrong_all_over(out: Path, compare: Callable[..., Compared]) -> None:
    """Two ranks exchanged, gate for up, a layout that was left out: most bytes differ then."""
    for byte in range(0, 256 * 512, 3):
        if byte % 999 == 0:
            edit(out, f"{LAYER}.w13", byte)
    assert [name for name, _ in compare(64).differences] == [f"{LAYER}.w13"]


def test_records_are_not_believed(out: Path, compare: Callable[..., Compared]) -> None:
    """Gate and up exchanged, in a file that says of itself that all is well."""
    path = out / open_checkpoint(out).places[f"{LAYER}.w13"]
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = {name: t.clone() for name, t in load_file(path).items()}
    w13 = tensors[f"{LAYER}.w13"]
    tensors[f"{LAYER}.w13"] = torch.cat((w13[:, 256:], w13[:, :256]), dim=1)
    path.unlink()
    save_file(tensors, path, metadata=metadata)
    assert [name for name, _ in compare(16).differences] == [f"{LAYER}.w13"]


def test_names_shapes_and_the_index(out: Path, compare: Callable[..., Compared]) -> None:
    path = out / open_checkpoint(out).places[f"{LAYER}.w_o"]
    tensors = {name: t.clone() for name, t in load_file(path).items()}
    tensors["more"] = tensors.pop(f"{LAYER}.w_o")
    tensors[f"{LAYER}.s_o"] = tensors[f"{LAYER}.s_o"].view(16, 16)
    path.unlink()
    save_file(tensors, path)
    index = out / "model.safetensors.index.json"
    said = json.loads(index.read_text())
    del said["weight_map"][f"{LAYER}.w_o"]
    said["metadata"]["total_size"] += 1
    index.write_text(json.dumps(said))
    found = compare().differences
    total = said["metadata"]["total_size"]
    assert found == (
        (f"{LAYER}.w_o", "missing"),
        ("more", "the checkpoint makes no such tensor"),
        (index.name, f"total_size: expected {total - 1}, found {total}"),
        (index.name, f"more: expected {path.name}, found None"),
        (f"{LAYER}.s_o", "expected float32 [256], found F32 [16, 16]"),
    )
    index.unlink()
    assert (index.name, "missing: the conversion did not end") in compare(1).differences


def test_pads_are_compared_whole(padded: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path) -> None:
    spec, folder, _ = padded
    share = Share(1, 2)
    run(folder, spec, tmp_path / "out", struct="Padded", rank=1, world=2)
    target, names = find_target(spec, "Padded", {}), read_map(spec.with_suffix(".map"))
    checkpoint = open_checkpoint(folder)
    work = plan_work(checkpoint, target, names, share, None)

    def differences() -> tuple[tuple[str, str], ...]:
        return verify(checkpoint, target, work, share, tmp_path / "out", None, lambda _: None).differences

    assert differences() == ()
    was, now = edit(tmp_path / "out", "l7.Padded.parts", 26 * 64 + 1)  # between the segments
    assert differences() == (("l7.Padded.parts", f"byte 1665 (a pad): expected 0x{was:02x}, found 0x{now:02x}"),)
    was, now = edit(tmp_path / "out", "l7.Padded.odd", 2 * 2048 + 2047)
    assert differences()[0] == ("l7.Padded.odd", f"byte 6143 (a pad): expected 0x7f, found 0x{now:02x}")
