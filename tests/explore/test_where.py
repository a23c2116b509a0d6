"""Where elements lie, both ways: against closed formulas that import nothing of mono_gen, and back."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from mono_gen.explore.names import Found, Unfound, find_tensor
from mono_gen.explore.origins import covered_by, origins_of, rank_of, scale_of
from mono_gen.explore.runs import run_text, runs_of
from mono_gen.explore.where import at_byte, checked, checked_lane, lane_spots, locate
from mono_gen.pipeline import plan_specs
from tests.reference import layouts as reference

ROOT = Path(__file__).parents[2]
MINIMAX = ROOT / "specs" / "minimax_m3.layout"
CORNERS = ROOT / "tests" / "generated" / "specs" / "corners.layout"
LENGTHS = {"E": 129, "POS": 1000, "BLOCKS": 7, "N": 5, "A": 3, "R": 4}


@cache
def tensors(path: Path) -> dict[str, Found]:
    """Return every tensor of a spec's structs, by `Struct.name`."""
    plans, _ = plan_specs([path], {})
    return {
        f"{struct.model.name}.{tensor.model.name}": Found(plan, struct, field, index)
        for plan in plans
        for struct in plan.structs
        for field in struct.fields
        for index, tensor in enumerate(field.tensors)
    }


def lengths(found: Found) -> tuple[int, ...]:
    """Return the extents, with a length for run-time dims."""
    return tuple(LENGTHS[n] if isinstance(n, str) else n for n in found.tensor.model.extents)


def expected_bits(found: Found, at: tuple[int, ...]) -> int | None:
    """Return the bit offset by the closed formulas; None where there is none for the layout."""
    model = found.tensor.model
    name, bits, extents = model.layout_name, model.element.bits, lengths(found)
    if name == "row_major":
        index = 0
        for c, n in zip(at, extents, strict=True):
            index = index * n + c
        return index * bits
    if name not in reference.LAYOUTS:
        return None
    inner = extents[model.batch :]
    stored = reference.padded(name, inner, bits)
    item, index = bits, 0
    for n in stored:
        item *= n
    for c, n in zip(at[: model.batch], extents, strict=False):
        index = index * n + c
    return index * item + int(reference.LAYOUTS[name].bits(at[model.batch :], stored, bits))


def points(extents: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """Return corners and seeded random coordinates."""
    seeded = random.Random(11)
    found = [tuple(0 for _ in extents), tuple(n - 1 for n in extents)]
    return found + [tuple(seeded.randrange(n) for n in extents) for _ in range(count)]


EVERY = [(path, name) for path in (MINIMAX, CORNERS) for name in tensors(path)]


@pytest.mark.parametrize(("path", "name"), EVERY, ids=lambda value: getattr(value, "stem", value))
def test_coordinates_to_bytes_and_back(path: Path, name: str) -> None:
    found = tensors(path)[name]
    bits = found.tensor.model.element.bits
    for at in points(lengths(found), 25):
        spot = locate(found, checked(found, dict(zip(found.tensor.model.axes, at, strict=True))))
        want = expected_bits(found, at)
        if want is not None:
            assert (spot.byte, spot.nibble) == (want // 8, want % 8 // 4 if bits == 4 else None), at
        assert spot.element == sum(d.value * d.stride for d in spot.digits)
        for axis in range(found.tensor.model.batch, len(at)):
            assert spot.stored is not None
            assert spot.stored[axis] == sum(d.value * d.weight for d in spot.digits if d.axis == axis)
        for byte in {spot.byte, spot.byte + max(bits // 8, 1) - 1}:
            back = at_byte(found, byte)
            assert at in [s.at for s in back], (at, byte)
            assert spot in back


def test_every_layout_of_the_shipped_spec_has_a_closed_formula() -> None:
    assert all(
        expected_bits(found, tuple(0 for _ in lengths(found))) is not None for found in tensors(MINIMAX).values()
    )


def test_points_of_the_issue() -> None:
    spec = tensors(MINIMAX)
    w_qkv = locate(spec["SparseMoeLayer.w_qkv"], (3, 70))
    # tile K 2 of 512 bytes, the first half g 0, lane row 3 of 16 bytes, byte 6
    assert w_qkv.byte == 2 * 512 + 3 * 16 + 6
    assert {d.name: d.value for d in w_qkv.digits} == {"R": 0, "K": 2, "g": 0, "r": 3, "b": 6}
    w13 = locate(spec["SparseMoeLayer.w13"], (5, 800, 71))
    assert (w13.byte, w13.nibble) == (5 * 4718592 + 50 * 16 * 3072 + 35 // 16 * 256 + 35 % 16, 1)
    assert w13.segment is not None and (w13.segment.name, w13.segment.begin) == ("up", 768)
    sh_w13 = locate(spec["SparseMoeLayer.sh_w13"], (3, 70))
    assert sh_w13.byte == 0 * 2048 + 0 * 512 + 3 * 32 + 1 * 16 + 6


# --- lanes: what public kernels read, as closed formulas ---


def lane_16x16(row: int, k_bytes: int) -> tuple[int, int]:
    return 16 * (k_bytes % 32 // 16) + row % 16, k_bytes % 16


def lane_a_tiles(row: int, k: int) -> tuple[int, int]:
    return 16 * (k % 64 // 16) + row % 16, 16 * (k % 128 // 64) + k % 16


def lane_e8m0(row: int, block: int) -> tuple[int, int]:
    return 16 * (block % 4) + row % 16, 2 * (block % 8 // 4) + row % 32 // 16


LANES = {"shuffle_16x16": lane_16x16, "mxfp8_a_tiles": lane_a_tiles, "e8m0_shuffle": lane_e8m0, "e8m0_tiles": lane_e8m0}


@pytest.mark.parametrize("name", [n for n, f in tensors(MINIMAX).items() if f.tensor.model.layout is not None])
def test_lanes_both_ways(name: str) -> None:
    found = tensors(MINIMAX)[name]
    model = found.tensor.model
    bits = model.element.bits
    for at in points(lengths(found), 10):
        spot = locate(found, at)
        lane, inside, tile = spot.group("lane"), spot.group("byte"), spot.group("tile")
        assert lane is not None and inside is not None and tile is not None
        row, k = at[-2:]
        assert (lane.index, inside.index * bits // 8) == LANES[model.layout_name](row, k * bits // 8), at
        digits = checked_lane(found, lane.index, tuple(d.value for d in tile.digits))
        held = lane_spots(found, at[: model.batch], lane.index, digits)
        assert held[inside.index] == spot
        assert [s.byte * 8 + bits * (s.nibble or 0) for s in held] == list(
            range(held[0].byte * 8, held[0].byte * 8 + bits * len(held), bits)
        )


# --- pads ---


def test_every_byte_of_a_padded_scale_is_one_element_or_one_pad() -> None:
    found = tensors(CORNERS)["Derived.s"]  # e8m0[N, 32, 8] in e8m0_shuffle: rows padded to 256
    seen = {}
    for byte in range(3 * 2048, 4 * 2048):
        (spot,) = at_byte(found, byte)
        assert spot.byte == byte and spot.at[0] == 3
        assert spot.is_pad == (spot.at[1] is not None and spot.at[1] >= 32)
        assert locate(found, checked(found, dict(zip(found.tensor.model.axes, spot.at, strict=True)))) == spot  # type: ignore[arg-type]
        seen[spot.at[1:]] = byte
    assert set(seen) == {(row, block) for row in range(256) for block in range(8)}
    row, block = 40, 7
    assert (
        seen[row, block] == 3 * 2048 + row // 32 * 256 + block % 4 * 64 + row % 16 * 4 + block // 4 * 2 + row % 32 // 16
    )


def test_segments_that_are_padded_each() -> None:
    found = tensors(CORNERS)["Corners.apart_s"]  # 50, 10 and 40 rows, each padded to a multiple of 32
    begins = {"gate": (0, 50, 0), "mid": (50, 60, 64), "up": (60, 100, 96)}
    elements = set()
    for byte in range(1280):
        (spot,) = at_byte(found, byte)
        assert spot.stored is not None and spot.segment is not None
        begin, end, stored = begins[spot.segment.name]
        row = spot.stored[1] - stored + begin
        assert spot.at[1] == (row if row < end else None)
        assert spot.is_pad == (row >= end)
        if not spot.is_pad:
            elements.add(spot.at)
            assert locate(found, tuple(c for c in spot.at if c is not None)) == spot
    assert elements == {(0, row, block) for row in range(100) for block in range(8)}
    with pytest.raises(Unfound, match="0 to 99"):
        checked(found, {"i0": 0, "row": 100, "block": 0})


# --- what goes with an element ---


def test_the_scale_that_goes_with_an_element() -> None:
    spec = tensors(MINIMAX)
    for name, scales in (("w13", 192), ("w2", 24)):
        found = spec[f"SparseMoeLayer.{name}"]
        rows = found.tensor.model.extents[1]
        for e, row, k in points(lengths(found), 10):
            spot = locate(found, (e, row, k))
            scale = scale_of(found, spot)
            block = k // 32
            inner = reference.byte_offset("e8m0_shuffle", (row, block), (int(rows), scales), 8)
            assert scale is not None and scale.byte == e * int(rows) * scales + inner
            assert spot in covered_by(found.other(1), scale)
    found = spec["SparseMoeLayer.w_qkv"]
    scale = scale_of(found, locate(found, (77, 70)))
    assert scale is not None and (scale.at, scale.byte) == ((77,), 4 * 77)
    assert scale_of(spec["SparseMoeLayer.gate"], locate(spec["SparseMoeLayer.gate"], (1, 2))) is None


def test_the_data_that_a_scale_serves() -> None:
    found = tensors(MINIMAX)["SparseMoeLayer.s13"]
    spots = covered_by(found, locate(found, (5, 800, 3)))
    assert [s.at for s in spots] == [(5, 800, k) for k in range(96, 128)]
    first = 5 * 4718592 + reference.byte_offset("shuffle_16x16", (800, 96), (1536, 6144), 4)
    assert {s.byte for s in spots} == set(range(first, first + 16))


def test_gathered_rows_come_from_the_rank_that_has_them() -> None:
    found = tensors(MINIMAX)["CpSparseMoeLayer.w_qkv"]
    local = range(2560)  # q 2048, k 128, v 128, the rank's index_q 128, index_k 128
    own, gathered = list(local), []
    for rank in range(4):
        gathered += [(rank, row) for row in local[2304:2432]]
    expected = [(None, row) for row in own[:2304]] + gathered + [(None, row) for row in own[2432:]]
    assert len(expected) == 2944
    for row, (rank, theirs) in enumerate(expected):
        spot = locate(found, (row, 70))
        brought = rank_of(found, spot)
        assert (brought.rank if brought is not None else None) == rank
        data, scale = origins_of(found, spot)
        assert (data.index, data.byte) == ((theirs, 70), theirs * 6144 + 70)
        assert (scale.index, scale.byte) == ((theirs, 2), theirs * 192 + 2)


SOURCES = """
spec sources
arch gfx950
import "aiter.layout"

layout cut(row, k) {
    pad k to 32 fill 0x00
    split k = K b:16
    store tile row K | lane b
}

struct S(layer) {
    dim N
    cut_short : uint8[4, 24] { tile cut  convert uint8 row_major layer.cut_short }
    flat : bf16[64, 32] { tile row_major  view layer.flat as [8, 256] }
    cache : bf16[N, 64] { tile row_major  view layer.cache as [N * 4, 16] }
    deep : bf16[N, 64] { tile row_major  view layer.deep as [N * 4, 4, 4] }
    odd_dim : bf16[N, 64] { tile row_major  view layer.odd_dim as [16, N, 4] }
    tiled : uint8[32, 64] { tile row_major  convert uint8 shuffle_16x16 layer.tiled }
    w, s : ptpc_fp8[64, 128] { tile shuffle_16x16  convert mxfp8 row_major layer.w, layer.s via bf16 }
}
"""


def test_sources_of_other_shapes_and_orders(tmp_path: Path) -> None:
    path = tmp_path / "sources.layout"
    path.write_text(SOURCES)
    spec = tensors(path)

    def origin(name: str, *at: int) -> tuple[object, ...]:
        (found,) = origins_of(spec[f"S.{name}"], locate(spec[f"S.{name}"], at))
        return found.path, found.index, found.byte, found.is_view

    assert origin("flat", 9, 3) == ("layer.flat", divmod(9 * 32 + 3, 256), 2 * (9 * 32 + 3), True)
    assert origin("cache", 5, 33) == ("layer.cache", (5 * 4 + 2, 1), 2 * (5 * 64 + 33), True)
    assert origin("deep", 5, 33)[1] == (5 * 4 + 2, 0, 1)
    assert origin("odd_dim", 5, 33)[1] is None
    inside = reference.byte_offset("shuffle_16x16", (17, 40), (32, 64), 8)
    assert origin("tiled", 17, 40) == ("layer.tiled", divmod(inside, 64), inside, False)
    scale = spec["S.s"]
    data, scales = origins_of(scale, locate(scale, (9,)))
    assert (data.index, scales.index) == ((9, (0, 127)), (9, (0, 3)))


# --- what is refused ---


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("w_qkv", {"rwo": 3, "k": 70}, "did you mean `row`"),
        ("w_qkv", {"row": 3}, "`k` missing: w_qkv has the axes"),
        ("w_qkv", {"row": 2560, "k": 0}, "row of w_qkv is 2560, 0 to 2559"),
        ("w_qkv", {"row": -1, "k": 0}, "0 to 2559"),
        ("w13", {"e": 129, "row": 0, "k": 0}, r"E in \{128, 129\}, 0 to 128"),
        ("s13", {"e": 0, "row": 0, "k": 70}, "block = k / 32"),
        ("cos_sin", {"row": -1, "k": 0}, "POS, any length"),
    ],
)
def test_coordinates_that_are_not_there(name: str, given: dict[str, int], message: str) -> None:
    with pytest.raises(Unfound, match=message):
        checked(tensors(MINIMAX)[f"SparseMoeLayer.{name}"], given)


def test_every_wrong_coordinate_is_said_at_once() -> None:
    with pytest.raises(Unfound) as refusal:
        checked(tensors(MINIMAX)["SparseMoeLayer.w13"], {"e": 200, "row": 5000, "kk": 1})
    assert len(str(refusal.value).splitlines()) == 4


def test_a_run_time_dim_without_values_has_no_last_element() -> None:
    found = tensors(MINIMAX)["SparseMoeLayer.cos_sin"]
    assert locate(found, checked(found, {"row": 10**12, "k": 5})).byte == 2 * (10**12 * 64 + 5)
    assert at_byte(found, 2 * (10**12 * 64 + 5))[0].at == (10**12, 5)


@pytest.mark.parametrize(
    ("name", "byte", "message"),
    [
        ("w_qkv", 15728640, "15728640 bytes, 0 to 15728639"),
        ("w_qkv", -1, "0 to 15728639"),
        ("w13", 129 * 4718592, "for each E, at most 608698368"),
    ],
)
def test_bytes_that_are_not_there(name: str, byte: int, message: str) -> None:
    with pytest.raises(Unfound, match=message):
        at_byte(tensors(MINIMAX)[f"SparseMoeLayer.{name}"], byte)


@pytest.mark.parametrize(
    ("name", "lane", "tile", "message"),
    [
        ("w_qkv", 40, None, "32 lanes, 0 to 31; a wave of 64 takes 2 tiles: this is lane 8 of a later one"),
        ("w_qkv", -1, None, "0 to 31$"),
        ("w_qkv", 32, None, "lane 0 of a later one"),
        ("s13", 64, None, "64 lanes, 0 to 63$"),
        ("g_in", 0, None, "names no lanes"),
        ("w_qkv", 0, (1,), "takes 2 numbers: --tile R,K"),
        ("w_qkv", 0, (1, 192), "K is 192, and w_qkv has 192, 0 to 191"),
    ],
)
def test_lanes_that_are_not_there(name: str, lane: int, tile: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(Unfound, match=message):
        checked_lane(tensors(MINIMAX)[f"SparseMoeLayer.{name}"], lane, tile)


# --- names, runs ---


def test_a_bare_name_is_of_the_struct_that_declares_it_first() -> None:
    plans, _ = plan_specs([MINIMAX], {})
    assert find_tensor(plans, "w_qkv").name == "SparseMoeLayer.w_qkv"
    assert find_tensor(plans, "CpSparseMoeLayer.w_qkv").tensor.model.extents[0] == 2944
    corners, _ = plan_specs([CORNERS], {})
    own_first = tuple(sorted(corners, key=lambda plan: plan.model.name != "corners"))
    assert find_tensor(own_first, "w").name == "Derived.w"
    for text, message in (
        ("w_qvk", "did you mean `w_qkv`"),
        ("SparseMoelayer.w_qkv", "did you mean `SparseMoeLayer`"),
        ("CpSparseMoeLayer.w_qvk", "in struct `CpSparseMoeLayer`"),
        ("shuffle_16x16", "is a layout"),
        ("k1_args", "is a table of pointers"),
    ):
        with pytest.raises(Unfound, match=message):
            find_tensor(plans, text)


def test_a_run_ends_where_pads_begin_and_where_another_axis_moves(tmp_path: Path) -> None:
    path = tmp_path / "sources.layout"
    path.write_text(SOURCES)
    found = tensors(path)["S.cut_short"]
    runs = runs_of(at_byte(found, byte)[0] for byte in range(32, 64))
    assert [run_text(found.tensor.model, run) for run in runs] == ["row 1, k 0..23", "pad: row 1, k 24..31 of storage"]
    turning = runs_of(locate(found, at) for at in ((0, 0), (0, 1), (1, 1), (2, 1)))
    assert [run_text(found.tensor.model, run) for run in turning] == ["row 0, k 0..1", "row 1..2, k 1"]


def test_runs_follow_one_axis() -> None:
    found = tensors(MINIMAX)["SparseMoeLayer.sh_w13"]
    held = lane_spots(found, (), 17, checked_lane(found, 17, (1, 2)))
    assert [run_text(found.tensor.model, run) for run in runs_of(held)] == [
        "row 17, k 272..287",
        "row 17, k 336..351",
    ]
    scale = tensors(CORNERS)["Derived.s"]
    runs = runs_of(at_byte(scale, byte)[0] for byte in range(200, 208))
    assert [run_text(scale.tensor.model, run) for run in runs] == [
        f"n 0, row {row}, block {block}" for r in (2, 3) for block in (3, 7) for row in (r, 16 + r)
    ]
