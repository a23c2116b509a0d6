"""What moves between two maps of one tensor: exactly how much, in which runs, and what lies where it begins."""

from __future__ import annotations

from itertools import product
from math import gcd, prod

from mono_gen.compare.atoms import Atom, NotCounted, atoms_of, boxes, zeros
from mono_gen.compare.maps import TensorMap, content, first_pad
from mono_gen.compare.model import Move


def move(old: TensorMap, new: TensorMap, at: str) -> Move:
    """Return what happens to the bytes between two maps of as many axes, over the extents that both have.

    at:   the extents as readers see them.
    Law:  tests/compare/test_moves.py enumerates: shares, runs and first places of random pairs.
    """
    extents = tuple(min(a, b) for a, b in zip(old.extents, new.extents, strict=True))
    elements = prod(extents)
    sizes = (-(-old.size // 8), -(-new.size // 8))
    if old.bits != new.bits:
        return Move(at, elements, elements, new.bits, 0, None, "", "", sizes, 0)
    refilled = min(old.pad_bits, new.pad_bits) // 8 if old.fill != new.fill else 0
    try:
        atoms = tuple(atoms_of(old, new, axis, extent) for axis, extent in enumerate(extents))
    except NotCounted:
        return Move(at, elements, None, new.bits, new.bits, None, "", "", sizes, refilled)
    first_of_atoms = _first(atoms)
    first = first_pad(new) if first_of_atoms is None and refilled else first_of_atoms
    return Move(
        at=at,
        elements=elements,
        moved=_moved(atoms, extents),
        bits=new.bits,
        granule_bits=_granule(old, new, atoms) if first_of_atoms is not None else 0,
        first_bit=first,
        was=content(old, first) if first is not None else "",
        now=content(new, first) if first is not None else "",
        sizes=sizes,
        refilled=refilled,
    )


def _moved(atoms: tuple[tuple[Atom, ...], ...], extents: tuple[int, ...]) -> int | None:
    """Return how many elements have two places, None where that cannot be counted."""
    try:
        whole = [boxes(mine, extent) for mine, extent in zip(atoms, extents, strict=True)]
        still = sum(
            zeros(sum(base for base, _ in chosen), tuple(f for _, factors in chosen for f in factors))
            for chosen in product(*whole)
        )
    except NotCounted:
        return None
    return prod(extents) - still


def _first(atoms: tuple[tuple[Atom, ...], ...]) -> int | None:
    """Return the first place that holds something else, in bits.

    A place is a sum of places of atoms, none negative: the first element that moves differs from element 0 in one atom.
    """
    places = []
    for atom in (a for mine in atoms for a in mine if a.moves):
        if isinstance(atom.old, int) and isinstance(atom.new, int):
            places.append(min(atom.old, atom.new))
        elif isinstance(atom.old, tuple) and isinstance(atom.new, tuple):
            places += [min(a, b) for a, b in zip(atom.old, atom.new, strict=True) if a != b]
    return min(places, default=None)


def _granule(old: TensorMap, new: TensorMap, atoms: tuple[tuple[Atom, ...], ...]) -> int:
    """Return the bits of the longest run that both orders keep, pads counted: the fastest atoms that are the same."""
    run = old.bits
    stored = [_stored(old, new, axis, mine) for axis, mine in enumerate(atoms)]
    waiting = [(axis, index) for axis, mine in enumerate(stored) for index, _ in enumerate(mine)]
    while True:
        found = next((at for at in waiting if _goes_on(stored[at[0]][at[1]], run)), None)
        if found is None:
            return run
        axis, index = found
        atom = stored[axis][index]
        waiting.remove(found)
        lengths = old.padded[axis], new.padded[axis]
        if not index and any(n % atom.unit for n in lengths):
            return run
        size = atom.size if index else gcd(*lengths) // atom.unit
        longer = _along(atom, run, size)
        if longer < run * size:
            return longer
        run = longer


def _stored(old: TensorMap, new: TensorMap, axis: int, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Return an axis' atoms up to where both sides have storage; as they are where segments are padded each.

    Nothing where they cannot be counted: a run goes no further than what is known.
    """
    if any(side.pieces and side.moved_axis == axis for side in (old, new)):
        return atoms
    try:
        return atoms_of(old, new, axis, min(old.padded[axis], new.padded[axis]))
    except NotCounted:
        return ()


def _goes_on(atom: Atom, run: int) -> bool:
    """Return whether the value after 0 lies right behind a run on both sides."""
    return all(side == run if isinstance(side, int) else side[1:2] == (run,) for side in (atom.old, atom.new))


def _along(atom: Atom, run: int, size: int) -> int:
    """Return the bits of the runs of an atom's values on both sides, of values that lie `run` bits apart.

    A value that is not right behind the one before it begins a run; runs are as long as all such beginnings allow.
    """
    tables = [side for side in (atom.old, atom.new) if not isinstance(side, int)]
    begins = {y for side in tables for y in range(1, len(side)) if side[y] != side[y - 1] + run}
    return gcd(run * size, *(at for y in begins for at in (run * y, *(side[y] for side in tables))))
