"""A C++ program that writes what a header says of every element, and the same numbers from the algebra.

A place is written as 2 * byte + nibble, so that one number serves every width.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mono_gen.algebra.layout import Layout, offset
from mono_gen.algebra.template import bind
from mono_gen.model import TensorModel
from mono_gen.plan.layouts import legal_extents
from mono_gen.plan.model import GroupPlan, LayoutPlan, SpecPlan, TensorPlan
from tests.generated.headers import must_compile

Numbers = NDArray[np.int64]

PROLOGUE = """#include <cstdio>
#include <type_traits>
#include <vector>
static std::vector<long long> out;
template <class T> long long code(T at) {
    if constexpr (std::is_integral_v<T>) { return 2LL * at; } else { return 2LL * at.byte + at.nibble; }
}
template <class T> void put(T value) { out.push_back(static_cast<long long>(value)); }
"""
EPILOGUE = """
    std::fwrite(out.data(), sizeof(long long), out.size(), stdout);
    return 0;
}
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the program's output: what it is, the C++ that writes it, and what must be written."""

    what: str
    code: str
    expected: Numbers


def run_parts(parts: list[Part], spec: str, folder: Path) -> list[tuple[str, Numbers, Numbers]]:
    """Return (what, found, expected) of each part, all of them compiled and run as one program."""
    functions = [f"static void part_{i}() {{\n{part.code}\n}}\n" for i, part in enumerate(parts)]
    calls = [f"    part_{i}();" for i in range(len(parts))]
    text = [f'#include "{spec}.hpp"\n', PROLOGUE, *functions, "int main() {\n", "\n".join(calls), EPILOGUE]
    (folder / f"dump_{spec}.cpp").write_text("".join(text))
    must_compile(["g++", "-std=c++17", "-O1", f"dump_{spec}.cpp", "-o", f"dump_{spec}"], folder)
    with (folder / f"dump_{spec}.bin").open("wb") as file:
        subprocess.run([folder / f"dump_{spec}"], stdout=file, check=True)
    found = np.fromfile(folder / f"dump_{spec}.bin", dtype=np.int64)
    assert len(found) == sum(len(part.expected) for part in parts)
    ends = np.cumsum([len(part.expected) for part in parts])
    pieces = np.split(found, ends[:-1])
    return [(part.what, piece, part.expected) for part, piece in zip(parts, pieces, strict=True)]


# --- layouts ---


@dataclass(frozen=True, slots=True)
class LayoutCase:
    """A layout at extents: two tiles an axis, pads live wherever its rules allow it."""

    plan: LayoutPlan
    bits: int
    bound: Layout

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the logical extents."""
        return self.bound.extents


def layout_cases(plan: SpecPlan) -> list[LayoutCase]:
    """Return each layout of a spec at each of its widths."""
    cases = []
    for layout in plan.layouts:
        for bits in layout.model.widths:
            extents = legal_extents(layout.model, bits)
            assert extents is not None, layout.model.name
            cases.append(LayoutCase(layout, bits, bind(layout.model.template, extents, bits)))
    return cases


def places(elements: Numbers, bits: int) -> Numbers:
    """Return element offsets as 2 * byte + nibble."""
    return elements if bits == 4 else elements * (bits // 8) * 2


def layout_parts(spec: str, case: LayoutCase) -> Iterator[Part]:
    """Yield what the header says of a layout: every element by coordinates, by digits, by the fold; its sizes."""
    bound, bits = case.bound, case.bits
    name = f"{case.plan.model.name} of {bits} bits at {case.extents}"
    cpp = f"mono::{spec}::{case.plan.model.name}<{', '.join(str(n) for n in (*case.extents, bits))}>"
    using = f"    using L = {cpp};\n"
    grid = [np.asarray(g, dtype=np.int64).ravel() for g in np.indices(case.extents)]
    coordinates = [f"c{i}" for i in range(len(grid))]
    yield Part(
        f"{name}, offset",
        using + loops(case.extents, coordinates, f"put(code(L::offset({', '.join(coordinates)})));"),
        places(offset(bound, tuple(grid)), bits),  # type: ignore[arg-type]
    )
    sizes = [d.size for d in bound.digits]
    values = [np.asarray(g, dtype=np.int64).ravel() for g in np.indices(sizes)]
    expected = places(sum((v * d.stride for v, d in zip(values, bound.digits, strict=True)), np.int64(0)), bits)
    digits = [f"d{i}" for i in range(len(sizes))]
    yield Part(f"{name}, digits", using + loops(sizes, digits, f"put(code(L::digits({', '.join(digits)})));"), expected)
    fold = folded("L", case.plan.groups, bound, bits, digits)
    if fold:
        yield Part(f"{name}, fold", using + loops(sizes, digits, f"put({fold});"), expected)
    constants = {
        "kBytes": bound.span * bits // 8,
        "kId": case.plan.id,
        **{f"kExtent_{a}": n for a, n in zip(case.plan.model.axes, bound.extents, strict=True)},
        **{f"kPadded_{a}": n for a, n in zip(case.plan.model.axes, bound.padded, strict=True)},
        **{f"kSize_{d.name}": d.size for d in bound.digits},
        **{f"kStride_{d.name}": d.stride for d in bound.digits},
        **{f"kStep_{d.name}": d.stride * bits // 8 for d in bound.digits if d.stride * bits % 8 == 0},
        **group_sizes(case.plan.groups, bound, bits),
    }
    yield constant_part(f"{name}, constants", "L", using, constants)
    if bits == 8 and (select := select_call(case.plan.groups, bound, "L")):
        yield Part(f"{name}, select", using + select, np.arange(4, dtype=np.int64))


def loops(sizes: tuple[int, ...] | list[int], names: list[str], body: str) -> str:
    """Return nested loops over all values, the last name fastest."""
    heads = [f"for (int {name} = 0; {name} < {size}; ++{name})" for name, size in zip(names, sizes, strict=True)]
    return "    " + " ".join(heads) + f" {body}"


def group_digits(groups: tuple[GroupPlan, ...], label: str) -> tuple[str, ...]:
    """Return the digits of a group, empty where the store does not name it."""
    return next((g.digits for g in groups if g.label == label), ())


def folded(cpp: str, groups: tuple[GroupPlan, ...], bound: Layout, bits: int, values: list[str]) -> str:
    """Return an element's place as tile + lane + position in the lane, empty where no lane holds whole bytes."""
    tile, lane, byte = (group_digits(groups, label) for label in ("tile", "lane", "byte"))
    by_name = {d.name: d for d in bound.digits}
    value = {d.name: v for d, v in zip(bound.digits, values, strict=True)}
    if not groups or any(by_name[name].stride * bits % 8 for name in (*tile, *lane)):
        return ""
    if span(bound, byte) * bits % 8:
        return ""
    number = "0LL"
    for name in lane:
        number = f"({number} * {by_name[name].size} + {value[name]})"
    rest = ", ".join(value[d.name] if d.name in byte else "0" for d in bound.digits)
    parts = [f"L::tile({', '.join(value[n] for n in tile)})"] if tile else []
    parts += [f"L::lane({number})"] if lane else []
    return " + ".join([*(f"2LL * {p}" for p in parts), f"code(L::digits({rest}))"]).replace("L::", f"{cpp}::")


def span(bound: Layout, names: tuple[str, ...]) -> int:
    """Return the elements that digits span, gaps included; 1 for none."""
    first = next((d for d in bound.digits if names and d.name == names[0]), None)
    return first.size * first.stride if first is not None else 1


def group_sizes(groups: tuple[GroupPlan, ...], bound: Layout, bits: int) -> dict[str, int]:
    """Return kTileBytes, kLanes and kLaneBytes of the groups that are there and hold whole bytes."""
    tile, lane, byte = (group_digits(groups, label) for label in ("tile", "lane", "byte"))
    sizes = {d.name: d.size for d in bound.digits}
    found = {}
    if tile and span(bound, (*lane, *byte)) * bits % 8 == 0:
        found["kTileBytes"] = span(bound, (*lane, *byte)) * bits // 8
    if lane:
        found["kLanes"] = prod(sizes[name] for name in lane)
    if lane and span(bound, byte) * bits % 8 == 0:
        found["kLaneBytes"] = span(bound, byte) * bits // 8
    return found


def select_call(groups: tuple[GroupPlan, ...], bound: Layout, cpp: str) -> str:
    """Return loops over the byte digits that write `select`, empty where a lane does not hold four elements."""
    byte = group_digits(groups, "byte")
    sizes = {d.name: d.size for d in bound.digits}
    if not byte or prod(sizes[name] for name in byte) != 4 or span(bound, byte) != 4:
        return ""
    names = [f"d{i}" for i in range(len(byte))]
    return loops([sizes[n] for n in byte], names, f"put({cpp}::select({', '.join(names)}));")


def constant_part(what: str, cpp: str, using: str, constants: dict[str, int]) -> Part:
    """Return the part that writes constants of a class."""
    code = using + "\n".join(f"    put({cpp}::{name});" for name in constants)
    return Part(what, code, np.array([n - 2**64 if n >= 2**63 else n for n in constants.values()], dtype=np.int64))


# --- tensors of fields ---


def tensor_parts(spec: str, struct: str, field_id: int, plan: TensorPlan, layout: LayoutPlan | None) -> Iterator[Part]:
    """Yield what the header says of a tensor at its real shape: bases of all items, samples each way, constants."""
    model, bits = plan.model, plan.model.element.bits
    cpp = f"mono::{spec}::{struct}::{model.name}"
    using = f"    using F = {cpp};\n"
    items = [
        tuple(batch)
        for batch in product(*(range(5 if isinstance(n, str) else n) for n in model.extents[: model.batch]))
    ]
    if model.batch:
        code = "".join(f"    put(F::base({', '.join(str(i) for i in batch)}));\n" for batch in items)
        yield Part(f"{cpp}, base", using + code, np.array([base_of(plan, batch) for batch in items], dtype=np.int64))
    points = sample_points(plan)
    inner = [inner_elements(model, point[model.batch :]) for point in points]
    base = np.array([2 * base_of(plan, point[: model.batch]) for point in points], dtype=np.int64)
    within = places(np.array(inner, dtype=np.int64), bits)
    rows = [(*point, *digit_values(model, point[model.batch :])) for point in points]
    table = ", ".join("{" + ", ".join(f"{n}LL" for n in row) + "}" for row in rows)
    using += f"    static const long long at[][{len(rows[0])}] = {{{table}}};\n"
    names = [f"c[{i}]" for i in range(len(rows[0]))]
    batch, axes, digits = names[: model.batch], names[model.batch : len(model.axes)], names[len(model.axes) :]
    calls = [("offset", f"code(F::offset({', '.join((*batch, *axes))}))", base + within)]
    calls.append(("inner", f"code(F::inner({', '.join(axes)}))", within))
    if layout is not None:
        calls.append(("digits", f"code(F::digits({', '.join(digits)}))", within))
        fold = folded("F", layout.groups, model.bound, bits, digits)
        calls += [("fold", fold, within)] if fold else []
    for what, call, expected in calls:
        yield Part(f"{cpp}, {what}", using + f"    for (const auto& c : at) put({call});", expected)
    yield constant_part(f"{cpp}, constants", "F", f"    using F = {cpp};\n", tensor_constants(field_id, plan, layout))


def base_of(plan: TensorPlan, batch: tuple[int, ...]) -> int:
    """Return the bytes before an item: items are row-major, each as long as the layout's storage."""
    number = 0
    for extent, index in zip(plan.model.extents, batch, strict=False):
        number = number * (extent if isinstance(extent, int) else 1) + index
    return number * plan.item_bytes


def stored(model: TensorModel, inner: tuple[int, ...]) -> tuple[int, ...]:
    """Return the storage coordinates of logical ones."""
    axis = model.segment_axis - model.batch
    if not model.pad_each:
        return inner
    (segment,) = [s for s in model.segments if s.begin <= inner[axis] < s.end]
    return (*inner[:axis], inner[axis] - segment.begin + segment.padded_begin, *inner[axis + 1 :])


def inner_elements(model: TensorModel, inner: tuple[int, ...]) -> int:
    """Return the element offset inside an item, by the algebra."""
    if model.runtime_row:
        return inner[0] * model.bound.span + offset(model.bound, (0, *inner[1:]))
    return offset(model.bound, stored(model, inner))


def digit_values(model: TensorModel, inner: tuple[int, ...]) -> tuple[int, ...]:
    """Return the value of each digit of the layout; none where the order is row-major."""
    if model.layout is None:
        return ()
    at = stored(model, inner)
    return tuple(at[d.axis] // d.weight % d.size for d in model.bound.digits)


def sample_points(plan: TensorPlan) -> list[tuple[int, ...]]:
    """Return coordinates: the plan's own, the first and last of every axis, borders of segments, and scattered ones."""
    model = plan.model
    extents = tuple(9 if isinstance(n, str) else n for n in model.extents)
    points = {tuple(0 for _ in extents), tuple(n - 1 for n in extents), *(s.coordinates for s in plan.samples)}
    points |= {tuple(n - 1 if i == axis else 0 for i, n in enumerate(extents)) for axis in range(len(extents))}
    for segment in model.segments:
        for row in (segment.begin, segment.end - 1):
            points.add(tuple(row if i == model.segment_axis else n - 1 for i, n in enumerate(extents)))
    scattered = random.Random(model.name)
    points |= {tuple(scattered.randrange(n) for n in extents) for _ in range(100)}
    return sorted(points)


def tensor_constants(field_id: int, plan: TensorPlan, layout: LayoutPlan | None) -> dict[str, int]:
    """Return the constants of a tensor's class with their values."""
    model, bits = plan.model, plan.model.element.bits
    fixed = [n for n in model.extents[: model.batch] if isinstance(n, int)]
    found = {"kId": field_id, "kBits": bits, "kBytes": plan.item_bytes * prod(fixed)}
    found |= {f"kExtent_{a}": n for a, n in zip(model.axes, model.extents, strict=True) if isinstance(n, int)}
    for segment in model.segments:
        found |= {f"kBegin_{segment.name}": segment.begin, f"kEnd_{segment.name}": segment.end}
        if model.pad_each:
            found[f"kPaddedBegin_{segment.name}"] = segment.padded_begin
            found[f"kPaddedEnd_{segment.name}"] = segment.padded_end
    if model.runtime_dim is not None:
        found["bytes(7)"] = 7 * found["kBytes"]
    if layout is not None:
        found |= {f"kPadded_{a}": n for a, n in zip(model.axes[model.batch :], model.bound.padded, strict=True)}
        found |= {f"kStep_{d.name}": d.stride * bits // 8 for d in model.bound.digits if d.stride * bits % 8 == 0}
        sizes = group_sizes(layout.groups, model.bound, bits)
        found |= sizes if "kLaneBytes" in sizes else {}
    return found
