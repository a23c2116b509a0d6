"""How a GPU moves a tensor between two orders: in boxes of a few KiB, contiguous stretches on both sides.

Pure integers: a plan is made of a layout's view and permute, the element's width and the addresses, and kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from mono_gen.frozen import frozen, replace
from mono_gen.runtime.layouts import Storage

BOX_BYTES = 8192
"""Bytes that one program moves: enough loads in flight, and boxes of many programs fit a multiprocessor."""

WIDEST = 16
"""Bytes of the widest load and store of a GPU."""

_MOST_TIMES = 256


@frozen
class _Digit:
    """A digit of the map. Units: bytes; `weight` in bytes on the last axis, in elements on the others, -1 for batch."""

    size: int
    logical: int
    stored: int
    axis: int
    weight: int


@frozen
class Limit:
    """An axis with live pads: a unit is no pad where the sum of digit x weight is below `extent`."""

    weights: tuple[int, ...]
    extent: int


@frozen
class Boxes:
    """A map in units of `unit` bytes, digits slowest first in the order of the side that is read.

    sizes:  of the digits, batch items among them; `box` are the powers of two that one program covers of each.
    read:   strides of the side that is read; `written` those of the other.
    order:  the permute that takes the box's digits from the order of reading to that of writing.
    limits: of the axes with live pads.
    """

    unit: int
    sizes: tuple[int, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]
    box: tuple[int, ...]
    order: tuple[int, ...]
    limits: tuple[Limit, ...]

    def counts(self) -> tuple[int, ...]:
        """Return the boxes along each digit."""
        return tuple(-(-size // box) for size, box in zip(self.sizes, self.box, strict=True))

    def ragged(self) -> tuple[bool, ...]:
        """Return for each digit whether its last box reaches past its end."""
        return tuple(size % box != 0 for size, box in zip(self.sizes, self.box, strict=True))

    def spans(self, read: bool) -> tuple[tuple[int, int], ...]:
        """Return (units, stride) of what a program covers on one side, slowest first, contiguous neighbours joined."""
        strides = self.read if read else self.written
        order = range(len(self.sizes)) if read else self.order
        joined: list[tuple[int, int]] = []
        for i in order:
            if self.box[i] == 1:
                continue
            if joined and joined[-1][1] == self.box[i] * strides[i]:
                joined[-1] = (joined[-1][0] * self.box[i], strides[i])
            else:
                joined.append((self.box[i], strides[i]))
        return tuple(joined)


@lru_cache(maxsize=4096)
def plan_boxes(
    batch: int, storage: Storage, bits: int, alignment: int, unpacks: bool, box_bytes: int = BOX_BYTES
) -> Boxes | None:
    """Return the boxes that pack (or unpack) `batch` items of a storage; None where units are no whole bytes.

    Units:    elements of `bits` bits; `alignment` is what both addresses are multiples of, in bytes.
    Law:      tests/runtime/test_gpu_plans.py
    """
    extents, padded = storage.extents, storage.padded
    last = len(extents) - 1
    live = [axis for axis in range(len(extents)) if extents[axis] != padded[axis]]
    digits = _in_bytes(_coalesced(_digits(batch, storage, bits), live), bits, last)
    if digits is None:
        return None
    places = [stride for d in digits[:-1] for stride in (d.logical, d.stored)]
    unit = math.gcd(WIDEST, alignment, digits[-1].size, extents[last] * bits // 8, *places)
    unit = min(unit, WIDEST // 2)  # the widest load is of two units
    digits = _in_units(digits, unit, last)
    by_storage = sorted(digits, key=lambda d: -d.stored)
    reading, writing = (by_storage, digits) if unpacks else (digits, by_storage)
    logical, stored = (tuple(d.logical for d in reading), tuple(d.stored for d in reading))
    sizes = tuple(d.size for d in reading)
    order = tuple(reading.index(d) for d in writing)
    limits = tuple(
        Limit(
            tuple(d.weight if d.axis == axis else 0 for d in reading),
            extents[axis] * bits // 8 // unit if axis == last else extents[axis],
        )
        for axis in live
    )
    read, written = (stored, logical) if unpacks else (logical, stored)
    box = _box(sizes, order, max(box_bytes // unit, 1))
    return Boxes(unit, sizes, read, written, box, order, limits)


def _digits(batch: int, storage: Storage, bits: int) -> list[_Digit]:
    """Return the digits in logical order, batch first, strides in bits."""
    extents = storage.extents
    last = len(extents) - 1
    pitches = [math.prod(extents[axis + 1 :]) * bits for axis in range(len(extents))]
    found = [_Digit(batch, math.prod(extents) * bits, math.prod(storage.padded) * bits, -1, 0)]
    inner = [
        _Digit(d.size, d.weight * pitches[d.axis], d.stride * bits, d.axis, d.weight * (bits if d.axis == last else 1))
        for d in storage.bound().digits
    ]
    found += sorted(inner, key=lambda d: (d.axis, -d.weight))
    least = min(bits, 8)
    return [*(d for d in found if d.size > 1), _Digit(bits // least, least, least, last, least)]


def _in_bytes(digits: list[_Digit], bits: int, last: int) -> list[_Digit] | None:
    """Return the digits with strides in bytes, the last one a run of bytes; None where pairs of 4 bits come apart."""
    least = min(bits, 8)
    run_bits = digits[-1].size * least
    if run_bits % 8:
        return None
    whole = [
        replace(d, logical=d.logical // 8, stored=d.stored // 8, weight=d.weight // 8 if d.axis == last else d.weight)
        for d in digits[:-1]
    ]
    return [*whole, _Digit(run_bits // 8, 1, 1, digits[-1].axis, 1)]


def _in_units(digits: list[_Digit], unit: int, last: int) -> list[_Digit]:
    """Return the digits in units of so many bytes; the run is dropped where it is one unit and not alone."""
    whole = [
        replace(
            d,
            logical=d.logical // unit,
            stored=d.stored // unit,
            weight=d.weight // unit if d.axis == last else d.weight,
        )
        for d in digits[:-1]
    ]
    run = replace(digits[-1], size=digits[-1].size // unit)
    return [*whole, run] if run.size > 1 or not whole else whole


def _coalesced(digits: Sequence[_Digit], apart: Sequence[int]) -> list[_Digit]:
    """Return the same map with neighbours joined that are neighbours on both sides; axes of `apart` stay apart."""
    found: list[_Digit] = []
    for d in digits:
        slower = found[-1] if found else None
        if (
            slower is not None
            and slower.logical == d.size * d.logical
            and slower.stored == d.size * d.stored
            and (slower.axis == d.axis or not {slower.axis, d.axis} & set(apart))
        ):
            found[-1] = replace(d, size=slower.size * d.size)
        else:
            found.append(d)
    return found


def _box(sizes: tuple[int, ...], order: tuple[int, ...], units: int) -> tuple[int, ...]:
    """Return powers of two whose product is at most `units`: the shorter contiguous stretch grows first."""
    box = [1] * len(sizes)
    sides = (tuple(reversed(range(len(sizes)))), tuple(reversed(order)))
    while math.prod(box) < units:
        growing = []
        for side in sides:
            stretch = 1
            for i in side:
                stretch *= box[i]
                if box[i] < sizes[i]:
                    growing.append((stretch, i))
                    break
        if not growing:
            break
        box[min(growing)[1]] *= 2
    return tuple(box)


def times(strides: Sequence[int]) -> tuple[int, ...]:
    """Return the largest power of two in each stride, at most 256: what a compiler may know of it."""
    return tuple(math.gcd(stride, _MOST_TIMES) for stride in strides)
