"""Byte moves on a CPU: by torch's own strided copy, or, where that would go byte by byte, by transposing words.

Where the fastest digits of the two sides differ and are narrow (the scales' orders, transposed bytes), a word of the
source holds m neighbours of one digit, a word of the target m neighbours of another. Words move whole into a scratch of
m planes, log2(m) rounds exchange the bytes of planes, and words move whole to their places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from mono_gen.frozen import frozen

UNITS = ((16, torch.complex128), (8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
"""Bytes a unit, and the dtype that moves them bit for bit; a 16-byte copy is the widest that torch has."""

CHUNK_BYTES = 1 << 18
"""Bytes of a chunk for each thread: a chunk's planes, source and target fit the second cache level."""

MOST_CHUNK_BYTES = 1 << 23

_LEAST_BYTES = 1 << 14  # below, the calls of the rounds cost more than they save
_NARROW = 8  # bytes that the innermost elements of a target make together at most, to be moved one by one
_LINE = 64  # bytes that memory hands out at once


@frozen
class _Dim:
    """An axis of a move, its strides on both sides in units."""

    size: int
    target: int
    source: int


@frozen
class _Words:
    """A move in words of `size` units, axes slowest first in the target's order. Strides are in words.

    dims:   what the words are counted by, planes and lanes apart.
    plane:  the target's stride between the words of neighbouring source units.
    lanes:  (size, the source's stride), slowest first, of the digits that a word of the target holds.
    run:    the place in `dims` along which words of the source are neighbours.
    """

    size: int
    dims: tuple[_Dim, ...]
    plane: int
    lanes: tuple[tuple[int, int], ...]
    run: int


def chunk_bytes() -> int:
    """Return the bytes that are worked on together: what keeps torch's threads busy, and no more than 8 MiB."""
    return min(CHUNK_BYTES * torch.get_num_threads(), MOST_CHUNK_BYTES)


def move(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; write a strided target from a strided source of the same shape and dtype, on the CPU.

    Requires: no two elements of `target` at one place; dtypes of UNITS.
    Law:      tests/runtime/test_cpu_moves.py
    """
    dims = _joined(target, source)
    words = _plan_words(dims, target, source) if target.nbytes >= _LEAST_BYTES else None
    if words is not None:
        _move_words(words, target, source)
    else:
        _move_units(_strided(target, dims, True), _strided(source, dims, False))


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


def _move_units(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; copy unit by unit.

    torch's inner loop runs along the target's last axes. Where they are a few narrow elements, each of these goes by
    itself, with a long axis in the inner loop.
    """
    inner: list[int] = []
    while (
        len(inner) < target.dim() - 1 and math.prod(inner) * target.shape[-1 - len(inner)] <= _NARROW // target.itemsize
    ):
        inner.insert(0, target.shape[-1 - len(inner)])
    if math.prod(inner) < 2:
        target.copy_(source)
        return
    for place in product(*map(range, inner)):
        chosen: tuple[Any, ...] = (..., *place)
        target[chosen].copy_(source[chosen])


def _plan_words(dims: tuple[_Dim, ...], target: torch.Tensor, source: torch.Tensor) -> _Words | None:
    """Return the move in the widest words of 8 or 4 bytes that both sides allow, or None."""
    run = next((i for i, dim in enumerate(dims) if dim.source == 1), None)
    if run is None or run == len(dims) - 1:
        return None
    places = [place for t in (target, source) for place in (t.data_ptr() // t.itemsize, t.storage_offset())]
    if any(t.data_ptr() % t.itemsize for t in (target, source)):
        return None
    for size in (width // target.itemsize for width in (8, 4)):
        if size > 1 and dims[run].size % size == 0 and all(place % size == 0 for place in places):
            words = _split(dims, run, size)
            if words is not None:
                return words
    return None


def _split(dims: tuple[_Dim, ...], run: int, size: int) -> _Words | None:
    """Return the move in words of `size` units; None where the target's fastest axes make no word of their own."""
    lanes: list[_Dim] = []
    outer = list(dims)
    needed = size
    while needed > 1:
        last = outer.pop()
        part = math.gcd(last.size, needed)
        if part == 1 or last.target != size // needed or last.source == 1:
            return None
        lanes.insert(0, _Dim(part, last.target, last.source))
        needed //= part
        if part < last.size:
            outer.append(_Dim(last.size // part, last.target * part, last.source * part))
            if needed > 1:
                return None
    plane = outer[run].target
    outer[run] = _Dim(outer[run].size // size, outer[run].target * size, size)
    strides = (plane, *(lane.source for lane in lanes), *(n for dim in outer for n in (dim.target, dim.source)))
    if any(stride % size for stride in strides):
        return None
    in_words = tuple(_Dim(dim.size, dim.target // size, dim.source // size) for dim in outer)
    return _Words(size, in_words, plane // size, tuple((lane.size, lane.source // size) for lane in lanes), run)


def _move_words(words: _Words, target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; move chunk by chunk: words into planes, the bytes of planes exchanged, words to their places."""
    unit_bits, dtype = 8 * target.itemsize, dict(UNITS)[words.size * target.itemsize]
    read = _in_words(source, dtype, (*((dim.size, dim.source) for dim in words.dims), *words.lanes))
    planes = ((words.size, words.plane), *((dim.size, dim.target) for dim in words.dims))
    written = _in_words(target, dtype, planes).movedim(0, 1)
    box = _box(words, dtype.itemsize)
    room = torch.empty(math.prod(box) * words.size * 3 // 2, dtype=dtype, device="cpu")
    stages: dict[tuple[int, ...], _Stage] = {}
    for cut in chunks(tuple(dim.size for dim in words.dims), box):
        part = read[cut]
        shape = tuple(part.shape)
        stage = stages.get(shape) or stages.setdefault(shape, _stage(room, shape, words.lanes, unit_bits))
        stage.filled.copy_(part)
        for low, high, change, bits, mask in stage.rounds:
            torch.bitwise_right_shift(low, bits, out=change)
            change.bitwise_xor_(high)
            change.bitwise_and_(mask)
            high.bitwise_xor_(change)
            change.bitwise_left_shift_(bits)
            low.bitwise_xor_(change)
        _copy_runs(written[cut[0], :, *cut[1:]], stage.planes)


@frozen
class _Stage:
    """Views of the scratch for chunks of one shape.

    filled: as the source's words come in; planes: [slowest axis, m, other axes], as the target's words go out.
    rounds: (lower, higher, spare, bits, mask): the higher bits of `lower` change places with the lower of `higher`.
    """

    filled: torch.Tensor
    planes: torch.Tensor
    rounds: tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int], ...]


def _stage(room: torch.Tensor, shape: tuple[int, ...], lanes: tuple[tuple[int, int], ...], unit_bits: int) -> _Stage:
    """Return the views for a chunk of words [*axes, *lanes]: planes stand inside the slowest axis, each one whole.

    Unit i of plane j and unit j of plane i change places in log2(m) rounds, each between planes whose numbers differ in
    one bit.
    """
    axes, count = shape[: len(shape) - len(lanes)], math.prod(shape)
    size = math.prod(shape[len(axes) :])
    held, spare = room[:count], room[count : count + count // 2]
    planes = held.view(axes[0], *(n for n, _ in lanes), *axes[1:])
    order = (0, *range(len(lanes) + 1, planes.dim()), *range(1, len(lanes) + 1))
    rounds = []
    for half in (1 << level for level in range(size.bit_length() - 1)):
        bits = unit_bits * half
        mask = sum(((1 << bits) - 1) << 2 * bits * i for i in range(size // (2 * half)))  # the lower of two neighbours
        pairs = held.view(axes[0], size // (2 * half), 2, -1)
        low, high = pairs.unbind(2)
        rounds.append((low, high, spare.view(low.shape), bits, mask))
    return _Stage(planes.permute(order), held.view(axes[0], size, *axes[1:]), tuple(rounds))


def _box(words: _Words, word_bytes: int) -> tuple[int, ...]:
    """Return how many words of each axis a chunk takes: a line of the source, then as much of the target as fits."""
    left = max(chunk_bytes() // (word_bytes * words.size), 1)
    box = [1] * len(words.dims)
    box[words.run] = min(words.dims[words.run].size, _LINE // word_bytes, left)
    left //= box[words.run]
    for i in reversed(range(len(box))):
        most = left * box[i]
        grown = max(min(words.dims[i].size, most), 1)
        left = most // grown
        box[i] = grown
    return tuple(box)


def _in_words(t: torch.Tensor, dtype: torch.dtype, axes: tuple[tuple[int, int], ...]) -> torch.Tensor:
    """Return a view of `t` in words of a wider dtype, by sizes and strides in words."""
    span = 1 + sum((size - 1) * stride for size, stride in axes)
    flat = t.as_strided((span * dtype.itemsize // t.itemsize,), (1,)).view(dtype)
    return flat.as_strided([size for size, _ in axes], [stride for _, stride in axes])


def _copy_runs(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; copy in the widest units that the last axis and the addresses allow."""
    if target.shape[-1] > 1 and target.stride(-1) == source.stride(-1) == 1:
        places = [target.shape[-1] * target.itemsize]
        for t in (target, source):
            places += [t.data_ptr(), t.storage_offset() * t.itemsize, *(n * t.itemsize for n in t.stride()[:-1])]
        unit, dtype = next((size, dtype) for size, dtype in UNITS if all(place % size == 0 for place in places))
        if unit > target.itemsize:
            target, source = target.view(dtype), source.view(dtype)
    target.copy_(source)
