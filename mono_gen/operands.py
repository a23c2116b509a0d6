"""The closed table of operand maps: which element of its tile each lane of a matrix instruction holds.

Maps are written as the language writes layouts: digits slowest first, then the order of lanes and of a lane's elements.
`python -m mono_gen.operands [ARCH]` prints the table a lane a line, as `kernels/probe.hip` prints what a GPU does;
`maps_header()` (`--header`) is the table as C++ arrays, which the host build of the kernels models the instructions by.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from mono_gen.algebra.layout import Layout, coordinates_at
from mono_gen.algebra.monomial import Size
from mono_gen.algebra.template import AxisTemplate, Factor, StoreGroup, Template, bind, smallest_extents, store_faults

LANES = 64
"""Lanes a wave of every arch that has these instructions."""

BLOCK = 32
"""Elements of k that share a scale."""

SELECTS = 4
"""Bytes of a scale operand's dword, one of which `op_sel` takes."""


@dataclass(frozen=True)
class OperandMap:
    """A map (lane, element) -> coordinates of a tile, in digits.

    splits: the axes with the sizes of their digits, as in `k = half:2 g:4 b:16`.
    order:  the digits of lanes, then of a lane's elements, as in `lane g r | element half b`.
    source: where the map comes from.
    Raises: ValueError, unless 64 lanes hold each element of the tile exactly once.
    """

    splits: tuple[str, str]
    order: str
    source: str

    def __post_init__(self) -> None:
        axes = self._template.axes
        faults = store_faults(tuple(f.name for axis in axes for f in axis.factors), self._template.order)
        if faults:
            raise ValueError(f"`{self.order}` does not hold each element of {self.splits} once: {faults}")
        if self.lanes != LANES:
            raise ValueError(f"`{self.order}` has {self.lanes} lanes, not {LANES}")

    @cached_property
    def _template(self) -> Template:
        axes = []
        for split in self.splits:
            name, digits = split.split(" = ")
            parts = [part.split(":") for part in digits.split()]
            axes.append(AxisTemplate(name, None, tuple(Factor(digit, Size(int(size))) for digit, size in parts)))
        groups = [group.split() for group in self.order.split(" | ")]
        return Template(tuple(axes), tuple(StoreGroup(label, tuple(digits)) for label, *digits in groups), None, ())

    @cached_property
    def layout(self) -> Layout:
        """Return the map as a layout of the tile, whose offsets are lane * elements + element."""
        return bind(self._template, smallest_extents(self._template, 8), 8)

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the tile's axes."""
        return tuple(axis.name for axis in self._template.axes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the tile's extents."""
        return self.layout.extents

    @property
    def lane_digits(self) -> tuple[str, ...]:
        """Return the digits that lanes count, slowest first."""
        return self._template.store[0].digits

    @property
    def lanes(self) -> int:
        """Return how many lanes hold the tile."""
        return prod(d.size for d in self.layout.digits if d.name in self.lane_digits)

    @property
    def elements(self) -> int:
        """Return how many elements a lane holds."""
        return self.layout.span // self.lanes

    def held(self, lane: int, element: int) -> tuple[int, ...]:
        """Return the coordinates of the element that a lane holds at a place."""
        found = coordinates_at(self.layout, lane * self.elements + element)
        assert found is not None, "a map without gaps"
        return found


@dataclass(frozen=True)
class OperandRow:
    """What an instruction takes for one type of elements.

    bits:        width of an element.
    archs:       those that have the instruction; all with waves of 64.
    data:        A's (lane, element) -> (row, k); B holds columns where A holds rows. Element 0 is the lowest bits of
                 the first register.
    scale:       (lane) -> (row, 32-block of k) that the lane's scale byte multiplies, whichever byte `op_sel` takes;
                 None for an instruction without scales. Not always the k that the lane holds.
    accumulator: (lane, register) -> (row, column).
    confirmed:   the hardware on which `kernels/probe.hip` printed these maps; empty: none yet.
    """

    instruction: str
    elements: str
    bits: int
    archs: tuple[str, ...]
    data: OperandMap
    scale: OperandMap | None
    accumulator: OperandMap
    confirmed: str = ""

    def __post_init__(self) -> None:
        rows, k = self.data.extents
        if self.accumulator.extents != (rows, rows) or (
            self.scale is not None and self.scale.extents != (rows, k // BLOCK)
        ):
            raise ValueError(f"the maps of {self.instruction} are not of one tile")


_CALCULATOR = "AMD's matrix instruction calculator, v_mfma_f32_16x16x32_fp8_fp8"
_TESTS = "composable_kernel's test/mx_mfma_op/mx_mfma_op.hpp"

_ROW = "row = r:16"
_ACCUMULATOR = OperandMap(("row = g:4 e:4", "col = j:16"), "lane g j | element e", _CALCULATOR)
_SCALE = OperandMap((_ROW, "block = g:4"), "lane g r", f"{_TESTS}: a lane's scale is that of block lane / 16")

ROWS = (
    OperandRow(
        "mfma_f32_16x16x32_fp8_fp8",
        "fp8",
        8,
        ("gfx942", "gfx950"),
        OperandMap((_ROW, "k = g:4 e:8"), "lane g r | element e", _CALCULATOR),
        None,
        _ACCUMULATOR,
    ),
    OperandRow(
        "mfma_f32_16x16x32_bf16",
        "bf16",
        16,
        ("gfx950",),
        OperandMap(
            (_ROW, "k = g:4 e:8"),
            "lane g r | element e",
            "vLLM's kernels of models/minimax_m3/amd/mono: comments and arithmetic of the index scorer",
        ),
        None,
        _ACCUMULATOR,
    ),
    OperandRow(
        "mfma_scale_f32_16x16x128_f8f6f4",
        "fp8",
        8,
        ("gfx950",),
        OperandMap(
            (_ROW, "k = half:2 g:4 b:16"),
            "lane g r | element half b",
            f"{_TESTS} and Triton's kWidth of dot_scaled, which agree; FlyDSL's atom dissents: k contiguous in a lane",
        ),
        _SCALE,
        _ACCUMULATOR,
    ),
    OperandRow(
        "mfma_scale_f32_16x16x128_f8f6f4",
        "fp4",
        4,
        ("gfx950",),
        OperandMap(
            (_ROW, "k = g:4 b:32"),
            "lane g r | element b",
            f"{_TESTS} and Triton's kWidth of dot_scaled, which agree",
        ),
        _SCALE,
        _ACCUMULATOR,
    ),
)


def by_instruction(rows: tuple[OperandRow, ...] = ROWS) -> dict[str, tuple[OperandRow, ...]]:
    """Return the rows of each instruction, which share its archs, its scale map and its accumulator.

    Raises: ValueError, where they do not.
    """
    found: dict[str, tuple[OperandRow, ...]] = {}
    for row in rows:
        first = found.setdefault(row.instruction, ())[:1]
        if any((f.archs, f.scale, f.accumulator) != (row.archs, row.scale, row.accumulator) for f in first):
            raise ValueError(f"two rows of {row.instruction} differ in more than their data")
        found[row.instruction] += (row,)
    return found


# --- the table as text ---


def rows_text(rows: tuple[OperandRow, ...] = ROWS) -> str:
    """Return the table a lane a line: `INSTRUCTION.OPERAND TYPES lane L: row,k row,k ...`, TYPES those of A and B."""
    lines: list[str] = []
    for name, group in by_instruction(rows).items():
        for a, b in product(group, repeat=2):
            types = f"{a.elements}*{b.elements}"
            lines += _lane_lines(f"{name}.a {types}", a.data)
            lines += _lane_lines(f"{name}.b {types}", b.data)
            if a.scale is not None:
                for operand, select in product("ab", range(SELECTS)):
                    lines += _lane_lines(f"{name}.{operand}_scale {types} byte {select}", a.scale)
            lines += _lane_lines(f"{name}.d {types}", a.accumulator)
    return "".join(f"{line}\n" for line in lines)


def _lane_lines(head: str, held: OperandMap) -> Iterator[str]:
    for lane in range(LANES):
        pairs = (held.held(lane, element) for element in range(held.elements))
        yield f"{head} lane {lane}: {' '.join(f'{row},{k}' for row, k in pairs)}"


# --- the table as C++ ---


def maps_header(rows: tuple[OperandRow, ...] = ROWS) -> str:
    """Return the table as a C++ header of constants: a struct an instruction, in it one an element type if scaled."""
    lines = [
        "// The operand table of mono_gen/operands.py: what lane l holds at element e. Generated, never edited.",
        "#pragma once",
        "",
        "namespace mono {",
        "namespace maps {",
    ]
    for name, group in by_instruction(rows).items():
        row_count, k = group[0].data.extents
        lines += ["", f"struct {name} {{", f"    static constexpr int kRows = {row_count}, kK = {k};"]
        scale = group[0].scale
        if scale is None:
            lines += _data_arrays(group[0].data, "    ")
        else:
            lines += [f"    static constexpr int kBlock = {BLOCK};"]
            for row in group:
                lines += [f"    struct {row.elements} {{", *_data_arrays(row.data, "        "), "    };"]
            for operand, axis in (("a", "row"), ("b", "col")):
                lines += _array(f"{operand}_scale_{axis}", scale, 0, "    ")
                lines += _array(f"{operand}_scale_block", scale, 1, "    ")
        lines += _array("d_row", group[0].accumulator, 0, "    ")
        lines += _array("d_col", group[0].accumulator, 1, "    ")
        lines += ["};"]
    lines += ["", "}  // namespace maps", "}  // namespace mono"]
    return "".join(f"{line}\n" for line in lines)


def _data_arrays(data: OperandMap, indent: str) -> list[str]:
    lines = [f"{indent}static constexpr int kElements = {data.elements};"]
    for operand, axis in (("a", "row"), ("b", "col")):
        lines += _array(f"{operand}_{axis}", data, 0, indent)
        lines += _array(f"{operand}_k", data, 1, indent)
    return lines


def _array(name: str, held: OperandMap, axis: int, indent: str) -> list[str]:
    """Return the declaration of one coordinate of a map, a lane a line; without elements, 16 lanes a line."""
    values = [[held.held(lane, element)[axis] for element in range(held.elements)] for lane in range(LANES)]
    if "| element" in held.order:
        bounds = f"[{LANES}][{held.elements}]"
        rows = [f"{{{', '.join(map(str, row))}}}," for row in values]
    else:
        bounds = f"[{LANES}]"
        flat = [row[0] for row in values]
        rows = [f"{', '.join(map(str, flat[at : at + 16]))}," for at in range(0, LANES, 16)]
    head = f"{indent}static constexpr unsigned char {name}{bounds} = {{"
    return [head, *(f"{indent}    {row}" for row in rows), f"{indent}}};"]


if __name__ == "__main__":
    of_arch = tuple(row for row in ROWS if set(sys.argv[1:]) <= {*row.archs})
    sys.stdout.write(maps_header() if sys.argv[1:] == ["--header"] else rows_text(of_arch))
