"""Two orders of one axis, taken apart together: factors in which both are plain, counted without enumerating them."""

from __future__ import annotations

from collections import Counter
from math import gcd, lcm

from mono_gen.compare.maps import Part, TensorMap, place, shifted
from mono_gen.frozen import frozen

MOST_VALUES = 1 << 21
"""How many values a table or a count may hold: beyond it nothing is counted, for it would take minutes."""


class NotCounted(ValueError):
    """Two orders whose digits have no common tiling that could be counted in a moment."""


@frozen
class Atom:
    """A factor of an axis: the value y in range(size) stands for y * unit coordinates.

    old, new: the places of the values in bits; one number is the step of values evenly apart.
    """

    axis: int
    unit: int
    size: int
    old: int | tuple[int, ...]
    new: int | tuple[int, ...]

    def delta(self, value: int) -> int:
        """Return how far apart the two places of a value are."""
        return _at(self.old, value) - _at(self.new, value)

    @property
    def moves(self) -> bool:
        """Return whether any value has two places."""
        return self.old != self.new and self.size > 1


def _at(places: int | tuple[int, ...], value: int) -> int:
    return places * value if isinstance(places, int) else places[value]


def atoms_of(old: TensorMap, new: TensorMap, axis: int, extent: int) -> tuple[Atom, ...]:
    """Return the atoms of an axis below a logical extent, slowest first.

    The place of a coordinate is the sum over the atoms of the places of its values, on both sides. A cut between two
    atoms is a number of coordinates that each digit's weight and period divides or is divided by. Where digits of
    the two sides overlap, the atom between two cuts is a table.
    Raises: NotCounted.
    Law:    tests/compare/test_moves.py::test_atoms_add_up_to_both_places
    """
    parts = tuple(tuple(p for p in side.parts if p.axis == axis) for side in (old, new))
    if (old.pieces and old.moved_axis == axis) or (new.pieces and new.moved_axis == axis):
        return (_whole(old, new, parts, axis, extent),)
    bounds = _bounds((*parts[0], *parts[1]), extent)
    inside = sorted(b for b in {1, *bounds, lcm(*bounds)} if b < extent) or [1]
    cuts = [b for b in inside if all(b % other == 0 or other % b == 0 for other in bounds)]
    found = []
    for cut, above in zip(cuts, (*cuts[1:], None), strict=True):
        size = -(-extent // cut) if above is None else above // cut
        is_plain = not any(cut < b < (extent if above is None else above) for b in bounds)
        if is_plain:
            found.append(Atom(axis, cut, size, place(parts[0], cut), place(parts[1], cut)))
            continue
        _check_size(size)
        tables = (tuple(place(side, cut * y) for y in range(size)) for side in parts)
        found.append(Atom(axis, cut, size, *tables))
    return tuple(reversed(found))


def _whole(old: TensorMap, new: TensorMap, parts: tuple[tuple[Part, ...], ...], axis: int, extent: int) -> Atom:
    """Return an axis whose segments are padded each as one table."""
    _check_size(extent)
    tables = (
        tuple(place(mine, shifted(side, axis, x)) for x in range(extent))
        for side, mine in zip((old, new), parts, strict=True)
    )
    return Atom(axis, 1, extent, *tables)


def _bounds(parts: tuple[Part, ...], extent: int) -> set[int]:
    """Return where digits begin and end below an extent, in coordinates, and what these have in common."""
    bounds = {1}
    for part in parts:
        bounds |= {part.weight} if part.top else {part.weight, part.weight * part.size}
    bounds = {b for b in bounds if b < extent} | {1}
    return bounds | {gcd(a, b) for a in bounds for b in bounds}


def _check_size(size: int) -> None:
    if size > MOST_VALUES:
        raise NotCounted(f"a table of {size} places")


# --- counting ---


@frozen
class Factor:
    """Independent values in a sum: `step` * range(size), or values with how often each stands (step 0)."""

    step: int
    size: int
    values: tuple[tuple[int, int], ...] = ()

    @property
    def reach(self) -> tuple[int, int]:
        """Return the least and the greatest value."""
        if self.values:
            return min(v for v, _ in self.values), max(v for v, _ in self.values)
        end = self.step * (self.size - 1)
        return min(0, end), max(0, end)


Box = tuple[int, tuple[Factor, ...]]
"""Coordinates of an axis: the difference of places that all have, and what differs among them."""


def boxes(atoms: tuple[Atom, ...], extent: int) -> tuple[Box, ...]:
    """Return the coordinates below an extent, each in one box.

    The coordinates below a number are those with a smaller slowest value, then those with the same one and a smaller
    next value, and so on.
    """
    found = []
    base, rest = 0, extent
    for index, atom in enumerate(atoms):
        limit, rest = divmod(rest, atom.unit)
        if limit:
            free = (_factor(atom, limit), *(_factor(a, a.size) for a in atoms[index + 1 :]))
            found.append((base, free))
        if not rest:
            break
        base += atom.delta(limit)
    return tuple(found)


def _factor(atom: Atom, limit: int) -> Factor:
    """Return the differences of an atom's values below a limit."""
    if isinstance(atom.old, int) and isinstance(atom.new, int):
        return Factor(atom.old - atom.new, limit)
    counted = Counter(atom.delta(y) for y in range(limit))
    return Factor(0, limit, tuple(counted.items()))


def zeros(base: int, factors: tuple[Factor, ...]) -> int:
    """Return how many choices of one value a factor add up, with the base, to zero.

    The widest steps are chosen first; a sum that the rest cannot bring back to zero is dropped, which leaves next to
    nothing to look at where steps nest as digits do.
    Raises: NotCounted.
    """
    times = 1
    told: list[Factor] = []
    for factor in factors:
        if factor.reach == (0, 0):
            times *= factor.size
        else:
            told.append(factor)
    told.sort(key=lambda f: -(abs(f.step) or max(map(abs, f.reach))))
    low = [0] * (len(told) + 1)
    high = [0] * (len(told) + 1)
    for index in reversed(range(len(told))):
        least, most = told[index].reach
        low[index], high[index] = low[index + 1] + least, high[index + 1] + most
    sums = Counter({base: 1})
    for index, factor in enumerate(told):
        sums = _added(sums, factor, -high[index + 1], -low[index + 1])
    return sums[0] * times


def _added(sums: Counter[int], factor: Factor, least: int, most: int) -> Counter[int]:
    """Return the sums with one value more, those from `least` to `most`."""
    found: Counter[int] = Counter()
    for start, count in sums.items():
        if factor.values:
            for value, often in factor.values:
                if least <= start + value <= most:
                    found[start + value] += count * often
        else:
            for at in _window(start, factor, least, most):
                found[start + at * factor.step] += count
        _check_size(len(found))
    return found


def _window(start: int, factor: Factor, least: int, most: int) -> range:
    """Return the values y of a factor with least <= start + y * step <= most."""
    step = factor.step
    near, far = (least - start, most - start) if step > 0 else (start - most, start - least)
    width = abs(step)
    window = range(max(0, -(-near // width)), min(factor.size - 1, far // width) + 1)
    _check_size(len(window))
    return window
