"""The conversion of a checkpoint: file by file, tensor by tensor, some items at a time; a kill loses a file at most."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import torch

from mono_gen.checkpoint.folder import Checkpoint, fingerprint
from mono_gen.checkpoint.jobs import Work
from mono_gen.checkpoint.journal import Done, Journal, open_journal
from mono_gen.checkpoint.outputs import (
    Advance,
    Converted,
    Copied,
    OutputShard,
    Tensor,
    Threads,
    Writer,
    digest,
    measured,
    plan_outputs,
    threads,
    written_in_one_step,
)
from mono_gen.checkpoint.pieces import Job, Share
from mono_gen.checkpoint.problems import WRONG_INPUT, Refused
from mono_gen.checkpoint.reading import BLOCK_BYTES, Reader, memory_of, read_sources
from mono_gen.checkpoint.target import Target
from mono_gen.frozen import frozen
from mono_gen.runtime.content import Running, unread
from mono_gen.runtime.errors import MonoUnsupported
from mono_gen.runtime.ledger import sweep
from mono_gen.write import replace_file

CHUNK_BYTES = 16 << 20
"""Items are converted together up to this many bytes: what caches hold, and what the allocator hands out again."""


@frozen
class Summary:
    """What a conversion did.

    kept: the files of an earlier run that were whole.
    """

    shards: int
    kept: int
    converted: int
    copied: int
    nbytes: int


def total_bytes(shards: tuple[OutputShard, ...]) -> int:
    """Return the bytes of all tensors of an output."""
    return sum(shard.data_bytes for shard in shards)


def convert(
    checkpoint: Checkpoint,
    target: Target,
    work: Work,
    share: Share,
    map_digest: str,
    out: Path,
    resume: bool,
    advance: Advance,
) -> Summary:
    """Return what was written into a folder: the checkpoint with the fields of the struct as its kernels read them.

    Memory: a few items of a field, or all of it where it has no axis of items.
    Raises: Refused, MonoUnsupported; OSError. Files that were whole stay, for `resume`.
    """
    if out.resolve() == checkpoint.folder.resolve():
        raise Refused(str(out), ["the checkpoint itself; name another folder"])
    shards = plan_outputs(checkpoint, target.name, work.jobs)
    run = {
        "spec": f"{target.digest}-{map_digest}",
        "input": fingerprint(checkpoint),
        "layers": list(work.layers),
        "rank": share.rank,
        "world": share.world,
    }
    journal = open_journal(out, run, resume)
    try:
        kept = _kept(journal, shards, advance)
        todo = [shard for shard in shards if shard.source.path.name not in kept]
        _require_room(out, sum(shard.data_bytes for shard in todo))
        with Reader(checkpoint) as reader, threads() as beside:
            for shard in todo:
                done = _write_shard(out, shard, reader, share, beside, advance)
                journal.shard(shard.source.path.name, done)
        _write_others(checkpoint, shards, out)
        journal.finish()
    finally:
        journal.close()
    tensors = [t for shard in shards for t in shard.tensors]
    converted = sum(isinstance(t.origin, Converted) for t in tensors)
    return Summary(len(shards), len(kept), converted, len(tensors) - converted, total_bytes(shards))


def _kept(journal: Journal, shards: tuple[OutputShard, ...], advance: Advance) -> frozenset[str]:
    """Return the names of the files that an earlier run finished and that still are what it wrote."""
    names = {shard.source.path.name for shard in shards}
    return frozenset(
        name
        for name, done in journal.done.items()
        if name in names and measured(journal.folder / name, advance) == done
    )


def _require_room(out: Path, nbytes: int) -> None:
    """Raise Refused where the disk has less room than what is still to be written."""
    free = shutil.disk_usage(out).free
    if free < nbytes:
        raise Refused(str(out), [f"the disk has {free:,} bytes free, and {nbytes:,} are to be written"])


def _write_shard(
    out: Path,
    shard: OutputShard,
    reader: Reader,
    share: Share,
    beside: Threads,
    advance: Advance,
) -> Done:
    """Return the size and digest of a file, after it was written."""
    at = len(shard.header({}))
    places: dict[str, int] = {}
    for tensor in shard.tensors:
        places[tensor.name] = at
        at += tensor.nbytes
    runnings = {tensor.name: Running() for tensor in shard.tensors}
    with written_in_one_step(out / shard.source.path.name) as descriptor:
        writer = Writer(descriptor, beside, advance)
        try:
            for tensor in shard.tensors:
                match tensor.origin:
                    case Copied():
                        _copy(writer, reader, tensor, places[tensor.name], runnings[tensor.name])
                    case Converted(job, 0):
                        _convert(writer, reader, share, job, places, runnings)
        finally:
            writer.drain()
        contents = {name: running.value() for name, running in runnings.items()}
        header = shard.header(contents)
        os.pwrite(descriptor, header, 0)
    return Done(at, digest(header, list(contents.values())))


def _copy(writer: Writer, reader: Reader, tensor: Tensor, at: int, running: Running) -> None:
    """Copy a tensor as it is."""
    assert isinstance(tensor.origin, Copied), "called for those"
    for done in range(0, tensor.nbytes, BLOCK_BYTES):
        block = writer.buffer(min(BLOCK_BYTES, tensor.nbytes - done))
        reader.read(tensor.origin.entry, done, memory_of(block))
        writer.put(block, at + done, running)


def _convert(
    writer: Writer, reader: Reader, share: Share, job: Job, places: dict[str, int], runnings: dict[str, Running]
) -> None:
    """Convert a field, some items at a time, through its generated loader."""
    item_bytes = max(job.nbytes(index) // job.items for index in range(len(job.made)))
    step = min(max(1, CHUNK_BYTES // item_bytes), job.items)
    buffers: list[torch.Tensor] = []
    for first in range(0, job.items, step):
        count = min(step, job.items - first)
        sweep()  # what the ledger keeps of tensors that are gone keeps the allocator from using their memory again
        sources = read_sources(reader, job, share, first, count, buffers)
        names = (source.local for source in job.field.sources)
        try:
            with unread():  # the writer reads every byte
                loaded = job.field.loader.from_layer(SimpleNamespace(**dict(zip(names, sources, strict=True))))
        except MonoUnsupported as refusal:
            items = f", items from {first} on" if job.field.items and first else ""
            lines = [f"layer {job.layer}{items}: {problem.line()}" for problem in refusal.problems]
            raise Refused(job.names[0], lines, WRONG_INPUT) from None
        for index, name in enumerate(job.names):
            made = getattr(loaded, job.field.made[index].info.name)
            size = job.nbytes(index) // job.items
            assert made.dtype is job.field.made[index].dtype and made.nbytes == size * count, "the plan's shape"
            writer.put(made, places[name] + first * size, runnings[name])


def _write_others(checkpoint: Checkpoint, shards: tuple[OutputShard, ...], out: Path) -> None:
    """Write what stands beside the weights, and the index last: with it a folder looks finished."""
    for name in checkpoint.others:
        replace_file(out / name, (checkpoint.folder / name).read_bytes())
    if checkpoint.index is None:
        return
    name, index = checkpoint.index
    weight_map = {t.name: shard.source.path.name for shard in shards for t in shard.tensors}
    metadata = {**(index.get("metadata") or {}), "total_size": total_bytes(shards)}
    said = {**index, "metadata": metadata, "weight_map": dict(sorted(weight_map.items()))}
    replace_file(out / name, json.dumps(said, indent=2).encode() + b"\n")
