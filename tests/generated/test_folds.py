"""Folds over a wave reproduce the addresses that the vendor's kernels write by hand, and the header's own offsets.

Each row is a tensor that a public kernel reads: what lane l of row group rg and chunk kc reads, and from which byte.
The formulas are the kernels', and share no code with mono_gen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mono_gen.pipeline import plan_specs
from tests.generated.dump import Part, constant_part, loops, run_parts
from tests.generated.headers import ROOT, header
from tests.reference import layouts as reference

N = Any  # an int, or an int64 array
EXPERTS = (0, 1, 70, 128)


@dataclass(frozen=True, slots=True)
class Row:
    """What lane l reads of a tensor, at row group rg and chunk kc.

    extents:  (row, k) or (row, block), in elements.
    fold:     rows, ks, piece: `piece` elements of row rows * rg + l % rows, from ks * kc + piece * (l / rows) on.
    address:  the byte over (e, rg, kc, lane), as the kernel has it.
    """

    tensor: str
    layout: str
    extents: tuple[int, int]
    bits: int
    fold: tuple[int, int, int]
    address: Callable[[N, N, N, N], N]
    experts: tuple[int, ...] = ()

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Return how many values e, rg, kc and l take."""
        rows, ks, _ = self.fold
        return len(self.experts) or 1, self.extents[0] // rows, self.extents[1] // ks, 64

    def grid(self) -> tuple[N, N, N, N]:
        """Return e, rg, kc and l of all reads, in the order of loops."""
        e, rg, kc, lane = (np.asarray(a, dtype=np.int64).ravel() for a in np.indices(self.counts))
        return np.array(self.experts or (0,), dtype=np.int64)[e], rg, kc, lane


def scale(e: N, rg: N, kc: N, lane: N, pairs: int, chunk_pairs: int) -> N:
    """Return the byte of a scale: the dword of two row groups and two chunks, and the byte in it."""
    return ((e * pairs + rg // 2) * chunk_pairs + kc // 2) * 256 + 4 * lane + 2 * (kc % 2) + rg % 2


FP8, FP4, E8M0 = (16, 64, 16), (16, 128, 32), (16, 4, 1)
TABLE = (
    Row("w_qkv", "shuffle_16x16", (2560, 6144), 8, FP8, lambda e, rg, kc, lane: (rg * 192 + 2 * kc) * 512 + 16 * lane),
    Row("w_o", "shuffle_16x16", (6144, 2048), 8, FP8, lambda e, rg, kc, lane: (rg * 64 + 2 * kc) * 512 + 16 * lane),
    Row(
        *("w13", "shuffle_16x16", (1536, 6144), 4, FP4),
        lambda e, rg, kc, lane: e * 4718592 + (rg * 96 + 2 * kc) * 512 + 16 * lane,
        EXPERTS,
    ),
    Row(
        *("w2", "shuffle_16x16", (6144, 768), 4, FP4),
        lambda e, rg, kc, lane: e * 2359296 + (rg * 12 + 2 * kc) * 512 + 16 * lane,
        EXPERTS,
    ),
    Row("s13", "e8m0_shuffle", (1536, 192), 8, E8M0, lambda e, rg, kc, lane: scale(e, rg, kc, lane, 48, 24), EXPERTS),
    Row("s2", "e8m0_shuffle", (6144, 24), 8, E8M0, lambda e, rg, kc, lane: scale(e, rg, kc, lane, 192, 3), EXPERTS),
    # 32 bytes a lane of 128 k: k 16 g .. and 64 + 16 g .., two chunks of 64 to the fold.
    Row(
        *("sh_w13", "mxfp8_a_tiles", (1536, 6144), 8, FP8),
        lambda e, rg, kc, lane: (rg * 48 + kc // 2) * 2048 + 32 * lane + 16 * (kc % 2),
    ),
    Row(
        *("sh_w2", "mxfp8_a_tiles", (6144, 768), 8, FP8),
        lambda e, rg, kc, lane: (rg * 6 + kc // 2) * 2048 + 32 * lane + 16 * (kc % 2),
    ),
    Row("sh_s13", "e8m0_tiles", (1536, 192), 8, E8M0, lambda e, rg, kc, lane: scale(0, rg, kc, lane, 48, 24)),
    Row("sh_s2", "e8m0_tiles", (6144, 24), 8, E8M0, lambda e, rg, kc, lane: scale(0, rg, kc, lane, 192, 3)),
    # A wave an expert: rg is the expert.
    Row("gate", "", (128, 6144), 16, (1, 512, 8), lambda e, rg, kc, lane: 2 * (rg * 6144 + (64 * kc + lane) * 8)),
)
STEPS = {"w_qkv": (1, 1024), "sh_w13": (2, 2048), "sh_w2": (2, 2048)}
"""kStepChunks and kStep, where they are not (1, 1024) for weights and (2, 256) for scales."""
VECTORS = {"s_qkv": (16, 160), "s_o": (32, 192)}
"""Tensors of one axis: rows a task, tasks. Thread t reads 4 * (rows * task + t % rows)."""


def parts_of(row: Row) -> Iterator[Part]:
    """Yield what the program says of a row: the fold's bytes, and how many elements `offset` puts elsewhere."""
    rows, ks, piece = row.fold
    item, batch = ("T::base(at_e[e]) + ", "at_e[e], ") if row.experts else ("", "")
    using = f"    using namespace mono::minimax_m3;\n    using T = {row.tensor};\n"
    using += f"    using F = wave_fold<T, {rows}, {ks}, {piece}>;\n"
    using += f"    const long long at_e[] = {{{', '.join(map(str, row.experts))}}};\n" if row.experts else ""
    over = partial(loops, row.counts, ["e", "rg", "kc", "l"])
    start, address = f"{item}F::uniform(rg, kc) + F::lane(l)", row.address(*row.grid())
    yield Part(f"{row.tensor}, fold", using + over(f"put({start});"), address)
    element = f"T::offset({batch}{rows} * rg + l % {rows}, {ks} * kc + {piece} * (l / {rows}) + i)"
    check = f"for (int i = 0; i < {piece}; ++i) wrong += code({element}) != 2 * ({start}) + i * {row.bits} / 4;"
    wrong = f"    long long wrong = 0;\n{over(check)}\n    put(wrong);"
    yield Part(f"{row.tensor}, offset", using + wrong, np.zeros(1, dtype=np.int64))
    is_scale = row.fold == E8M0
    chunks, step = STEPS.get(row.tensor, (2, 256) if is_scale else (1, 1024))
    constants = {"kLanes": 64, "kStepChunks": chunks, "kStep": step, "kPieceBytes": 1 if is_scale else 16}
    constants |= {"kSelectRows": 2, "kSelectChunks": 2} if is_scale else {"kSelectRows": 1, "kSelectChunks": 1}
    yield constant_part(f"{row.tensor}, constants", "F", using, constants)
    if is_scale:
        body = f"{{ put({item}F::dword(rg, kc) + F::lane(l)); put(F::select(rg, kc)); }}"
        expected = np.stack([address // 4 * 4, address % 4], axis=1).ravel()
        yield Part(f"{row.tensor}, dword and select", using + over(body), expected)


def vector_part(tensor: str, rows: int, tasks: int) -> Part:
    """Return the part of a tensor of one axis, whose lanes are all threads of a block."""
    task, t = (np.asarray(a, dtype=np.int64).ravel() for a in np.indices((tasks, 512)))
    using = f"    using F = mono::minimax_m3::row_fold<mono::minimax_m3::{tensor}, {rows}>;\n"
    code = loops((tasks, 512), ["task", "t"], "put(F::uniform(task) + F::lane(t));")
    return Part(f"{tensor}, fold", using + code, 4 * (rows * task + t % rows))


def fused_shared_part() -> Part:
    """Return the part of the fused shared expert's half task j: gate rows on r < 8, up rows on r >= 8, in one tile."""
    j, kc, lane = (np.asarray(a, dtype=np.int64).ravel() for a in np.indices((96, 48, 64)))
    r, g = lane % 16, lane // 16
    row = np.where(r < 8, 8 * j + r, 768 + 8 * j + r - 8)
    expected = 128 * 4718592 + (row // 16 * 96 + 2 * kc) * 512 + (16 * g + row % 16) * 16
    code = """    using namespace mono::minimax_m3;
    using F = wave_fold<w13, 16, 128, 32>;
    for (int j = 0; j < 96; ++j) for (int kc = 0; kc < 48; ++kc) for (int l = 0; l < 64; ++l) {
        const int r = l % 16, g = l / 16, row = r < 8 ? 8 * j + r : static_cast<int>(w13::kBegin_up) + 8 * j + r - 8;
        const long long byte = w13::base(128) + w13::inner(row, 32 * g).byte + kc * F::kStep;
        put(byte == w13::base(128) + F::uniform(row / 16, kc) + F::lane(16 * g + row % 16) ? byte : -1);
    }"""
    return Part("w13, fused shared", code, expected)


def all_parts() -> list[Part]:
    """Return every row of the table as parts of one program."""
    rows = [part for row in TABLE for part in parts_of(row)]
    return [*rows, *(vector_part(name, *sizes) for name, sizes in VECTORS.items()), fused_shared_part()]


def test_folds_are_the_addresses_of_the_vendors_kernels(header_folder: Path) -> None:
    found = run_parts(all_parts(), "minimax_m3", header_folder)
    assert [what for what, numbers, expected in found if not np.array_equal(numbers, expected)] == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.tensor)
def test_the_vendors_addresses_are_the_layouts(row: Row) -> None:
    """What each kernel says that it reads lies where other people's formulas of the layout have it."""
    rows, ks, piece = row.fold
    e, rg, kc, lane = row.grid()
    at = (rows * rg + lane % rows, ks * kc + piece * (lane // rows))
    inner = row.address(0 * e, rg, kc, lane)
    if row.layout:
        assert np.array_equal(inner, reference.byte_offset(row.layout, at, row.extents, row.bits))
    else:
        assert np.array_equal(inner, (at[0] * row.extents[1] + at[1]) * row.bits // 8)


DIGITS = {
    "shuffle_16x16": ("lane g r | byte b", "lane r g | byte b", {"w_qkv", "w_o", "w13", "w2"}),
    "e8m0_shuffle": ("byte kh rh", "byte rh kh", {"s13", "s2"}),
    "mxfp8_a_tiles": ("lane g r | byte half b", "lane r g | byte half b", {"sh_w13", "sh_w2"}),
    "e8m0_tiles": ("tile R K | lane", "tile K R | lane", {"sh_s13", "sh_s2"}),
}
"""Two digits of a layout exchanged, and the tensors that then lie elsewhere."""


@pytest.mark.parametrize("layout", DIGITS)
def test_two_digits_exchanged_are_seen(layout: str, tmp_path: Path) -> None:
    old, new, tensors = DIGITS[layout]
    for source in (ROOT / "specs" / "minimax_m3.layout", ROOT / "mono_gen" / "library" / "aiter.layout"):
        (tmp_path / source.name).write_text(exchanged(source.read_text(), layout, old, new))
    plans, _ = plan_specs((tmp_path / "minimax_m3.layout",), {})
    (plan,) = (plan for plan in plans if plan.model.name == "minimax_m3")
    (tmp_path / "minimax_m3.hpp").write_text(header(plan))
    rows = [row for row in TABLE if row.layout == layout]
    assert {row.tensor for row in rows} == tensors
    parts = [part for row in rows for part in parts_of(replace(row, experts=row.experts[-1:]))]
    found = run_parts(parts, "minimax_m3", tmp_path)
    wrong = {what.split(",")[0] for what, numbers, expected in found if not np.array_equal(numbers, expected)}
    assert wrong == tensors


def exchanged(text: str, layout: str, old: str, new: str) -> str:
    """Return a spec with a layout's store order changed, and without the clauses that would refuse it."""
    before, found, after = text.partition(f"layout {layout}(")
    if not found:
        return text
    body, end, after = after.partition("\n}")
    assert old in body
    lines = [line for line in body.replace(old, new).splitlines() if not line.strip().startswith(("same as", "feeds"))]
    return before + found + "\n".join(lines) + end + after
