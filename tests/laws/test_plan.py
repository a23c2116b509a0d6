"""The laws of the plan: random layouts go through the pipeline as text, and their formulas meet the enumeration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from mono_gen.algebra.layout import offset
from mono_gen.algebra.template import bind
from mono_gen.diagnostics.model import SpecError
from mono_gen.emit.python import emit_python
from mono_gen.pipeline import plan_specs
from mono_gen.plan.layouts import legal_extents, sample_points
from mono_gen.plan.model import LayoutPlan, SpecPlan, TensorPlan
from mono_gen.terms import (
    CPP,
    PYTHON,
    Num,
    Op,
    Step,
    Term,
    Var,
    add,
    div,
    evaluate,
    holds,
    mod,
    mul,
    rename,
    text,
    variables,
)
from tests.laws.budget import examples
from tests.laws.random_layouts import Case, cases, coordinates, layout_text, offsets, storage

FAST = examples(60)
COUNTER = iter(range(10**9))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("specs")


def plan_text(folder: Path, items: str) -> SpecPlan:
    """Return the plan of a spec of these items."""
    path = folder / f"s{next(COUNTER)}.layout"
    path.write_text(f"spec s\narch gfx950\n{items}\n")
    try:
        (plan,), _ = plan_specs([path], {})
    except SpecError as refusal:
        at_other_widths = {"narrow-pitch", "size-does-not-divide"}
        if not re.search(r"\d+B", items) or {d.code for d in refusal.diagnostics} - at_other_widths:
            raise
        reject()  # counts in bytes that are legal at the case's own width and at no other
    return plan


def plan_case(folder: Path, case: Case) -> LayoutPlan:
    """Return the plan of a random layout, by way of its text."""
    return plan_text(folder, layout_text(case)).layouts[0]


def known(plan: LayoutPlan, extents: tuple[int, ...], bits: int) -> dict[str, int]:
    """Return the plan's variables at some extents: padded extents and named sizes worked out."""
    values = {"bits": bits, **{f"extent_{a}": n for a, n in zip(plan.model.axes, extents, strict=True)}}
    for axis, padded in zip(plan.model.axes, plan.padded, strict=True):
        if padded is not None:
            values[f"padded_{axis}"] = evaluate(padded, values)
    for size in plan.sizes:
        values[size.name] = evaluate(size.value, values)
    return values


def element(plan: LayoutPlan, values: Mapping[str, int], at: tuple[int, ...]) -> int:
    """Return the plan's element offset of a coordinate."""
    here = {**values, **dict(zip(plan.model.axes, at, strict=True))}
    here |= {assign.name: evaluate(assign.value, here) for assign in plan.assigns}
    return evaluate(plan.element, here)


# --- layouts ---


@FAST
@given(cases())
def test_the_plans_formula_is_the_map(folder: Path, case: Case) -> None:
    plan = plan_case(folder, case)
    values = known(plan, case.extents, case.bits)
    for axis, n in zip(case.template.axes, case.padded, strict=True):
        assert values.get(f"padded_{axis.name}", n) == n
    truth = offsets(case)
    assert [element(plan, values, at) for at in coordinates(case.padded)] == truth.ravel().tolist()


@FAST
@given(cases())
def test_the_plans_digits_are_the_algebras(folder: Path, case: Case) -> None:
    plan = plan_case(folder, case)
    values = known(plan, case.extents, case.bits)
    last = {axis: n - 1 for axis, n in zip(plan.model.axes, case.padded, strict=True)}
    for mine, theirs in zip(plan.digits, case.layout.digits, strict=True):
        assert (mine.name, mine.axis) == (theirs.name, theirs.axis)
        assert evaluate(mine.size, values) == theirs.size
        assert evaluate(mine.stride, values) == theirs.stride
        at = last[plan.model.axes[mine.axis]]
        assert evaluate(mine.value, {**values, **last}) == at // theirs.weight % theirs.size
    wanted = [(g.label, g.digits) for g in case.template.store if g.label]
    assert [(g.label, g.digits) for g in plan.groups] == wanted


@FAST
@given(cases(pitched=False))
def test_the_view_and_permute_are_the_map(folder: Path, case: Case) -> None:
    plan = plan_case(folder, case)
    values = known(plan, case.extents, case.bits)
    view = [evaluate(term, values) for term in plan.view]
    assert plan.has_pack
    moved = np.arange(prod(case.padded)).reshape(view).transpose(plan.permute)
    assert np.array_equal(moved.ravel(), storage(case))


@FAST
@given(cases(pitched=True))
def test_a_pitch_leaves_no_pack(folder: Path, case: Case) -> None:
    assert not plan_case(folder, case).has_pack


@FAST
@given(cases(), st.integers(-3, 3), st.integers(0, 2))
def test_the_derived_rules_hold_exactly_for_extents_that_divide(
    folder: Path, case: Case, more: int, index: int
) -> None:
    index %= len(case.extents)
    extents = tuple(max(1, n + more * (i == index)) for i, n in enumerate(case.extents))
    plan = plan_case(folder, case)
    legal = True
    for axis, n, sizes in zip(case.template.axes, extents, case.sizes, strict=True):
        multiple = axis.pad_to.at(case.bits) if axis.pad_to is not None else 1
        stored = -(-n // multiple) * multiple
        sized = prod(k for f, k in zip(axis.factors, sizes, strict=True) if f.size is not None)
        legal &= stored == sized if axis.is_fixed else stored % sized == 0
    bits = {"bits": case.bits, **{f"extent_{a}": n for a, n in zip(plan.model.axes, extents, strict=True)}}
    for axis_name, padded in zip(plan.model.axes, plan.padded, strict=True):
        bits |= {f"padded_{axis_name}": evaluate(padded, bits)} if padded is not None else {}
    assert all(holds(rule.condition, bits) for rule in plan.rules) == legal


@FAST
@given(cases())
def test_sample_points_are_true_and_in_reach(case: Case) -> None:
    truth, points = offsets(case), sample_points(case.layout, case.bits)
    assert tuple(n - 1 for n in case.extents) in [p.coordinates for p in points]
    assert len(points) >= min(3, prod(case.extents))
    assert len({p.coordinates for p in points}) == len(points)
    for point in points:
        assert all(0 <= c < n for c, n in zip(point.coordinates, case.extents, strict=True))
        bit = int(truth[point.coordinates]) * case.bits
        assert (point.byte, point.nibble) == (bit // 8, bit % 8 // 4 if case.bits == 4 else None)


def test_a_pad_that_is_no_multiple_of_the_split_still_has_sample_points(folder: Path) -> None:
    """96 and 144 pad to 128 and 192; only the latter is a multiple of 48."""
    text_ = "layout x(row, k) {\n pad k to 64 fill 0x00\n split k = K b:48\n store K row b\n}"
    plan = plan_text(folder, text_).layouts[0]
    assert plan.samples
    extents = legal_extents(plan.model, 8)
    assert extents is not None and -(-extents[1] // 64) * 64 % 48 == 0


# --- generated functions of random layouts ---


@FAST
@given(cases())
def test_the_generated_offset_is_the_map(folder: Path, case: Case) -> None:
    plan = plan_text(folder, layout_text(case))
    (file,) = emit_python(plan)
    module: dict[str, object] = {"__name__": "generated"}
    exec(compile(file.text, file.path, "exec"), module)
    function, truth = module["offset_x"], offsets(case)
    assert callable(function)
    bits = case.bits
    for at in coordinates(case.padded):
        bit = int(truth[at]) * bits
        found = function(*at, case.extents, bits)
        assert found == ((bit // 8, bit % 8 // 4) if bits == 4 else bit // 8)


# --- tensors ---

FORMATS = {4: "fp4_e2m1", 8: "uint8", 16: "bf16", 32: "fp32"}


def plan_field(folder: Path, case: Case, batch: tuple[str, ...] = ()) -> TensorPlan:
    """Return the plan of a field of a random layout."""
    dims = ", ".join((*batch, *map(str, case.extents)))
    runtime = "dim E" if "E" in batch else ""
    items = f"""{layout_text(case)}
struct S(layer) {{
    {runtime}
    f : {FORMATS[case.bits]}[{dims}] {{ tile x  view layer.f }}
}}"""
    return plan_text(folder, items).structs[0].fields[0].tensors[0]


@FAST
@given(cases(pitched=False), st.sampled_from([(), ("3",), ("E",), ("E", "2"), ("2", "3")]))
def test_a_tensors_byte_is_the_map_with_all_numbers_folded(folder: Path, case: Case, batch: tuple[str, ...]) -> None:
    bits, item_bits = case.bits, len(storage(case)) * case.bits
    assume(bits > 4 or (case.extents[-1] % 2 == 0 and case.padded[-1] % 2 == 0))  # resolve refuses half a byte
    plan = plan_field(folder, case, batch)
    names, truth = plan.model.axes, offsets(case)
    numbers = [int(n) if n != "E" else 4 for n in batch]
    assert plan.item_bytes == item_bits // 8
    assert plan.fits32 and plan.layout_id
    assert plan.strides == tuple(plan.item_bytes * prod(numbers[i + 1 :]) for i in range(len(numbers)))
    for item in coordinates(tuple(numbers)) or [()]:
        base = sum(c * s for c, s in zip(item, plan.strides, strict=True))
        for at in coordinates(case.extents):
            here = dict(zip(names, (*item, *at), strict=True))
            bit = base * 8 + int(truth[at]) * bits
            assert evaluate(plan.byte, here) == bit // 8
            assert evaluate(plan.inner_byte, here) == bit // 8 - base
            if plan.nibble is not None:
                assert evaluate(plan.nibble, here) == bit % 8 // 4
    assert (plan.nibble is None) == (bits >= 8)
    for sample in plan.samples:
        inner = sample.coordinates[len(numbers) :]
        bit = int(truth[inner]) * bits
        base = sum(c * s for c, s in zip(sample.coordinates, plan.strides, strict=False))
        assert sample.byte == base + bit // 8


def test_a_segmented_axis_is_shifted_where_each_segment_is_padded(folder: Path) -> None:
    items = """layout x(row, k) {
    pad row to 16 fill 0x7F
    split row = R r:4
    store R k r
}
struct S(layer) {
    f : uint8[48, 6] { segments row = a:5 b:20 c:23 pad each  tile x  convert uint8 row_major layer.f }
}"""
    plan = plan_text(folder, items).structs[0].fields[0].tensors[0]
    assert [(s.name, s.begin, s.padded_begin, s.padded_end) for s in plan.model.segments] == [
        ("a", 0, 0, 16),
        ("b", 5, 16, 48),
        ("c", 25, 48, 80),
    ]
    assert plan.item_bytes == 80 * 6 and plan.kernel_shape == (80, 6)
    for row in range(48):
        stored = row + (11 if row >= 5 else 0) + (12 if row >= 25 else 0)
        for k in range(6):
            wanted = (stored // 4 * 6 + k) * 4 + stored % 4
            assert evaluate(plan.byte, {"row": row, "k": k}) == wanted


def test_an_item_of_two_gigabytes_does_not_fit_31_bits(folder: Path) -> None:
    def fits(rows: int) -> bool:
        items = f"struct S(layer) {{\n f : uint8[{rows}, 1024] {{ tile row_major  view layer.f }}\n}}"
        return plan_text(folder, items).structs[0].fields[0].tensors[0].fits32

    assert fits(2**21 - 1) and not fits(2**21)


# --- terms ---

_VALUES = {"a": 7, "b": 12, "c": 1}
_LEAVES = st.one_of(
    st.builds(Num, st.integers(0, 9)),
    st.sampled_from([Var(name) for name in _VALUES]),
    st.builds(Step, st.sampled_from(sorted(_VALUES)), st.integers(0, 15), st.integers(1, 9)),
)
_TERMS = st.recursive(_LEAVES, lambda inner: st.builds(Op, st.sampled_from("+-*/%"), inner, inner), max_leaves=8)


def _evaluated(term: Term) -> int | None:
    """Return the value, or None where a divisor is 0."""
    try:
        return evaluate(term, _VALUES)
    except ZeroDivisionError:
        return None


@examples(400)
@given(_TERMS)
def test_the_text_of_a_term_means_the_term(term: Term) -> None:
    wanted = _evaluated(term)
    if wanted is not None:
        assert eval(text(term, PYTHON), {}, dict(_VALUES)) == wanted
        source = text(term, CPP).replace("/", "//")
        assert source.count("?") == text(term, PYTHON).count(">=")


@examples(200)
@given(_TERMS, _TERMS)
def test_folding_keeps_the_value(left: Term, right: Term) -> None:
    for op, make in (("+", add), ("*", mul), ("/", div), ("%", mod)):
        wanted = _evaluated(Op(op, left, right))
        if wanted is not None:
            assert evaluate(make(left, right), _VALUES) == wanted


@FAST
@given(_TERMS)
def test_renaming_moves_the_variables(term: Term) -> None:
    moved = rename(term, {"a": "x", "b": "a"})
    assert variables(moved) == {{"a": "x", "b": "a"}.get(name, name) for name in variables(term)}
    if (wanted := _evaluated(term)) is not None:
        assert evaluate(moved, {"x": 7, "a": 12, "c": 1}) == wanted


def test_the_algebra_is_what_the_samples_come_from(folder: Path) -> None:
    """A sample that the emitters assert is worked out by `offset`, not by the formula that it checks."""
    plan = plan_text(folder, "layout x(row, k) {\n split k = K b:4\n store K row b\n}").layouts[0]
    for sample in plan.samples:
        values = known(plan, sample.extents, sample.bits)
        assert element(plan, values, sample.coordinates) * sample.bits // 8 == sample.byte
    assert offset(bind(plan.model.template, (4, 8), 8), (3, 7)) == 4 * 4 + 3 * 4 + 3
