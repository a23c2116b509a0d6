"""Byte moves on a CPU: torch's own strided copy where its loops are long, else helped.

torch's inner loops run along the last axes of the target. Where these are a few bytes (the scales' orders), each of
the bytes goes by itself, with a longer axis in the loop; and first, where the two bytes of each 16 bits come from two
long runs of the source, these are put together as 16-bit numbers, by whole vectors, so that half as many units move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from mono_gen.frozen import frozen

UNITS = ((16, torch.complex128), (8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
"""Bytes a unit, and the dtype that moves them bit for bit; a 16-byte copy is the widest that torch has."""

CHUNK_BYTES = 3 << 17
"""Bytes of a target that are made at once, for each thread: they and their pairs fit the second cache level."""

MOST_CHUNK_BYTES = 1 << 23

_LEAST_BYTES = 1 << 14  # of a target: below, the calls for pairs cost more than they save
_NARROW = 8  # bytes that the innermost elements of a target make together at most, to be moved one by one
_FEW = 4  # elements along the target's last axis that are better moved one by one
_SHORT = 64  # elements along its last two axes: with fewer torch spends its time between its loops
_LONG = 64  # elements along its last axis, from as many rows of the source: with more these share few sets of the cache
_RUN = 64  # bytes that lie together in the source, at least, to be worked on as vectors
_GAP = 16  # 16-bit numbers between the runs of the scratch: runs of 4 KiB would share one set of the cache


@frozen
class _Dim:
    """An axis of a move, with its strides on both sides in elements."""

    size: int
    target: int
    source: int


@frozen
class _Pairs:
    """A move of bytes, two at a time, that lie together in the target.

    dims:  what the pairs are counted by, slowest first in the source.
    apart: the source's stride between the two bytes of a pair.
    runs:  how many of `dims`, the last ones, make a run of the source.
    """

    dims: tuple[_Dim, ...]
    apart: int
    runs: int


def move(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; write a strided target from a strided source of the same shape and dtype, on the CPU.

    Requires: no two elements of `target` at one place; dtypes of UNITS.
    Law:      tests/runtime/test_cpu_moves.py
    """
    dims = _joined(target, source)
    is_worth_it = target.itemsize == 1 and target.numel() >= _LEAST_BYTES and _is_slow(dims)
    pairs = _plan_pairs(dims, target) if is_worth_it else None
    if pairs is not None:
        _move_pairs(pairs, target, source)
    else:
        _move_units(_strided(target, dims, True), _strided(source, dims, False))


def _joined(target: torch.Tensor, source: torch.Tensor) -> tuple[_Dim, ...]:
    """Return the axes, slowest first in the target; those of size 1 dropped, neighbours on both sides joined."""
    every = [_Dim(*numbers) for numbers in zip(target.shape, target.stride(), source.stride(), strict=True)]
    found: list[_Dim] = []
    for dim in sorted((dim for dim in every if dim.size > 1), key=lambda dim: -dim.target):
        slower = found[-1] if found else None
        if slower and slower.target == dim.size * dim.target and slower.source == dim.size * dim.source:
            found[-1] = _Dim(slower.size * dim.size, dim.target, dim.source)
        else:
            found.append(dim)
    return tuple(found)


def _is_slow(dims: Sequence[_Dim]) -> bool:
    """Return whether torch's own loops over a target are short, or go down long columns of the source."""
    return bool(dims) and (math.prod(dim.size for dim in dims[-2:]) < _SHORT or dims[-1].size >= _LONG)


def _strided(t: torch.Tensor, dims: tuple[_Dim, ...], is_target: bool) -> torch.Tensor:
    return t.as_strided([d.size for d in dims], [d.target if is_target else d.source for d in dims])


def _move_units(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; copy unit by unit, axes slowest first in the target."""
    few = _few(target.shape, target.itemsize)
    for to, of in zip(_each(target, few), _each(source, few), strict=True):
        to.copy_(of)


def _few(sizes: Sequence[int], itemsize: int) -> range:
    """Return the last axes of a target whose elements had better go one by one, with a longer axis in torch's loop."""
    last = len(sizes)
    if last > 1 and (sizes[-1] <= _FEW or math.prod(sizes[-2:]) < _SHORT):
        while last > 1 and math.prod(sizes[last - 1 :]) <= _NARROW // itemsize:
            last -= 1
    return range(last, len(sizes))


def _each(t: torch.Tensor, axes: Sequence[int]) -> list[torch.Tensor]:
    """Return a view for every place along some axes, row-major, without these axes."""
    views = []
    for place in product(*(range(t.shape[axis]) for axis in axes)):
        chosen: list[Any] = [slice(None)] * t.dim()
        for axis, i in zip(axes, place, strict=True):
            chosen[axis] = i
        views.append(t[tuple(chosen)])
    return views


def _plan_pairs(dims: tuple[_Dim, ...], target: torch.Tensor) -> _Pairs | None:
    """Return the move in pairs of bytes, where these come from long runs, or None."""
    last = dims[-1]
    if last.target != 1 or last.source == 1 or last.size % 2:
        return None
    half = _Dim(last.size // 2, 2, 2 * last.source)
    rest = sorted((dim for dim in (*dims[:-1], half) if dim.size > 1), key=lambda dim: -dim.source)
    places = (target.data_ptr(), target.storage_offset(), *(dim.target for dim in rest))
    runs, length = 0, 1
    while runs < len(rest) and rest[-1 - runs].source == length:
        length *= rest[-1 - runs].size
        runs += 1
    if length < _RUN or any(place % 2 for place in places):
        return None
    return _Pairs(tuple(rest), last.source, runs)


def _move_pairs(pairs: _Pairs, target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; put pairs together chunk by chunk, in the source's order, and move them to their places."""
    sizes, strides = tuple(dim.size for dim in pairs.dims), [dim.source for dim in pairs.dims]
    lows, highs = (source.as_strided(sizes, strides, source.storage_offset() + at) for at in (0, pairs.apart))
    flat = target.as_strided((2 + sum((dim.size - 1) * dim.target for dim in pairs.dims),), (1,)).view(torch.int16)
    written = flat.as_strided(sizes, [dim.target // 2 for dim in pairs.dims])
    cut, step = _chunk(sizes)
    order = sorted(range(len(sizes)), key=lambda i: -pairs.dims[i].target)
    few = [order[i] for i in _few([sizes[i] for i in order], 2)]
    few = few if all(axis > cut for axis in few) else []  # what chunks are cut along stays
    each = _each(written, few)
    made, shifted = _pair_scratch((step, *sizes[cut + 1 :]), pairs.runs)
    made_each = _each(made, [axis - cut for axis in few])
    for slower in product(*(range(size) for size in sizes[:cut])):
        for low, high, *places in zip(*(torch.split(t[slower], step) for t in (lows, highs, *each)), strict=True):
            count = low.shape[0]
            pair = made[:count]
            pair.copy_(low)
            pair.add_(shifted[:count].copy_(high), alpha=1 << 8)
            for place, one in zip(places, made_each, strict=True):
                place.copy_(one[:count])


def _chunk(sizes: tuple[int, ...]) -> tuple[int, int]:
    """Return the axis along which pairs are cut into chunks, and how many of its steps a chunk has."""
    most = min(CHUNK_BYTES * torch.get_num_threads(), MOST_CHUNK_BYTES) // 2
    inner = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    cut = next(i for i, count in enumerate(inner) if count <= most)
    return cut, min(most // inner[cut], sizes[cut])


def _pair_scratch(shape: tuple[int, ...], runs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return twice 16-bit numbers of a shape; its last axes, `runs` of them, lie together."""
    outer, run = shape[: max(len(shape) - runs, 0)], math.prod(shape[max(len(shape) - runs, 0) :])
    room = torch.empty((2, *outer, run + _GAP), dtype=torch.int16, device="cpu")
    first, second = room[..., :run].view(2, *shape)
    return first, second
