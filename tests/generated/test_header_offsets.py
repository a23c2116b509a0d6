"""The header compiled with g++ == the plan's Python formulas == the algebra == other people's closed formulas."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mono_gen.algebra.layout import offset
from mono_gen.emit.python import emit_python
from mono_gen.plan.model import SpecPlan
from mono_gen.terms import evaluate
from tests.conftest import load_generated
from tests.generated.dump import (
    LayoutCase,
    Numbers,
    Part,
    base_of,
    constant_part,
    inner_elements,
    layout_cases,
    layout_parts,
    places,
    run_parts,
    sample_points,
    tensor_parts,
)
from tests.generated.headers import must_compile
from tests.reference import layouts as reference

NAMES = ("aiter", "minimax_m3", "inherited", "corners")


@pytest.fixture(scope="session")
def python_modules(tmp_path_factory: pytest.TempPathFactory, spec_plans: dict[str, SpecPlan]) -> dict[str, ModuleType]:
    """Return the Python module of each spec, from the same plans as the headers."""
    folder = tmp_path_factory.mktemp("modules")
    modules = {}
    for name, plan in spec_plans.items():
        for file in emit_python(plan):
            (folder / f"for_headers_{file.path}").write_text(file.text)
            modules[name] = load_generated(folder / f"for_headers_{file.path}")
    return modules


@pytest.mark.parametrize("name", NAMES)
def test_the_header_says_what_the_algebra_says(name: str, spec_plans: dict[str, SpecPlan], header_folder: Path) -> None:
    plan = spec_plans[name]
    parts = [part for case in layout_cases(plan) for part in layout_parts(name, case)]
    layouts = {layout.model.name: layout for layout in plan.layouts}
    for struct in plan.structs:
        for field in struct.fields:
            for tensor in field.tensors:
                layout = layouts[tensor.model.layout_name] if tensor.model.layout is not None else None
                parts += tensor_parts(name, struct.model.name, field.id, tensor, layout)
        parts.append(struct_part(name, plan, struct.model.name))
    wrong = []
    for what, found, expected in run_parts(parts, name, header_folder):
        if not np.array_equal(found, expected):
            at = int(np.flatnonzero(found != expected)[0])
            wrong.append(f"{what}: number {at} is {found[at]}, not {expected[at]}")
    assert not wrong, "\n".join(wrong[:20])


def struct_part(spec: str, plan: SpecPlan, name: str) -> Part:
    """Return the part that writes the ids that a kernel exports."""
    (struct,) = [s for s in plan.structs if s.model.name == name]
    ids = {f"kFieldIds[{i}]": field.id for i, field in enumerate(struct.fields)}
    cpp = f"mono::{spec}::{name}"
    return constant_part(f"{cpp}, ids", cpp, "", {"kStructId": struct.id, "kFieldCount": len(struct.fields), **ids})


def test_every_case_has_live_pads_and_two_tiles(spec_plans: dict[str, SpecPlan]) -> None:
    cases = [case for name in ("aiter", "minimax_m3", "corners") for case in layout_cases(spec_plans[name])]
    for case in cases:
        padded = [i for i, axis in enumerate(case.plan.model.template.axes) if axis.pad_to is not None]
        assert list(case.bound.live_pads) == padded, (case.plan.model.name, case.extents)
        for axis, template in enumerate(case.plan.model.template.axes):
            assert template.is_fixed or case.bound.padded[axis] > template.sized.at(case.bits), case.plan.model.name
    assert {4, 8, 16, 32, 64} == {case.bits for case in cases}


def expected_places(case: LayoutCase) -> tuple[list[Numbers], Numbers]:
    """Return the coordinates of all elements, and their places by the algebra."""
    grid = [np.asarray(g, dtype=np.int64).ravel() for g in np.indices(case.extents)]
    return grid, places(offset(case.bound, tuple(grid)), case.bits)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["aiter", "minimax_m3"])
def test_other_peoples_formulas_say_the_same(name: str, spec_plans: dict[str, SpecPlan]) -> None:
    compared = set()
    for case in layout_cases(spec_plans[name]):
        layout = case.plan.model.name
        if layout not in reference.LAYOUTS:
            continue
        grid, expected = expected_places(case)
        byte = reference.byte_offset(layout, tuple(grid), case.extents, case.bits)
        half = reference.nibble(layout, tuple(grid), case.extents, case.bits) if case.bits == 4 else 0
        assert np.array_equal(2 * byte + half, expected), (layout, case.bits)
        compared.add(layout)
    assert compared == {layout.model.name for layout in spec_plans[name].layouts} & set(reference.LAYOUTS)
    assert compared >= {layout.model.name for layout in spec_plans["aiter"].layouts} or name != "aiter"


@pytest.mark.parametrize("name", ["aiter", "minimax_m3", "corners"])
def test_the_python_offsets_say_the_same(
    name: str, spec_plans: dict[str, SpecPlan], python_modules: dict[str, ModuleType]
) -> None:
    for case in layout_cases(spec_plans[name]):
        grid, expected = expected_places(case)
        found = getattr(python_modules[name], f"offset_{case.plan.model.name}")(*grid, case.extents, case.bits)
        found = 2 * found[0] + found[1] if case.bits == 4 else 2 * found
        assert np.array_equal(found, expected), (case.plan.model.name, case.bits)
    for struct in spec_plans[name].structs:
        generated = getattr(python_modules[name], struct.model.name)
        for tensor in (t for field in struct.fields for t in field.tensors):
            model = tensor.model
            for point in sample_points(tensor):
                at = inner_elements(model, point[model.batch :])
                expected = 2 * base_of(tensor, point[: model.batch]) + int(places(np.int64(at), model.element.bits))
                values = dict(zip(model.axes, point, strict=True))
                nibble = evaluate(tensor.nibble, values) if tensor.nibble is not None else 0
                assert 2 * evaluate(tensor.byte, values) + nibble == expected
                found = getattr(generated, f"offset_{model.name}")(*point)
                found = 2 * found[0] + found[1] if model.element.bits == 4 else 2 * found
                assert found == expected, (model.name, point)


def test_numbers_of_the_field_reports(spec_plans: dict[str, SpecPlan], header_folder: Path) -> None:
    """J1, J2: bases past 2^31 and 2^32. C2, C8, K1: padded extents drive offsets. B6: 16 bytes are 32 fp4."""
    checks = """
static_assert(corners::big::kBytes == 5651824640LL && corners::big::base(293) == 4301258752LL);
static_assert(corners::big::base(292) < (1LL << 32) && corners::big::base(293) >= (1LL << 32));
static_assert(sizeof(corners::big::base(0)) == 8 && sizeof(corners::big::inner(0, 0).byte) == 4);
static_assert(sizeof(corners::wide::inner(0, 0)) == 8 && corners::wide::inner(65535, 65535) == 4294967295LL);
static_assert(sizeof(corners::many::inner(0, 0).byte) == 8);
static_assert(corners::many::inner(65535, 49151) == corners::detail::Nibble<long long>{1610612735, 1});
static_assert(aiter::shuffle_16x16<2048, 4096, 16>::kBytes == 16777216);
static_assert(aiter::e8m0_shuffle<256, 12, 8>::kPadded_k == 16 && aiter::e8m0_shuffle<256, 12, 8>::kExtent_k == 12);
static_assert(aiter::e8m0_shuffle<256, 12, 8>::offset(32, 0) == 512);
static_assert(aiter::e8m0_shuffle<256, 90, 8>::offset(32, 0) == 3072);
static_assert(aiter::e8m0_shuffle<1, 8, 8>::kBytes == 256 * 8 && aiter::e8m0_shuffle<8, 8, 8>::kSize_R == 8);
static_assert(aiter::shuffle_16x16<16, 128, 4>::offset(0, 32).byte == 256);
static_assert(aiter::shuffle_16x16<16, 128, 4>::offset(0, 16).byte == 8);
static_assert(aiter::shuffle_16x16<16, 128, 8>::offset(0, 16) == 256);
static_assert(minimax_m3::w13::base(128) == 603979776 && minimax_m3::w13::kBegin_up == 768);
static_assert(minimax_m3::w_qkv::offset(16 * 3 + 5, 64 * 2 + 16 + 1) == (3 * 192 + 2 * 2) * 512 + 16 * (16 + 5) + 1);
static_assert(minimax_m3::s13::offset(2, 16 * 7 + 3, 4 * 5 + 1) ==
              ((2 * 48 + 7 / 2) * 24 + 5 / 2) * 256 + 4 * (16 + 3) + 2 * (5 % 2) + 7 % 2);
"""
    includes = "".join(f'#include "{name}.hpp"\n' for name in NAMES)
    (header_folder / "reports.cpp").write_text(f"{includes}using namespace mono;\n{checks}")
    must_compile(["g++", "-std=c++17", "-fsyntax-only", "reports.cpp"], header_folder)
