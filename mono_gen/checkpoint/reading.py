"""Sources put together: the checkpoint's bytes read straight into the tensors that a field's loader takes."""

from __future__ import annotations

import ctypes
import os
from math import prod
from types import TracebackType

import torch

from mono_gen.checkpoint.folder import Checkpoint
from mono_gen.checkpoint.pieces import Job, Piece, Share
from mono_gen.checkpoint.problems import Refused
from mono_gen.checkpoint.shards import Entry

BLOCK_BYTES = 16 << 20


def memory_of(t: torch.Tensor) -> memoryview:
    """Return the bytes of a dense CPU tensor, not copied; the tensor must outlive it."""
    return memoryview((ctypes.c_char * t.nbytes).from_address(t.data_ptr())).cast("B")


class Reader:
    """The open files of a checkpoint, read by place."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._open: dict[str, int] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def read(self, entry: Entry, at: int, into: memoryview) -> None:
        """Fill a buffer with the bytes of a tensor, from byte `at` of it on.

        Raises: Refused, where the file ends before; OSError.
        """
        shard = self._checkpoint.places[entry.name]
        if shard not in self._open:
            self._open[shard] = os.open(self._checkpoint.shards[shard].path, os.O_RDONLY)
        done = 0
        while done < len(into):
            count = os.preadv(self._open[shard], [into[done:]], entry.begin + at + done)
            if not count:
                path = self._checkpoint.shards[shard].path
                raise Refused(str(path), [f"it ends inside {entry.name}: the file became shorter while it was read"])
            done += count

    def entry(self, name: str) -> Entry:
        """Return where a tensor lies."""
        return self._checkpoint.entry(name)


def read_sources(
    reader: Reader, job: Job, share: Share, first: int, count: int, out: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Return the sources of items `first` to `first + count` of a job, as its loader takes them.

    out: buffers that earlier calls of the job made: used again where they are long enough.
    """
    made = []
    for index, (source, pieces) in enumerate(zip(job.field.sources, job.pieces, strict=True)):
        shape = (*((count,) if job.field.items else ()), *job.shapes[index])
        if index == len(out) or out[index].numel() < prod(shape) * source.dtype.itemsize:
            out[index:] = [torch.empty(prod(shape) * source.dtype.itemsize, dtype=torch.uint8), *out[index + 1 :]]
        flat = out[index][: prod(shape) * source.dtype.itemsize]
        for item, target in enumerate(flat.view(count if job.field.items else 1, -1)):
            for piece in pieces:
                _read_piece(reader, piece, share, first + item, target, job.shapes[index], source.dtype)
        made.append(flat.view(source.dtype).view(shape))
    return made


def _read_piece(
    reader: Reader,
    piece: Piece,
    share: Share,
    item: int,
    target: torch.Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype,
) -> None:
    """Fill a piece's range of one item, whose bytes `target` are, with the rank's share of the piece."""
    stacked = len(piece.names) > 1 or piece.shape == reader.entry(piece.names[0]).torch_shape
    entry = reader.entry(piece.names[item if len(piece.names) > 1 else 0])
    base = 0 if stacked else item * piece.item_bytes
    region = target.view(*shape, dtype.itemsize)
    if piece.axis >= 0:
        region = region.narrow(piece.axis, piece.begin, piece.length)
    rows, row_bytes = piece.shape[0], piece.item_bytes // piece.shape[0]
    begin = 0
    if piece.cut == 0:
        rows //= share.world
        begin = share.rank * rows
    if piece.cut <= 0 and region.is_contiguous() and piece.dtype.itemsize == dtype.itemsize:
        reader.read(entry, base + begin * row_bytes, memory_of(region))
        return
    step = max(1, BLOCK_BYTES // row_bytes)
    scratch = torch.empty(min(step, rows) * row_bytes, dtype=torch.uint8)
    for at in range(0, rows, step):
        count = min(step, rows - at)
        block = scratch[: count * row_bytes]
        reader.read(entry, base + (begin + at) * row_bytes, memory_of(block))
        held = block.view(count, *piece.shape[1:], piece.dtype.itemsize)
        if piece.cut > 0:
            length = piece.shape[piece.cut] // share.world
            held = held.narrow(piece.cut, share.rank * length, length)
        if piece.dtype.itemsize != dtype.itemsize:  # widened: exact
            held = held.contiguous().view(piece.dtype).to(dtype).view(torch.uint8)
        region.narrow(0, at, count).copy_(held)
