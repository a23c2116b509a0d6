"""Layouts with all numbers known: digits with sizes and strides, the map they make, its inverse, its canonical form.

Everything here counts elements. Order is slowest first.
"""

from __future__ import annotations

from math import gcd, prod

from mono_gen.frozen import frozen


@frozen
class Digit:
    """One mixed-radix factor of an axis: coordinate // weight % size, stored at `stride`.

    Units: `weight` counts coordinates of the axis, `stride` elements of storage.
    """

    name: str
    axis: int
    size: int
    weight: int
    stride: int


@frozen
class Layout:
    """A map from logical coordinates to element offsets.

    extents: the logical extents, one an axis.
    padded:  the extents that storage has; equal to `extents` where nothing is padded.
    digits:  in store order, slowest first; each axis' digits multiply to its padded extent.
    fill:    the bit pattern of pad elements; None is `undefined` or no pads at all.
    span:    the elements of storage, gaps of a pitch included.
    """

    extents: tuple[int, ...]
    padded: tuple[int, ...]
    digits: tuple[Digit, ...]
    fill: int | None
    span: int

    @property
    def live_pads(self) -> tuple[int, ...]:
        """Return the axes whose padded extent exceeds the logical one."""
        return tuple(i for i, (n, p) in enumerate(zip(self.extents, self.padded, strict=True)) if n != p)

    @property
    def has_gaps(self) -> bool:
        """Return whether a pitch leaves storage that no coordinate reaches."""
        return self.span != prod(self.padded)


def offset(layout: Layout, coordinates: tuple[int, ...]) -> int:
    """Return the element offset of a coordinate: the sum of coordinate // weight % size * stride over the digits.

    Requires: 0 <= coordinates[i] < layout.padded[i].
    Law:      tests/laws/test_algebra.py::test_inverse
    """
    return sum(coordinates[d.axis] // d.weight % d.size * d.stride for d in layout.digits)


def coordinates_at(layout: Layout, position: int) -> tuple[int, ...] | None:
    """Return the coordinate stored at an element offset, or None in the gap of a pitch.

    Law:  offset(layout, coordinates_at(layout, p)) == p
    """
    found = [0] * len(layout.extents)
    rest = position
    for digit in sorted(layout.digits, key=lambda d: (-d.stride, -d.size)):
        if digit.size == 1:
            continue
        value, rest = divmod(rest, digit.stride)
        if value >= digit.size:
            return None
        found[digit.axis] += value * digit.weight
    return tuple(found) if rest == 0 else None


def coalesce(layout: Layout) -> Layout:
    """Return the same map with size-1 digits dropped and digits fused that stay adjacent in both orders.

    Law:  offset(coalesce(x), c) == offset(x, c); coalesce(coalesce(x)) == coalesce(x)
    """
    merged: list[Digit] = []
    for axis in range(len(layout.extents)):
        mine = sorted((d for d in layout.digits if d.axis == axis and d.size > 1), key=lambda d: -d.weight)
        fused: list[Digit] = []
        for digit in mine:
            last = fused[-1] if fused else None
            if last is not None and last.stride == digit.stride * digit.size:
                fused[-1] = Digit(last.name, axis, last.size * digit.size, digit.weight, digit.stride)
            else:
                fused.append(digit)
        merged.extend(fused)
    ordered = tuple(sorted(merged, key=lambda d: -d.stride))
    return Layout(layout.extents, layout.padded, ordered, layout.fill, layout.span)


Canonical = tuple[tuple[tuple[int, int], ...], ...]


def canonical(layout: Layout) -> Canonical:
    """Return per axis its (size, stride) pairs, slowest first, coalesced: equal exactly for equal maps.

    Law:  tests/laws/test_algebra.py::test_equality_is_the_canonical_forms
    """
    digits = coalesce(layout).digits
    return tuple(
        tuple((d.size, d.stride) for d in sorted((d for d in digits if d.axis == axis), key=lambda d: -d.weight))
        for axis in range(len(layout.extents))
    )


def is_equal(left: Layout, right: Layout) -> bool:
    """Return whether two layouts put every padded coordinate at the same offset."""
    return left.padded == right.padded and canonical(left) == canonical(right)


def is_row_major(layout: Layout) -> bool:
    """Return whether the map is torch's own order of the logical extents, without pads or gaps."""
    return not layout.live_pads and is_equal(layout, row_major(layout.extents))


def row_major(extents: tuple[int, ...]) -> Layout:
    """Return torch's own order: the last axis fastest."""
    digits = tuple(Digit(f"d{i}", i, n, 1, prod(extents[i + 1 :])) for i, n in enumerate(extents))
    return Layout(extents, extents, digits, None, prod(extents))


def from_view(
    extents: tuple[int, ...],
    padded: tuple[int, ...],
    view: tuple[int, ...],
    permute: tuple[int, ...],
    fill: int | None = None,
) -> Layout:
    """Return the layout that torch's view(...).permute(...) of a row-major tensor of the padded extents makes.

    Requires: the dims of `view` multiply to the padded extents, axis by axis; `permute` orders them.
    """
    strides = [0] * len(view)
    inside = 1
    for index in reversed(permute):
        strides[index] = inside
        inside *= view[index]
    digits: list[Digit] = []
    position = 0
    for axis, extent in enumerate(padded):
        weight = extent
        last = axis == len(padded) - 1
        while position < len(view) and (weight > 1 or view[position] == 1 or last):
            weight //= view[position]
            digits.append(Digit(f"d{position}", axis, view[position], weight, strides[position]))
            position += 1
    return Layout(extents, padded, tuple(digits[i] for i in permute), fill, inside)


def first_difference(left: Layout, right: Layout) -> tuple[int, ...] | None:
    """Return the first coordinate, in row-major order, that the two maps put at different offsets.

    Both maps are sums over the axes that vanish at 0, so the first difference lies on one axis alone.
    Requires: equal padded extents.
    """
    for axis in reversed(range(len(left.extents))):
        for value in range(1, left.padded[axis]):
            at = tuple(value if i == axis else 0 for i in range(len(left.extents)))
            if offset(left, at) != offset(right, at):
                return at
    return None


def movable_run(layout: Layout) -> int:
    """Return the longest run of elements that stays contiguous between row-major order and storage.

    Units:  elements; 1 where the fastest storage digit is not the fastest of the last axis.
    """
    last = len(layout.extents) - 1
    fused = [d for d in coalesce(layout).digits if d.axis == last and d.weight == 1 and d.stride == 1]
    return gcd(fused[0].size, layout.extents[last]) if fused else 1
