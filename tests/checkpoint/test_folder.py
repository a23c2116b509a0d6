"""The container and the folder: read as safetensors' own library reads them, and everything that is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from mono_gen.checkpoint.folder import open_checkpoint
from mono_gen.checkpoint.problems import Refused
from mono_gen.checkpoint.shards import DTYPES, header_bytes, read_shard
from tests.checkpoint import made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tensors = {f"model.layers.1.t{n}": torch.arange(n + 1, dtype=torch.int16) for n in range(6)}
    return made.write_checkpoint(tmp_path / "in", tensors, 3)


def refusal(path: Path) -> tuple[str, ...]:
    with pytest.raises(Refused) as raised:
        open_checkpoint(path)
    assert raised.value.code == 2
    return raised.value.lines


def test_the_library_reads_the_same(tmp_path: Path) -> None:
    tensors = {
        f"t{n}": torch.arange(8 * (n + 1), dtype=torch.uint8).view(dtype)
        for n, (dtype, _) in enumerate(DTYPES.values())
        if dtype is not torch.bool
    }
    tensors |= {"bool": torch.tensor([True, False]), "none": torch.empty(0, 3), "scalar": torch.tensor(1.5)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt", "a": "b"})
    shard = read_shard(tmp_path / "x.safetensors")
    data = (tmp_path / "x.safetensors").read_bytes()
    assert shard.metadata == {"format": "pt", "a": "b"} and shard.size == len(data)
    assert set(shard.entries) == set(tensors)
    for name, t in tensors.items():
        entry = shard.entries[name]
        assert DTYPES[entry.dtype][0] is t.dtype and entry.torch_shape == t.shape, name
        wanted = bytes(t.contiguous().view(-1).view(torch.uint8).tolist()) if t.numel() else b""
        assert data[entry.begin : entry.end] == wanted, name


def test_the_library_reads_our_header(tmp_path: Path) -> None:
    said = [("a", "U8", (2, 3), 6), ("b", "F32", (), 4)]
    (tmp_path / "x.safetensors").write_bytes(header_bytes(said, {"k": "v"}) + bytes(range(10)))
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert file.metadata() == {"k": "v"}
        assert file.get_tensor("a").tolist() == [[0, 1, 2], [3, 4, 5]] and file.get_tensor("b").shape == ()
    assert len(header_bytes(said, {})) % 4096 == 0


def header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin with the length of a header"),
        (b"PK\x03\x04 and much else", "does not begin with the length of a header"),
        (b"\x10\0\0\0\0\0\0\0{}", "cut short: its header ends at byte 24, the file at byte 10"),
        (header("[]  "), "its header is damaged (TypeError"),
        (header("{nothing"), "its header is damaged (JSONDecodeError"),
        (header('{"t": {"dtype": "U8", "shape": [1]}}'), "its header is damaged (KeyError"),
        (header('{"t": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}'), "t: shape (-1,)"),
        (header('{"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}') + bytes(4), "t: 4 bytes for F32 [2]"),
        (header('{"t": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}') + b"x", "its tensors end at byte"),
        (header('{"t": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}') + b"xy", "1 bytes behind the last"),
        (header('{"t": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}') + b"xy", "t begins at byte"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(Refused) as raised:
        read_shard(tmp_path / "x.safetensors")
    assert message in str(raised.value) and "x.safetensors" in str(raised.value)
    assert message in refusal(tmp_path)[0]


def test_a_folder_without_weights(tmp_path: Path) -> None:
    assert refusal(tmp_path) == ("no safetensors file in this folder",)
    assert refusal(tmp_path / "none") == ("no such file or folder",)


def test_every_damaged_or_missing_file_is_named_at_once(folder: Path) -> None:
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    (folder / names[0]).unlink()
    (folder / names[1]).write_bytes((folder / names[1]).read_bytes()[:-1])
    lines = refusal(folder)
    assert [line.partition(":")[0] for line in lines] == names[:2]
    assert "missing; the index model.safetensors.index.json names it" in lines[0] and "cut short" in lines[1]


def test_an_index_that_is_wrong(folder: Path) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"] |= {
        "no.such": "model-00001-of-00003.safetensors",
        "nor.this": "model-00001-of-00003.safetensors",
    }
    path.write_text(json.dumps(index))
    assert refusal(folder) == (
        "model-00001-of-00003.safetensors: the index says that it holds no.such and 1 more, and it does not",
    )
    for text in ("{", "[]", "{}", '{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": 1}}'):
        path.write_text(text)
        assert "not an index of safetensors files" in refusal(folder)[0]
    (folder / "other.safetensors.index.json").write_text("{}")
    assert "more than one index" in refusal(folder)[0]


def test_a_tensor_in_two_files(folder: Path) -> None:
    save_file({"model.layers.1.t0": torch.ones(1)}, folder / "more.safetensors")
    assert refusal(folder) == ("more.safetensors: tensor model.layers.1.t0 is in model-00001-of-00003.safetensors too",)
