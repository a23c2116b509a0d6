"""What each tensor of a field should hold, worked out a second time: whole tensors narrowed and joined, plain casts.

The conversion reads into place and looks products up in a table of bits; nothing of that is used here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod

import torch

from mono_gen.checkpoint.pieces import Job, Piece, Share
from mono_gen.checkpoint.reading import Reader, memory_of
from mono_gen.frozen import frozen
from mono_gen.model import ConvertModel


@frozen
class Lines:
    """Lines of an item: runs along its last axis.

    coordinates: int64 [lines, axes before the last].
    values:      [lines, torch elements of a line]; the scale of a row is the one element of its line.
    """

    coordinates: torch.Tensor
    values: torch.Tensor


def spread(seed: str, count: int, sample: int | None) -> list[int]:
    """Return all numbers below `count`, or the first, the last and some between: the same ones at every call."""
    if sample is None or sample >= count:
        return list(range(count))
    return sorted({0, count - 1, *random.Random(seed).sample(range(count), max(sample - 2, 0))})


def expected_lines(reader: Reader, job: Job, share: Share, item: int, sample: int | None) -> Iterator[Lines]:
    """Yield, for each tensor of a field, lines of an item with what kernels should read; all, or a sample."""
    logical = [_logical(reader, job, index, share, item) for index in range(len(job.pieces))]
    before = tuple(logical[0].shape[:-1])
    count = prod(before)
    chosen = torch.tensor(spread(f"{job.names[0]} {item}", count, sample))
    coordinates = torch.stack(torch.unravel_index(chosen, before), -1) if before else chosen.view(-1, 1)[:, :0]
    rows = [_as_bytes(t).view(count, -1)[chosen].view(t.dtype) for t in logical]
    for values in _in_format(job, rows):
        yield Lines(coordinates, values)


def _logical(reader: Reader, job: Job, index: int, share: Share, item: int) -> torch.Tensor:
    """Return a source of an item as one row-major tensor."""
    source, pieces = job.field.sources[index], sorted(job.pieces[index], key=lambda p: p.begin)
    parts = []
    for piece in pieces:
        held = _whole(reader, piece, item, job.field.items)
        if piece.cut >= 0:
            length = held.shape[piece.cut] // share.world
            held = held.narrow(piece.cut, length * share.rank, length)
        parts.append(held.to(torch.float32) if source.dtype is torch.float32 else held)
    shaped = [_as_bytes(p).view(*p.shape, p.dtype.itemsize) for p in parts]
    joined = torch.cat(shaped, dim=max(pieces[0].axis, 0))
    return joined.view(source.dtype).view(joined.shape[:-1])


def _whole(reader: Reader, piece: Piece, item: int, items: bool) -> torch.Tensor:
    """Return a tensor of the checkpoint, or an item of one, whole."""
    stacked = len(piece.names) > 1
    entry = reader.entry(piece.names[item if stacked else 0])
    held = torch.empty(piece.shape, dtype=piece.dtype)
    is_stack = items and not stacked and len(entry.shape) > len(piece.shape)
    reader.read(entry, item * held.nbytes if is_stack else 0, memory_of(held))
    return held


def _in_format(job: Job, rows: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the lines of each tensor of a field in its own format, of the source's lines."""
    origin, kept = job.field.model.origin, job.field.model.format
    source = origin.format if isinstance(origin, ConvertModel) else kept
    if source.name == kept.name:
        yield from rows
        return
    values = rows[0]
    if source.name == "mxfp8":
        powers = torch.exp2(_as_bytes(rows[1]).to(torch.float64) - 127).to(torch.float32)
        blocks = values.to(torch.float32).view(*powers.shape, -1)
        values = (blocks * powers.unsqueeze(-1)).flatten(-2)
    values = values.to(torch.bfloat16)
    if kept.name == "bf16":
        yield values
        return
    dtype = job.field.made[0].dtype
    exact = values.to(torch.float32)
    scale = exact.abs().amax(dim=-1, keepdim=True) * torch.tensor(1 / torch.finfo(dtype).max, dtype=torch.float32)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    yield (exact / scale).to(dtype)
    yield scale


def _as_bytes(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().view(torch.uint8)
