"""Layouts: digits, sizes in bytes, pads, rules, pitches. Offsets are compared with formulas written here."""

from __future__ import annotations

import pytest

from mono_gen.algebra.layout import offset
from mono_gen.algebra.template import bind
from tests.resolve.texts import codes_of, field_of, layout_of, layout_text


@pytest.mark.parametrize(("bits", "elements"), [(4, 32), (8, 16), (16, 8), (32, 4), (64, 2)])
def test_a_size_in_bytes_counts_the_elements_of_each_width(bits: int, elements: int) -> None:
    layout = layout_of("split k = K b:16B\nstore K row b")
    bound = bind(layout.template, (3, 4 * elements), bits)
    assert {d.name: d.size for d in bound.digits} == {"K": 4, "row": 3, "b": elements}


def test_widths_are_those_of_whole_byte_counts_and_fills_that_fit() -> None:
    assert layout_of("store row k").widths == (4, 8, 16, 32, 64)
    assert layout_of("split k = K b:2B\nstore row K b").widths == (4, 8, 16)
    assert layout_of("pad row to 16 fill 0x7F\nstore row k").widths == (8, 16, 32, 64)
    assert layout_of("require k % 1B == 0\nstore row k").widths == (4, 8)


@pytest.mark.parametrize("order", ["K a b", "a K b", "a b K"])
def test_any_digit_may_take_what_is_left(order: str) -> None:
    sizes = {"K": "K", "a": "a:2", "b": "b:4"}
    layout = layout_of(f"split k = {' '.join(sizes[n] for n in order.split())}\nstore k2 K a b", axes="k2, k")
    bound = bind(layout.template, (5, 24), 8)
    digits = {d.name: d for d in bound.digits}
    assert [digits[n].size for n in ("K", "a", "b")] == [3, 2, 4]
    weight = 1
    for name in reversed(order.split()):
        assert digits[name].weight == weight
        weight *= digits[name].size


def test_a_digit_is_split_again() -> None:
    layout = layout_of("split k = K c:32B\nsplit c = half:2 rest\nsplit K = X y:2\nstore X row y half rest")
    bound = bind(layout.template, (3, 128), 16)
    assert {d.name: (d.size, d.weight) for d in bound.digits} == {
        "X": (4, 32),
        "row": (3, 1),
        "y": (2, 16),
        "half": (2, 8),
        "rest": (8, 1),
    }


def test_the_unsized_part_of_a_digit_in_bytes_keeps_its_bytes() -> None:
    layout = layout_of("split k = K c:32B\nsplit c = half:2 rest\nstore K row half rest")
    assert [bind(layout.template, (1, 64), bits).digits[-1].size for bits in (8, 16, 32)] == [16, 8, 4]


@pytest.mark.parametrize(
    ("size", "code"), [("8B", ""), ("2 * 4B", ""), ("8B + 8B", ""), ("16B / 2", ""), ("8B - 4B", "")]
)
def test_sizes_in_bytes_are_calculated(size: str, code: str) -> None:
    layout = layout_of(f"split k = K b:{size}\nstore K row b")
    wanted = {"8B": 8, "2 * 4B": 8, "8B + 8B": 16, "16B / 2": 8, "8B - 4B": 4}[size]
    assert bind(layout.template, (1, 64), 8).digits[-1].size == wanted


def test_pads_may_be_in_bytes_and_leave_the_fill_undefined() -> None:
    layout = layout_of("pad row to 16, k to 128B fill undefined\nstore k row")
    assert layout.template.fill is None
    assert bind(layout.template, (5, 100), 16).padded == (16, 128)
    assert bind(layout.template, (5, 100), 8).padded == (16, 128)
    assert bind(layout.template, (17, 129), 8).padded == (32, 256)


def test_rules_are_of_logical_extents() -> None:
    padded = "layout p(row, k) { require row % 8 == 0  pad row to 16 fill 0x00  store k row }\n"
    text = "w : bf16[{}, 4] {{ tile p  convert bf16 row_major layer.w }}"
    assert field_of(text.format(24), padded).tensors[0].bound.padded == (32, 4)
    assert codes_of(f"spec x\narch gfx950\n{padded}struct S(layer) {{ {text.format(20)} }}\n") == ["layout-rule"]


def test_a_division_in_a_rule_is_exact() -> None:
    halves = "layout p(row, k) { require k / 32 >= 1  store k row }\n"
    text = "w : bf16[4, {}] {{ tile p  convert bf16 row_major layer.w }}"
    assert field_of(text.format(64), halves)
    assert codes_of(f"spec x\narch gfx950\n{halves}struct S(layer) {{ {text.format(48)} }}\n") == ["layout-rule"]


def test_not_turns_a_comparison_round() -> None:
    assert layout_of("require not k < 64\nstore row k").rules[0].condition.op == ">="


def test_a_pitch_is_the_stride_of_its_digit() -> None:
    layout = layout_of("split k = K b:16B\nstore row K b\npitch row = 1540")
    bound = bind(layout.template, (3, 1536), 8)
    assert offset(bound, (2, 17)) == 2 * 1540 + 17
    assert bound.has_gaps


def test_axes_stand_in_the_sources_order() -> None:
    layout = layout_of("store row k", axes="k, row")
    assert offset(bind(layout.template, (3, 5), 8), (2, 4)) == 4 * 3 + 2


def test_doc_comments_reach_the_model() -> None:
    assert layout_of("store row k", before="\n## Rows,\n## one by one.").doc == "Rows,\none by one."


def test_what_one_layout_may_be_called() -> None:
    assert layout_of("split row = R half:2\nsplit k = B b:4\nstore R B half b")
    assert codes_of(layout_text("store t k", axes="t, k")) == []


@pytest.mark.parametrize(
    ("clauses", "codes"),
    [
        ("split k = K b:16\nstore row K", ["digit-dropped"]),
        ("split k = K b:16\nstore row K b b", ["digit-twice"]),
        ("split k = K b:16\nstore row K bb", ["unknown-name"]),
        ("split k = K b:16\nstore row k", ["unknown-name"]),
        ("split k = K b:16\nstore row row b", ["digit-twice"]),
        ("store row", ["digit-dropped"]),
        ("store row k zz", ["unknown-name"]),
        ("pad q to 3\nstore row k", ["unknown-name", "fill-missing"]),
        ("split k = K b:0\nrequire q == 1\nstore row K b", ["unknown-name", "bad-extent"]),
        ("split k = K b\nstore row K", ["two-unsized"]),
        ("split q = K b:2\nstore row K b", ["unknown-name"]),
        ("store row k\nstore k row", ["clause-twice"]),
        (
            "store row k\nsame as torch view(row, k).permute(0, 1)\nsame as torch view(row, k).permute(0, 1)",
            ["clause-twice"],
        ),
    ],
)
def test_one_mistake_is_one_error(clauses: str, codes: list[str]) -> None:
    assert codes_of(layout_text(clauses)) == codes
