"""Every kind of assertion in a header fires: a header or a use of it that is wrong does not compile, and says why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from mono_gen.plan.model import SpecPlan
from tests.generated.headers import compiled, header, plans

GXX = ("g++", "-std=c++17", "-fsyntax-only")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of the text of a header that must not compile; `old` stands there at least once, the first goes."""

    spec: str
    old: str
    new: str
    says: str


MUTANTS = {
    "a sample of a layout": Mutant(
        "minimax_m3",
        "mxfp8_a_tiles<32, 256, 8>::offset(16, 128) == 6144",
        "mxfp8_a_tiles<32, 256, 8>::offset(16, 128) == 6145",
        "6144 == 6145",
    ),
    "a sample of a tensor": Mutant(
        "minimax_m3", "Nibble<long long>{9437183, 1}", "Nibble<long long>{9437183, 0}", "w13::offset"
    ),
    "digits exchanged in the formula": Mutant(
        "aiter",
        "(R * kStride_R + r * kStride_r + K * kStride_K + g * kStride_g + b)",
        "(R * kStride_R + g * kStride_r + K * kStride_K + r * kStride_g + b)",
        "static assertion failed",
    ),
    "a digit of the wrong stride": Mutant("minimax_m3", "kStride_half = 16;", "kStride_half = 32;", "mxfp8_a_tiles"),
    "the bytes of a tensor": Mutant("minimax_m3", "w_o::kBytes == 12582912", "w_o::kBytes == 12582913", "12582912 =="),
    "a tensor in another layout": Mutant(
        "minimax_m3", "sh_w2 : mxfp8_a_tiles<6144, 768, 8>", "sh_w2 : shuffle_16x16<6144, 768, 8>", "sh_w2::offset"
    ),
    "a digit of the wrong weight": Mutant(
        "minimax_m3", "k / 16 % 4, row % 16", "k / 32 % 4, row % 16", "mxfp8_a_tiles"
    ),
    "the logical extent where the padded one drives": Mutant(
        "aiter",
        "kSize_R = static_cast<offset_t>(kPadded_row / 32);\n"
        "    static constexpr offset_t kSize_K = static_cast<offset_t>(kPadded_k / 8);",
        "kSize_R = static_cast<offset_t>(kPadded_row / 32);\n"
        "    static constexpr offset_t kSize_K = static_cast<offset_t>(kExtent_k / 8);",
        "e8m0_shuffle<",
    ),
    "the stride of a batch dim": Mutant("minimax_m3", "return e * 4718592;", "return e * 4718593;", "w13::offset"),
    "extents of a tensor exchanged": Mutant(
        "minimax_m3", "shuffle_16x16<6144, 2048, 8>", "shuffle_16x16<2048, 6144, 8>", "w_o::offset"
    ),
    "two pointers of a table exchanged": Mutant(
        "minimax_m3",
        "const void* sh_w13;\n        const void* sh_s13;",
        "const void* sh_s13;\n        const void* sh_w13;",
        "MONO_OFFSETOF",
    ),
    "a pointer of a table dropped": Mutant("minimax_m3", "        void* scratch;\n", "", "sizeof"),
    "a pointer of a table narrowed": Mutant(
        "minimax_m3",
        "        void* iq_out;\n        void* scratch;",
        "        int iq_out;\n        int scratch;",
        "k1_args",
    ),
}

USES = {
    "extents that do not divide": ("aiter::shuffle_16x16<33, 64, 8>::kBytes", "shuffle_16x16: row % 16 == 0"),
    "a byte count": ("aiter::shuffle_16x16<32, 48, 16>::offset(0, 0)", "shuffle_16x16: k % 32 == 0"),
    "a stated rule": ("minimax_m3::mxfp8_a_tiles<16, 256, 8>::kBytes", "mxfp8_a_tiles: row % 32 == 0"),
    "no extent": ("aiter::shuffle_16x16<0, 64, 8>::kBytes", "shuffle_16x16: row >= 1"),
    "a width of no element": ("aiter::shuffle_16x16<32, 64, 12>::kBytes", "elements of 4, 8, 16, 32, 64 bits"),
    "padded extents below the logical ones": (
        "aiter::e8m0_shuffle<300, 8, 8, 256, 8>::kBytes",
        "e8m0_shuffle: padded row >= row",
    ),
    "padded extents that do not divide": (
        "aiter::e8m0_shuffle<100, 8, 8, 130, 8>::kBytes",
        "e8m0_shuffle: padded row % 32 == 0",
    ),
    "a pitch that is too narrow": ("corners::pitched_flat<2, 100, 8>::kBytes", "pitch row = 72 spans what lies inside"),
    "a step of half a byte": ("0 + aiter::shuffle_16x16<32, 64, 4>::kStep_b", "NotWholeBytes"),
    "half a byte in all": (
        "corners::pitched_flat<1, 3, 8>::kBytes + minimax_m3::page16_v<3, 3, 4>::kBytes",
        "whole bytes in all",
    ),
    "a lane of half a byte": ("corners::one_each<2, 64, 4>::lane(1)", "one_each: a step of l is whole bytes"),
    "a select of wider elements": ("aiter::e8m0_tiles<32, 8, 16>::select(0, 0)", "a lane holds 4 elements of 8 bits"),
    "a fold that the store does not name": ("minimax_m3::page16_v<16, 128, 8>::tile(0, 0)", "is not a member"),
    "a length for a tensor that has one": ("minimax_m3::w_qkv::bytes(2)", "is not a member"),
    "the extent of a run-time axis": ("minimax_m3::w13::kExtent_e", "is not a member"),
    "a nibble taken for bytes": ("static_cast<long long>(minimax_m3::w13::offset(0, 0, 0))", "invalid"),
}


def refused(folder: Path, name: str, text: str) -> str:
    """Return what g++ says of a text that it must refuse."""
    (folder / name).write_text(text)
    done = compiled([*GXX, name], folder)
    assert done.returncode != 0, f"{name} compiles"
    return done.stderr


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_header_does_not_compile(name: str, spec_plans: dict[str, SpecPlan], tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    text = header(spec_plans[mutant.spec])
    assert mutant.old in text
    assert mutant.says in refused(tmp_path, "mutant.cpp", text.replace(mutant.old, mutant.new, 1))


@pytest.mark.parametrize("name", USES)
def test_a_wrong_use_does_not_compile(name: str, header_folder: Path) -> None:
    use, says = USES[name]
    includes = "".join(f'#include "{spec}.hpp"\n' for spec in ("aiter", "minimax_m3", "corners"))
    text = f"{includes}using namespace mono;\nauto use() {{ return {use}; }}\n"
    assert says in refused(header_folder, f"use_{re.sub('[^a-z]', '_', name)}.cpp", text)


def test_two_versions_of_a_spec_in_one_file_say_so(spec_plans: dict[str, SpecPlan], tmp_path: Path) -> None:
    (tmp_path / "one.hpp").write_text(header(spec_plans["minimax_m3"]))
    (tmp_path / "other.hpp").write_text(header(plans({"minimax_m3.TP": 2})["minimax_m3"]))
    said = refused(tmp_path, "both.cpp", '#include "one.hpp"\n#include "other.hpp"\n')
    assert "two versions of mono::minimax_m3 in one translation unit" in said


def test_every_plain_sample_is_believed(spec_plans: dict[str, SpecPlan], tmp_path: Path) -> None:
    """All samples of a header moved by one byte at once: the compiler refuses each of them."""
    text = header(spec_plans["minimax_m3"])
    sample = r"^(static_assert\(\S+::(?:offset\([^)]*\)|kBytes)) == (\d+(?:LL)?)\);$"
    samples = re.findall(sample, text, re.MULTILINE)
    moved = re.sub(sample, r"\1 == \2 + 1);", text, flags=re.MULTILINE)
    said = refused(tmp_path, "moved.cpp", moved)
    assert len(samples) > 60
    assert said.count("static assertion failed") == len(samples)
