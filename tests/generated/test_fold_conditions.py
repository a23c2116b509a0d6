"""What a fold requires: its static assertions agree with enumeration, and each says what is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mono_gen.algebra.layout import offset
from mono_gen.algebra.template import bind, smallest_extents
from mono_gen.plan.layouts import is_legal, legal_extents
from mono_gen.plan.model import SpecPlan
from tests.generated.dump import LayoutCase, Numbers, Part, constant_part, loops, run_parts
from tests.generated.headers import compiled, must_compile

SPECS = ("aiter", "minimax_m3", "corners")
WIDTHS = (4, 8)
UNITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


@dataclass(frozen=True, slots=True)
class Truth:
    """What enumeration says of a fold of a layout at its extents.

    facts:   by the header's names: whether each requirement holds.
    tiles:   bytes of tile (R, C); lanes: bytes of lane l. Where the requirements hold.
    dwords:  whether all bytes of a lane lie in one dword, which the tile alone chooses.
    """

    facts: dict[str, bool]
    tiles: Numbers
    lanes: Numbers
    dwords: bool


def fold_cases(plan: SpecPlan) -> Iterator[LayoutCase]:
    """Yield the layouts of two axes at two widths, six tiles an axis where they are legal there."""
    for layout in plan.layouts:
        for bits in (b for b in layout.model.widths if b in WIDTHS and len(layout.model.axes) == 2):
            extents = smallest_extents(layout.model.template, bits, tiles=6)
            if not is_legal(layout.model, extents, bits):
                extents = legal_extents(layout.model, bits) or extents
            yield LayoutCase(layout, bits, bind(layout.model.template, extents, bits))


def places_of_axes(case: LayoutCase) -> tuple[Numbers, Numbers]:
    """Return the offset of each row at k 0, and of each k at row 0; all others are their sums."""
    rows, ks = (np.arange(n, dtype=np.int64) for n in case.bound.padded)
    return offset(case.bound, (rows, 0 * rows)), offset(case.bound, (0 * ks, ks))  # type: ignore[arg-type, return-value]


def is_cut(places: Numbers, unit: int) -> bool:
    """Return whether every coordinate lies where its multiple of unit and its rest say."""
    at = np.arange(len(places))
    return len(places) % unit == 0 and bool(np.all(places == places[at // unit * unit] + places[at % unit]))


def truth(case: LayoutCase, rows: int, ks: int, piece: int) -> Truth:
    """Return what enumeration says."""
    by_row, by_k = places_of_axes(case)
    bits = case.bits
    tiles = (by_row[::rows, None] + by_k[None, ::ks]).ravel() * bits
    lane = np.arange(rows * (ks // piece))
    pieces = np.minimum(piece * (lane // rows), len(by_k) - 1)
    lanes = (by_row[np.minimum(lane % rows, len(by_row) - 1)] + by_k[pieces]) * bits
    facts = {
        "kCutsRows": is_cut(by_row, rows),
        "kCutsKs": is_cut(by_k, ks),
        "kCutsPieces": is_cut(by_k, piece),
        "kContiguous": bool(np.all(by_k[:piece] == np.arange(len(by_k[:piece])))),
        "kWholeBytes": not np.any(tiles % 8) and not np.any(lanes % 8) and piece * bits % 8 == 0,
    }
    apart = by_row[::rows, None] % 4 + by_k[None, ::ks] % 4  # the byte of a dword, as R and C choose it apart
    in_dword = bits == 8 and not np.any(lanes // 8 % 4) and bool(np.all(apart + piece <= 4))
    return Truth(facts, tiles // 8, lanes // 8, all(facts.values()) and in_dword)


def chosen_folds(case: LayoutCase) -> Iterator[tuple[tuple[int, int, int], Truth]]:
    """Yield folds of a layout: two that hold, and two that break different requirements."""
    scattered = random.Random(f"{case.plan.model.name} {case.bits}")
    units = [[u for u in UNITS if u <= n] for n in case.bound.padded]
    every = [(r, k, p) for r, k, p in product(units[0], units[1], units[1]) if k % p == 0 and r * (k // p) <= 256]
    scattered.shuffle(every)
    held, broken = 0, set()
    for fold in every[:60]:
        found = truth(case, *fold)
        wrong = frozenset(name for name, holds in found.facts.items() if not holds)
        if (not wrong and held < 2) or (wrong and wrong not in broken and len(broken) < 2):
            held, broken = held + (not wrong), broken | ({wrong} if wrong else set())
            yield fold, found


def parts_of(spec: str, case: LayoutCase, fold: tuple[int, int, int], found: Truth) -> Iterator[Part]:
    """Yield what the header says of a fold."""
    rows, ks, piece = fold
    layout = f"mono::{spec}::{case.plan.model.name}<{', '.join(map(str, (*case.extents, case.bits)))}>"
    arguments = f"{layout}, {rows}, {ks}, {piece}, {rows * (ks // piece)}"
    what = f"{case.plan.model.name} of {case.bits} bits at {case.extents}, {fold}"
    using = f"    using G = mono::{spec}::detail::wave_fold_facts<{arguments}>;\n"
    # A requirement is asked where those before it hold: the rest is not worked out for such a fold.
    asked: dict[str, int] = {}
    for name, holds in found.facts.items():
        asked[name] = holds
        if not holds and name not in ("kCutsRows", "kCutsKs"):
            break
        if name == "kCutsPieces" and not (asked["kCutsRows"] and asked["kCutsKs"]):
            break
    yield constant_part(f"{what}: facts", "G", using, {**asked, "kDwords": found.dwords})
    if not all(found.facts.values()):
        return
    using = f"    using F = mono::{spec}::wave_fold<{arguments}>;\n"
    tiles = (case.bound.padded[0] // rows, case.bound.padded[1] // ks)
    yield Part(f"{what}: uniform", using + loops(tiles, ["R", "C"], "put(F::uniform(R, C));"), found.tiles)
    yield Part(f"{what}: lane", using + loops((len(found.lanes),), ["l"], "put(F::lane(l));"), found.lanes)
    grid = found.tiles.reshape(tiles)
    chunks, step = chunk_step(grid)
    align = int(np.gcd.reduce([*found.tiles, *found.lanes, 256]))
    constants = {"kStepChunks": chunks, "kStep": step, "kAlignBytes": align & -align}
    constants["kPieceBytes"] = piece * case.bits // 8
    if found.dwords:
        by_dword = grid // 4
        constants |= {"kSelectRows": shared(by_dword), "kSelectChunks": shared(by_dword.T)}
        body = loops(tiles, ["R", "C"], "{ put(F::dword(R, C)); put(F::select(R, C)); }")
        yield Part(f"{what}: dword", using + body, np.stack([found.tiles // 4 * 4, found.tiles % 4], axis=1).ravel())
    yield constant_part(f"{what}: constants", "F", using, constants)


def chunk_step(tiles: Numbers) -> tuple[int, int]:
    """Return the fewest chunks after which every tile has moved by the same bytes, and these bytes."""
    count = tiles.shape[1]
    if count == 1:
        return 1, 0
    for n in range(1, count):
        moved = tiles[:, n:] - tiles[:, :-n]
        if np.all(moved == moved[0, 0]):
            return n, int(moved[0, 0])
    raise AssertionError("the last chunk is one step from the first")


def shared(dwords: Numbers) -> int:
    """Return the most tiles along the first axis, in groups of so many from 0 on, that have one dword."""
    count = len(dwords)
    fits = [n for n in range(1, count + 1) if all(np.all(dwords[i] == dwords[i // n * n]) for i in range(count))]
    return max(fits)


@pytest.mark.parametrize("spec", SPECS)
def test_the_requirements_are_those_of_enumeration(
    spec: str, spec_plans: dict[str, SpecPlan], header_folder: Path
) -> None:
    parts, held, broken = [], 0, set()
    for case in fold_cases(spec_plans[spec]):
        for fold, found in chosen_folds(case):
            parts += list(parts_of(spec, case, fold, found))
            held += all(found.facts.values())
            broken |= {name for name, holds in found.facts.items() if not holds}
    wrong = []
    for what, numbers, expected in run_parts(parts, spec, header_folder):
        if not np.array_equal(numbers, expected):
            wrong.append(f"{what}: {numbers[:12]}, not {expected[:12]}")
    assert not wrong, f"{len(wrong)} of {len(parts)}\n" + "\n".join(wrong[:20])
    assert held > 10 and broken == set(found.facts)


KINDS = {
    # Segments padded one by one, on their own and as scales; 64-bit offsets; 4-bit elements beyond 2^31; gate and up
    # interleaved; a run-time axis; rows of 10 fp4.
    "apart": ("2, 64, 2", 100, 256),
    "apart_s": ("2, 4, 1, 8", 100, 8),
    "wide": ("16, 64, 16", 65536, 65536),
    "many": ("16, 128, 32", 65536, 49152),
    "gate_up": ("16, 128, 32", 128, 256),
    "gate_up_s": ("16, 4, 1", 128, 8),
    "row": ("64, 1, 1", 640, 7),
    "nibbles": ("1, 2, 2, 1", 6, 10),
    "e": ("4, 16, 1", 8, 16),
}


def kind_part(tensor: str) -> Part:
    """Return the part that counts elements of a tensor that its fold puts elsewhere than its offsets do."""
    numbers, rows, ks = KINDS[tensor]
    row, k, piece = (int(n) for n in numbers.split(", ")[:3])
    # About 40 tiles an axis, the last among them.
    step_row, step_k = (max(1, n // 40) for n in (rows // row, ks // k))
    code = f"""    using T = mono::corners::{tensor};
    using Int = T::offset_axes::offset_t;
    using F = mono::corners::wave_fold<T, {numbers}>;
    long long wrong = 0, asked = 0;
    for (Int R = {rows // row - 1}; R >= 0; R -= {step_row}) for (Int C = {ks // k - 1}; C >= 0; C -= {step_k})
        for (int l = 0; l < F::kLanes; ++l) for (int i = 0; i < {piece}; ++i, ++asked) {{
            const long long byte = 0LL + F::uniform(R, C) + F::lane(l);
            const auto place = T::inner({row} * R + l % {row}, {k} * C + {piece} * (l / {row}) + i);
            wrong += code(place) != 2 * byte + i * F::kBits / 4;
        }}
    put(wrong);
    put(asked > 0);"""
    return Part(tensor, code, np.array([0, 1]))


def test_folds_of_every_kind_of_tensor_are_its_offsets(header_folder: Path) -> None:
    found = run_parts([kind_part(tensor) for tensor in KINDS], "corners", header_folder)
    assert [what for what, numbers, expected in found if list(numbers) != list(expected)] == []


def test_folds_where_one_tile_or_one_dword_is_all(header_folder: Path) -> None:
    checks = """#include "aiter.hpp"
#include "minimax_m3.hpp"
using namespace mono;
using Dword = aiter::wave_fold<aiter::e8m0_tiles<32, 8, 8>, 16, 4, 1, 64>;
static_assert(Dword::kSelectRows == 2 && Dword::kSelectChunks == 2 && Dword::kStepChunks == 1 && Dword::kStep == 2);
static_assert(Dword::dword(1, 1) == 0 && Dword::select(1, 1) == 3 && Dword::uniform(1, 1) == 3);
using Tile = aiter::wave_fold<aiter::shuffle_16x16<16, 64, 8>, 16, 64, 16, 64>;
static_assert(Tile::kStepChunks == 1 && Tile::kStep == 0 && Tile::uniform(0, 0) == 0 && Tile::lane(63) == 1008);
using Halves = minimax_m3::row_fold<minimax_m3::g_in, 6144, 3072>;
static_assert(Halves::kAlignBytes == 256 && Halves::kStep == 0 && Halves::lane(1) == 6144 && Halves::lane(2) == 0);
"""
    (header_folder / "one_tile.cpp").write_text(checks)
    must_compile(["g++", "-std=c++17", "-fsyntax-only", "one_tile.cpp"], header_folder)


def test_folds_of_one_axis(header_folder: Path) -> None:
    """`vec` is n = h:2 N b:4 stored N h b: 4 elements lie together; a run-time axis has tiles without end."""
    checks = """#include "corners.hpp"
#include "minimax_m3.hpp"
using namespace mono;
constexpr bool are_offsets() {
    using F = corners::row_fold<corners::vec, 4>;
    for (int R = 0; R < 6; ++R) {
        for (int l = 0; l < 64; ++l) {
            if (F::uniform(R) + F::lane(l) != corners::vec::inner(4 * R + l % 4)) return false;
        }
    }
    return F::kStepRows == 3 && F::kStep == 4 && F::kLanes == 4 && F::kPieceBytes == 1;
}
static_assert(are_offsets());
using Norm = minimax_m3::row_fold<minimax_m3::g_in, 6144, 8>;
static_assert(Norm::kPieceBytes == 16 && Norm::kLanes == 768 && Norm::lane(767) == minimax_m3::g_in::offset(6136));
namespace of = corners::detail;
using Moved = of::shifted<of::axis<of::digit<96, 1>>, of::shift<48, 16>>;
static_assert(Moved::cuts(16) && !Moved::cuts(3), "3 divides 48 and 96, and not the 16 that storage lies further");
using Unknown = corners::row_fold<corners::k, 64>;
static_assert(Unknown::uniform(3) + Unknown::lane(5) == corners::k::offset(197) && Unknown::kStep == 256);
"""
    (header_folder / "one_axis.cpp").write_text(checks)
    must_compile(["g++", "-std=c++17", "-fsyntax-only", "one_axis.cpp"], header_folder)


REFUSED = {
    "rows that do not divide": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 24, 16, 16, 24>", "cut the tensor's rows"),
    "rows inside a digit": ("aiter::wave_fold<aiter::e8m0_tiles<96, 24, 8>, 24, 4, 1, 96>", "cut the tensor's rows"),
    "rows across segments": ("corners::wave_fold<corners::apart, 4, 32, 2>", "cut the tensor's rows"),
    "ks that do not divide": ("minimax_m3::wave_fold<minimax_m3::s2, 16, 16, 1, 256>", "cut the tensor's k"),
    "ks inside a digit": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 24, 8, 48>", "ks must cut the tensor's k"),
    "a piece across digits": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 96, 12, 128>", "piece must cut"),
    "a piece in two places": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 32, 64, 32>", "must lie together"),
    "a piece of 128 k": ("minimax_m3::wave_fold<minimax_m3::sh_w13, 16, 128, 32>", "must lie together"),
    "half a wave": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 64, 32>", "must be the lanes of a wave"),
    "two waves": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 128, 16>", "must be the lanes of a wave"),
    "the wave of another arch": (
        "minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 64, 16, 32>",
        "must be the lanes of a wave",
    ),
    "no piece": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 64, 0>", "must be 1 or more"),
    "a piece that does not divide ks": ("minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 64, 24>", "a multiple of piece"),
    "half a byte": ("minimax_m3::wave_fold<minimax_m3::w13, 16, 4, 1>", "a piece must be whole bytes"),
    "one axis": ("minimax_m3::wave_fold<minimax_m3::s_qkv, 16, 4, 1>", "must have two inner axes"),
    "two axes": ("minimax_m3::row_fold<minimax_m3::w_qkv, 16>", "must have one inner axis"),
    "rows of a vector": ("minimax_m3::row_fold<minimax_m3::s_qkv, 24>", "row_fold: rows must cut"),
    "a vector in two places": ("corners::row_fold<corners::vec, 12, 12>", "row_fold: the elements of a piece must lie"),
    "no wave given": ("aiter::wave_fold<aiter::e8m0_tiles<96, 24, 8>, 16, 4, 1>", "wrong number of template arguments"),
}
CALLS = {
    "a dword of 16-byte pieces": "minimax_m3::wave_fold<minimax_m3::w_qkv, 16, 64, 16>::dword(0, 0)",
    "a select where lanes share dwords": "corners::wave_fold<corners::wide_rows, 50, 4, 1, 200>::select(0, 0)",
}


def refusal(use: str, folder: Path) -> str:
    """Return what g++ says of a program that it must refuse."""
    includes = "".join(f'#include "{spec}.hpp"\n' for spec in SPECS if f"{spec}::" in use)
    (folder / "refused.cpp").write_text(f"{includes}using namespace mono;\nauto used() {{ return {use}; }}\n")
    done = compiled(["g++", "-std=c++17", "-fsyntax-only", "refused.cpp"], folder)
    assert done.returncode != 0, use
    return done.stderr


@pytest.mark.parametrize("name", REFUSED)
def test_a_fold_that_does_not_hold_is_refused(name: str, header_folder: Path) -> None:
    fold, says = REFUSED[name]
    said = refusal(f"{fold}::kLanes", header_folder)
    first = next(line for line in said.splitlines() if "error:" in line)
    assert says in first, said
    if "arguments" not in says:
        assert fold.split("<")[1].split(",")[0].split("::")[-1] in said  # the tensor is named


@pytest.mark.parametrize("name", CALLS)
def test_a_dword_that_does_not_hold_is_refused(name: str, header_folder: Path) -> None:
    assert "wave_fold: no dword: R and C must choose" in refusal(CALLS[name], header_folder)
