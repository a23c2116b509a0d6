"""An output compared with its checkpoint again: by offsets and plain arithmetic, without loaders, packs or records."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import torch

from mono_gen.checkpoint.folder import Checkpoint, open_checkpoint
from mono_gen.checkpoint.jobs import Work
from mono_gen.checkpoint.outputs import Advance
from mono_gen.checkpoint.pieces import Job, Share
from mono_gen.checkpoint.places import Subject, first_wrong
from mono_gen.checkpoint.reading import Reader, memory_of
from mono_gen.checkpoint.rederive import expected_lines, spread
from mono_gen.checkpoint.shards import DTYPES, Entry
from mono_gen.checkpoint.target import Target
from mono_gen.frozen import frozen

_PAGE_BYTES = 4096
_BLOCK_BYTES = 4 << 20
_ITEMS_SAMPLED = 4


@frozen
class Compared:
    """What a comparison found, and the tensors and bytes that it looked at.

    differences: (tensor or file, what is wrong with it).
    """

    differences: tuple[tuple[str, str], ...]
    tensors: int
    nbytes: int


def verify(
    checkpoint: Checkpoint, target: Target, work: Work, share: Share, out: Path, sample: int | None, advance: Advance
) -> Compared:
    """Return what differs between a folder and what the checkpoint makes.

    sample:  rows of each converted tensor, and pages of each other; None compares every byte, pads too.
    advance: is told of each tensor.
    Raises:  Refused, where a file of either is missing or damaged; OSError.
    """
    found = open_checkpoint(out)
    differences = list(_wrong_names(checkpoint, found, work))
    consumed = {name for job in work.jobs for name in job.consumed}
    looked, tensors = 0, 0
    with Reader(checkpoint) as source, Reader(found) as made:
        for job in work.jobs:
            for name, difference, nbytes in _compare_job(source, found, target, job, share, sample):
                differences += [(name, difference)] if difference else []
                looked, tensors = looked + nbytes, tensors + 1
                advance(1)
        for name in checkpoint.places:
            if name not in consumed and found.has(name):
                was, now = checkpoint.entry(name), found.entry(name)
                difference, nbytes = _compare_copy(source, made, was, now, sample)
                differences += [(name, difference)] if difference else []
                looked, tensors = looked + nbytes, tensors + 1
                advance(1)
    return Compared(tuple(differences), tensors, looked)


def _wrong_names(checkpoint: Checkpoint, found: Checkpoint, work: Work) -> Iterator[tuple[str, str]]:
    """Yield the tensors that are missing or too many, and what the index says wrongly."""
    consumed = {name for job in work.jobs for name in job.consumed}
    wanted = {*(n for n in checkpoint.places if n not in consumed), *(n for job in work.jobs for n in job.names)}
    yield from ((name, "missing") for name in sorted(wanted - found.places.keys()))
    yield from ((name, "the checkpoint makes no such tensor") for name in sorted(found.places.keys() - wanted))
    if checkpoint.index is None:
        return
    if found.index is None:
        yield checkpoint.index[0], "missing: the conversion did not end"
        return
    name, index = found.index
    total = sum(entry.nbytes for shard in found.shards.values() for entry in shard.entries.values())
    said = (index.get("metadata") or {}).get("total_size")
    if said != total:
        yield name, f"total_size: expected {total}, found {said}"
    weights = index["weight_map"]
    yield from (
        (name, f"{tensor}: expected {shard}, found {weights.get(tensor)}")
        for tensor, shard in sorted(found.places.items())
        if weights.get(tensor) != shard
    )


def _compare_copy(source: Reader, made: Reader, was: Entry, now: Entry, sample: int | None) -> tuple[str, int]:
    """Return how a tensor that goes over as it is differs, empty where it does not, and the bytes compared."""
    if (was.dtype, was.shape) != (now.dtype, now.shape):
        return f"expected {was.dtype} {list(was.shape)}, found {now.dtype} {list(now.shape)}", 0
    size = _BLOCK_BYTES if sample is None else _PAGE_BYTES
    looked = 0
    for block in spread(was.name, -(-was.nbytes // size), sample):
        at = block * size
        truth, found = (torch.empty(min(size, was.nbytes - at), dtype=torch.uint8) for _ in range(2))
        source.read(was, at, memory_of(truth))
        made.read(now, at, memory_of(found))
        looked += truth.nbytes
        if not torch.equal(truth, found):
            first = int((truth != found).to(torch.uint8).argmax())
            return f"byte {at + first}: expected 0x{int(truth[first]):02x}, found 0x{int(found[first]):02x}", looked
    return "", looked


def _compare_job(
    source: Reader, found: Checkpoint, target: Target, job: Job, share: Share, sample: int | None
) -> Iterator[tuple[str, str, int]]:
    """Yield, for each tensor of a field that is there, its name, how it differs, and the bytes compared."""
    wrong = {name: _unlike(found.entry(name), job, index) for index, name in enumerate(job.names) if found.has(name)}
    looked = dict.fromkeys(wrong, 0)
    held = {name: _mapped(found, found.entry(name)) for name, difference in wrong.items() if not difference}
    items = spread(job.names[0], job.items, None if sample is None else _ITEMS_SAMPLED)
    each = None if sample is None else -(-sample // len(items))
    for item in items if held else ():
        for index, lines in enumerate(expected_lines(source, job, share, item, each)):
            name = job.names[index]
            if name not in held or wrong[name]:
                continue
            info = job.field.made[index].info
            item_bytes = job.nbytes(index) // job.items
            subject = Subject(info, getattr(target.struct, f"offset_{info.name}"), job.field.items, item_bytes)
            bytes_found = held[name][item * item_bytes : (item + 1) * item_bytes]
            wrong[name] = first_wrong(subject, item, bytes_found, lines, sample is None)
            looked[name] += item_bytes if sample is None else lines.values.nbytes
    yield from ((name, difference, looked[name]) for name, difference in wrong.items())


def _unlike(entry: Entry, job: Job, index: int) -> str:
    """Return how a tensor's dtype and shape are not those of what a job makes; empty where they are."""
    made, shape = job.field.made[index], job.made[index]
    dtype = DTYPES[entry.dtype][0] if entry.dtype in DTYPES else None
    if (
        entry.shape == shape
        and dtype is not None
        and dtype in (made.dtype, torch.uint8)
        and entry.nbytes == job.nbytes(index)
    ):
        return ""
    return f"expected {made.dtype} {list(shape)}, found {entry.dtype} {list(entry.shape)}".replace("torch.", "")


def _mapped(found: Checkpoint, entry: Entry) -> torch.Tensor:
    """Return the bytes of a tensor of a file, which are read when they are looked at."""
    with open(found.shards[found.places[entry.name]].path, "rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)  # torch wants memory that may be written
    return torch.frombuffer(mapped, dtype=torch.uint8, count=entry.nbytes, offset=entry.begin)
