"""The operand table, and the C++ header made of it, against closed formulas that share no code with them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mono_gen.archs import ARCHS
from mono_gen.operands import LANES, ROWS, OperandMap, OperandRow, by_instruction, maps_header, rows_text
from tests.reference import operands as reference

Place = tuple[int, int]


def holders(tile: tuple[int, int], holder: reference.Holder) -> dict[Place, Place]:
    """Return (lane, element) -> coordinates of every element of a tile, by a closed formula."""
    return {holder(row, k): (row, k) for row in range(tile[0]) for k in range(tile[1])}


def of_map(held: OperandMap) -> dict[Place, tuple[int, ...]]:
    """Return (lane, element) -> coordinates, by the table."""
    return {(lane, e): held.held(lane, e) for lane in range(LANES) for e in range(held.elements)}


def differing(rows: tuple[OperandRow, ...]) -> list[str]:
    """Return the maps of a table that are not the formulas'."""
    found = []
    for row in rows:
        k, holder = reference.DATA[row.instruction, row.elements]
        maps = [("data", row.data, (16, k), holder), ("accumulator", row.accumulator, (16, 16), reference.accumulator)]
        if row.scale is not None:
            maps.append(("scale", row.scale, (16, k // 32), reference.scale))
        found += [
            f"{row.instruction} {row.elements} {what}"
            for what, held, tile, formula in maps
            if of_map(held) != holders(tile, formula)
        ]
    return found


def test_the_table_is_the_formulas() -> None:
    assert {(row.instruction, row.elements) for row in ROWS} == set(reference.DATA)
    assert {row.instruction for row in ROWS if row.scale is not None} == {reference.SCALED}
    assert not differing(ROWS)


CONTIGUOUS = OperandMap(("row = r:16", "k = g:4 b:32"), "lane g r | element b", "FlyDSL")
LANES_BY_K = OperandMap(("row = r:16", "k = g:4 e:8"), "lane r g | element e", "nobody")
BLOCKS_BY_ROW = OperandMap(("row = r:16", "block = g:4"), "lane r g", "nobody")
TRANSPOSED = OperandMap(("row = i:16", "col = g:4 e:4"), "lane g i | element e", "nobody")


def test_the_atom_that_dissents_is_another_map() -> None:
    assert of_map(CONTIGUOUS) == holders((16, 128), reference.dissent_fp8) != of_map(ROWS[2].data)


@pytest.mark.parametrize(
    ("index", "changes", "what"),
    [
        (2, {"data": CONTIGUOUS}, "mfma_scale_f32_16x16x128_f8f6f4 fp8 data"),
        (0, {"data": LANES_BY_K}, "mfma_f32_16x16x32_fp8_fp8 fp8 data"),
        (3, {"scale": BLOCKS_BY_ROW}, "mfma_scale_f32_16x16x128_f8f6f4 fp4 scale"),
        (1, {"accumulator": TRANSPOSED}, "mfma_f32_16x16x32_bf16 bf16 accumulator"),
    ],
)
def test_another_map_is_seen(index: int, changes: dict[str, OperandMap], what: str) -> None:
    rows = (*ROWS[:index], replace(ROWS[index], **changes), *ROWS[index + 1 :])
    assert differing(rows) == [what]


def test_lanes_hold_each_element_of_a_tile_once() -> None:
    for row in ROWS:
        for held in (row.data, row.accumulator, *([row.scale] if row.scale else [])):
            tile = {(i, k) for i in range(held.extents[0]) for k in range(held.extents[1])}
            assert len(of_map(held)) == len(tile)
            assert set(of_map(held).values()) == tile


@pytest.mark.parametrize(
    ("splits", "order"),
    [
        (("row = r:16", "k = g:4 e:8"), "lane g r | element g"),
        (("row = r:16", "k = g:4 e:8"), "lane g r"),
        (("row = r:16", "k = g:4 e:8"), "lane g r | element e x"),
        (("row = r:16", "k = g:2 e:8"), "lane g r | element e"),
        (("row = r:16", "k = g:4 e:8"), "lane g e | element r"),
    ],
)
def test_a_row_that_is_no_map_is_refused(splits: tuple[str, str], order: str) -> None:
    with pytest.raises(ValueError, match=r"does not hold each element|lanes, not 64"):
        OperandMap(splits, order, "nobody")


def test_maps_of_different_tiles_make_no_row() -> None:
    scaled = ROWS[2]
    for changes in ({"scale": TRANSPOSED}, {"accumulator": scaled.data}, {"data": ROWS[0].data}):
        with pytest.raises(ValueError, match="not of one tile"):
            replace(scaled, **changes)


def test_rows_of_one_instruction_share_all_but_their_data() -> None:
    for changes in ({"archs": ("gfx942",)}, {"scale": BLOCKS_BY_ROW}, {"accumulator": TRANSPOSED}):
        with pytest.raises(ValueError, match="differ in more than their data"):
            by_instruction((*ROWS[:3], replace(ROWS[3], **changes)))


def test_every_map_names_its_source_and_none_was_seen_on_hardware() -> None:
    for row in ROWS:
        assert all(held.source for held in (row.data, row.accumulator, *([row.scale] if row.scale else [])))
        assert not row.confirmed
        assert set(row.archs) == reference.ARCHS[row.instruction]
        assert all(ARCHS[name].wave == LANES for name in row.archs)
    assert "FlyDSL" in ROWS[2].data.source


# --- as C++ ---

PRINT = """
#include "mfma_maps.hpp"
#include <cstdio>
template <class T, int N> void print(const char* name, const T (&lanes)[64][N]) {
    for (int l = 0; l < 64; ++l) for (int e = 0; e < N; ++e) std::printf("%s %d %d %d\\n", name, l, e, lanes[l][e]);
}
template <class T> void print(const char* name, const T (&lanes)[64]) {
    for (int l = 0; l < 64; ++l) std::printf("%s %d 0 %d\\n", name, l, lanes[l]);
}
using namespace mono::maps;
int main() {
"""


def arrays() -> dict[str, tuple[str, int, tuple[int, int], reference.Holder]]:
    """Return, by a name, the C++ expression of each array, which coordinate it is, its tile and its formula."""
    found = {}
    for (instruction, elements), (k, holder) in reference.DATA.items():
        name = f"{instruction}::{elements}" if instruction == reference.SCALED else instruction
        members: list[tuple[str, str, int, tuple[int, int], reference.Holder]] = []
        for operand, first in (("a", "row"), ("b", "col")):
            members += [(name, f"{operand}_{first}", 0, (16, k), holder), (name, f"{operand}_k", 1, (16, k), holder)]
            if instruction == reference.SCALED:
                tile = (16, k // 32)
                members += [(instruction, f"{operand}_scale_{first}", 0, tile, reference.scale)]
                members += [(instruction, f"{operand}_scale_block", 1, tile, reference.scale)]
        members += [(instruction, "d_row", 0, (16, 16), reference.accumulator)]
        members += [(instruction, "d_col", 1, (16, 16), reference.accumulator)]
        found |= {f"{scope}::{member}": (f"{scope}::{member}", *rest) for scope, member, *rest in members}
    return found


def printed(header: str, folder: Path) -> dict[str, dict[Place, int]]:
    """Return what a program prints that was compiled with the header: (lane, element) -> coordinate, by array."""
    (folder / "mfma_maps.hpp").write_text(header)
    body = "".join(f'    print("{name}", {expression});\n' for name, (expression, *_) in arrays().items())
    tiles = {name: k for (name, _), (k, _) in reference.DATA.items()}
    constants = "".join(f"    static_assert({n}::kRows == 16 && {n}::kK == {k});\n" for n, k in tiles.items())
    block = f"    static_assert({reference.SCALED}::kBlock == 32 && {reference.SCALED}::fp4::kElements == 32);\n"
    (folder / "print.cpp").write_text(f"{PRINT}{constants}{block}{body}}}\n")
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "print.cpp", "-o", "print"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[Place, int]] = {}
    for line in subprocess.run([folder / "print"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, lane, element, value = line.split()
        found.setdefault(name, {})[int(lane), int(element)] = int(value)
    return found


def wrong_arrays(header: str, folder: Path) -> set[str]:
    """Return the arrays of a header that are not the formulas'."""
    found = printed(header, folder)
    return {
        name
        for name, (_, coordinate, tile, holder) in arrays().items()
        if found[name] != {place: at[coordinate] for place, at in holders(tile, holder).items()}
    }


def test_the_header_is_the_formulas(tmp_path: Path) -> None:
    assert not wrong_arrays(maps_header(), tmp_path)


def test_another_header_is_seen(tmp_path: Path) -> None:
    rows = (*ROWS[:2], replace(ROWS[2], data=CONTIGUOUS), ROWS[3])
    scope = f"{reference.SCALED}::fp8"
    assert wrong_arrays(maps_header(rows), tmp_path) == {f"{scope}::a_k", f"{scope}::b_k"}


def test_the_text_has_a_line_for_each_lane_of_each_operand() -> None:
    lines = rows_text().splitlines()
    assert "mfma_scale_f32_16x16x128_f8f6f4.d fp4*fp8 lane 17: 4,1 5,1 6,1 7,1" in lines
    assert "mfma_scale_f32_16x16x128_f8f6f4.a_scale fp8*fp4 byte 3 lane 39: 7,2" in lines
    assert "mfma_f32_16x16x32_fp8_fp8.b fp8*fp8 lane 17: 1,8 1,9 1,10 1,11 1,12 1,13 1,14 1,15" in lines
    assert len(lines) == len(set(lines)) == 64 * (2 * 3 + 4 * (3 + 2 * 4))


@pytest.mark.parametrize(("arguments", "lines"), [((), 3200), (("gfx942",), 192), (("gfx1250",), 0)])
def test_the_command_prints_the_table_of_an_arch(arguments: tuple[str, ...], lines: int) -> None:
    command = [sys.executable, "-m", "mono_gen.operands", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == lines
