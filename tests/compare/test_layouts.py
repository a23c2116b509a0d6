"""Layouts of two sides: the edit in words, the five classes, and every mutant of the library against an enumeration."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import numpy as np
import pytest

from mono_gen.algebra.template import padded_extent
from mono_gen.compare.layouts import compare_layouts, sample_move
from mono_gen.diagnostics.model import SpecError
from mono_gen.loading import LIBRARY
from mono_gen.model import LayoutModel
from mono_gen.pipeline import plan_specs
from mono_gen.plan.layouts import is_legal, legal_extents
from mono_gen.plan.model import LayoutPlan
from tests.compare.specs import compared, plans, told
from tests.compare.witness import truth
from tests.laws.random_layouts import Case, offsets
from tests.mutants.edits import Block, mutants, read_blocks, write

TILES = """layout t(row, k) {
    split row = R r:16
    split k   = K half:2 g:4 b:16
    store tile R K | lane g r | byte half b
}"""
STORE = "store tile R K | lane g r | byte half b"
SCALES = """layout t(row, k) {
    pad row to 256, k to 8 fill 0x7F
    split row = R rh:2 r:16
    split k   = K kh:2 g:4
    store tile R K | lane g r | byte kh rh
}"""


@pytest.mark.parametrize(
    ("spec", "old", "new", "words"),
    [
        (TILES, STORE, "store tile R K half | lane g r | byte b", ["digit half moved from byte to tile"]),
        (TILES, STORE, "store tile R K | lane r g | byte half b", ["digits g and r exchanged"]),
        (TILES, STORE, "store tile R g | lane K r | byte half b", ["digits K and g exchanged"]),
        (TILES, STORE, "store tile R K | lane g r | byte b half", ["digits half and b exchanged"]),
        (
            TILES,
            STORE,
            "store tile K R | lane b g | byte r half",
            [f"{STORE} -> store tile K R | lane b g | byte r half"],
        ),
        (TILES, "K half:2 g:4 b:16", "K g:4 half:2 b:16", ["digits half and g exchanged in split k"]),
        (TILES, "K half:2 g:4 b:16", "K half:2 g:2 b:32", ["digit g: size 4 -> 2", "digit b: size 16 -> 32"]),
        (SCALES, "row to 256", "row to 128", ["pad row to 256 -> 128"]),
        (SCALES, "pad row to 256, k", "pad k", ["pad row to 256 dropped"]),
        (SCALES, "fill 0x7F", "fill 0x00", ["fill 0x7F -> 0x00"]),
        (SCALES, "fill 0x7F", "fill undefined", ["fill 0x7F -> undefined"]),
        ("layout t(a, b, c) {\n store a b c\n}", "store a b c", "store c a b", ["digit c moved before a"]),
        ("layout t(a, b, c) {\n store a b c\n}", "store a b c", "store b c a", ["digit a moved behind c"]),
        ("layout t(a, b) {\n store a b\n pitch a = 100\n}", "100", "104", ["pitch a = 100 -> 104"]),
        (
            "layout t(a, b) {\n store a b\n}",
            "store",
            "split b = h l:4\n store h a l #",
            ["split b = b -> h l:4", "store a b -> store h a l"],
        ),
    ],
)
def test_the_edit_is_said_in_words(tmp_path: Path, spec: str, old: str, new: str, words: list[str]) -> None:
    after = spec.replace(old, new)
    assert after != spec
    said = told(compared(tmp_path, spec, after), "bytes")
    assert said[:-1] == [f"layout t: {word}" for word in words]
    assert "abi" in {c.kind for item in compared(tmp_path, spec, after) for c in item.changes}
    back = told(compared(tmp_path, after, spec), "bytes")
    assert len(back) == len(said)


def test_what_moves_is_said_with_its_numbers(tmp_path: Path) -> None:
    new = TILES.replace(STORE, "store tile R K half | lane g r | byte b")
    (item,) = compared(tmp_path, TILES, new)
    assert told((item,), "bytes")[-1] == (
        "layout t: 98.44 % moves (at row 32, k 256, 8 bits) in runs of 16 bytes; byte 16 was row 0 k 64, now row 1 k 0"
    )
    assert told((item,), "abi") == [
        "layout t: id {} -> {}".format(*(f"{plans(tmp_path, text)[0].layouts[0].id:016x}" for text in (TILES, new))),
        "layout t: tile(R, K) -> tile(R, K, half)",
        "layout t: digits(R, K, g, r, half, b) -> digits(R, K, half, g, r, b)",
    ]
    assert item.symbols.python == ("pack_t", "unpack_t", "offset_t", "storage_t")
    assert item.symbols.cpp == ("mono::s::t",)
    assert item.moves[0][1].moved == 8064


def test_a_pad_that_no_sample_shows_is_looked_for(tmp_path: Path) -> None:
    said = told(compared(tmp_path, SCALES, SCALES.replace("row to 256", "row to 128")), "bytes")
    assert said[-1] == "layout t: storage at row 257, k 15, 8 bits: 8,192 -> 6,144 bytes"


def test_another_fill_moves_nothing_and_is_bytes(tmp_path: Path) -> None:
    said = told(compared(tmp_path, SCALES, SCALES.replace("0x7F", "0x01")), "bytes")
    assert said[-1] == (
        "layout t: byte 450 was fill 0x7F, now fill 0x01; 527 pad bytes at row 511, k 15, 8 bits with another value"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # one thing that is renamed has the same id, and moves nothing
        ("half", "h2", ["name digit half -> h2"]),
        ("layout t(", "layout u(", ["name layout t -> u"]),
        ("row", "m", ["name axis row -> m"]),
        # regrouped: no byte moves, and another tile()
        (STORE, "store tile R K g | lane r | byte half b", [
            "abi digit g counted to tile, not lane, in the same order; no byte moves",
            "abi tile(R, K) -> tile(R, K, g)",
            "abi lane number over (g, r) -> (r)",
        ]),
        (STORE, "store R K g r half b", [
            "abi groups no longer named, in the same order; no byte moves",
            "abi tile() gone",
            "abi lane() gone",
        ]),
        ("{\n", "{\n require k % 256 == 0\n", ["checks sizes: `k % 256 == 0` is asked now"]),
        ("layout", "## Said.\nlayout", ["doc doc comment changed"]),
        (
            "\n}",
            "\n    same as torch view(row/16, 16, k/128, 2, 2, 2, 16).permute(0, 2, 4, 5, 1, 3, 6)\n}",
            ["doc `same as torch` is worded in another way"],
        ),
        ("split row", "# a comment\n split   row", []),
    ],
)  # fmt: skip
def test_changes_that_move_nothing_have_their_own_class(tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    found = told(compared(tmp_path, TILES, TILES.replace(old, new)))
    assert [text.partition(": ")[2] for text in found] == said


def test_a_digit_taken_apart_moves_nothing_and_has_another_id(tmp_path: Path) -> None:
    new = TILES.replace("r:16", "rh:2 rl:8").replace("lane g r", "lane g rh rl")
    said = told(compared(tmp_path, TILES, new), "abi")
    assert said[0] == "layout t: digit r:16 cut into rh:2 rl:8; no byte moves"
    assert said[1].startswith("layout t: id ")
    back = told(compared(tmp_path, new, TILES), "abi")
    assert back[0] == "layout t: digits rh:2 rl:8 made one, r:16; no byte moves"


def test_sizes_and_widths_that_are_refused_now(tmp_path: Path) -> None:
    said = told(compared(tmp_path, TILES, TILES.replace("half:2 g:4", "half:4B g:4")), "checks")
    assert said == [
        "layout t: sizes: `k % 128 == 0` -> `k % 256B == 0`",
        "layout t: elements of 64 bits are refused now",
    ]
    said = told(compared(tmp_path, SCALES, SCALES.replace("k to 8", "k to 4")), "checks")
    assert said == ["layout t: sizes: k 1 is refused now"]


def test_new_and_gone(tmp_path: Path) -> None:
    both = f"{TILES}\n{SCALES.replace('layout t', 'layout scales')}"
    (item,) = compared(tmp_path, TILES, both)
    assert told((item,)) == ["layout scales: abi new"]
    assert (item.old, item.new.line if item.new else 0) == (None, 8)
    (item,) = compared(tmp_path, both, TILES)
    assert told((item,)) == ["layout scales: abi gone"]
    assert item.symbols.cpp == ("mono::s::scales",)


# --- every mutant of the library ---

BLOCKS = read_blocks((LIBRARY / "aiter.layout").read_text())


def _plan(folder: Path, block: Block) -> LayoutPlan | None:
    """Return the plan of a block, None where the tool refuses it."""
    path = folder / "mutant.layout"
    path.write_text(f"spec mutant\n\n{write(block)}")
    try:
        ((plan,), _) = plan_specs([path], {})
    except SpecError:
        return None
    return plan.layouts[0]


def _case(model: LayoutModel, extents: tuple[int, ...], bits: int) -> Case:
    """Return the layout at extents as the enumeration takes it: sizes alone."""
    padded = tuple(padded_extent(a, n, bits) for a, n in zip(model.template.axes, extents, strict=True))
    sizes = []
    for axis, n in zip(model.template.axes, padded, strict=True):
        sized = prod(f.size.at(bits) for f in axis.factors if f.size is not None)
        sizes.append(tuple(n // sized if f.size is None else f.size.at(bits) for f in axis.factors))
    return Case(model.template, bits, extents, padded, tuple(sizes))


@pytest.mark.parametrize("name", BLOCKS)
def test_the_verdict_on_every_mutant_is_that_of_an_enumeration(tmp_path: Path, name: str) -> None:
    old = _plan(tmp_path, BLOCKS[name])
    assert old is not None
    moving = 0
    for what, block in mutants(BLOCKS[name]).items():
        new = _plan(tmp_path, block)
        if new is None or len(new.model.axes) != len(old.model.axes):
            continue
        found = sample_move(old.model, new.model)
        item = compare_layouts(old, new, "s")
        classes = {c.kind for c in item.changes} if item is not None else set()
        if found is not None and not found.is_still:
            at = re.findall(r"(\d+)(?:,|$| bits)", found.at)
            extents, bits = tuple(map(int, at[:-1])), int(at[-1])
            sides = [_case(side.model, extents, bits) for side in (old, new)]
            expected = truth(*sides)
            assert found.moved == expected.moved, what
            assert "bytes" in classes, what
            assert expected.moved or _storage_differs(*sides), what
            moving += 1
        else:
            assert "bytes" not in classes or found is None, what
            for bits in sorted({*old.model.widths} & {*new.model.widths}):
                for extents in {legal_extents(side.model, bits) for side in (old, new)} - {None}:
                    if is_legal(old.model, extents, bits) and is_legal(new.model, extents, bits):
                        sides = [_case(side.model, extents, bits) for side in (old, new)]
                        assert not _storage_differs(*sides), what
        if old.id != new.id:
            assert "abi" in classes, what
    assert moving >= 5


def _storage_differs(old: Case, new: Case) -> bool:
    """Return whether any element, the size of storage or a pad's value is another one."""
    inside = tuple(slice(n) for n in old.extents)
    if not np.array_equal(offsets(old)[inside], offsets(new)[inside]) or prod(old.padded) != prod(new.padded):
        return True
    return old.padded != old.extents and old.template.fill != new.template.fill
