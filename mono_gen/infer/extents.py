"""Which extents the function takes, axis by axis: what they are multiples of, and what it pads them to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import lcm, prod

import torch

from mono_gen.infer.errors import CannotRun, FunctionRaised, NotALayout, Shape, shape_text
from mono_gen.infer.probe import Probe, run
from mono_gen.infer.trace import trace

LARGEST = 1 << 22
"""Bytes of the largest tensor that is traced: a nibble of it takes some hundred bytes while it is."""

_FACTORS = (2, 3, 4, 5, 8)
_PADDED = 1 << 16


@dataclass(frozen=True, slots=True)
class AxisFacts:
    """What probing said of an axis; in elements of the torch shape.

    step:      legal extents are multiples of it, as far as they were tried.
    pad:       the multiple that storage is padded to; None where nothing is.
    factors:   of `unit`, those that the function takes beside 1; none where it takes this one extent alone.
    """

    step: int
    pad: int | None
    factors: tuple[int, ...]

    @property
    def unit(self) -> int:
        """Return what makes whole tiles: the smallest extent without pads."""
        return self.step if self.pad is None else lcm(self.step, self.pad)


@dataclass(slots=True)
class Tries:
    """What the function makes of shapes, each tried once.

    sizes: the bytes of its output, None where it raised.
    sound: whether the trace of a shape holds every element once.
    """

    probe: Probe
    sizes: dict[Shape, int | None] = field(default_factory=dict)
    sound: dict[Shape, bool] = field(default_factory=dict)

    def size(self, shape: Shape) -> int | None:
        """Return the bytes of the output, None where the function raises or loses some."""
        if shape not in self.sizes:
            given = self.probe.bytes_of(shape)
            try:
                made = len(run(self.probe, shape, torch.zeros(given, dtype=torch.uint8), 0))
            except (FunctionRaised, NotALayout):
                made = -1
            self.sizes[shape] = made if made >= given else None
        return self.sizes[shape]

    def is_sound(self, shape: Shape) -> bool:
        """Return whether the function takes a shape and stores each of its elements once."""
        if self.size(shape) is None:
            return False
        if shape not in self.sound:
            if self.probe.bytes_of(shape) > LARGEST:
                return True
            try:
                trace(self.probe, shape)
                self.sound[shape] = True
            except (FunctionRaised, NotALayout):
                self.sound[shape] = False
        return self.sound[shape]


def with_extent(shape: Shape, axis: int, extent: int) -> Shape:
    """Return the shape with another extent on one axis."""
    return (*shape[:axis], extent, *shape[axis + 1 :])


def smallest(tries: Tries, shape: Shape) -> Shape:
    """Return the smallest shape, a divisor of this one on each axis, that the function takes, and 3 times it, too.

    Most functions raise at what they do not take, so that tracing only the end of the search is enough.
    """
    quick = _smallest(shape, lambda tried: tries.size(tried) is not None)
    ends = [quick, *(with_extent(quick, axis, 3 * n) for axis, n in enumerate(quick) if n < shape[axis])]
    return quick if all(tries.is_sound(end) for end in ends) else _smallest(shape, tries.is_sound)


def _smallest(shape: Shape, is_legal: Callable[[Shape], bool]) -> Shape:
    """Return the shape with each extent divided by whatever leaves it legal."""
    for axis in reversed(range(len(shape))):
        factor = 2
        while factor <= shape[axis]:
            less = shape[axis] // factor
            if shape[axis] % factor == 0 and all(is_legal(with_extent(shape, axis, n)) for n in (less, 3 * less)):
                shape = with_extent(shape, axis, less)
            else:
                factor += 1 if factor == 2 else 2
    return shape


def axis_facts(tries: Tries, least: Shape) -> tuple[AxisFacts, ...]:
    """Return what each axis is a multiple of and padded to, tried around the smallest shape that is legal.

    Raises: NotALayout, where an output grows by no multiple.
    """
    pads = tuple(_pad(tries, least, axis) for axis in range(len(least)))
    units = tuple(n if pad is None else lcm(n, pad) for n, pad in zip(least, pads, strict=True))
    result = []
    for axis, (step, pad) in enumerate(zip(least, pads, strict=True)):
        legal = tuple(f for f in _FACTORS if tries.size(with_extent(units, axis, f * units[axis])) is not None)
        result.append(AxisFacts(step, pad, legal))
    return tuple(result)


def _pad(tries: Tries, least: Shape, axis: int) -> int | None:
    """Return the multiple that an axis is padded to: the last extent whose output is as large as the first one's."""

    def size(count: int) -> int | None:
        return tries.size(with_extent(least, axis, count * least[axis]))

    one = size(1)
    if one is None:
        raise AssertionError(f"{least} is legal")
    grown = [(f, size(f)) for f in _FACTORS]
    if all(n is None or n == f * one for f, n in grown):
        return None
    last = _last_equal(size, one)
    after = size(last + 1)
    if after != 2 * one:
        extents = " and ".join(shape_text(with_extent(least, axis, n * least[axis])) for n in (last, last + 1))
        raise NotALayout(
            f"{tries.probe.name} makes {one} bytes and {after} bytes of {tries.probe.dtype_name} tensors of {extents}: "
            "no padding to a multiple"
        )
    return last * least[axis]


def _last_equal(size: Callable[[int], int | None], one: int) -> int:
    """Return the largest count whose output has `one` bytes."""
    high = 2
    while size(high) == one:
        high *= 2
        if high > _PADDED:
            raise NotALayout(f"the output has {one} bytes up to {high} times the extent: it does not hold the source")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) == one else (low, middle)
    return low


def whole_shapes(probe: Probe, facts: tuple[AxisFacts, ...]) -> tuple[Shape, Shape]:
    """Return two shapes without pads, not square, in which every axis that can has other whole tiles, 2 at least.

    Raises: CannotRun, where they are too large to trace.
    """
    shapes = []
    for turn in (0, 1):
        extents = []
        for axis, fact in enumerate(facts):
            options = sorted(fact.factors, key=lambda f: (f > 3, f))
            pair = (*options, 1)[:2] if options else (1, 1)
            extents.append(fact.unit * pair[(axis + turn) % 2])
        shapes.append(tuple(extents))
    for shape in shapes:
        if probe.bytes_of(shape) > LARGEST:
            raise CannotRun(
                f"some tiles an axis make {probe.tensor_text(shape)}, and {prod(shape)} elements are too many to trace"
            )
    return shapes[0], shapes[1]


def padded_shapes(facts: tuple[AxisFacts, ...]) -> tuple[Shape, ...]:
    """Return shapes with live pads: on each padded axis alone, and on all of them."""
    live = {i: 2 * f.unit - f.step for i, f in enumerate(facts) if f.pad is not None and f.step < f.unit}
    whole = tuple(f.unit * (2 if 2 in f.factors else 1) for f in facts)
    alone = [with_extent(whole, axis, extent) for axis, extent in live.items()]
    together = tuple(live.get(i, n) for i, n in enumerate(whole))
    return tuple(dict.fromkeys([*alone, together])) if live else ()
