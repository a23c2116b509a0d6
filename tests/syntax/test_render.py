"""Diagnostics as text, in each style."""

from __future__ import annotations

import json
import unicodedata

import pytest

from mono_gen.diagnostics import Diagnostic, Label
from mono_gen.diagnostics.codes import CODES
from mono_gen.diagnostics.explain import explain, similar_codes
from mono_gen.diagnostics.render import Style, render
from mono_gen.syntax.source import Source, Span

TEXT = "spec a\n\nlayout x(row) {\n\tsplit row = R r:16\n    store R r R\n}\n"
SOURCE = Source("specs/x.layout", TEXT)


def span(text: str, source: Source = SOURCE, nth: int = 0) -> Span:
    start = -1
    for _ in range(nth + 1):
        start = source.text.index(text, start + 1)
    return Span(source, start, start + len(text))


TWICE = Diagnostic(
    "digit-twice",
    span("R\n"),
    "digit `R` is stored twice",
    "again here",
    (Label(span("R r R"), "first here"), Label(span("r:16"), "sized here")),
    ("one note", "another note\nof two lines"),
    "row 16 and row 0 share byte 0",
    "store each digit once",
)
WARNING = Diagnostic("doc-comment-misplaced", span("spec"), "nothing", severity="warning")
NO_FILE = Diagnostic("unreadable-file", None, "cannot read it: gone", file="specs/gone.layout")


def test_full() -> None:
    assert render([TWICE], "full", False) == (
        "error[digit-twice]: digit `R` is stored twice\n"
        "  --> specs/x.layout:5:15\n"
        "   |\n"
        " 4 |     split row = R r:16\n"
        "   |                   ---- sized here\n"
        " 5 |     store R r R\n"
        "   |               ^ again here\n"
        "   |           ----- first here\n"
        "   |\n"
        "   = note: one note\n"
        "   = note: another note\n"
        "           of two lines\n"
        "   = effect: row 16 and row 0 share byte 0\n"
        "   = help: store each digit once"
    )


def test_full_without_a_place() -> None:
    assert render([NO_FILE], "full", False) == ("error[unreadable-file]: cannot read it: gone\n  --> specs/gone.layout")


def test_full_of_another_file_and_of_lines_apart() -> None:
    other = Source("lib.layout", "layout y(k) { store k }\n")
    problem = Diagnostic(
        "x", span("r:16"), "m", "here", (Label(span("y(", other), "there"), Label(span("spec"), "and here"))
    )
    assert render([problem], "full", False) == (
        "error[x]: m\n"
        "  --> specs/x.layout:4:16\n"
        "   |\n"
        " 1 | spec a\n"
        "   | ---- and here\n"
        "   ...\n"
        " 4 |     split row = R r:16\n"
        "   |                   ^^^^ here\n"
        "  ::: lib.layout:1:8\n"
        "   |\n"
        " 1 | layout y(k) { store k }\n"
        "   |        -- there"
    )


def test_concise_is_sorted_by_file_and_place() -> None:
    assert render([TWICE, NO_FILE, WARNING], "concise", False) == (
        "specs/gone.layout: error[unreadable-file] cannot read it: gone\n"
        "specs/x.layout:1:1: warning[doc-comment-misplaced] nothing\n"
        "specs/x.layout:5:15: error[digit-twice] digit `R` is stored twice"
    )


def test_json() -> None:
    gone, twice = json.loads(render([TWICE, NO_FILE], "json", True))
    assert (gone["file"], gone["line"], gone["column"]) == ("specs/gone.layout", None, None)
    assert {key: twice[key] for key in ("code", "severity", "file", "line", "column", "end_line", "end_column")} == {
        "code": "digit-twice",
        "severity": "error",
        "file": "specs/x.layout",
        "line": 5,
        "column": 15,
        "end_line": 6,
        "end_column": 1,
    }
    assert [twice[key] for key in ("message", "label", "effect", "help")] == [
        TWICE.message,
        TWICE.label,
        TWICE.effect,
        TWICE.help,
    ]
    assert twice["notes"] == list(TWICE.notes)
    assert [(also["line"], also["column"], also["message"]) for also in twice["also"]] == [
        (5, 11, "first here"),
        (4, 16, "sized here"),
    ]
    assert render([], "json", False) == "[]"


def test_github_escapes() -> None:
    source = Source("a,b:c%.layout", "spec x")
    problem = Diagnostic("x", span("x", source), "50% of\nrows, a:b", help="mend")
    assert render([problem, WARNING], "github", True) == (
        "::error file=a%2Cb%3Ac%25.layout,line=1,col=6,title=x::50%25 of%0Arows, a:b%0Ahelp: mend\n"
        "::warning file=specs/x.layout,line=1,col=1,title=doc-comment-misplaced::nothing"
    )


@pytest.mark.parametrize("before", ["\t", "a\tb", "日本", "e\u0301e", "\x1b[31m", "\u200b"])
def test_the_caret_stands_under_its_text(before: str) -> None:
    source = Source("x", f"{before}!!! after")
    lines = render([Diagnostic("x", span("!!!", source), "m", "here")], "full", False).splitlines()

    def columns(text: str) -> int:
        return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) == "W" else 1 for c in text)

    assert columns(lines[3][: lines[3].index("!")]) == columns(lines[4][: lines[4].index("^")])
    assert lines[4].endswith(" ^^^ here")


def test_tabs_go_to_every_fourth_column() -> None:
    source = Source("x", "a\tb\t\tc")
    assert " 1 | a   b       c" in render([Diagnostic("x", span("c", source), "m")], "full", False)


@pytest.mark.parametrize("style", ["full", "concise", "json", "github"])
def test_control_characters_do_not_reach_the_terminal(style: Style) -> None:
    source = Source("x\x1b.layout", "spec \x1b[31mred\u202e")
    bad = "a\x1b[2J\x07\x9b\u202e"
    problem = Diagnostic("x", span("red", source), bad, bad, (Label(span("spec", source), bad),), (bad,), bad, bad)
    text = render([problem], style, False)
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


def test_a_long_line_is_cut_around_the_caret() -> None:
    source = Source("x", "a b " * 4000 + "here" + " c d" * 10)
    lines = render([Diagnostic("x", span("here", source), "m", "l")], "full", False).splitlines()
    assert max(map(len, lines)) < 200
    at = lines[4].index("^")
    assert lines[3][at : at + 4] == "here"


def test_places_at_the_end_of_a_text() -> None:
    for text in ("", "spec", "spec\n"):
        source = Source("x", text)
        problem = Diagnostic("x", Span(source, len(text), len(text)), "m", "end")
        assert "^ end" in render([problem], "full", False)


def test_a_span_of_several_lines_is_underlined_on_its_first() -> None:
    problem = Diagnostic("x", Span(SOURCE, TEXT.index("{"), TEXT.index("}") + 1), "m", "all")
    assert render([problem], "full", False).splitlines()[-1] == "   |               ^ all"


def test_colour() -> None:
    plain = render([TWICE], "full", False)
    coloured = render([TWICE], "full", True)
    assert "\x1b[" not in plain
    assert coloured.startswith("\x1b[1;31merror[digit-twice]\x1b[0m")
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_every_code_is_explained_in_one_paragraph() -> None:
    for code in CODES:
        text = explain(code)
        assert text is not None
        assert len(text) > 60
        assert "\n" not in text
    assert explain("no-such-code") is None
    assert similar_codes("syntax-eror")[0] == "syntax-error"
