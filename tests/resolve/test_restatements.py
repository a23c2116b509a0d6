"""`same as torch` and `same as lane`: the proof agrees with an enumeration that shares no code with it."""

from __future__ import annotations

import random
from itertools import permutations, product

import pytest

from tests.resolve.texts import codes_of, layout_text, problems_of

SPLITS = {"row": [("R", 0), ("r", 3)], "k": [("K", 0), ("g", 2), ("b", 5)]}
VIEW = "row/3, 3, k/10, 2, 5"


def stored(order: list[str], rows: int, columns: int) -> list[tuple[int, int]]:
    """Return the coordinates in storage order, by nested loops over the digits."""
    sizes = {"R": rows // 3, "r": 3, "K": columns // 10, "g": 2, "b": 5}
    found = []
    for values in product(*(range(sizes[name]) for name in order)):
        at = dict(zip(order, values, strict=True))
        found.append((3 * at["R"] + at["r"], 10 * at["K"] + 5 * at["g"] + at["b"]))
    return found


def test_a_torch_form_is_accepted_exactly_where_an_enumeration_agrees() -> None:
    rng = random.Random(1)
    names = ["R", "r", "K", "g", "b"]
    orders = [list(order) for order in permutations(names)]
    accepted = 0
    for _ in range(60):
        mine = rng.choice(orders)
        theirs = mine if rng.random() < 0.3 else rng.choice(orders)
        permute = ", ".join(str(names.index(name)) for name in theirs)
        text = layout_text(
            f"split row = R r:3\nsplit k = K g:2 b:5\nstore {' '.join(mine)}\n"
            f"same as torch view({VIEW}).permute({permute})"
        )
        same = all(
            stored(mine, 3 * i, 10 * j) == stored(theirs, 3 * i, 10 * j) for i, j in product((1, 2, 3), (1, 2, 3))
        )
        assert codes_of(text) == ([] if same else ["same-as-torch"]), (mine, theirs)
        accepted += same
    assert 5 < accepted < 55


@pytest.mark.parametrize(
    "form",
    [
        "view(row/16, 16, k/32B, 2, 16B).permute(0, 2, 3, 1, 4)",
        "view(row/16, 16, 1, k/32B, 2, 16B).permute(0, 3, 2, 4, 1, 5)",
        "view(row/(4 * 4), 4, 4, k/32B, 2, 16B).permute(0, 3, 4, 1, 2, 5)",
        "view(row/TILE, TILE, k/(2 * 16B), 2, 16B).permute(0, 2, 3, 1, 4)",
    ],
)
def test_one_map_has_many_forms(form: str) -> None:
    clauses = "split row = R r:16\nsplit k = K g:2 b:16B\nstore R K g r b\nsame as torch " + form
    assert codes_of(layout_text(clauses, before="const TILE = 16")) == []


def test_a_form_for_one_width_alone_is_refused() -> None:
    clauses = "split k = K b:16B\nstore K row b\nsame as torch view(row, k/16, 16).permute(1, 0, 2)"
    (problem,) = problems_of(layout_text(clauses))
    assert problem.code == "same-as-torch"
    assert "4-bit elements" in problem.message


def test_a_view_must_be_whole_for_every_legal_extent() -> None:
    clauses = "split k = K b:16\nstore row K b\nsame as torch view(row, k/64, 4, 16).permute(0, 1, 2, 3)"
    assert codes_of(layout_text(clauses)) == ["same-as-torch"]
    assert codes_of(layout_text("require k % 64 == 0\n" + clauses)) == []
    assert codes_of(layout_text("pad k to 64 fill 0x00\n" + clauses)) == []


def test_a_required_multiple_does_not_reach_a_padded_axis() -> None:
    clauses = "require k % 64 == 0\npad k to 16 fill 0x00\nsplit k = K b:16\nstore row K b\n"
    form = "same as torch view(row, k/64, 4, 16).permute(0, 1, 2, 3)"
    assert codes_of(layout_text(clauses + form)) == ["same-as-torch"]


@pytest.mark.parametrize(
    "form",
    [
        "view(row, k).permute(1, 1)",
        "view(row, k).permute(0)",
        "view(row, k).permute(1, 2)",
        "view(row*k).permute(0)",
        "view(k, row).permute(0, 1)",
        "view(row, 0, k).permute(2, 1, 0)",
        "view(row, -1).permute(1, 0)",
        "view(row % 7, k).permute(1, 0)",
        "view(row, k, 2).permute(1, 0, 2)",
    ],
)
def test_a_form_that_is_no_view_is_refused(form: str) -> None:
    assert codes_of(layout_text("store k row\nsame as torch " + form)) == ["same-as-torch"]


LANES = "split row = R r:16\nsplit k = K half:2 g:4 b:16\nstore tile R K | lane g r | byte half b\nsame as lane "


@pytest.mark.parametrize(
    ("form", "codes"),
    [
        ("16*g + r, byte 16*half + b holds row 16*R + r, k 128*K + 64*half + 16*g + b", []),
        ("r + g*(8 + 8), byte b + 16*half holds k b + 16*(g + 4*half) + 128*K, row r + 16*R", []),
        ("4*r + g, byte 16*half + b holds row 16*R + r, k 128*K + 64*half + 16*g + b", ["same-as-lane"]),
        ("16*g + r, byte 2*b + half holds row 16*R + r, k 128*K + 64*half + 16*g + b", ["same-as-lane"]),
        ("16*g + r, byte 16*half + b holds row 16*R + r, k 64*K + 64*half + 16*g + b", ["same-as-lane"]),
        ("16*g + r, byte 16*half + b holds row 16*R + r + 1, k 128*K + 64*half + 16*g + b", ["same-as-lane"]),
        ("16*g + r, byte 16*half + b holds row 16*R + r", ["same-as-lane"]),
        ("16*g + q, byte 16*half + b holds row 16*R + r, k 128*K + 64*half + 16*g + b", ["unknown-name"]),
        ("16*g + row, byte 16*half + b holds row 16*R + r, k 128*K + 64*half + 16*g + b", ["unknown-name"]),
    ],
)
def test_a_lane_form_is_accepted_exactly_where_it_is_the_store_order(form: str, codes: list[str]) -> None:
    assert codes_of(layout_text(LANES + form)) == codes


def test_what_was_refused_before_is_not_refused_again() -> None:
    assert codes_of(
        layout_text("store row k\nsame as torch view(row/N, N, k).permute(0, 1, 2)", before="const N = 1/0")
    ) == ["zero-divisor"]
