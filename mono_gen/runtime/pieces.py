"""Padded items piece by piece: flat ranges of their bytes, and what of a range is no pad. Pure integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from mono_gen.frozen import frozen

_GRAIN = 16  # units that a run is cut in multiples of: whole elements, whatever the unit


@frozen
class Piece:
    """A flat range of an item's digits, slowest first.

    place: of the digits, whole ones after the one that is cut. Units: `start` and `count` are units from the item's
    first, in row-major order.
    """

    place: tuple[slice, ...]
    start: int
    count: int


@frozen
class Window:
    """What a range holds of an item: at `start`, a box of extents `box`, whose first elements are `place` of the item.

    A place that reaches past the item, or lies past it, has fewer elements or none: the rest of the box are pads.
    """

    start: int
    box: tuple[int, ...]
    place: tuple[slice, ...]


def pieces(sizes: tuple[int, ...], most: int) -> Iterator[Piece]:
    """Yield the pieces, of at most `most` units where digits allow it, that an item with digits of these sizes has.

    Requires: `most` at least 16.
    Law:      tests/runtime/test_pieces.py
    """
    inner = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    cut = next(i for i, units in enumerate(inner) if units <= most)
    step = most // inner[cut]
    if inner[cut] == 1:
        step -= step % _GRAIN
    whole = tuple(slice(0, size) for size in sizes[cut + 1 :])
    for slower in product(*(range(size) for size in sizes[:cut])):
        before = sum(i * units for i, units in zip(slower, inner, strict=False))
        for start in range(0, sizes[cut], step):
            stop = min(start + step, sizes[cut])
            place = (*(slice(i, i + 1) for i in slower), slice(start, stop), *whole)
            yield Piece(place, before + start * inner[cut], (stop - start) * inner[cut])


def windows(extents: tuple[int, ...], padded: tuple[int, ...], start: int, stop: int) -> Iterator[Window]:
    """Yield what lies in [start, stop) of a row-major item of `padded` extents and is no pad of one of `extents`.

    Units: elements.
    Law:   tests/runtime/test_pieces.py
    """
    row = math.prod(padded[1:])
    first, last = -(-start // row), stop // row  # whole rows
    if first > last:
        yield from _inside(extents, padded, start, stop, 0)
        return
    if start < first * row:
        yield from _inside(extents, padded, start, first * row, 0)
    if first < last:
        place = (slice(first, last), *(slice(0, extent) for extent in extents[1:]))
        yield Window(first * row - start, (last - first, *padded[1:]), place)
    if last * row < stop:
        yield from _inside(extents, padded, last * row, stop, last * row - start)


def _inside(extents: tuple[int, ...], padded: tuple[int, ...], start: int, stop: int, offset: int) -> Iterator[Window]:
    """Yield the windows of a range inside one row of the first axis; `offset` is where it begins in the whole range."""
    row = math.prod(padded[1:])
    i = start // row
    for window in windows(extents[1:], padded[1:], start - i * row, stop - i * row):
        yield Window(offset + window.start, (1, *window.box), (slice(i, i + 1), *window.place))
