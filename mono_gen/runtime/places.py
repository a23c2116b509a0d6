"""Where a kernel that goes by rows stores what it made: a layout of two axes as two sums of digits, one an axis.

Pure integers, as boxes.py: a layout's offset is a sum over the digits of the row and those of k, in any order.
"""

from __future__ import annotations

import math
from functools import lru_cache

from mono_gen.algebra.layout import Digit, from_view
from mono_gen.frozen import frozen

WORD = 4
"""Bytes of a word, the least that is stored at once."""


@frozen
class Sum:
    """An axis: index i lies at the sum of (i // inner % size) * stride; size 0: without an end."""

    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    strides: tuple[int, ...]


@frozen
class Places:
    """Where a row and a unit of it lie, in words: rows count through the batch items, units are `unit` words of k."""

    unit: int
    rows: Sum
    units: Sum

    @property
    def rows_inside(self) -> bool:
        """Return whether neighbouring rows lie closer together than neighbouring units."""
        return self.rows.strides[-1] < self.units.strides[-1]


@lru_cache(maxsize=1024)
def plan_places(
    batch: int, extents: tuple[int, ...], padded: tuple[int, ...], view: tuple[int, ...], permute: tuple[int, ...]
) -> Places | None:
    """Return the places of one-byte elements; None where pads are live, or words of k come apart.

    Units:    bytes; view and permute as of runtime.Storage.
    Law:      tests/runtime/test_gpu_plans.py::test_places_are_the_algebras_offsets
    """
    if len(extents) != 2 or extents != padded:
        return None
    rows, k = extents
    digits = [d for d in from_view(extents, padded, view, permute).digits if d.size > 1]
    of_k = _joined([d for d in digits if d.axis == 1])
    run = of_k[-1].size if of_k and of_k[-1].stride == of_k[-1].weight == 1 else 1
    unit = math.gcd(run, 4 * WORD)
    of_rows = _joined([Digit("item", 0, batch, rows, rows * k), *(d for d in digits if d.axis == 0)])
    if unit % WORD or any(d.stride % WORD for d in of_rows):
        return None
    in_units = [
        Digit(d.name, 1, d.size // unit if d.weight == 1 else d.size, max(d.weight // unit, 1), max(d.stride, unit))
        for d in of_k
    ]
    return Places(unit // WORD, _sum(of_rows), _sum([d for d in in_units if d.size > 1] or in_units[-1:]))


def _joined(digits: list[Digit]) -> list[Digit]:
    """Return an axis's digits, slowest first, neighbours joined where they are neighbours in storage too."""
    found: list[Digit] = []
    for d in sorted((d for d in digits if d.size > 1), key=lambda d: -d.weight):
        if found and found[-1].stride == d.size * d.stride:
            found[-1] = Digit(d.name, d.axis, found[-1].size * d.size, d.weight, d.stride)
        else:
            found.append(d)
    return found or digits[-1:]


def _sum(digits: list[Digit]) -> Sum:
    sizes = tuple(0 if i == 0 else d.size for i, d in enumerate(digits))
    return Sum(sizes, tuple(d.weight for d in digits), tuple(d.stride // WORD for d in digits))
