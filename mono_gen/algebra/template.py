"""Layouts before their extents are known: pads, splits and a store order, and the proof that they make a bijection."""

from __future__ import annotations

from mono_gen.algebra.layout import Digit, Layout
from mono_gen.algebra.monomial import Size, product
from mono_gen.frozen import frozen


class NotDivisible(ValueError):
    """A padded extent that the sized digits of its axis do not divide."""

    def __init__(self, axis: int, extent: int, divisor: int, digits: tuple[str, ...], exact: bool) -> None:
        rule = "equal to" if exact else "a multiple of"
        super().__init__(f"axis {axis} is {extent}, not {rule} {divisor}")
        self.axis, self.extent, self.divisor, self.digits, self.exact = axis, extent, divisor, digits, exact


class NarrowPitch(ValueError):
    """A pitch smaller than what lies inside it."""

    def __init__(self, digit: str, pitch: int, inside: int) -> None:
        super().__init__(f"pitch of {digit} is {pitch}, smaller than the {inside} inside it")
        self.digit, self.pitch, self.inside = digit, pitch, inside


@frozen
class Factor:
    """A digit of a template; `size` is None for the one of its axis that takes what is left."""

    name: str
    size: Size | None


@frozen
class StoreGroup:
    """Digits of a store order that people name together; `label` is tile, lane, byte or empty."""

    label: str
    digits: tuple[str, ...]


@frozen
class AxisTemplate:
    """An axis: the multiple it is padded to (None: not padded) and its digits, slowest first."""

    name: str
    pad_to: Size | None
    factors: tuple[Factor, ...]

    @property
    def sized(self) -> Size:
        """Return the product of the sized digits: what the padded extent must be a multiple of."""
        return product(tuple(f.size for f in self.factors if f.size is not None))

    @property
    def is_fixed(self) -> bool:
        """Return whether every digit has a size, so that the padded extent is one number."""
        return all(f.size is not None for f in self.factors)


@frozen
class Template:
    """A layout for any legal extents and element width.

    Requires: `store_faults(self)` is empty; every axis has at most one unsized digit.
    """

    axes: tuple[AxisTemplate, ...]
    store: tuple[StoreGroup, ...]
    fill: int | None
    pitches: tuple[tuple[str, Size], ...]

    @property
    def order(self) -> tuple[str, ...]:
        """Return the digit names in store order, slowest first."""
        return tuple(name for group in self.store for name in group.digits)

    @property
    def has_pads(self) -> bool:
        """Return whether any axis is padded to a multiple."""
        return any(axis.pad_to is not None for axis in self.axes)

    def widths(self, candidates: tuple[int, ...] = (4, 8, 16, 32, 64)) -> tuple[int, ...]:
        """Return the element widths, in bits, for which every byte count is whole elements."""
        sizes = [f.size for axis in self.axes for f in axis.factors if f.size is not None]
        sizes += [axis.pad_to for axis in self.axes if axis.pad_to is not None]
        sizes += [pitch for _, pitch in self.pitches]
        return tuple(bits for bits in candidates if all(size.is_whole(bits) for size in sizes))


@frozen
class StoreFaults:
    """Why a store order is no bijection: digits left out, stored twice, or not of the layout."""

    missing: tuple[str, ...]
    repeated: tuple[str, ...]
    unknown: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.repeated or self.unknown)


def store_faults(factors: tuple[str, ...], order: tuple[str, ...]) -> StoreFaults:
    """Return what keeps `order` from being a permutation of `factors`; empty is the proof of bijection.

    Mixed-radix digits of an axis name each of its coordinates once; stored each once, with strides that are the
    products of the faster sizes, they name each element of storage once, whatever the sizes are.
    """
    return StoreFaults(
        tuple(name for name in factors if name not in order),
        tuple(dict.fromkeys(name for name in order if order.count(name) > 1)),
        tuple(dict.fromkeys(name for name in order if name not in factors)),
    )


def padded_extent(axis: AxisTemplate, extent: int, bits: int) -> int:
    """Return the extent rounded up to the axis' pad multiple."""
    if axis.pad_to is None:
        return extent
    multiple = axis.pad_to.at(bits)
    return -(-extent // multiple) * multiple


def bind(template: Template, extents: tuple[int, ...], bits: int, padded: tuple[int, ...] | None = None) -> Layout:
    """Return the layout of a template at given logical extents and element width.

    padded: extents of storage where they are not just `extents` rounded up (segments padded one by one).
    Raises: NotWhole, NotDivisible, NarrowPitch.
    """
    storage = padded or tuple(padded_extent(a, n, bits) for a, n in zip(template.axes, extents, strict=True))
    sizes: dict[str, int] = {}
    weights: dict[str, int] = {}
    axes: dict[str, int] = {}
    for index, (axis, extent) in enumerate(zip(template.axes, storage, strict=True)):
        for factor, size in zip(axis.factors, _digit_sizes(index, axis, extent, bits), strict=True):
            sizes[factor.name], axes[factor.name] = size, index
        weight = 1
        for factor in reversed(axis.factors):
            weights[factor.name] = weight
            weight *= sizes[factor.name]
    strides, span = _strides(template, sizes, bits)
    digits = tuple(Digit(name, axes[name], sizes[name], weights[name], strides[name]) for name in template.order)
    return Layout(extents, storage, digits, template.fill, span)


def _digit_sizes(index: int, axis: AxisTemplate, extent: int, bits: int) -> list[int]:
    """Return the size of each digit of an axis, the unsized one being what is left."""
    divisor = axis.sized.at(bits)
    names = tuple(f.name for f in axis.factors if f.size is not None)
    if axis.is_fixed and extent != divisor:
        raise NotDivisible(index, extent, divisor, names, exact=True)
    if extent % divisor:
        raise NotDivisible(index, extent, divisor, names, exact=False)
    return [extent // divisor if f.size is None else f.size.at(bits) for f in axis.factors]


def _strides(template: Template, sizes: dict[str, int], bits: int) -> tuple[dict[str, int], int]:
    """Return each digit's stride, and the elements of storage: a stride is the span of all that is faster."""
    pitches = dict(template.pitches)
    strides: dict[str, int] = {}
    inside = 1
    for name in reversed(template.order):
        stride = pitches[name].at(bits) if name in pitches else inside
        if stride < inside:
            raise NarrowPitch(name, stride, inside)
        strides[name] = stride
        inside = stride * sizes[name]
    return strides, inside


def row_major_template(axes: tuple[str, ...]) -> Template:
    """Return torch's own order as a template: each axis one digit, stored in axis order."""
    return Template(
        tuple(AxisTemplate(name, None, (Factor(name, None),)) for name in axes), (StoreGroup("", axes),), None, ()
    )


def smallest_extents(template: Template, bits: int, tiles: int = 2) -> tuple[int, ...]:
    """Return extents with `tiles` of each unsized digit, so that every digit varies."""
    return tuple(axis.sized.at(bits) * (1 if axis.is_fixed else tiles) for axis in template.axes)
