"""The order of one function on one dtype: digits whose sizes are the same at all shapes, and one an axis that grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from mono_gen.infer.digits import Digit, Placed, axis_digits, placed, widths
from mono_gen.infer.errors import NotALayout, NotOneLayout, Shape, shape_text
from mono_gen.infer.extents import LARGEST, AxisFacts, Tries, axis_facts, padded_shapes, smallest, whole_shapes
from mono_gen.infer.probe import Probe
from mono_gen.infer.trace import trace


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """An axis of the layout, in elements.

    sizes: of its digits, slowest first; None for the one that takes what is left.
    step:  what legal extents are multiples of.
    pad:   the multiple that storage is padded to, or None.
    only:  the one extent that the function takes, or None where it takes several.
    """

    sizes: tuple[int | None, ...]
    step: int
    pad: int | None
    only: int | None

    @property
    def sized(self) -> int:
        """Return the product of the digits that have a size."""
        return prod(n for n in self.sizes if n is not None)


@dataclass(frozen=True, slots=True)
class Order:
    """What was found for one dtype.

    width: bits of an element, the function's own or fewer where it parts them.
    axes:  slowest first in the source, leading row-major ones apart: their number is `batch`.
    store: the digits in storage order, slowest first, each (axis, index in its sizes).
    fill:  the bit pattern of pads, None for undefined ones, or where nothing is padded.
    """

    dtype: str
    width: int
    batch: int
    axes: tuple[AxisOrder, ...]
    store: tuple[tuple[int, int], ...]
    fill: int | None

    @property
    def has_pads(self) -> bool:
        """Return whether any axis is padded."""
        return any(axis.pad is not None for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Found:
    """An order with the shapes that it was read off, and what a reader should know of it."""

    order: Order
    facts: tuple[AxisFacts, ...]
    shapes: tuple[Shape, ...]
    notes: tuple[str, ...]


def find(probe: Probe, shapes: Sequence[Shape], shrinks: bool) -> Found:
    """Return the order that the function has at all shapes that were run.

    shapes:  those that the user gave, all of one rank; the first is the one that others are made from.
    shrinks: whether smaller shapes than that are tried, too.
    Raises:  NotALayout with the first evidence, FunctionRaised, CannotRun.
    """
    for shape in shapes:
        if probe.bytes_of(shape) <= LARGEST:
            trace(probe, shape)
    tries = Tries(probe)
    return _find(probe, axis_facts(tries, smallest(tries, shapes[0]) if shrinks else shapes[0]))


def _find(probe: Probe, facts: tuple[AxisFacts, ...]) -> Found:
    """Return the order at multiples of the units that probing found."""
    first, second = whole_shapes(probe, facts)
    one, other = (placed_whole(probe, shape) for shape in (first, second))
    if one.width != other.width:
        raise NotOneLayout(
            f"{probe.name} moves {one.width}-bit elements at {shape_text(first)} and {other.width}-bit ones at "
            f"{shape_text(second)}"
        )
    digits = [axis_digits(probe, p, shape) for p, shape in ((one, first), (other, second))]
    store = [_store(d) for d in digits]
    if store[0] != store[1]:
        said = " and ".join(
            f"at {shape_text(shape)} {_digits_text(d)}" for shape, d in zip((first, second), digits, strict=True)
        )
        raise NotOneLayout(f"{probe.name} has no one order for all shapes: {said}")
    ratio = probe.dtype.itemsize * 8 // one.width
    axes = tuple(
        _axis(probe, fact, left, right, (m, n), ratio if axis == len(facts) - 1 else 1, axis)
        for axis, (fact, left, right, m, n) in enumerate(
            zip(facts, digits[0], digits[1], one.extents, other.extents, strict=True)
        )
    )
    order = Order(probe.dtype_name, one.width, 0, axes, store[0], None)
    live = padded_shapes(facts)
    notes: tuple[str, ...] = ()
    if live:
        fill, notes = _fill(probe, live, one.width)
        order = replace(order, fill=fill)
    return Found(_without_batch(order), facts, tuple(dict.fromkeys((first, second, *live))), notes)


def placed_whole(probe: Probe, shape: Shape) -> Placed:
    """Return where every element is, in the widest elements that move whole."""
    traced = trace(probe, shape)
    for width in widths(probe):
        found = placed(probe, traced, width)
        if found is not None:
            return found
    raise NotALayout(f"on {probe.tensor_text(shape)} nibbles of the source and of pads meet in one element")


def _store(digits: tuple[tuple[Digit, ...], ...]) -> tuple[tuple[int, int], ...]:
    """Return the digits in storage order, slowest first."""
    places = [(d.stride, axis, i) for axis, mine in enumerate(digits) for i, d in enumerate(mine)]
    return tuple((axis, i) for _, axis, i in sorted(places, reverse=True))


def _digits_text(digits: tuple[tuple[Digit, ...], ...]) -> str:
    """Return the sizes in storage order, with their axes: `1:4 0:16`."""
    return " ".join(f"{axis}:{digits[axis][i].size}" for axis, i in _store(digits)) + " (axis:size, slowest first)"


def _axis(
    probe: Probe,
    fact: AxisFacts,
    left: tuple[Digit, ...],
    right: tuple[Digit, ...],
    extents: tuple[int, int],
    ratio: int,
    axis: int,
) -> AxisOrder:
    """Return an axis from its digits at two extents: the one digit that follows the extent has no size."""
    if extents[0] == extents[1]:
        sizes: tuple[int | None, ...] = tuple(d.size for d in left)
        if sizes != tuple(d.size for d in right):
            raise NotOneLayout(f"axis {axis} of {probe.name} has other digits when other axes change")
        return AxisOrder(sizes if len(sizes) > 1 else (None,), extents[0], None, extents[0])
    grows = [one.size != other.size for one, other in zip(left, right, strict=True)]
    pairs = [(one.size, other.size) for one, other in zip(left, right, strict=True) if one.size != other.size]
    if len(pairs) != 1 or pairs[0][0] * extents[1] != pairs[0][1] * extents[0]:
        both = " and ".join(" x ".join(str(d.size) for d in side) for side in (left, right))
        raise NotOneLayout(
            f"axis {axis} of {probe.name} has digits of {both} at extents {extents[0]} and {extents[1]}: more than one "
            "of them follows the extent"
        )
    sizes = tuple(None if grown else d.size for d, grown in zip(left, grows, strict=True))
    pad = None if fact.pad is None else fact.pad * ratio
    found = AxisOrder(sizes, fact.step * ratio, pad, None)
    whole = found.step if pad is None else lcm(pad, found.step)
    if whole % found.sized:
        raise NotOneLayout(
            f"{probe.name} takes multiples of {whole} on axis {axis}, and its digits there make {found.sized}"
        )
    return found


def _fill(probe: Probe, shapes: tuple[Shape, ...], width: int) -> tuple[int | None, tuple[str, ...]]:
    """Return the bit pattern of the pads, None for undefined, and what to say of it.

    Raises: NotALayout, for pads that hold several values.
    """
    fills: dict[int, Shape] = {}
    undefined = written = False
    for shape in shapes:
        found = placed(probe, trace(probe, shape), width)
        if found is None:
            raise NotALayout(f"at {shape_text(shape)} pads and {width}-bit elements meet in one element")
        for value in found.fills:
            fills.setdefault(value, shape)
        undefined |= bool(found.undefined.any())
        written |= bool(found.fills)
    if len(fills) > 1:
        said = ", ".join(f"0x{value:0{width // 4}X} at {shape_text(shape)}" for value, shape in fills.items())
        raise NotALayout(f"{probe.name} fills its pads with several values, and a layout has one fill: {said}")
    if not undefined:
        return (next(iter(fills)) if fills else None), ()
    note = (
        "pads are undefined: their bytes are what memory held before, and differ from run to run; a kernel that reads "
        "one may read NaN"
    )
    if written:
        value, shape = next(iter(fills.items()))
        note += f"; some hold 0x{value:0{width // 4}X}, at {shape_text(shape)} for one, which the layout does not say"
    return None, (note,)


def _without_batch(order: Order) -> Order:
    """Return the order of the axes after the leading ones that are torch's own order: those are batch axes.

    The last two axes always stay, and an axis that the function restricts.
    """
    while len(order.axes) > 2:
        axis = order.axes[0]
        plain = axis.sizes == (None,) and axis.step == 1 and axis.pad is None and axis.only is None
        if not plain or order.store[0] != (0, 0):
            break
        store = tuple((a - 1, i) for a, i in order.store[1:])
        order = replace(order, batch=order.batch + 1, axes=order.axes[1:], store=store)
    return order


def describe(order: Order) -> str:
    """Return an order on one line, for refusals: sizes in storage order, `*` for the digits that grow."""
    sizes = " ".join(f"{axis}:{order.axes[axis].sizes[i] or '*'}" for axis, i in order.store)
    return f"{order.width}-bit elements in the order {sizes}"
