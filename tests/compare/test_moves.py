"""How much moves, in which runs, and where it begins: counted by structure, against an enumeration."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.monomial import Size
from mono_gen.algebra.template import AxisTemplate, Factor, StoreGroup, Template, bind, row_major_template
from mono_gen.compare import atoms as atoms_module
from mono_gen.compare.atoms import Factor as Sum
from mono_gen.compare.atoms import NotCounted, atoms_of, zeros
from mono_gen.compare.maps import TensorMap, content, first_pad, map_of_layout, place
from mono_gen.compare.moves import move
from tests.compare.witness import truth, two_layouts
from tests.laws.budget import examples
from tests.laws.random_layouts import Case, cases, storage

LAW = examples(250)


def map_of(case: Case) -> TensorMap:
    return map_of_layout(case.layout, tuple(axis.name for axis in case.template.axes), case.bits)


@LAW
@given(two_layouts())
def test_share_first_place_and_runs_are_those_of_an_enumeration(pair: tuple[Case, Case]) -> None:
    old, new = pair
    expected = truth(old, new)
    found = move(map_of(old), map_of(new), "")
    assert found.elements == prod(old.extents)
    assert found.moved == expected.moved
    if expected.moved:
        assert found.first_bit == expected.first * old.bits
        if expected.granule is not None:
            assert found.granule_bits == expected.granule * old.bits


@LAW
@given(two_layouts())
def test_pads_and_sizes_are_those_of_an_enumeration(pair: tuple[Case, Case]) -> None:
    old, new = pair
    found = move(map_of(old), map_of(new), "")
    assert found.sizes == tuple(-(-storage(side).size * side.bits // 8) for side in pair)
    pads = [prod(side.padded) - prod(side.extents) for side in pair]
    same_fill = old.template.fill == new.template.fill
    assert found.refilled == (0 if same_fill else min(pads) * old.bits // 8)


@LAW
@given(cases())
def test_what_lies_at_a_place_is_what_an_enumeration_finds_there(case: Case) -> None:
    tensor = map_of(case)
    stored = storage(case)
    pads = []
    for at, index in enumerate(stored):
        where = tuple(int(i) for i in np.unravel_index(int(index), case.padded)) if index >= 0 else ()
        found = content(tensor, at * case.bits)
        if index < 0:
            assert found == "a gap"
        elif all(i < n for i, n in zip(where, case.extents, strict=True)):
            assert found == " ".join(f"x{axis} {i}" for axis, i in enumerate(where))
        else:
            pads.append(at)
            assert found == ("an undefined pad" if case.template.fill is None else f"fill 0x{case.template.fill:02X}")
    assert first_pad(tensor) == (pads[0] * case.bits if pads else None)
    assert content(tensor, stored.size * case.bits) == "past the end"


@LAW
@given(two_layouts())
def test_atoms_add_up_to_both_places(pair: tuple[Case, Case]) -> None:
    old, new = map_of(pair[0]), map_of(pair[1])
    for axis, extent in enumerate(old.extents):
        found = atoms_of(old, new, axis, extent)
        parts = [tuple(p for p in side.parts if p.axis == axis) for side in (old, new)]
        for x in range(extent):
            rest, places = x, [0, 0]
            for atom in found:
                value, rest = divmod(rest, atom.unit)
                places[0] += atom.old * value if isinstance(atom.old, int) else atom.old[value]
                places[1] += atom.new * value if isinstance(atom.new, int) else atom.new[value]
            assert places == [place(side, x) for side in parts]
            assert rest == 0


@pytest.mark.parametrize("seed", range(40))
def test_sums_that_vanish_are_counted(seed: int) -> None:
    random = np.random.default_rng(seed)
    factors = [Sum(int(random.integers(-9, 10)), int(random.integers(1, 7))) for _ in range(random.integers(1, 5))]
    values = tuple((int(v), int(random.integers(1, 3))) for v in random.integers(-8, 9, 3))
    factors.append(Sum(0, sum(n for _, n in values), values))
    base = int(random.integers(-5, 6))
    each = [
        [f.step * y for y in range(f.size)] if not f.values else [v for v, n in f.values for _ in range(n)]
        for f in factors
    ]
    expected = sum(base + sum(chosen) == 0 for chosen in itertools.product(*each))
    assert zeros(base, tuple(factors)) == expected


def rows_of(pieces: int, pad: int, *store: str) -> TensorMap:
    """Return 6 x 96 bytes in pieces of a row, the row padded."""
    factors = (Factor("K", None), Factor("b", Size(pieces)))
    axes = (AxisTemplate("row", None, (Factor("row", None),)), AxisTemplate("k", Size(pad), factors))
    return map_of_layout(bind(Template(axes, (StoreGroup("", store),), 0, ()), (6, 96), 8), ("row", "k"), 8)


@pytest.mark.parametrize(
    ("old", "new", "together"),
    [
        (rows_of(48, 96, "K", "row", "b"), rows_of(32, 96, "K", "row", "b"), 16),
        (rows_of(32, 96, "row", "K", "b"), rows_of(32, 128, "row", "K", "b"), 32),
        (rows_of(48, 96, "row", "K", "b"), rows_of(48, 144, "row", "K", "b"), 48),
        (rows_of(48, 96, "K", "row", "b"), rows_of(48, 96, "row", "K", "b"), 48),
        (rows_of(2, 96, "K", "row", "b"), rows_of(3, 96, "row", "K", "b"), 2),
        (rows_of(96, 192, "K", "row", "b"), rows_of(96, 192, "row", "K", "b"), 96),
    ],
)
def test_runs_of_different_lengths_have_what_both_divide(old: TensorMap, new: TensorMap, together: int) -> None:
    assert move(old, new, "").granule_bits == together * 8


# --- real sizes: never enumerated by the subject ---


def tiles(row: int, k: int, bits: int, *store: str) -> Layout:
    """Return 16-row tiles of 128 k, in this store order."""
    axes = (
        AxisTemplate("row", None, (Factor("R", None), Factor("r", Size(16)))),
        AxisTemplate(
            "k", None, (Factor("K", None), Factor("half", Size(2)), Factor("g", Size(4)), Factor("b", Size(16)))
        ),
    )
    return bind(Template(axes, (StoreGroup("", tuple(store)),), None, ()), (row, k), bits)


def test_a_full_size_weight_is_counted_exactly() -> None:
    row, k = 6144, 8192
    old = tiles(row, k, 8, "R", "K", "g", "r", "half", "b")
    new = tiles(row, k, 8, "R", "K", "half", "g", "r", "b")
    found = move(*(map_of_layout(side, ("row", "k"), 8) for side in (old, new)), "")
    places = np.arange(row // 16 * 16 * 8, dtype=np.int32)  # runs of 16 in one column of tiles: the rest repeats it
    before = places.reshape(row // 16, 4, 16, 2).transpose(0, 2, 3, 1)
    after = places.reshape(row // 16, 2, 4, 16).transpose(0, 3, 1, 2)
    assert found.moved == int((before != after).sum()) * 16 * (k // 128)
    assert found.granule_bits == 16 * 8
    assert (found.first_bit, found.was, found.now) == (16 * 8, "row 0 k 64", "row 1 k 0")


def test_what_no_machine_could_enumerate_is_counted() -> None:
    row, k = 1 << 24, 1 << 20
    old = map_of_layout(tiles(row, k, 8, "R", "K", "g", "r", "half", "b"), ("row", "k"), 8)
    new = map_of_layout(bind(row_major_template(("row", "k")), (row, k), 8), ("row", "k"), 8)
    found = move(old, new, "")
    assert found.elements == 1 << 44
    assert found.moved is not None
    assert 0 < found.elements - found.moved < found.elements // 1000


def test_two_orders_without_a_common_tiling_are_not_counted_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 7 * 11 * 13 * 200

    def flat(size: int) -> TensorMap:
        axis = AxisTemplate("n", None, (Factor("b", Size(size)), Factor("N", None)))
        template = Template((axis,), (StoreGroup("", ("N", "b")),), None, ())
        return map_of_layout(bind(template, (n,), 8), ("n",), 8)

    before, after = (np.arange(n).reshape(-1, size).T.reshape(-1) for size in (7, 11))
    assert move(flat(7), flat(11), "").moved == int((before != after).sum())
    monkeypatch.setattr(atoms_module, "MOST_VALUES", 50)
    with pytest.raises(NotCounted):
        atoms_of(flat(7), flat(11), 0, n)
    assert move(flat(7), flat(11), "").moved is None
