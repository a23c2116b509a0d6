"""The files of an output: which tensors each holds, where they lie, and how one is written in one step."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from mono_gen.checkpoint.folder import Checkpoint
from mono_gen.checkpoint.journal import Done, temporary
from mono_gen.checkpoint.pieces import Job
from mono_gen.checkpoint.problems import Refused
from mono_gen.checkpoint.reading import BLOCK_BYTES, memory_of
from mono_gen.checkpoint.shards import DTYPES, Entry, Shard, header_bytes, read_shard
from mono_gen.frozen import frozen
from mono_gen.runtime.content import Running
from mono_gen.runtime.files import AS_BYTES, record_entry, records_metadata

Advance = Callable[[int], None]
"""What is told the bytes that were done."""

_PAGE = 4096
_IN_FLIGHT = 2  # pieces that are hashed and written while the next one is made
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SEND_BYTES = 16 << 20
"""Written bytes after which the disk is set to work, so that the end of a file has little to wait for."""


@frozen
class Copied:
    """A tensor that goes over as it is."""

    entry: Entry


@frozen
class Converted:
    """A tensor that a job makes, the `index`th of it."""

    job: Job
    index: int


@frozen
class Tensor:
    """A tensor of an output file; dtype and shape as the header has them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    origin: Copied | Converted


@frozen
class OutputShard:
    """A file of the output.

    source:  the file of the input of the same name.
    tensors: in the order of the file.
    """

    source: Shard
    struct: str
    tensors: tuple[Tensor, ...]

    @property
    def is_untouched(self) -> bool:
        """Return whether the file stays as it is, byte for byte."""
        return len(self.tensors) == len(self.source.entries) and all(isinstance(t.origin, Copied) for t in self.tensors)

    @property
    def data_bytes(self) -> int:
        """Return the bytes of all tensors."""
        return sum(t.nbytes for t in self.tensors)

    def header(self, contents: dict[str, int]) -> bytes:
        """Return the beginning of the file, given the fingerprints of what was converted; its length needs none."""
        if self.is_untouched:
            return self.source.header
        records: dict[str, Any] = {t.name: None for t in self.tensors}
        for t in self.tensors:
            if isinstance(t.origin, Converted):
                made, shape = t.origin.job.field.made[t.origin.index], t.origin.job.made[t.origin.index]
                like = torch.empty(shape, dtype=made.dtype, device="meta")
                records[t.name] = record_entry(made.info, like, contents.get(t.name, 0))
        converted = any(records.values())
        metadata = {**self.source.metadata, **(records_metadata(self.struct, records) if converted else {})}
        return header_bytes(((t.name, t.dtype, t.shape, t.nbytes) for t in self.tensors), metadata)


def plan_outputs(checkpoint: Checkpoint, struct: str, jobs: Sequence[Job]) -> tuple[OutputShard, ...]:
    """Return the files of the output: what is converted lies where the first of its sources lay.

    Tensors stand by their alignment, the largest first, so that each begins at a multiple of what divides its size.
    """
    consumed = {name for job in jobs for name in job.consumed}
    names = {dtype: name for name, (dtype, _) in DTYPES.items()}
    made: dict[str, list[Tensor]] = {name: [] for name in checkpoint.shards}
    for job in jobs:
        place = checkpoint.places[next(job.consumed)]
        for index, name in enumerate(job.names):
            dtype = job.field.made[index].dtype
            stored = "U8" if dtype in AS_BYTES else names[dtype]
            made[place].append(Tensor(name, stored, job.made[index], job.nbytes(index), Converted(job, index)))
    shards = []
    for name, shard in checkpoint.shards.items():
        kept = [
            Tensor(e.name, e.dtype, e.shape, e.nbytes, Copied(e))
            for e in sorted(shard.entries.values(), key=lambda e: (e.begin, e.end))
            if e.name not in consumed
        ]
        if len(kept) == len(shard.entries) and not made[name]:
            shards.append(OutputShard(shard, struct, tuple(kept)))
        else:
            shards.append(OutputShard(shard, struct, tuple(sorted((*kept, *made[name]), key=_alignment))))
    return tuple(shards)


def _alignment(t: Tensor) -> tuple[int, str]:
    """Return what orders the tensors of a file."""
    return -min(t.nbytes & -t.nbytes or _PAGE, _PAGE), t.name


def digest(header: bytes, contents: Sequence[int]) -> str:
    """Return the digest of a file: its header, and the fingerprint of each tensor in the order of the file."""
    state = blake2b(header, digest_size=16)
    for content in contents:
        state.update((content & (2**64 - 1)).to_bytes(8, "little"))
    return state.hexdigest()


@frozen
class Threads:
    """The threads that work beside the one that converts."""

    write: ThreadPoolExecutor
    send: ThreadPoolExecutor


@contextmanager
def threads() -> Iterator[Threads]:
    """Return a context with the threads, which end with it; torch leaves the writing one a core."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before - 1))
    try:
        with (
            ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as write,
            ThreadPoolExecutor(1) as send,
        ):
            yield Threads(write, send)
    finally:
        torch.set_num_threads(before)


class Writer:
    """A file that is being written: a thread hashes and writes pieces while the next one is made.

    Another one sends what was written to the disk meanwhile, so that the end of the file waits for little.
    """

    def __init__(self, descriptor: int, threads: Threads, advance: Advance) -> None:
        self._descriptor = descriptor
        self._threads = threads
        self._advance = advance
        self._pending: list[tuple[Future[None], int]] = []
        self._buffers: list[torch.Tensor] = []
        self._unsent = 0
        self._sent: Future[None] | None = None

    def buffer(self, nbytes: int) -> torch.Tensor:
        """Return memory for the next piece, of a block's size at most: one of three that take turns."""
        if len(self._buffers) <= _IN_FLIGHT:
            self._buffers.append(torch.empty(BLOCK_BYTES, dtype=torch.uint8))
        else:
            self._buffers.append(self._buffers.pop(0))
        return self._buffers[-1][:nbytes]

    def put(self, piece: torch.Tensor, at: int, running: Running) -> None:
        """Take the bytes of a dense tensor, for byte `at` of the file; they may change once two more were taken."""
        flat = piece.detach().view(-1).view(torch.uint8)
        self._pending.append((self._threads.write.submit(_write, self._descriptor, flat, at, running), flat.numel()))
        while len(self._pending) > _IN_FLIGHT:
            self._settle()

    def drain(self) -> None:
        """Return when everything was written.

        Raises: OSError, of the first piece that could not be.
        """
        while self._pending:
            self._settle()
        if self._sent is not None:
            self._sent.result()

    def _settle(self) -> None:
        written, nbytes = self._pending.pop(0)
        written.result()
        self._advance(nbytes)
        self._unsent += nbytes
        if self._unsent >= _SEND_BYTES and (self._sent is None or self._sent.done()):
            self._sent = self._threads.send.submit(os.fsync, self._descriptor)
            self._unsent = 0


def _write(descriptor: int, flat: torch.Tensor, at: int, running: Running) -> None:
    """Hash bytes and write them at a place of a file."""
    running.add(flat)
    view, done = memory_of(flat), 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done : done + BLOCK_BYTES], at + done)


@contextmanager
def written_in_one_step(path: Path) -> Iterator[int]:
    """Return a context with the descriptor of a new file, which gets its name when the context ends well."""
    under = temporary(path)
    descriptor = os.open(under, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        yield descriptor
        os.fsync(descriptor)
        os.replace(under, path)
    except OSError as error:
        if error.errno in _NO_ROOM:  # a write's alone, which names no file
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        os.close(descriptor)
        under.unlink(missing_ok=True)


def measured(path: Path, advance: Advance) -> Done | None:
    """Return the size and the digest of a file that is there; None where it is none or is damaged."""
    try:
        shard = read_shard(path)
    except (FileNotFoundError, Refused):
        return None
    buffer = torch.empty(BLOCK_BYTES, dtype=torch.uint8)
    contents = []
    with open(path, "rb", buffering=0) as stream:
        for entry in sorted(shard.entries.values(), key=lambda e: (e.begin, e.end)):
            running = Running()
            stream.seek(entry.begin)
            left = entry.nbytes
            while left:
                count = stream.readinto(memory_of(buffer)[: min(left, BLOCK_BYTES)])
                if not count:
                    return None
                running.add(buffer[:count])
                advance(count)
                left -= count
            contents.append(running.value())
    return Done(shard.size, digest(shard.header, contents))
