"""Pictures and tables of layouts: every number against closed formulas that know nothing of mono-gen."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mono_gen.explore.captions import compare
from mono_gen.explore.draw import draw
from mono_gen.explore.names import Unfound
from mono_gen.explore.plane import Plane, make_plane
from mono_gen.explore.subjects import DrawError, find, legal_extents, of_layout, of_tensor, tile_extents
from mono_gen.explore.table import table
from mono_gen.model import LayoutModel, TensorModel
from mono_gen.pipeline import plan_specs
from mono_gen.plan.model import SpecPlan
from tests.explore.pictures import SVG, Panel, elements, read
from tests.generated.shapes import telling_extents
from tests.reference.layouts import LIBRARY as REFERENCE_LIBRARY
from tests.reference.layouts import SPEC as REFERENCE_SPEC

ROOT = Path(__file__).parents[2]
REFERENCE = {**REFERENCE_LIBRARY, **REFERENCE_SPEC}
KILOBYTES_300 = 300_000

# Layouts without runs: every element of 32 x 256 is a cell of its own.
SINGLES = """\
spec singles
layout no_lanes(row, k) {
    split row = R r:2
    split k   = K b:2
    store r b K R
}
layout many_lanes(row, k) {
    split row = R r:2
    split k   = K b:2
    store lane b r K R
}
layout few_lanes(row, k) {
    split row = R rh:2 r:16
    split k   = K b:2
    store tile K R | lane b | byte r rh
}
"""


@pytest.fixture(scope="module")
def plans() -> tuple[SpecPlan, ...]:
    return plan_specs([ROOT / "specs" / "minimax_m3.layout"], {})[0][::-1]


def layout(plans: Sequence[SpecPlan], name: str) -> LayoutModel:
    found = find(name, plans)
    assert isinstance(found, LayoutModel)
    return found


def field(plans: Sequence[SpecPlan], name: str, at: tuple[int, ...], rows: int, columns: int) -> Plane:
    found = find(name, plans)
    assert isinstance(found, TensorModel)
    return make_plane(of_tensor(found, 32), at, rows, columns)


def expected(name: str, plane: Plane, begin: tuple[int, int]) -> dict[tuple[int, int], str]:
    """Return the byte of each place of a plane, from the closed formula, pads included."""
    reference, bound, bits = REFERENCE[name], plane.subject.bound, plane.subject.bits
    row, column = np.indices(plane.shape)
    fixed = [np.zeros_like(row)] * (len(reference.axes) - 2)
    found = reference.bits((*fixed, row + begin[0], column + begin[1]), bound.padded, bits)
    places = np.ndindex(*plane.shape)
    if bits == 4:
        return {at: f"{found[at] // 8}.{found[at] % 8 // 4}" for at in places}
    return {at: str(found[at] // 8) for at in places}


def drawn(plane: Plane) -> Panel:
    (panel,) = read(draw([plane]), *plane.shape, plane.subject.bits)
    return panel


# --- numbers ---


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_every_number_is_that_of_the_formula(plans: tuple[SpecPlan, ...], name: str, bits: int) -> None:
    model = layout(plans, name)
    if bits not in model.widths:
        with pytest.raises(DrawError, match="bits"):
            of_layout(model, bits, tile_extents(model, 8))
        return
    extents = telling_extents(model, bits)
    if extents is None:
        assert bits == 4
        return
    plane = make_plane(of_layout(model, bits, extents), (), 32, 64)
    panel = drawn(plane)
    assert panel.bytes == expected(name, plane, (0, 0))
    inside = extents[-2:]
    assert panel.muted == panel.pads == {at for at in panel.bytes if at[0] >= inside[0] or at[1] >= inside[1]}


@pytest.mark.parametrize(
    ("name", "lane"),
    [
        ("shuffle_16x16", lambda row, k: 16 * (k // 16 % 2) + row % 16),
        ("mxfp8_a_tiles", lambda row, k: 16 * (k // 16 % 4) + row % 16),
        ("e8m0_shuffle", lambda row, k: 16 * (k % 4) + row % 16),
        ("shuffle_scale_n32k4_gugu", lambda row, k: 2 * (row % 16) + row // 32),
    ],
)
@pytest.mark.parametrize("begin", [(0, 0), (3, 5)])
def test_every_cell_says_its_lane(plans: tuple[SpecPlan, ...], name: str, lane: object, begin: tuple[int, int]) -> None:
    assert callable(lane)
    model = layout(plans, name)
    extents = (64, 256) if name != "shuffle_scale_n32k4_gugu" else (64, 8)
    plane = make_plane(of_layout(model, 8, extents), begin, 32, min(128, extents[1] - begin[1]))
    panel = drawn(plane)
    assert panel.bytes == expected(name, plane, begin)
    cells = {(cell.row, cell.column) for cell in plane.cells()}
    assert len(panel.lanes) == len(cells)
    assert all(n == lane(begin[0] + row, begin[1] + k) for (row, k), n in panel.lanes.items())


def test_a_field_begins_where_it_is_told(plans: tuple[SpecPlan, ...]) -> None:
    plane = field(plans, "w13", (752, 64), 32, 128)
    assert drawn(plane).bytes == expected("shuffle_16x16", plane, (752, 64))
    scale = field(plans, "CpSparseMoeLayer.s13", (760, 184), 40, 256)
    assert scale.shape == (40, 8)  # 192 blocks, and nothing is drawn past them
    assert drawn(scale).bytes == expected("e8m0_shuffle", scale, (760, 184))


def test_axes_outside_the_plane_stay_where_it_begins(plans: tuple[SpecPlan, ...]) -> None:
    plane = make_plane(of_layout(layout(plans, "prepack_nchw_to_cblocked"), 8, (128, 4, 6)), (70, 1, 2))
    row, column = np.indices(plane.shape)
    wanted = REFERENCE["prepack_nchw_to_cblocked"].bits((70, row + 1, column + 2), (128, 4, 6), 8) // 8
    assert drawn(plane).bytes == {at: str(wanted[at]) for at in np.ndindex(*plane.shape)}


def test_a_cell_tells_all_about_itself(plans: tuple[SpecPlan, ...]) -> None:
    text = draw([field(plans, "w13", (752, 0), 32, 128)])
    titles = [e.findtext(f"{SVG}title") for e in ET.fromstring(text).iter(f"{SVG}rect") if e.get("class") == "x"]
    assert len(titles) == 32 * 4
    assert titles[0] == "row 752, k 0 to 31: byte 2310144.0–2310159.1, lane 0, gate"
    assert titles[16 * 4 + 1] == "row 768, k 32 to 63: byte 2359552.0–2359567.1, lane 16, up"


# --- segments, pads, pairs ---


def test_segments_are_named_and_parted(plans: tuple[SpecPlan, ...]) -> None:
    text = draw([field(plans, "w13", (736, 0), 48, 64)])  # three tiles of rows, two segments
    (panel,) = read(text, 48, 64, 4)
    root = ET.fromstring(text)
    (border,) = [e.get("d", "") for e in root.findall(f"{SVG}path") if e.get("class") == "k"]
    height = re.fullmatch(r"M\d+ (\d+)H\d+", border)
    assert height is not None
    assert int(height[1]) == panel.top + 32 * panel.height // 48
    assert {"gate", "up"} <= {e.text for e in root.findall(f"{SVG}text") if e.get("class") == "b m"}


PADDED_EACH = """\
spec padded
arch gfx950
layout rows_to_8(row, k) {
    pad row to 8 fill 0x2A
    store row k
}
struct S(layer) {
    w : uint8[12, 16] {
        segments row = gate:6 up:6 pad each
        tile     rows_to_8
        convert  uint8 row_major layer.w
    }
}
"""


def test_pads_of_segments_stand_between_them(tmp_path: Path) -> None:
    path = tmp_path / "padded.layout"
    path.write_text(PADDED_EACH)
    found = find("w", plan_specs([path], {})[0])
    assert isinstance(found, TensorModel)
    plane = make_plane(of_tensor(found, 32))
    panel = drawn(plane)
    assert plane.rows.logical == (0, 1, 2, 3, 4, 5, None, None, 6, 7, 8, 9, 10, 11, None, None)
    assert panel.bytes == {(row, k): str(16 * row + k) for row in range(16) for k in range(16)}
    assert panel.pads == {(row, k) for row in (6, 7, 14, 15) for k in range(16)}
    assert "pad, filled with 0x2A" in draw([plane])
    assert make_plane(of_tensor(found, 32), (6, 0)).rows.logical[0] == 6


def test_two_layouts_are_compared_element_by_element(plans: tuple[SpecPlan, ...]) -> None:
    tiles, shuffled = (
        make_plane(of_layout(layout(plans, name), 8, (32, 256)), (), 16, 128)
        for name in ("mxfp8_a_tiles", "shuffle_16x16")
    )
    left, right = read(draw([tiles, shuffled]), 16, 128, 8)
    assert left.bytes == expected("mxfp8_a_tiles", tiles, (0, 0))
    assert right.bytes == expected("shuffle_16x16", shuffled, (0, 0))
    assert left.marked == set()
    assert right.marked == {at for at in left.bytes if left.bytes[at] != right.bytes[at]} != set()
    wanted = (
        f"{len(right.marked):,} of 2,048 elements lie at other bytes; the first: row 0, k 16, at byte 512 and at 256"
    )
    assert compare(tiles, shuffled).text == wanted
    assert compare(tiles, tiles).places == frozenset()
    same = draw([tiles, tiles])
    assert "Each of the 2,048 elements that both show lies at the same byte." in same
    assert "other bytes than in" not in same


def test_axes_of_another_order_are_turned(plans: tuple[SpecPlan, ...]) -> None:
    """shuffle_16x16 of (row, k) and shuffle_weight_gfx1250_3d of (k, row) are one order of bytes."""
    rows = make_plane(of_layout(layout(plans, "shuffle_16x16"), 8, (16, 32)))
    turned = make_plane(of_layout(layout(plans, "shuffle_weight_gfx1250_3d"), 8, (32, 16)), names=("row", "k"))
    assert turned.rows.name == "row"
    assert not compare(rows, turned).places


# --- the file ---


def test_a_picture_is_one_file_for_everyone(plans: tuple[SpecPlan, ...]) -> None:
    text = draw([make_plane(of_layout(layout(plans, "e8m0_shuffle"), 8, (40, 6)))])
    root = ET.fromstring(text)
    assert root.findtext(f"{SVG}title") == "e8m0_shuffle"
    assert "40 x 6 elements of 8 bits; 256 x 8 with pads" in (root.findtext(f"{SVG}desc") or "")
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")
    assert "<script" not in text
    outside = re.sub(r'xmlns="[^"]*"', "", text)
    assert "http" not in outside
    assert set(re.findall(r"url\((.)", text)) | set(re.findall(r'href="(.)', text)) == {"#"}
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:url\(|href=\")#(\w+)", text)) <= set(ids)


@pytest.mark.parametrize("name", ["no_lanes", "many_lanes", "few_lanes"])
def test_the_worst_picture_is_not_too_large(tmp_path: Path, name: str) -> None:
    path = tmp_path / "singles.layout"
    path.write_text(SINGLES)
    model = layout(plan_specs([path], {})[0], name)
    plane = make_plane(of_layout(model, 8, (32, 256)), (), 32, 256)
    assert sum(1 for _ in plane.cells()) == 32 * 256
    text = draw([plane])
    assert len(text.encode()) <= KILOBYTES_300
    assert len(read(text, 32, 256, 8)[0].bytes) == 32 * 256


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_a_large_window_of_each_layout_is_not_too_large(plans: tuple[SpecPlan, ...], name: str) -> None:
    model = layout(plans, name)
    bits = 8 if 8 in model.widths else model.widths[0]
    least = tuple(max(n, m) for n, m in zip(tile_extents(model, bits), (1, 32, 256)[-len(model.axes) :], strict=True))
    plane = make_plane(of_layout(model, bits, legal_extents([model], bits, least)), (), 32, 256)
    assert len(draw([plane]).encode()) <= KILOBYTES_300


# --- tables on a terminal ---


def test_the_table_has_the_numbers_of_the_formula(plans: tuple[SpecPlan, ...]) -> None:
    plane = make_plane(of_layout(layout(plans, "mxfp8_a_tiles"), 8, (32, 256)), (), 16, 128)
    text = table([plane], 100, False)
    assert max(map(len, text.splitlines())) <= 100
    wanted = expected("mxfp8_a_tiles", plane, (0, 0))
    found: dict[tuple[int, int], str] = {}
    columns: list[int] = []
    for line in text.splitlines():
        if line.startswith("row \\ k"):
            columns = [int(word.partition("–")[0]) for word in line.split()[3:]]
            continue
        numbers = re.findall(r"(\d+–\d+) L(\d+)", line)
        if not numbers:
            continue
        row = int(line.split()[0])
        for column, (said, lane) in zip(columns, numbers, strict=True):
            first, count = elements(said, 8)
            found |= {(row, column + n): str(first + n) for n in range(count)}
            assert int(lane) == 16 * (column // 16 % 4) + row % 16
    assert found == wanted


def test_the_table_shows_pads_tiles_segments_and_differences(plans: tuple[SpecPlan, ...]) -> None:
    padded = table([make_plane(of_layout(layout(plans, "e8m0_shuffle"), 8, (40, 6)))], 120, False)
    assert "(5): pad, filled with 0x7F" in padded
    assert re.search(r"^ +pad +\(288\) L8 ", padded, re.MULTILINE)
    parted = table([field(plans, "w13", (752, 0), 32, 64)], 120, False)
    assert re.search(r"^gate 767 .*\n +-+\n +up 768 ", parted, re.MULTILINE)
    tiled = table([field(plans, "w13", (752, 0), 32, 128)], 120, False)
    assert "  |  64–95" in tiled
    pair = [make_plane(of_layout(m, 8, (32, 256)), (), 16, 128) for m in (layout(plans, "mxfp8_a_tiles"), None)]
    assert "*128–255" not in table(pair[:1], 120, False)
    assert re.search(r"^ +1 +\*256–383", table(pair, 120, False), re.MULTILINE)


def test_colours_only_where_they_are_wanted(plans: tuple[SpecPlan, ...]) -> None:
    planes = [make_plane(of_layout(layout(plans, "shuffle_16x16"), 8, (16, 32)))]
    plain, coloured = table(planes, 100, False), table(planes, 100, True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain != coloured


# --- what is refused ---


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shuffle_16x61", "did you mean `shuffle_16x16`"),
        ("w31", "did you mean `w13`"),
        ("SparseMoeLayer.w31", "did you mean `w13`"),
        ("SparseMoelayer.w13", "did you mean `SparseMoeLayer`"),
    ],
)
def test_a_misspelt_name_has_a_suggestion(plans: tuple[SpecPlan, ...], name: str, hint: str) -> None:
    with pytest.raises(Unfound, match=hint):
        find(name, plans)


def test_extents_that_a_layout_refuses(plans: tuple[SpecPlan, ...]) -> None:
    model = layout(plans, "mxfp8_a_tiles")
    with pytest.raises(DrawError, match="row is 20 in storage, not a multiple of the 16 that `r` make"):
        of_layout(model, 8, (20, 256))
    with pytest.raises(DrawError, match=r"`require row % 32 == 0` does not hold"):
        of_layout(model, 8, (16, 256))
    with pytest.raises(DrawError, match="axes row, k: 2 numbers expected, found 1"):
        of_layout(model, 8, (32,))
    with pytest.raises(DrawError, match="row 32 is outside the tensor, whose row is 32"):
        make_plane(of_layout(model, 8, (32, 256)), (32, 0))
    with pytest.raises(DrawError, match=r"33 x 256 elements are too many for a picture, which has 8,192 at most"):
        make_plane(of_layout(model, 8, (64, 256)), (), 33, 256)
