"""Byte moves on a CPU: by torch's own strided copy, or, where that would go byte by byte, by transposing words.

Where the fastest digits of the two sides differ and are narrow (the scales' orders, transposed bytes), a word of the
source holds m neighbours of one digit, a word of the target m neighbours of another. Words move whole into a scratch of
m planes, log2(m) rounds exchange the bytes of planes, and words move whole to their places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch

from mono_gen.frozen import frozen

UNITS = ((16, torch.complex128), (8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
"""Bytes a unit, and the dtype that moves them bit for bit; a 16-byte copy is the widest that torch has."""

CHUNK_BYTES = 1 << 19
"""Bytes of a chunk for each thread: a chunk's planes, source and target fit the second cache level."""

MOST_CHUNK_BYTES = 1 << 23

_LEAST_BYTES = 1 << 14  # below, the calls of the rounds cost more than they save
_NARROW = 8  # bytes that the innermost elements of a target make together at most, to be moved one by one
_SHORT = 64  # elements along the target's last two axes: with fewer torch spends its time between its loops
_FEW = 3  # elements along the last axis alone
_WORDS = (8, 4)  # bytes a word


@frozen
class _Dim:
    """An axis of a move, with its strides on both sides, in elements or in words."""

    size: int
    target: int
    source: int


@frozen
class _Words:
    """A move in words of `size` bytes, axes slowest first in the target's order. Strides are in words.

    dims:   what the words are counted by.
    lanes:  the digits that a word of the target holds, slowest first: they count words of the source.
    planes: the digits that a word of the source holds, slowest first: they count words of the target.
    """

    size: int
    dims: tuple[_Dim, ...]
    lanes: tuple[_Dim, ...]
    planes: tuple[_Dim, ...]


def chunk_bytes() -> int:
    """Return the bytes that are worked on together: what keeps torch's threads busy, and no more than 8 MiB."""
    return min(CHUNK_BYTES * torch.get_num_threads(), MOST_CHUNK_BYTES)


def move(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; write a strided target from a strided source of the same shape and dtype, on the CPU.

    Requires: no two elements of `target` at one place; dtypes of UNITS.
    Law:      tests/runtime/test_cpu_moves.py
    """
    dims = _joined(target, source)
    if dims and dims[-1].size > _FEW and math.prod(dim.size for dim in dims[-2:]) >= _SHORT:
        _strided(target, dims, True).copy_(_strided(source, dims, False))
        return
    words = _plan_words(dims, target, source) if target.itemsize == 1 and target.nbytes >= _LEAST_BYTES else None
    if words is not None:
        _move_words(words, target, source)
    else:
        _move_apart(_strided(target, dims, True), _strided(source, dims, False))


def chunks(sizes: tuple[int, ...], box: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield what cuts an array of these sizes into boxes, the last ones of an axis as large as is left."""
    starts = (range(0, size, step) for size, step in zip(sizes, box, strict=True))
    for corner in product(*starts):
        yield tuple(slice(start, min(start + step, size)) for start, step, size in zip(corner, box, sizes, strict=True))


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


def _strided(t: torch.Tensor, dims: tuple[_Dim, ...], is_target: bool) -> torch.Tensor:
    return t.as_strided([d.size for d in dims], [d.target if is_target else d.source for d in dims])


def _move_apart(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; copy each of a few narrow elements of the target by itself, with a longer axis in the loop."""
    inner: list[int] = []
    while (
        len(inner) < target.dim() - 1 and math.prod(inner) * target.shape[-1 - len(inner)] <= _NARROW // target.itemsize
    ):
        inner.insert(0, target.shape[-1 - len(inner)])
    for place in product(*map(range, inner)):
        chosen: tuple[Any, ...] = (..., *place)
        target[chosen].copy_(source[chosen])


def _plan_words(dims: tuple[_Dim, ...], target: torch.Tensor, source: torch.Tensor) -> _Words | None:
    """Return the move of bytes in the widest words that both sides allow, or None."""
    places = [place for t in (target, source) for place in (t.data_ptr(), t.storage_offset())]
    for size in (size for size in _WORDS if all(place % size == 0 for place in places)):
        left, lanes = _fastest(dims, size, lambda dim: dim.target)
        outer, planes = _fastest(left, size, lambda dim: dim.source)
        if not lanes or not planes:
            continue
        strides = [n for dim in outer for n in (dim.target, dim.source)]
        strides += [*(dim.source for dim in lanes), *(dim.target for dim in planes)]
        if all(stride % size == 0 for stride in strides):
            in_words = [
                tuple(_Dim(dim.size, dim.target // size, dim.source // size) for dim in dims)
                for dims in (outer or (_Dim(1, 0, 0),), lanes, planes)
            ]
            return _Words(size, *in_words)
    return None


def _fastest(
    dims: tuple[_Dim, ...], size: int, stride: Callable[[_Dim], int]
) -> tuple[tuple[_Dim, ...], tuple[_Dim, ...]]:
    """Return (what is left, the digits that make the fastest `size` bytes of one side), the latter empty if none do."""
    left, taken, inside = list(dims), list[_Dim](), 1
    while inside < size:
        i = next((i for i, dim in enumerate(left) if stride(dim) == inside), None)
        part = math.gcd(left[i].size, size // inside) if i is not None else 1
        if i is None or part == 1:
            return dims, ()
        dim = left.pop(i)
        taken.insert(0, _Dim(part, dim.target, dim.source))
        inside *= part
        if part < dim.size:
            left.insert(i, _Dim(dim.size // part, dim.target * part, dim.source * part))
    return tuple(left), tuple(taken)


def _move_words(words: _Words, target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; move chunk by chunk: words into planes, the bytes of planes exchanged, words to their places."""
    box = _box(words)
    unit = _unit(words, box, target)
    ratio = unit.itemsize // words.size
    read = _in_words(source, dict(UNITS)[words.size], [(dim.size, dim.source) for dim in (*words.dims, *words.lanes)])
    places = [(dim.size, dim.target // ratio) for dim in (*words.dims, *words.planes)]
    if ratio > 1:
        places[len(box) - 1] = (words.dims[-1].size // ratio, 1)
    written = _in_words(target, unit, places)
    room = torch.empty(math.prod(box) * words.size * 3 // 2, dtype=read.dtype, device="cpu")
    stages: dict[tuple[int, ...], _Stage] = {}
    for cut in chunks(tuple(dim.size for dim in words.dims), box):
        part = read[cut]
        shape = tuple(part.shape)
        stage = stages.get(shape) or stages.setdefault(shape, _stage(room, shape, words, unit))
        stage.filled.copy_(part)
        for low, high, change, bits, mask in stage.rounds:
            torch.bitwise_right_shift(low, bits, out=change)
            change.bitwise_xor_(high)
            change.bitwise_and_(mask)
            high.bitwise_xor_(change)
            change.bitwise_left_shift_(bits)
            low.bitwise_xor_(change)
        there = (*cut[:-1], slice(cut[-1].start // ratio, cut[-1].stop // ratio))
        written[there].copy_(stage.made)


@frozen
class _Stage:
    """Views of the scratch for chunks of one shape.

    filled: [*axes, *lanes], as words of the source come in.
    made:   [*axes, *planes], as words of the target go out, or wider units along the last axis.
    rounds: (lower, higher, spare, bits, mask): the higher bits of `lower` change places with the lower of `higher`.
    """

    filled: torch.Tensor
    made: torch.Tensor
    rounds: tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int], ...]


def _stage(room: torch.Tensor, shape: tuple[int, ...], words: _Words, unit: torch.dtype) -> _Stage:
    """Return the views for a chunk of words [*axes, *lanes]: planes stand inside the slowest axis, each one whole.

    Byte i of plane j and byte j of plane i change places in log2(size) rounds, each between planes whose numbers differ
    in one bit.
    """
    axes, count = shape[: len(words.dims)], math.prod(shape)
    held, spare = room[:count], room[count : count + count // 2]
    rounds = []
    for half in (1 << level for level in range(words.size.bit_length() - 1)):
        bits, pairs = 8 * half, words.size // (2 * half)
        mask = sum(((1 << bits) - 1) << 2 * bits * i for i in range(pairs))  # the lower of two neighbours
        low, high = held.view(axes[0], pairs, 2, -1).unbind(2)
        rounds.append((low, high, spare.view(low.shape), bits, mask))
    wide = (*axes[:-1], axes[-1] * words.size // unit.itemsize)
    filled = _inside(held, axes, [dim.size for dim in words.lanes])
    made = _inside(held.view(unit), wide, [dim.size for dim in words.planes])
    return _Stage(filled, made, tuple(rounds))


def _inside(held: torch.Tensor, axes: tuple[int, ...], digits: list[int]) -> torch.Tensor:
    """Return [*axes, *digits] of a scratch that lies as [slowest axis, *digits, other axes]."""
    view = held.view(axes[0], *digits, *axes[1:])
    return view.permute(0, *range(len(digits) + 1, view.dim()), *range(1, len(digits) + 1))


def _box(words: _Words) -> tuple[int, ...]:
    """Return how many words of each axis a chunk takes: those of the fastest axes first."""
    box: list[int] = []
    for dim in reversed(words.dims):
        room = chunk_bytes() // (words.size * words.size * math.prod(box))
        box.insert(0, max(min(dim.size, room), 1))
    return tuple(box)


def _in_words(t: torch.Tensor, dtype: torch.dtype, axes: list[tuple[int, int]]) -> torch.Tensor:
    """Return a view of bytes `t` in words of a wider dtype, by sizes and strides in words."""
    span = 1 + sum((size - 1) * stride for size, stride in axes)
    flat = t.as_strided((span * dtype.itemsize,), (1,)).view(dtype)
    return flat.as_strided([size for size, _ in axes], [stride for _, stride in axes])


def _unit(words: _Words, box: tuple[int, ...], target: torch.Tensor) -> torch.dtype:
    """Return the widest dtype in which the words of a chunk can go out: where they lie together along the last axis."""
    if len(box) == 1 or words.dims[-1].target != 1:
        return dict(UNITS)[words.size]
    places = [target.data_ptr(), target.storage_offset(), box[-1] * words.size, words.dims[-1].size * words.size]
    places += [dim.target * words.size for dim in (*words.dims[:-1], *words.planes)]
    return next(dtype for size, dtype in UNITS if all(place % size == 0 for place in places))
