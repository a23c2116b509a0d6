"""Load reads a layer by paths and reports everything at once, in the order of the spec."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import Load, MonoUnsupported, Problem

FP4 = (torch.float4_e2m1fn_x2, torch.uint8)
E8M0 = (torch.float8_e8m0fnu, torch.uint8)


def new() -> Load:
    return Load("Struct", "x.layout")


def problems(load: Load) -> list[tuple[str, str, str, str]]:
    """Return every problem of the check as (field, what, expected, found)."""
    try:
        load.check()
    except MonoUnsupported as refusal:
        return [(p.field, p.what, p.expected, p.found) for p in refusal.problems]
    return []


def view(load: Load, t: Any, name: str = "w", **rules: Any) -> torch.Tensor:
    rules = {"dtypes": (torch.bfloat16,), "shape": (4, 8), "bits": 16, **rules}
    return load.view(name, (SimpleNamespace(t=t), "layer.t"), **rules)


class Layer:
    flag = True

    @property
    def lost(self) -> int:
        return self.nowhere  # type: ignore[attr-defined,no-any-return]

    @property
    def broken(self) -> int:
        raise RuntimeError("no driver")


# --- paths ---


def test_let_takes_the_first_that_is_there_and_not_none() -> None:
    layer = SimpleNamespace(a=None, b=SimpleNamespace(c=7))
    load = new()
    assert load.let("x", (layer, "layer.none"), (layer, "layer.a"), (layer, "layer.b.c"), (layer, "layer.b")) == 7
    assert problems(load) == []


def test_a_let_that_is_not_there_is_one_problem_and_silences_what_hangs_on_it() -> None:
    layer = SimpleNamespace(a=None)
    load = new()
    x = load.let("x", (layer, "layer.a"), (layer, "layer.b"))
    y = load.let("y", (x, "x.y"))
    load.require("y.n == 3", load.read(y, "y.n"), "==", 3)
    load.view("w", (y, "y.w"), dtypes=(torch.int8,), shape=(3,), bits=8)
    load.attest("w", "tiles", (y, "y.w.is_shuffled"))
    load.attest_absent("w", (y, "y.w.is_shuffled"))
    assert load.when("part", ((load.read(y, "y.n"), "==", 3),)) is False
    ((field, what, expected, found),) = problems(load)
    assert (field, what, expected) == ("x", "path", "layer.a or layer.b")
    assert found == "layer.a is None; 'types.SimpleNamespace' object has no attribute 'b'"


def test_an_attribute_error_in_a_property_means_not_there_and_names_it() -> None:
    load = new()
    load.require("layer.lost == 1", load.read(Layer(), "layer.lost"), "==", 1)
    ((field, what, expected, found),) = problems(load)
    assert (field, what, expected) == ("layer.lost == 1", "attribute", "layer.lost")
    assert "nowhere" in found


def test_another_exception_of_a_property_goes_through() -> None:
    with pytest.raises(RuntimeError, match="no driver"):
        new().read(Layer(), "layer.broken")


def test_an_attribute_of_none_is_not_there() -> None:
    load = new()
    load.require("layer.a.b", load.read(SimpleNamespace(a=None), "layer.a.b"), "is true")
    assert problems(load) == [("layer.a.b", "attribute", "layer.a", "layer.a is None")]


def test_modules_are_read_through_their_own_lookup() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(8, 4, dtype=torch.bfloat16))
    load = new()
    w = load.view("w", (layer, "layer.0.weight"), dtypes=(torch.bfloat16,), shape=(4, 8), bits=16)
    assert problems(load) == []
    assert w.data_ptr() == layer[0].weight.data_ptr()
    assert type(w) is torch.Tensor
    assert not w.requires_grad


# --- conditions ---

HOLDS = [
    (True, "is true", None),
    (False, "is false", None),
    (3, "==", 3),
    (3, "!=", 4),
    (3, "<", 4),
    (3, "<=", 3),
    (4, ">", 3),
    (3, ">=", 3),
    (3, "in", (1, 3)),
    (3, "not in", (1, 2)),
]
FAILS = [
    (False, "is true", None, "True", "False"),
    (1, "is true", None, "True", "1 (int)"),
    (None, "is false", None, "False", "None"),
    (0, "is false", None, "False", "0 (int)"),
    (8, "==", 16, "16", "8 (int)"),
    (16.0, "==", 16, "16", "16.0 (float)"),
    (True, "==", 1, "1", "True"),
    ("16", "==", 16, "16", "'16' (str)"),
    (1, "==", True, "True", "1 (int)"),
    (4, "!=", 4, "!= 4", "4 (int)"),
    (4, "<", 4, "< 4", "4 (int)"),
    (5, "<=", 4, "<= 4", "5 (int)"),
    (4, ">", 4, "> 4", "4 (int)"),
    (3, ">=", 4, ">= 4", "3 (int)"),
    (3, "in", (1, 2), "one of 1, 2", "3 (int)"),
    (True, "in", (1, 2), "one of 1, 2", "True"),
    (2, "not in", (1, 2), "none of 1, 2", "2 (int)"),
    (None, "not in", (1, 2), "none of 1, 2", "None"),
]


@pytest.mark.parametrize(("value", "op", "operand"), HOLDS)
def test_a_condition_that_holds(value: object, op: str, operand: object) -> None:
    load = new()
    load.require("c", value, op, operand)
    assert load.when("part", ((value, op, operand),)) is True
    assert problems(load) == []


@pytest.mark.parametrize(("value", "op", "operand", "expected", "found"), FAILS)
def test_a_condition_that_does_not_hold(value: object, op: str, operand: object, expected: str, found: str) -> None:
    load = new()
    load.require("c", value, op, operand)
    assert load.when("part", ((value, op, operand),)) is False
    assert problems(load) == [("c", "require", expected, found)]


def test_when_needs_every_condition() -> None:
    load = new()
    assert load.when("part", ((1, "==", 1), (True, "is true"))) is True
    assert load.when("part", ((1, "==", 2), (True, "is true"))) is False
    assert load.when("part", ((True, "is true"), (1, "==", 2))) is False
    assert problems(load) == []


def test_an_attribute_that_when_needs_is_a_problem() -> None:
    load = new()
    assert load.when("part", ((load.read(Layer(), "layer.nix"), "is true"),)) is False
    assert problems(load) == [("optional part", "attribute", "layer.nix", "'Layer' object has no attribute 'nix'")]


# --- run-time dims ---


def test_a_dim_is_bound_once_and_the_same_in_all() -> None:
    load = new()
    e = load.dim("E", (2, 3))
    load.require("E < 4", e, "<", 4)
    for condition in ((e, "==", 3), (e, "!=", 3), (e, "not in", (1,)), (e, "<", 4)):
        assert load.when("early", (condition,)) is False
    view(load, torch.zeros(3, 8, dtype=torch.bfloat16), "a", shape=(e, 8))
    view(load, torch.zeros(3, 8, dtype=torch.bfloat16), "b", shape=(e, 8))
    assert load.when("part", ((e, "==", 3),)) is True
    assert problems(load) == []
    assert e.value == 3


def test_two_fields_that_disagree_on_a_dim_are_both_named() -> None:
    load = new()
    e = load.dim("E")
    view(load, torch.zeros(3, 8, dtype=torch.bfloat16), "a", shape=(e, 8))
    view(load, torch.zeros(2, 8, dtype=torch.bfloat16), "b", shape=(e, 8))
    assert problems(load) == [("b", "dim", "E = 3 on axis 0, as in a", "2")]


def test_a_dim_outside_its_list_is_one_problem() -> None:
    load = new()
    e = load.dim("E", (128, 129))
    view(load, torch.zeros(3, 8, dtype=torch.bfloat16), "a", shape=(e, 8))
    view(load, torch.zeros(3, 8, dtype=torch.bfloat16), "b", shape=(e, 8))
    load.require("E == 7", e, "==", 7)
    assert problems(load) == [
        ("a", "dim", "E = 128 or 129", "3 on axis 0"),
        ("E == 7", "require", "7", "3 (E)"),
    ]


def test_a_tensor_of_another_shape_binds_nothing() -> None:
    load = new()
    e = load.dim("E")
    view(load, torch.zeros(8, 3, dtype=torch.bfloat16), "a", shape=(e, 8))
    view(load, torch.zeros(2, 8, dtype=torch.bfloat16), "b", shape=(e, 8))
    assert problems(load) == [("a", "shape", "E x 8 elements", "8 x 3 elements")]
    assert e.value == 2


def test_a_tensor_without_elements_binds_nothing() -> None:
    load = new()
    e = load.dim("E")
    view(load, torch.zeros(0, 8, dtype=torch.bfloat16), "a", shape=(e, 8))
    load.require("E > 0", e, ">", 0)
    assert problems(load) == [("a", "extent", "at least 1 on every axis", "torch 0 x 8, no elements")]
    assert e.value == 0


def test_a_condition_on_a_dim_that_nothing_binds_is_a_problem_of_its_own() -> None:
    load = new()
    load.require("E > 0", load.dim("E"), ">", 0)
    assert problems(load) == [("E > 0", "dim", "E from a shape in which it stands alone", "no such shape")]


# --- tensors: what is refused ---


def test_a_good_view_is_the_same_bytes() -> None:
    t = torch.zeros(4, 8, dtype=torch.bfloat16)
    load = new()
    assert view(load, t).data_ptr() == t.data_ptr()
    assert problems(load) == []


def test_a_tensor_that_is_not_there() -> None:
    load = new()
    view(load, None)
    load.attest("w", "tiles", (SimpleNamespace(t=None), "layer.t.is_shuffled"))
    load.view("v", (Layer(), "layer.v"), dtypes=(torch.int8,), shape=(1,), bits=8)
    assert problems(load) == [
        ("w", "attribute", "layer.t", "layer.t is None"),
        ("v", "attribute", "layer.v", "'Layer' object has no attribute 'v'"),
    ]


@pytest.mark.parametrize("value", [[1, 2], 7, torch.zeros(4, 8, dtype=torch.bfloat16, device="meta")])
def test_what_is_no_plain_tensor_is_one_problem(value: object) -> None:
    load = new()
    view(load, value)
    assert [problem[:2] for problem in problems(load)] == [("w", "kind")]


def test_dtype_shape_and_strides_are_all_said() -> None:
    load = new()
    view(load, torch.zeros(16, 4, dtype=torch.float32).t()[:, 1:13])
    assert [what for _, what, *_ in problems(load)] == ["dtype", "shape", "strides"]


def test_a_scale_of_the_same_bytes_and_another_dtype_is_refused() -> None:
    load = new()
    view(load, torch.zeros(16, dtype=torch.bfloat16), "s", dtypes=(torch.float32,), shape=(8,), bits=32)
    assert problems(load) == [
        ("s", "dtype", "float32", "bfloat16"),
        ("s", "shape", "8 elements", "16 elements"),
    ]


def test_another_fp8_dialect_is_refused() -> None:
    t = torch.zeros(32, dtype=torch.uint8).view(torch.float8_e4m3fnuz)
    load = new()
    view(load, t, dtypes=(torch.float8_e4m3fn,), shape=(32,), bits=8)
    assert problems(load) == [("w", "dtype", "float8_e4m3fn", "float8_e4m3fnuz")]


@pytest.mark.parametrize("dtype", FP4)
def test_four_bit_shapes_are_said_in_elements_and_in_torch_units(dtype: torch.dtype) -> None:
    load = new()
    rules = {"dtypes": FP4, "bits": 4}
    view(load, torch.zeros(16, 128, dtype=torch.uint8).view(dtype), "good", shape=(16, 256), **rules)
    view(load, torch.zeros(16, 192, dtype=torch.uint8).view(dtype), "bad", shape=(16, 256), **rules)
    assert problems(load) == [
        (
            "bad",
            "shape",
            "16 x 256 elements (torch 16 x 128, two a byte)",
            "16 x 384 elements (torch 16 x 192, two a byte)",
        )
    ]


def test_a_scalar_where_pairs_are_expected() -> None:
    load = new()
    view(load, torch.zeros((), dtype=torch.uint8), dtypes=FP4, shape=(16, 256), bits=4)
    assert problems(load) == [("w", "shape", "16 x 256 elements (torch 16 x 128, two a byte)", "scalar elements")]


def test_pairs_along_an_axis_that_is_missing_are_not_compared() -> None:
    load = new()
    view(load, torch.zeros(16, 128, dtype=torch.uint8), dtypes=FP4, shape=(16, runtime.MISSING), bits=4)
    assert problems(load) == []


def test_pairs_where_bytes_are_expected_are_said_as_pairs() -> None:
    load = new()
    t = torch.zeros(4, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    view(load, t, dtypes=(torch.uint8,), shape=(4, 16), bits=8)
    assert problems(load)[1:] == [("w", "shape", "4 x 16 elements", "4 x 16 elements (torch 4 x 8, two a byte)")]


def test_int8_does_not_hold_fp4() -> None:
    load = new()
    view(load, torch.zeros(16, 128, dtype=torch.int8), dtypes=FP4, shape=(16, 256), bits=4)
    assert problems(load) == [("w", "dtype", "float4_e2m1fn_x2 or uint8", "int8")]


@pytest.mark.parametrize(
    ("t", "shape"),
    [
        (torch.zeros(4, 8, dtype=torch.bfloat16), (32,)),
        (torch.zeros(4, 8, dtype=torch.bfloat16), (4, 8, 1)),
        (torch.zeros(4, 8, dtype=torch.bfloat16), (8, 4)),
        (torch.zeros((), dtype=torch.bfloat16), (1,)),
    ],
)
def test_the_same_number_of_elements_is_not_the_same_shape(t: torch.Tensor, shape: tuple[int, ...]) -> None:
    load = new()
    view(load, t, shape=shape)
    assert [what for _, what, *_ in problems(load)] == ["shape"]


@pytest.mark.parametrize(
    ("t", "strides"),
    [
        (torch.zeros(4, 16, dtype=torch.bfloat16)[:, :8], "16, 1 for torch 4 x 8"),
        (torch.zeros(8, 4, dtype=torch.bfloat16).t(), "1, 4 for torch 4 x 8"),
        (torch.zeros(4, 16, dtype=torch.bfloat16)[:, ::2], "16, 2 for torch 4 x 8"),
        (torch.zeros(1, 8, dtype=torch.bfloat16).expand(4, 8), "0, 1 for torch 4 x 8"),
    ],
)
def test_strides_that_are_not_row_major(t: torch.Tensor, strides: str) -> None:
    load = new()
    view(load, t)
    assert ("w", "strides", "8, 1 (row-major, torch elements)", strides) in problems(load)


def test_strides_of_axes_of_one_do_not_matter() -> None:
    load = new()
    t = torch.zeros(64, dtype=torch.bfloat16).as_strided((1, 4, 1, 8), (3, 8, 5, 1))
    view(load, t, shape=(1, 4, 1, 8))
    assert problems(load) == []


def test_an_expanded_scale_reads_past_its_storage() -> None:
    load = new()
    view(load, torch.ones(1).expand(64), dtypes=(torch.float32,), shape=(64,), bits=32)
    assert [(what, expected, found) for _, what, expected, found in problems(load)] == [
        ("strides", "1 (row-major, torch elements)", "0 for torch 64"),
        ("storage", "at least 256 bytes", "4 bytes"),
    ]


def test_storage_that_was_freed_or_shrunk() -> None:
    whole = torch.zeros(4, 8, dtype=torch.bfloat16)
    whole.untyped_storage().resize_(0)
    part = torch.zeros(12, 8, dtype=torch.bfloat16)
    cut, there = part[4:8], part[2:6]
    part.untyped_storage().resize_(6 * 16)
    load = new()
    view(load, whole, "freed")
    view(load, cut, "cut")
    view(load, there, "up to the last byte")
    assert problems(load) == [
        ("freed", "storage", "at least 64 bytes", "0 bytes"),
        ("cut", "storage", "at least 128 bytes", "96 bytes"),
    ]


def test_no_elements() -> None:
    load = new()
    view(load, torch.zeros(4, 0, dtype=torch.bfloat16), "k", shape=(4, runtime.MISSING))
    view(load, torch.zeros(0, 64, dtype=torch.bfloat16), shape=(runtime.MISSING, 64))
    assert problems(load) == [
        ("k", "extent", "at least 1 on every axis", "torch 4 x 0, no elements"),
        ("w", "extent", "at least 1 on every axis", "torch 0 x 64, no elements"),
    ]


def test_a_view_is_aligned_to_16_bytes_and_a_source_to_its_element() -> None:
    t = torch.zeros(33, dtype=torch.bfloat16)[1:].view(4, 8)
    load = new()
    view(load, t)
    load.source("source", (SimpleNamespace(t=t), "layer.t"), dtypes=(torch.bfloat16,), shape=(4, 8), bits=16)
    assert problems(load) == [("w", "alignment", "data_ptr % 16 == 0", "data_ptr % 16 == 2")]


def test_a_source_that_is_not_aligned_to_its_element() -> None:
    t = torch.frombuffer(bytearray(65), dtype=torch.bfloat16, offset=1, count=32).view(4, 8)
    load = new()
    load.source("w", (SimpleNamespace(t=t), "layer.t"), dtypes=(torch.bfloat16,), shape=(4, 8), bits=16)
    assert problems(load) == [("w", "alignment", "data_ptr % 2 == 0", "data_ptr % 2 == 1")]


def test_every_batch_item_is_aligned() -> None:
    load = new()
    rules = {"dtypes": (torch.uint8,), "bits": 8}
    view(load, torch.zeros(4, 3, 8, dtype=torch.uint8), "bad", shape=(4, 3, 8), batch=1, **rules)
    view(load, torch.zeros(4, 3, 8, dtype=torch.uint8), "no batch", shape=(4, 3, 8), batch=0, **rules)
    view(load, torch.zeros(1, 3, 8, dtype=torch.uint8), "one item", shape=(1, 3, 8), batch=1, **rules)
    view(load, torch.zeros(4, 2, 8, dtype=torch.uint8), "good", shape=(4, 2, 8), batch=1, **rules)
    view(load, torch.zeros(4, 2, 8, dtype=torch.uint8), "two axes", shape=(4, 2, 8), batch=2, **rules)
    expected = "every batch item's base aligned: item bytes % 16 == 0"
    assert problems(load) == [
        ("bad", "alignment", expected, "items of 24 bytes, 24 % 16 == 8"),
        ("two axes", "alignment", expected, "items of 8 bytes, 8 % 16 == 8"),
    ]


def test_batch_items_of_a_source_or_of_another_shape_are_not_measured() -> None:
    layer = SimpleNamespace(t=torch.zeros(4, 3, 8, dtype=torch.uint8))
    load = new()
    load.source("source", (layer, "layer.t"), dtypes=(torch.uint8,), shape=(4, 3, 8), bits=8, batch=1)
    load.view("view", (layer, "layer.t"), dtypes=(torch.uint8,), shape=(4, 2, 8), bits=8, batch=1)
    assert [problem[:2] for problem in problems(load)] == [("view", "shape")]


def test_a_shape_that_holds_something_missing_is_not_compared() -> None:
    load = new()
    t = torch.zeros(4, 8, dtype=torch.bfloat16)
    view(load, t, shape=(runtime.MISSING, 4, 8))
    view(load, t, shape=(runtime.MISSING, 7), as_shape=(4, 8))
    assert problems(load) == []


def test_checking_twice_says_the_same() -> None:
    load = new()
    load.require("n == 3", 4, "==", 3)
    assert problems(load) == problems(load) == [("n == 3", "require", "3", "4 (int)")]


def test_one_device_for_all() -> None:
    load = new()
    view(load, torch.zeros(4, 8, dtype=torch.bfloat16), "a")
    load._device = (torch.device("cuda:1"), "a")  # as if a had been there
    view(load, torch.zeros(4, 8, dtype=torch.bfloat16), "b")
    assert problems(load) == [("b", "device", "cuda:1, as a", "cpu")]


# --- sources of another shape ---


def test_as_gives_the_field_its_own_shape() -> None:
    t = torch.arange(96, dtype=torch.uint8).view(32, 3)
    load = new()
    field = view(load, t, dtypes=(torch.uint8,), shape=(3, 32), as_shape=(32, 3), bits=8)
    assert problems(load) == []
    assert field.shape == (3, 32)
    assert field.data_ptr() == t.data_ptr()


def test_as_checks_the_source_against_its_own_shape() -> None:
    load = new()
    view(load, torch.zeros(3, 32, dtype=torch.uint8), dtypes=(torch.uint8,), shape=(3, 32), as_shape=(32, 3), bits=8)
    assert problems(load) == [("w", "shape", "32 x 3 elements", "3 x 32 elements")]


def test_as_of_four_bit_data_counts_pairs() -> None:
    load = new()
    t = torch.zeros(6, 16, dtype=torch.uint8)
    assert view(load, t, dtypes=FP4, shape=(2, 3, 32), as_shape=(6, 32), bits=4).shape == (2, 3, 16)
    assert problems(load) == []


@pytest.mark.parametrize("product_first", [True, False])
def test_a_product_of_dims_is_compared_once_they_are_bound(product_first: bool) -> None:
    for extent in (5, 4):
        load = new()
        e = load.dim("E")
        s = torch.zeros(extent * 32, 2, dtype=torch.uint8)
        w = torch.zeros(5, 32, dtype=torch.uint8)
        for name in ("s", "w") if product_first else ("w", "s"):
            if name == "s":
                rules = {"shape": (e, 32, 2), "as_shape": (runtime.times(e, 32), 2)}
                field = view(load, s, "s", dtypes=(torch.uint8,), bits=8, **rules)
            else:
                view(load, w, "w", dtypes=(torch.uint8,), bits=8, shape=(e, 32))
        if extent == 5:
            assert problems(load) == []
            assert field.shape == (5, 32, 2)
        elif product_first:
            assert problems(load) == [("s", "shape", "160 (E * 32)", "128 (int)")]
        else:
            assert problems(load) == [("s", "shape", "160 (E * 32) x 2 elements", "128 x 2 elements")]


def test_a_dim_that_stands_nowhere_alone_is_refused() -> None:
    load = new()
    e = load.dim("E")
    rules = {"shape": (e, 32, 2), "as_shape": (runtime.times(e, 32), 2)}
    view(load, torch.zeros(64, 2, dtype=torch.uint8), dtypes=(torch.uint8,), bits=8, **rules)
    assert problems(load) == [("w", "dim", "E * 32 from a shape in which it stands alone", "no such shape")]


def test_a_dim_of_the_field_that_its_source_does_not_show_is_compared() -> None:
    for extent, expected in ((4, []), (5, [("w", "as", "4 (E)", "5 (int)")])):
        load = new()
        e = load.dim("E")
        t = torch.zeros(extent * 16, dtype=torch.uint8)
        view(load, t, dtypes=(torch.uint8,), bits=8, shape=(e, 16), as_shape=(extent * 16,))
        view(load, torch.zeros(4, 32, dtype=torch.uint8), "b", dtypes=(torch.uint8,), bits=8, shape=(e, 32))
        assert problems(load) == expected


def test_as_that_has_another_number_of_elements() -> None:
    load = new()
    e = load.dim("E")
    view(load, torch.zeros(3, 7, dtype=torch.uint8), dtypes=(torch.uint8,), bits=8, shape=(e, 4), as_shape=(3, 7))
    assert [problem[:2] for problem in problems(load)] == [("w", "as")]


def test_as_of_a_fixed_shape_that_has_another_number_of_elements() -> None:
    load = new()
    t = torch.zeros(6, 7, dtype=torch.uint8)
    view(load, t, dtypes=(torch.uint8,), bits=8, shape=(3, 7), as_shape=(6, 7))
    assert problems(load) == [("w", "as", "as many elements as 3 x 7 elements", "42 in torch units")]


def test_times() -> None:
    e = runtime.Dim("E")
    assert runtime.times(3, 4) == 12
    product = runtime.times(runtime.times(e, 2), 5)
    assert str(product) == "E * 2 * 5"


# --- attests ---


@pytest.mark.parametrize("value", [False, None, 1, "yes"])
def test_a_promise_is_true_itself(value: object) -> None:
    load = new()
    load.attest("w", "tiles", (SimpleNamespace(is_shuffled=value), "layer.is_shuffled"))
    ((field, what, expected, _),) = problems(load)
    assert (field, what) == ("w", "attest")
    assert expected == "layer.is_shuffled is True, the promise that the bytes are in tiles"


def test_a_promise_that_is_absent() -> None:
    load = new()
    t = torch.nn.Parameter(torch.zeros(3))
    load.attest("w", "tiles", (SimpleNamespace(t=t), "layer.t.is_shuffled"))
    ((field, what, _, found),) = problems(load)
    assert (field, what) == ("w", "attest")
    assert "is_shuffled" in found


def test_a_promise_that_holds() -> None:
    load = new()
    load.attest("w", "tiles", (SimpleNamespace(is_shuffled=True), "layer.is_shuffled"))
    assert problems(load) == []


@pytest.mark.parametrize("value", [True, 1, "no"])
def test_a_flag_that_must_be_absent(value: object) -> None:
    load = new()
    load.attest_absent("w", (SimpleNamespace(is_shuffled=value), "layer.is_shuffled"))
    ((field, what, expected, _),) = problems(load)
    assert (field, what) == ("w", "attest")
    assert expected == "layer.is_shuffled absent or False: the source is row_major"


@pytest.mark.parametrize(
    "layer", [SimpleNamespace(), SimpleNamespace(is_shuffled=None), SimpleNamespace(is_shuffled=False)]
)
def test_a_flag_that_is_absent_none_or_false(layer: object) -> None:
    load = new()
    load.attest_absent("w", (layer, "layer.is_shuffled"))
    assert problems(load) == []


def test_a_view_that_nothing_vouches_for() -> None:
    load = new()
    load.unattested("w", "tiles")
    assert problems(load) == [("w", "attest", "a promise that the bytes are in tiles", "nothing that says so")]


# --- steps and the order ---


def test_the_refusal_names_struct_and_spec() -> None:
    load = new()
    load.unattested("w", "tiles")
    with pytest.raises(MonoUnsupported, match=r"^Struct \(x\.layout\): w: attest: ") as refusal:
        load.check()
    assert refusal.value.subject == "Struct (x.layout)"


def test_a_refusal_inside_a_step_is_collected_and_the_block_left() -> None:
    load = new()
    reached = []
    with load.step("w"):
        reached.append("before")
        raise MonoUnsupported("pack_tiles", (Problem("pack_tiles", "size", "row % 16 == 0", "row = 3"),))
    with load.step("g"):
        raise MonoUnsupported("g", (Problem("g", "value", "finite", "an infinity"),))
    with load.step("s"):
        raise MonoUnsupported("s", (Problem("s scale", "shape", "4", "3"),))
    with load.step("v"):
        raise MonoUnsupported("pack_tiles", (Problem("out", "dtype", "int8", "uint8"),))
    assert reached == ["before"]
    assert problems(load) == [
        ("w", "pack_tiles: size", "row % 16 == 0", "row = 3"),
        ("g", "value", "finite", "an infinity"),
        ("s scale", "shape", "4", "3"),
        ("v: out", "pack_tiles: dtype", "int8", "uint8"),
    ]


def test_another_exception_inside_a_step_goes_through() -> None:
    with pytest.raises(ZeroDivisionError), new().step("w"):
        raise ZeroDivisionError


def test_problems_stand_in_the_order_of_the_spec() -> None:
    load = new()
    e = load.dim("E")
    load.let("x", (SimpleNamespace(), "layer.x"))
    load.require("E == 4", e, "==", 4)
    view(load, torch.zeros(3, 8, dtype=torch.float16), "a", shape=(e, 8))
    load.unattested("b", "tiles")
    assert [field for field, *_ in problems(load)] == ["x", "E == 4", "a", "b"]


def test_the_layer_is_not_modified() -> None:
    t = torch.nn.Parameter(torch.zeros(4, 8, dtype=torch.bfloat16))
    layer = SimpleNamespace(t=t)
    load = new()
    w = load.view("w", (layer, "layer.t"), dtypes=(torch.bfloat16,), shape=(4, 8), bits=16)
    assert vars(layer) == {"t": t}
    assert layer.t is t
    assert t.requires_grad
    assert vars(t) == {}
    t.data = torch.ones(4, 8, dtype=torch.bfloat16)
    assert w.data_ptr() != t.data_ptr()  # the struct keeps the bytes that were checked


# --- groups ---


@pytest.mark.parametrize("group", [None, object(), 4])
def test_a_group_that_is_not_one(group: object) -> None:
    load = new()
    rows = load.gathered("w", group, segment="index_q", elements=512, rest=2432, world=4)
    view(load, torch.zeros(5, 8, dtype=torch.bfloat16), shape=(rows, 8))
    ((field, what, expected, _),) = problems(load)
    assert (field, what, expected) == ("w", "group", "a torch.distributed process group that this rank is in")


def test_ranks_that_cannot_be_told_anything_are_not_waited_for() -> None:
    load = new()
    load.gathered("w", None, segment="index_q", elements=512, rest=2432, world=4)
    load.agree(None, digest="d", struct_id=1, sources=(), timeout_s=60)
    assert [(field, what) for field, what, *_ in problems(load)] == [("w", "group")]
