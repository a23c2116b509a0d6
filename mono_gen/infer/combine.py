"""One pattern from the orders of several dtypes: a size that follows the bytes is written in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from mono_gen.algebra.monomial import Size
from mono_gen.infer.errors import NotOneLayout
from mono_gen.infer.find import AxisOrder, Order, describe


@dataclass(frozen=True, slots=True)
class AxisPattern:
    """An axis for all widths that were run; `steps` are what legal extents are multiples of, beyond their digits."""

    sizes: tuple[Size | None, ...]
    pad: Size | None
    steps: tuple[Size, ...]
    only: int | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A layout before it has names."""

    axes: tuple[AxisPattern, ...]
    store: tuple[tuple[int, int], ...]
    fill: int | None
    widths: tuple[int, ...]


def combine(orders: Sequence[Order]) -> Pattern:
    """Return the pattern that all orders are at their widths.

    Raises: NotOneLayout, where they differ in more than sizes that count bytes.
    """
    first = orders[0]
    for other in orders[1:]:
        if _shape_of(other) != _shape_of(first) or other.fill != first.fill:
            raise NotOneLayout(
                f"{first.dtype} and {other.dtype} have different orders: {describe(first)}, and {describe(other)}; "
                "import them one by one"
            )
    bits = tuple(order.width for order in orders)
    axes = tuple(_axis([order.axes[i] for order in orders], bits) for i in range(len(first.axes)))
    return Pattern(axes, first.store, first.fill, tuple(dict.fromkeys(bits)))


def _shape_of(order: Order) -> tuple[object, ...]:
    """Return what has to be equal at all widths."""
    axes = tuple((tuple(n is None for n in a.sizes), a.pad is None, a.only is None) for a in order.axes)
    return axes, order.store, order.batch


def _axis(axes: list[AxisOrder], bits: tuple[int, ...]) -> AxisPattern:
    sizes = tuple(_size([axis.sizes[i] for axis in axes], bits) for i in range(len(axes[0].sizes)))
    pad = _size([axis.pad for axis in axes], bits)
    only = _size([axis.only for axis in axes], bits)
    if only is not None and only.power:
        raise NotOneLayout(f"the one extent that the function takes is {only.value} bytes, not one number of elements")
    steps = () if only is not None else _steps(axes, bits)
    return AxisPattern(sizes, pad, steps, None if only is None else only.value)


def _size(values: Sequence[int | None], bits: tuple[int, ...]) -> Size | None:
    """Return the size that has these values at these widths: a number of elements, or of bytes."""
    known = [v for v in values if v is not None]
    if not known:
        return None
    if len(set(known)) == 1:
        return Size(known[0])
    in_bytes = {v * b for v, b in zip(known, bits, strict=True)}
    if len(in_bytes) == 1 and next(iter(in_bytes)) % 8 == 0:
        return Size(next(iter(in_bytes)) // 8, 1)
    said = ", ".join(f"{v} of {b} bits" for v, b in zip(known, bits, strict=True))
    raise NotOneLayout(f"a digit is {said}: neither one number of elements nor of bytes; import the dtypes one by one")


def _steps(axes: list[AxisOrder], bits: tuple[int, ...]) -> tuple[Size, ...]:
    """Return the multiples, in elements or bytes or both, that make each axis' own step, beyond what digits imply.

    Two 4-bit elements lie in a byte, so that an even extent is no condition of its own.
    """
    wanted = [axis.step for axis in axes]
    implied = [axis.sized if axis.pad is None else 1 for axis in axes]
    given = [2 if b == 4 else 1 for b in bits]
    if all(lcm(i, g) % w == 0 for w, i, g in zip(wanted, implied, given, strict=True)):
        return ()
    elements = Size(gcd(*wanted))
    shared = gcd(*(w * b for w, b in zip(wanted, bits, strict=True)))
    in_bytes = Size(shared // 8, 1) if shared % 8 == 0 else elements
    for choice in ((elements,), (in_bytes,), (elements, in_bytes)):
        if all(s.is_whole(b) for s in choice for b in bits) and all(
            lcm(i, *(s.at(b) for s in choice)) == lcm(i, w) for w, i, b in zip(wanted, implied, bits, strict=True)
        ):
            return choice
    said = ", ".join(f"{w} at {b} bits" for w, b in zip(wanted, bits, strict=True))
    raise NotOneLayout(
        f"legal extents are multiples of {said}: no one condition says that; import the dtypes one by one"
    )
