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
    first = _first(atoms)
    if first is None and refilled:
        first = first_pad(new)
    return Move(
        at=at,
        elements=elements,
        moved=_moved(atoms, extents),
        bits=new.bits,
        granule_bits=_granule(old, new, atoms) if _first(atoms) is not None else 0,
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
    """Return the bits of the longest run that both orders keep: the fastest atoms as long as they are the same."""
    run = old.bits
    waiting = [(axis, index) for axis, mine in enumerate(atoms) for index, _ in enumerate(mine)]
    while True:
        same = (at for at in waiting if atoms[at[0]][at[1]].old == run == atoms[at[0]][at[1]].new)
        found = next(same, None)
        if found is None:
            return run
        axis, index = found
        atom = atoms[axis][index]
        waiting.remove(found)
        if index:
            run *= atom.size
            continue
        lengths = old.padded[axis], new.padded[axis]
        if any(n % atom.unit for n in lengths):
            return run
        run *= gcd(*lengths) // atom.unit
