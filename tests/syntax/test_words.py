"""What is reserved, and what must stay free."""

from __future__ import annotations

import keyword

import pytest

from mono_gen.syntax.parser import item_parser
from mono_gen.syntax.words import LANGUAGE_WORDS, is_reserved


def test_every_keyword_of_the_grammar_is_a_language_word() -> None:
    values = {str(terminal.pattern.value) for terminal in item_parser().terminals}
    assert {value for value in values if value.isalpha()} == LANGUAGE_WORDS


def test_every_keyword_of_python_is_reserved() -> None:
    assert [word for word in keyword.kwlist if is_reserved(word) is None] == []


@pytest.mark.parametrize(
    ("word", "owner"),
    [
        ("lambda", "Python"),
        ("char8_t", "C++"),
        ("class", "Python and C++"),
        ("struct", "the language and C++"),
        ("NULL", "C++ (a macro)"),
        ("linux", "C++ (a macro)"),
        ("warpSize", "HIP"),
        ("_x", "C++ and Python (a leading underscore)"),
        ("x__y", "C++ and Python (two underscores together)"),
    ],
)
def test_owners(word: str, owner: str) -> None:
    assert is_reserved(word) == owner


@pytest.mark.parametrize(
    "word", ["half", "b", "I", "E", "gate", "up", "q", "k", "row", "layer", "group", "index_q", "x_"]
)
def test_free_names(word: str) -> None:
    assert is_reserved(word) is None
