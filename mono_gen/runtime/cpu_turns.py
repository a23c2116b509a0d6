"""Byte moves on a CPU by turns: [.., a, b] becomes [.., b, a], a batch of byte matrices transposed by whole vectors.

torch has one function that transposes bytes so: `channel_shuffle` of a channels-last tensor, whose channels are a
matrix of [groups, channels of a group]. Every order of digits is reached from any other by a few turns; the cheapest
are chosen.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations, product

import torch

from mono_gen.frozen import frozen, replace
from mono_gen.runtime.cpu_strided import Dim

CHUNK_BYTES = 1 << 18
"""Bytes that are turned at once, for each thread: they and the result fit the second cache level."""

MOST_CHUNK_BYTES = 1 << 23

_MOST_DIMS = 6
_MOST_COST = 8.0  # of a move, in passes over its bytes; above it torch's own strided copy is no slower
_WRITING = 1.0  # the least that it costs to write what was turned
_SMALL = 200  # bytes of a run or a matrix: with fewer, calls cost more than what they move
_LONG = 256  # bytes of a longer run that are a dim of their own
_RUN = 64  # bytes that lie together, at least, where dims are permuted by a strided copy

Order = tuple[int, ...]
"""Dims by number, slowest first."""

Turn = tuple[int, int]
"""(first, second): [.., dims[first:second], dims[second:]] becomes [.., dims[second:], dims[first:second]]."""

_Way = tuple[float, Order, tuple[Turn, ...], Order]  # what it costs, the order of reading, turns, the order they give


@frozen
class Turns:
    """A move of bytes by turns.

    dims:    of what is moved; those before `cut` are looped over, `step` places along `cut` are a chunk.
    read:    a chunk's dims, which are dims[cut:], in the order in which they are read.
    turns:   of dims in that order.
    written: a chunk's dims in the order that the turns give.
    """

    dims: tuple[Dim, ...]
    cut: int
    step: int
    read: Order
    turns: tuple[Turn, ...]
    written: Order


def plan_turns(dims: Sequence[Dim]) -> Turns | None:
    """Return the turns that move bytes from one order to the other; None where they would cost too much.

    Looped over is what is slow on both sides: a chunk then has runs on both.
    """
    slowest = tuple(sorted(_split(dims), key=lambda dim: -min(dim.source, dim.target)))
    cut, step = chunk(tuple(dim.size for dim in slowest))
    found = _cheapest((replace(slowest[cut], size=step), *slowest[cut + 1 :]), torch.get_num_threads())
    return Turns(slowest, cut, step, *found) if found is not None else None


def _split(dims: Sequence[Dim]) -> Iterator[Dim]:
    """Return the dims, each long one that lies together on a side as two: one matrix becomes a batch of them."""
    for dim in dims:
        fast = math.gcd(dim.size, _LONG)
        if 1 in (dim.source, dim.target) and _RUN <= fast < dim.size:
            yield Dim(dim.size // fast, dim.target * fast, dim.source * fast)
            yield Dim(fast, dim.target, dim.source)
        else:
            yield dim


def chunk(sizes: Sequence[int]) -> tuple[int, int]:
    """Return along which dim bytes are cut into chunks, and how many places of it a chunk has: all, or a power of two.

    Matrices of 2**n rows or columns are transposed fastest.
    """
    most = min(CHUNK_BYTES * torch.get_num_threads(), MOST_CHUNK_BYTES)
    inner = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    cut = next(i for i, count in enumerate(inner) if count <= most)
    step = most // inner[cut]
    return cut, sizes[cut] if step >= sizes[cut] else 1 << (step.bit_length() - 1)


# --- the cheapest way ---


@lru_cache(maxsize=1024)
def _cheapest(dims: tuple[Dim, ...], threads: int) -> tuple[Order, tuple[Turn, ...], Order] | None:
    """Return (order of reading, turns, order of writing) of a chunk; None where the cheapest costs too much.

    Reading and writing permute dims as well, by strided copies of runs.
    """
    if len(dims) > _MOST_DIMS:
        return None
    source = {i: dim.source for i, dim in enumerate(dims)}
    target = {i: dim.target for i, dim in enumerate(dims)}
    reads = ((_copy_cost(dims, order, source), order) for order in permutations(source))
    ways: list[_Way] = [(cost, order, (), order) for cost, order in reads if cost < _MOST_COST]
    heapq.heapify(ways)
    best: _Way = (_MOST_COST, (), (), ())
    seen: set[Order] = set()
    while ways and ways[0][0] + _WRITING < best[0]:
        cost, read, turns, at = heapq.heappop(ways)
        if at in seen:
            continue
        seen.add(at)
        best = min(best, (cost + max(_WRITING, _copy_cost(dims, at, target)), read, turns, at))
        for first, second in combinations(range(len(at)), 2):
            way = (*at[:first], *at[second:], *at[first:second])
            if way not in seen:
                parts = at[:first], at[first:second], at[second:]
                count, rows, columns = (math.prod(dims[i].size for i in part) for part in parts)
                more = cost + _turn_cost(count, rows, columns, threads)
                if more + _WRITING < best[0]:
                    heapq.heappush(ways, (more, read, (*turns, (first, second)), way))
    return best[1:] if best[2] else None


def _copy_cost(dims: tuple[Dim, ...], order: Order, strides: dict[int, int]) -> float:
    """Return what a strided copy in an order costs, in passes over the bytes: nothing where they all lie together."""
    run = 1
    for i in reversed(order):
        if strides[i] != run:
            return max(1.0, _SMALL / run) if run >= _RUN else math.inf
        run *= dims[i].size
    return 0.0


def _turn_cost(count: int, rows: int, columns: int, threads: int) -> float:
    """Return what transposing matrices costs, in passes over the bytes, as measured; a matrix goes to one thread."""
    odd = sum(n < 16 and n not in (2, 4) for n in (rows, columns))
    shape = (1.0, 2.0, 4.0)[odd] * (2.0 if min(rows, columns) >= _LONG else 1.0)
    return max(1.0, _SMALL / (rows * columns)) * shape * threads / min(count, threads)


# --- the moves ---


def move_turns(plan: Turns, target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; turn a source chunk by chunk, and write each to its place in a target."""
    sizes = [dim.size for dim in plan.dims]
    read = source.as_strided(sizes, [dim.source for dim in plan.dims])
    written = target.as_strided(sizes, [dim.target for dim in plan.dims])
    _keep_memory(4 * plan.step * math.prod(sizes[plan.cut + 1 :]))
    for at in _chunks(plan, sizes):
        place = written[at].permute(plan.written)
        place.copy_(_turned(read[at].permute(plan.read).contiguous(), plan.turns).view(place.shape))


def _keep_memory(nbytes: int) -> None:
    """Return nothing; let glibc keep what chunks give back: it keeps as much as it has seen go at once, twice over.

    Else each turn's result would come from the kernel again, page by page, which takes several times as long as a turn.
    """
    torch.empty(nbytes, dtype=torch.uint8, device="cpu")


def _chunks(plan: Turns, sizes: Sequence[int]) -> Iterator[tuple[int | slice, ...]]:
    for slower in product(*(range(size) for size in sizes[: plan.cut])):
        for begin in range(0, sizes[plan.cut], plan.step):
            yield (*slower, slice(begin, begin + plan.step))


def _turned(t: torch.Tensor, turns: tuple[Turn, ...]) -> torch.Tensor:
    """Return the bytes of a dense tensor after the turns of its dims, without its shape."""
    for count, rows, columns in _matrices(tuple(t.shape), turns):
        size = rows * columns
        matrices = t.as_strided((1, size, count, 1), (count * size, 1, size, size))
        t = torch.channel_shuffle(matrices, rows).permute(0, 2, 3, 1).contiguous()
    return t


@lru_cache(maxsize=1024)
def _matrices(sizes: tuple[int, ...], turns: tuple[Turn, ...]) -> tuple[tuple[int, int, int], ...]:
    """Return what each turn transposes: (matrices, their rows, their columns)."""
    found = []
    for first, second in turns:
        slower, a, b = sizes[:first], sizes[first:second], sizes[second:]
        found.append((math.prod(slower), math.prod(a), math.prod(b)))
        sizes = (*slower, *b, *a)
    return tuple(found)
