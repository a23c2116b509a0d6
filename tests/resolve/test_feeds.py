"""`feeds`: accepted exactly where lanes, read out of storage one by one, hold what the vendors' formulas say."""

from __future__ import annotations

import random
from itertools import combinations, permutations, product
from math import prod
from pathlib import Path

import pytest

from mono_gen.pipeline import generate, plan_specs
from tests.reference import operands as reference
from tests.resolve.texts import codes_of, layout_of, layout_text, problems_of, spec_of, struct_text

SCALED = reference.SCALED
ROOT = Path(__file__).resolve().parents[2]
Digits = dict[str, tuple[int, int]]
"""Name -> (axis, size), an axis' digits slowest first; size 0 is what is left."""
Groups = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""The digits of tile, lane and byte."""


# --- the oracle: storage by nested loops, lanes cut from it, compared with closed formulas ---


def stored(digits: Digits, order: tuple[str, ...], extents: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the coordinates of every element in storage order."""
    sizes = {name: size for name, (_, size) in digits.items()}
    for axis in (0, 1):
        mine = [name for name, (a, _) in digits.items() if a == axis]
        sizes |= {name: extents[axis] // prod(sizes[n] or 1 for n in mine) for name in mine if not sizes[name]}
    found = []
    for values in product(*(range(sizes[name]) for name in order)):
        at = dict(zip(order, values, strict=True))
        coordinates = [0, 0]
        for name, (axis, _) in digits.items():
            coordinates[axis] = coordinates[axis] * sizes[name] + at[name]
        found.append((coordinates[0], coordinates[1]))
    return found


def holds_tiles(cells: list[tuple[int, int]], held: int, k: int, holder: reference.Holder) -> bool:
    """Return whether every 64 lanes of `held` elements are tiles of 16 rows by `k`, consecutive in k."""
    each = 16 * k // 64
    places = {holder(row, at): (row, at) for row in range(16) for at in range(k)}
    if held % each or len(cells) % (64 * held):
        return False
    for wave in range(0, len(cells), 64 * held):
        row0, k0 = cells[wave]
        for lane, element in product(range(64), range(held)):
            row, at = places[lane, element % each]
            if cells[wave + lane * held + element] != (row0 + row, k0 + at + element // each * k):
                return False
    return True


def holds_scales(cells: list[tuple[int, int]], held: int) -> bool:
    """Return whether each byte of 64 lanes' scales is what multiplies the lane's (row, block), from its first on."""
    if len(cells) % (64 * held) or (held > 2 and held % 4):
        return False
    lane_of = {reference.scale(row, block)[0]: (row, block) for row in range(16) for block in range(4)}
    for wave in range(0, len(cells), 64 * held):
        for lane, byte in product(range(64), range(held)):
            row0, block0 = cells[wave + byte]
            row, block = lane_of[lane]
            if cells[wave + lane * held + byte] != (row0 + row, block0 + block):
                return False
    return True


def expected(digits: Digits, groups: Groups, operand: str, multiples: tuple[int, int]) -> list[str]:
    """Return the element types with which the layout feeds an operand, at the smallest legal extents and at others."""
    instruction, _, kind = operand.partition(".")
    if any(not digits[name][1] for name in groups[2]):
        return []
    held = prod(digits[name][1] for name in groups[2])
    order = (*groups[0], *groups[1], *groups[2])
    free = tuple(any(a == axis and not size for a, size in digits.values()) for axis in (0, 1))
    tried = [
        tuple(n * t if f else n for n, t, f in zip(multiples, tiles, free, strict=True)) for tiles in ((1, 1), (2, 2))
    ]
    storages = [stored(digits, order, (extents[0], extents[1])) for extents in tried]
    if kind.endswith("scale"):
        return ["e8m0"] if all(holds_scales(cells, held) for cells in storages) else []
    return [
        elements
        for (name, elements), (k, holder) in reference.DATA.items()
        if name == instruction and all(holds_tiles(cells, held, k, holder) for cells in storages)
    ]


def text_of(digits: Digits, groups: Groups, *operands: str, before: str = "") -> str:
    """Return a spec with the layout, and a clause an operand."""
    parts = [[f"{name}:{size}" if size else name for name, (a, size) in digits.items() if a == axis] for axis in (0, 1)]
    named = " | ".join(
        " ".join((label, *names)) for label, names in zip(("tile", "lane", "byte"), groups, strict=True) if names
    )
    splits = [f"split {axis} = {' '.join(part)}" for axis, part in zip(("row", "k"), parts, strict=True)]
    return layout_text("\n".join([before, *splits, f"store {named}", *(f"feeds {operand}" for operand in operands)]))


def fed(text: str) -> list[str]:
    """Return the element types for which the first clause was proved, none where it was refused."""
    codes = codes_of(text)
    assert codes in ([], ["feeds"]), codes
    return [] if codes else list(spec_of(text).layouts[0].feeds[0].elements)


# --- the orders of one layout ---

A_TILES: Digits = {"R": (0, 0), "r": (0, 16), "K": (1, 0), "half": (1, 2), "g": (1, 4), "b": (1, 16)}
STORED: Groups = (("R", "K"), ("g", "r"), ("half", "b"))
REQUIRE = "require row % 32 == 0, k % 256 == 0"


def grouped(order: tuple[str, ...]) -> Groups:
    return order[:2], order[2:4], order[4:]


def test_two_digits_exchanged_are_refused_exactly_where_a_lane_holds_something_else() -> None:
    order = (*STORED[0], *STORED[1], *STORED[2])
    accepted = []
    for left, right in combinations(range(6), 2):
        swapped = list(order)
        swapped[left], swapped[right] = swapped[right], swapped[left]
        groups = grouped(tuple(swapped))
        found = fed(text_of(A_TILES, groups, f"{SCALED}.a", before=REQUIRE))
        assert found == expected(A_TILES, groups, f"{SCALED}.a", (32, 256)), swapped
        accepted += [(order[left], order[right])] if found else []
    assert accepted == [("R", "K")]  # which tile is where, and not what lies in it


def test_orders_are_accepted_exactly_where_the_oracle_agrees() -> None:
    rng = random.Random(4)
    orders = rng.sample(list(permutations(A_TILES)), 30)
    wanted = [expected(A_TILES, grouped(order), f"{SCALED}.b", (32, 256)) for order in orders]
    assert [fed(text_of(A_TILES, grouped(order), f"{SCALED}.b", before=REQUIRE)) for order in orders] == wanted


FOUND_BY = [
    ("mfma_f32_16x16x32_fp8_fp8.a", {"R": (0, 0), "r": (0, 16), "K": (1, 0), "g": (1, 4), "e": (1, 8)}),
    ("mfma_f32_16x16x32_bf16.b", {"R": (0, 0), "r": (0, 16), "K": (1, 0), "h": (1, 2), "g": (1, 4), "e": (1, 8)}),
    (f"{SCALED}.a", {"R": (0, 0), "r": (0, 16), "K": (1, 0), "g": (1, 4), "b": (1, 32)}),
    (f"{SCALED}.a", {"R": (0, 0), "r": (0, 16), "K": (1, 0), "g": (1, 2), "b": (1, 32)}),
    (f"{SCALED}.b_scale", {"R": (0, 0), "h": (0, 2), "r": (0, 16), "K": (1, 0), "n": (1, 2), "g": (1, 4)}),
    (f"{SCALED}.a_scale", {"R": (0, 0), "r": (0, 16), "K": (1, 0), "n": (1, 3), "g": (1, 4)}),
]


@pytest.mark.parametrize(("operand", "digits"), FOUND_BY, ids=[f"{o} {' '.join(d)}" for o, d in FOUND_BY])
def test_layouts_of_every_operand_against_the_oracle(operand: str, digits: Digits) -> None:
    rng = random.Random(len(digits))
    names = list(digits)
    good = [n for n in ("R", "K") if n in digits], [n for n in ("g", "r") if n in digits]
    right = (tuple(good[0]), tuple(good[1]), tuple(n for n in names if n not in (*good[0], *good[1])))
    tried = [right]
    for _ in range(6):
        order = rng.sample(names, len(names))
        cut = rng.randint(1, 2)
        tried.append((tuple(order[:cut]), tuple(order[cut : cut + 2]), tuple(order[cut + 2 :])))
    accepted = 0
    for groups in tried:
        for steps in (1, 2):
            sizes = [prod(size or 1 for a, size in digits.values() if a == axis) for axis in (0, 1)]
            multiples = (sizes[0], sizes[1] * steps)
            before = f"require k % {multiples[1]} == 0"
            found = fed(text_of(digits, groups, operand, before=before))
            # At 8 bits and at 4 the sizes are the same: they are counted in elements.
            assert found == expected(digits, groups, operand, multiples), (groups, steps)
            accepted += bool(found)
    assert accepted or digits.get("n") == (1, 3)  # three scales a lane are no dword


# --- the spec's and the library's own layouts ---


def library_text(name: str, operand: str, edit: tuple[str, str] = ("", "")) -> str:
    """Return a spec with a layout of the library, and the clause in it."""
    text = (ROOT / "mono_gen" / "library" / "aiter.layout").read_text()
    body = text[text.index(f"layout {name}(") :]
    body = body[: body.index("\n}")].replace(*edit) if edit[0] else body[: body.index("\n}")]
    return f"spec x\narch gfx950\n\n{body}\n    feeds {operand}\n}}\n"


@pytest.mark.parametrize("name", ["e8m0_tiles", "e8m0_shuffle", "e8m0_shuffle_zero", "shuffle_scale_a16w4"])
@pytest.mark.parametrize("operand", ["a_scale", "b_scale"])
def test_the_scale_tiles_of_aiter_feed_the_scaled_instruction(name: str, operand: str) -> None:
    (feeds,) = spec_of(library_text(name, f"{SCALED}.{operand}")).layouts[0].feeds
    assert feeds.elements == ("e8m0",)


def test_the_scale_tile_of_gfx1250_does_not() -> None:
    assert codes_of(library_text("shuffle_scale_n32k4", f"{SCALED}.a_scale")) == ["feeds"]


def test_the_weight_tile_of_aiter_feeds_fp4_where_waves_are_whole_and_never_fp8() -> None:
    text = library_text("shuffle_16x16", f"{SCALED}.a")
    assert codes_of(text) == ["feeds"]
    (problem,) = problems_of(text)
    assert problem.help == "`require k % 128 == 0`"
    whole = library_text("shuffle_16x16", f"{SCALED}.a", ("require k % 32 == 0", "require k % 128 == 0"))
    assert spec_of(whole).layouts[0].feeds[0].elements == ("fp4",)


def test_mxfp8_a_tiles_of_the_spec_feeds_fp8() -> None:
    plans, _ = plan_specs([ROOT / "specs" / "minimax_m3.layout"], {})
    (layout,) = [p.model for p in plans[-1].layouts if p.model.name == "mxfp8_a_tiles"]
    assert [(f.instruction, f.operand, f.elements) for f in layout.feeds] == [(SCALED, "a", ("fp8",))]


# --- what the clause leaves alone, and what it says ---

CLAUSES = "split row = R r:16\nsplit k = K half:2 g:4 b:16\nstore tile R K | lane g r | byte half b\n"


def test_an_id_says_nothing_of_what_the_layout_feeds(tmp_path: Path) -> None:
    ids = []
    for index, feeds in enumerate(("", f"feeds {SCALED}.a\n")):
        path = tmp_path / f"{index}.layout"
        path.write_text(layout_text(CLAUSES + feeds))
        ids.append(plan_specs([path], {})[0][0].layouts[0].id)
    assert ids[0] == ids[1]


def test_the_header_says_what_a_layout_feeds(tmp_path: Path) -> None:
    path = tmp_path / "x.layout"
    path.write_text(layout_text(f"{CLAUSES}feeds {SCALED}.a\nfeeds {SCALED}.b\n"))
    (header,) = [file.text for file in generate([path], {}).files if file.path == "x.hpp"]
    lines = [line.strip() for line in header.splitlines()]
    at = lines.index("// Digits in the order of x.layout:6.")
    assert lines[at + 1 : at + 3] == [f"// Feeds {SCALED}.a for fp8.", f"// Feeds {SCALED}.b for fp8."]


def test_a_refusal_names_lane_byte_and_both_elements() -> None:
    (problem,) = problems_of(layout_text(CLAUSES.replace("half b", "b half") + f"feeds {SCALED}.a"))
    assert "lane 0 has (row 0, k 64) in byte 1, and the instruction takes (row 0, k 1)" in problem.message
    assert problem.help == "`store tile R K | lane g r | byte half b` would feed it"
    assert any("not confirmed on hardware" in note for note in problem.notes)
    assert any("another order of k cancels where A and B are read alike" in note for note in problem.notes)


@pytest.mark.parametrize("operand", ["a", "b", "a_scale", "b_scale"])
def test_the_help_is_a_layout_that_feeds(operand: str) -> None:
    (problem,) = problems_of(layout_text(f"split k = K s:8\nstore tile K row | byte s\nfeeds {SCALED}.{operand}"))
    clauses = [part.strip("` ") for part in problem.help.removesuffix(" would feed it").split(", `")]
    assert not codes_of(layout_text("\n".join([*clauses, f"feeds {SCALED}.{operand}"])))


def test_a_transposed_source_has_its_k_where_it_says_so() -> None:
    clauses = f"{CLAUSES}feeds {SCALED}.b"
    assert not codes_of(layout_text(clauses, axes="k, row"))
    last = clauses.replace("split k", "split d")
    assert not codes_of(layout_text(last, axes="row, d"))
    assert codes_of(layout_text(last, axes="d, row")) == ["feeds"]


@pytest.mark.parametrize(("digit", "codes"), [("r", []), ("g", []), ("half", ["feeds"]), ("b", ["feeds"])])
def test_a_pitch_outside_a_lanes_bytes_is_of_no_matter(digit: str, codes: list[str]) -> None:
    pitch = {"r": 48, "g": 1024, "half": 20, "b": 2}[digit]
    assert codes_of(layout_text(f"{CLAUSES}pitch {digit} = {pitch}\nfeeds {SCALED}.b")) == codes


# --- fields ---

FIELD = "w, s : {}[64, 256] {{ tile a_tiles  scale row_major  view layer.w, layer.s }}"


@pytest.mark.parametrize(
    ("field", "codes"),
    [
        (FIELD.format("mxfp8"), []),
        (FIELD.format("mxfp4"), ["feeds-elements"]),
        ("w, s : ptpc_fp8[64, 256] { tile a_tiles  view layer.w, layer.s }", []),
        ("w : uint8[64, 256] { tile a_tiles  view layer.w }", ["feeds-elements"]),
        ("w : fp8_e4m3fn[3, 64, 256] { tile a_tiles  view layer.w }", []),
    ],
)
def test_a_fields_elements_are_those_that_its_layout_feeds(field: str, codes: list[str]) -> None:
    layout = f"layout a_tiles(row, k) {{\n{CLAUSES}feeds {SCALED}.a\n}}"
    assert codes_of(struct_text(field, before=layout)) == codes


def test_fnuz_is_fp8_of_the_instruction_that_gfx942_has() -> None:
    text = """spec x
arch gfx942
layout a_tiles(row, k) {
    split row = R r:16
    split k = K g:4 e:8
    store tile R K | lane g r | byte e
    feeds mfma_f32_16x16x32_fp8_fp8.a
}
struct S(layer) { w : fp8_e4m3fnuz[64, 64] { tile a_tiles  view layer.w } }
"""
    assert not codes_of(text)


def test_a_source_of_another_type_in_a_layout_that_feeds_is_converted_all_the_same() -> None:
    layout = f"layout a_tiles(row, k) {{\n{CLAUSES}feeds {SCALED}.a\n}}"
    field = "w : bf16[64, 256] { tile row_major  convert bf16 a_tiles layer.w }"
    assert not codes_of(struct_text(field, before=layout))


def test_the_model_keeps_every_clause() -> None:
    model = layout_of(f"{CLAUSES}feeds {SCALED}.a\nfeeds {SCALED}.b")
    assert [(f.operand, f.elements, f.place.line) for f in model.feeds] == [("a", ("fp8",), 7), ("b", ("fp8",), 8)]
