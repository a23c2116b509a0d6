"""The chain as text: every equation that it shows holds, and the steps lead where they say."""

from __future__ import annotations

import re

import pytest

from mono_gen.explore.chain import byte_chain, coordinates_chain, lane_rows
from mono_gen.explore.where import at_byte, checked_lane, lane_spots, locate
from tests.explore.test_where import CORNERS, MINIMAX, lengths, points, tensors

_WORDS = re.compile(r"[A-Za-z_`]\w*`?")
_REST = re.compile(r"(\d+) / (\d+) = (\d+) rest (\d+)")
_EQUATION = re.compile(r"((?:\d+ *[*/%+-] *)+\d+) *= *(\d+)")

NAMES = [(MINIMAX, name) for name in tensors(MINIMAX) if name.startswith("Sparse")]
NAMES += [(CORNERS, name) for name in tensors(CORNERS)]


def equations(rows: list[tuple[str, str]]) -> list[tuple[str, int, int]]:
    """Return each equation of the steps: its left side, that side's value, and what is said of it."""
    found = []
    for name, text in rows:
        if name not in ("source", "serves"):
            found += [(f"{a} / {b}", int(b) * int(c) + int(d), int(a)) for a, b, c, d in _REST.findall(text)]
            plain = " ".join(_WORDS.sub(" ", text.partition("(aiter")[0]).split())
            found += [
                (left, int(eval(left.replace("/", "//"))), int(right)) for left, right in _EQUATION.findall(plain)
            ]
    return found


@pytest.mark.parametrize(("path", "name"), NAMES, ids=lambda value: getattr(value, "stem", value))
def test_every_equation_holds(path: object, name: str) -> None:
    found = tensors(path)[name]  # type: ignore[arg-type]
    shown = 0
    for at in points(lengths(found), 5):
        spot = locate(found, at)
        for rows in (coordinates_chain(found, spot), byte_chain(found, at_byte(found, spot.byte)[0], spot.byte)):
            for left, value, said in equations(rows):
                assert value == said, f"{left} = {said} in {rows}"
                shown += 1
    assert shown >= 10 or len(found.tensor.model.axes) == 1


def test_an_equation_that_does_not_hold_is_seen() -> None:
    ((_, value, said),) = equations([("digits", "r = 35 % 16 = 4  of 16")])
    assert (value, said) == (3, 4)


def test_steps_in_their_order() -> None:
    found = tensors(MINIMAX)["SparseMoeLayer.w13"]
    rows = coordinates_chain(found, locate(found, (5, 800, 71)))
    names = [name for name, _ in rows if name]
    assert names[:6] == ["coordinates", "segment", "digits", "element", "byte", "tile"]
    assert names[6:] == ["lane", "register", "back", "scale", "source"]
    assert dict(rows)["segment"] == "up, row 768..1535: row 800 - 768 = 32 of it"
    names = [name for name, _ in byte_chain(found, at_byte(found, 23593499)[0], 23593499) if name]
    assert names[:5] == ["byte", "digits", "storage", "segment", "coordinates"]


def test_a_lane_is_shown_by_its_bytes() -> None:
    found = tensors(MINIMAX)["SparseMoeLayer.sh_w13"]
    spots = lane_spots(found, (), 17, checked_lane(found, 17, (1, 2)))
    first = locate(found, (17, 272)).byte
    assert lane_rows(found, spots, len(spots)) == [
        ("0..15", f"row 17, k 272..287   at byte {first}..{first + 15}"),
        ("16..31", f"row 17, k 336..351   at byte {first + 16}..{first + 31}"),
    ]
    assert lane_rows(found, spots, 100)[-1] == ("...", "and 68 elements more")
