"""A checkpoint's folder: its shards, its index, and the other files that belong to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mono_gen.checkpoint.problems import Refused
from mono_gen.checkpoint.shards import Entry, Shard, read_shard
from mono_gen.frozen import frozen

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack")
_SAMPLES = 64
_SAMPLE_BYTES = 4096


@frozen
class Checkpoint:
    """A folder of safetensors files.

    shards: by file name, sorted.
    places: the shard of each tensor, by the tensor's name.
    index:  the index file's name and contents; None where there is none.
    others: names of the other files to keep: configuration, tokenizer.
    """

    folder: Path
    shards: dict[str, Shard]
    places: dict[str, str]
    index: tuple[str, dict[str, Any]] | None
    others: tuple[str, ...]

    def entry(self, name: str) -> Entry:
        """Return where a tensor lies."""
        return self.shards[self.places[name]].entries[name]

    def has(self, name: str) -> bool:
        """Return whether there is a tensor of this name."""
        return name in self.places


def open_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a folder, or of one safetensors file.

    Raises: Refused, with every shard that is missing, damaged or not what the index says; OSError.
    """
    if not path.exists():
        raise Refused(str(path), ["no such file or folder"])
    folder, names, index = (path.parent, [path.name], None) if path.is_file() else _listed(path)
    lines: list[str] = []
    shards: dict[str, Shard] = {}
    places: dict[str, str] = {}
    for name in names:
        try:
            shards[name] = read_shard(folder / name)
        except FileNotFoundError:
            lines.append(f"{name}: missing; the index {index[0] if index else ''} names it")
            continue
        except Refused as refusal:
            if path.is_file():  # the refusal is about it
                raise
            lines += [f"{name}: {line}" for line in refusal.lines]
            continue
        for tensor in shards[name].entries:
            other = places.setdefault(tensor, name)
            if other != name:
                lines.append(f"{name}: tensor {tensor} is in {other} too")
    lines += _wrong_index(index, shards, names)
    if lines:
        raise Refused(str(path), lines)
    others = () if path.is_file() else _others(folder)
    return Checkpoint(folder, shards, places, index, others)


def _listed(folder: Path) -> tuple[Path, list[str], tuple[str, dict[str, Any]] | None]:
    """Return the names of the shards, those that the index names and those that are there, and the index."""
    there = sorted(p.name for p in folder.iterdir() if p.name.endswith(SUFFIX) and not p.name.startswith("."))
    indexes = sorted(p.name for p in folder.iterdir() if p.name.endswith(INDEX_SUFFIX) and not p.name.startswith("."))
    if len(indexes) > 1:
        raise Refused(str(folder), [f"more than one index: {', '.join(indexes)}"])
    index = None
    if indexes:
        index = (indexes[0], _read_index(folder / indexes[0]))
        there = sorted({*there, *index[1]["weight_map"].values()})
    if not there:
        raise Refused(str(folder), ["no safetensors file in this folder"])
    return folder, there, index


def _read_index(path: Path) -> dict[str, Any]:
    try:
        index = json.loads(path.read_bytes())
        names = index["weight_map"]
        if not all(isinstance(name, str) and name == os.path.basename(name) != "" for name in names.values()):
            raise ValueError("weight_map names a file that is not in the folder itself")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(str(path), [f"not an index of safetensors files ({type(error).__name__}: {error})"]) from None
    return dict(index)


def _wrong_index(index: tuple[str, dict[str, Any]] | None, shards: dict[str, Shard], names: list[str]) -> Iterator[str]:
    """Yield what an index says of readable shards that is not so; two lines a shard at most."""
    if index is None:
        return
    lost: dict[str, list[str]] = {}
    for tensor, name in index[1]["weight_map"].items():
        if name in shards and tensor not in shards[name].entries:
            lost.setdefault(name, []).append(tensor)
    for name in names:
        if name in lost:
            more = f" and {len(lost[name]) - 1} more" if len(lost[name]) > 1 else ""
            yield f"{name}: the index says that it holds {lost[name][0]}{more}, and it does not"


def _others(folder: Path) -> tuple[str, ...]:
    """Return the names of the files to keep beside the weights; folders and hidden files are left."""
    found = []
    for path in folder.iterdir():
        is_weights = path.name.endswith((SUFFIX, INDEX_SUFFIX, *_OTHER_WEIGHTS))
        if path.is_file() and not path.name.startswith(".") and not is_weights and path.name != JOURNAL:
            found.append(path.name)
    return tuple(sorted(found))


JOURNAL = "mono-gen.journal"
"""The file in an output folder that says what is done."""


def fingerprint(checkpoint: Checkpoint) -> str:
    """Return a digest of what the input is: names, sizes, times of change, headers, and samples of every shard.

    Weights of the same shapes differ in the samples; an edit of a few bytes, in the time of change.
    """
    state = blake2b(digest_size=16)
    for name, shard in checkpoint.shards.items():
        with open(shard.path, "rb") as stream:
            status = os.fstat(stream.fileno())
            state.update(json.dumps([name, status.st_size, status.st_mtime_ns]).encode())
            state.update(shard.header)
            room = max(status.st_size - _SAMPLE_BYTES, 0)
            for sample in range(_SAMPLES):
                state.update(os.pread(stream.fileno(), _SAMPLE_BYTES, room * sample // (_SAMPLES - 1)))
    for name in (*checkpoint.others, *([checkpoint.index[0]] if checkpoint.index else [])):
        state.update(name.encode() + (checkpoint.folder / name).read_bytes())
    return state.hexdigest()
