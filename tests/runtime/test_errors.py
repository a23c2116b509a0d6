"""A refusal reads in a log, carries its problems and travels between processes."""

from __future__ import annotations

import pickle

import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported, Problem
from mono_gen.runtime.errors import show

ONE = Problem("w13", "dtype", "float8_e4m3fn", "bfloat16")
TWO = Problem("s_long_name", "shape", "2 x 3 elements", "6 elements")


def test_one_problem_is_one_line() -> None:
    assert str(MonoUnsupported("S (x.layout)", (ONE,))) == (
        "S (x.layout): w13: dtype: expected float8_e4m3fn, found bfloat16"
    )


def test_the_subject_is_not_said_twice() -> None:
    assert str(MonoUnsupported("w13", (ONE,))) == "w13: dtype: expected float8_e4m3fn, found bfloat16"


def test_help_stands_at_the_end() -> None:
    problem = Problem("w", "strides", "2, 1", "1, 2", "hand over a dense tensor")
    assert str(MonoUnsupported("S", (problem,))).endswith("found 1, 2; hand over a dense tensor")


def test_several_problems_are_aligned_below_their_count() -> None:
    assert MonoUnsupported("S", (ONE, TWO)).table().splitlines() == [
        "S: 2 problems",
        "  w13          dtype  expected float8_e4m3fn   found bfloat16",
        "  s_long_name  shape  expected 2 x 3 elements  found 6 elements",
    ]


def test_help_stands_at_the_end_of_its_line_in_a_table() -> None:
    refusal = MonoUnsupported("S", (ONE, Problem("w", "strides", "2, 1", "1, 2", "hand over a copy")))
    lines = refusal.table().splitlines()
    assert lines[1].endswith("found bfloat16")
    assert lines[2].endswith("found 1, 2; hand over a copy")


def test_a_log_gets_one_line_and_a_terminal_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = MonoUnsupported("S", (ONE, TWO))
    assert str(refusal) == (
        "S: 2 problems: w13: dtype: expected float8_e4m3fn, found bfloat16 | "
        "s_long_name: shape: expected 2 x 3 elements, found 6 elements"
    )
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert str(refusal) == refusal.table()


def test_a_found_text_of_several_lines_stays_one_line() -> None:
    assert str(MonoUnsupported("S", (Problem("a", "value", "1", "x\n  y"),))).count("\n") == 0


def test_pickle_keeps_the_problems() -> None:
    refusal = MonoUnsupported("S", (problem for problem in [ONE, TWO]))
    copy = pickle.loads(pickle.dumps(refusal))
    assert copy.problems == (ONE, TWO)
    assert copy.subject == "S"
    assert str(copy) == str(refusal)


def test_a_value_is_shown_with_its_type_and_a_tensor_by_its_type_alone() -> None:
    assert show(16) == "16 (int)"
    assert show("16") == "'16' (str)"
    assert show(True) == "True"
    assert show(None) == "None"
    assert show(torch.zeros(2)) == "an object of type Tensor"
    assert len(show("x" * 1000)) < 140


@pytest.mark.parametrize(("wanted", "action"), [(0, "generate the module again"), (2, "upgrade mono-gen")])
def test_another_abi_is_an_import_error_that_says_what_to_do(wanted: int, action: str) -> None:
    runtime.require_abi(runtime.RUNTIME_ABI, "x.layout")
    with pytest.raises(ImportError, match=f"x.layout: generated for runtime ABI {wanted}.* has 1: {action}"):
        runtime.require_abi(wanted, "x.layout")


def test_everything_exported_is_there() -> None:
    assert [name for name in runtime.__all__ if not hasattr(runtime, name)] == []
