"""Files that are not texts, and the limits of those that are."""

from __future__ import annotations

from pathlib import Path

import pytest

from mono_gen.diagnostics import Diagnostic, SpecError
from mono_gen.syntax.parse import parse
from mono_gen.syntax.read import MAX_FILE_BYTES, MAX_LINE_BYTES, MAX_NESTING, decode_source, read_source
from mono_gen.syntax.source import Source


def refusal(data: bytes) -> Diagnostic:
    with pytest.raises(SpecError) as raised:
        decode_source(data, "x.layout")
    (problem,) = raised.value.diagnostics
    return problem


def codes(text: str) -> list[str]:
    return [problem.code for problem in parse(Source("x.layout", text))[1]]


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.layout"
    file.write_bytes(b"\xef\xbb\xbfspec a\r\narch b\r\n")
    source = read_source(file, "a.layout")
    assert (source.name, source.text) == ("a.layout", "spec a\narch b\n")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.layout", tmp_path):
        with pytest.raises(SpecError) as raised:
            read_source(path, "specs/absent.layout")
        (problem,) = raised.value.diagnostics
        assert (problem.code, problem.file, problem.span) == ("unreadable-file", "specs/absent.layout", None)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"spec a\n# \xff", "byte 0xff at offset 9, on line 2"),
        (b"\xef\xbb\xbfspec \xe9t", "byte 0xe9 at offset 8, on line 1"),
        ("spec a".encode("utf-16"), "byte 0xff at offset 0, on line 1"),
    ],
)
def test_not_utf8_names_the_byte(data: bytes, place: str) -> None:
    problem = refusal(data)
    assert (problem.code, problem.file) == ("not-utf8", "x.layout")
    assert place in problem.message


def test_a_file_too_large(tmp_path: Path) -> None:
    lines = b"# twenty characters\n" * (MAX_FILE_BYTES // 20 + 1)
    file = tmp_path / "large.layout"
    file.write_bytes(lines)
    with pytest.raises(SpecError) as raised:
        read_source(file, "large.layout")
    assert [p.code for p in raised.value.diagnostics] == ["file-too-large"]
    assert codes(lines.decode()) == ["file-too-large"]
    assert codes("spec a\n" + "# é\n" * (MAX_FILE_BYTES // 5 + 1)) == ["file-too-large"]


def test_a_line_too_long() -> None:
    fits = "#" * MAX_LINE_BYTES
    assert codes(f"spec a\n{fits}\r\n") == []
    assert codes(f"spec a\n{fits}#\n") == ["line-too-long"]
    assert codes("spec a\n" + "é" * (MAX_LINE_BYTES // 2 + 1)) == ["line-too-long"]
    assert refusal(fits.encode() + b"#").code == "line-too-long"


@pytest.mark.parametrize(("open_", "close"), ["()", "[]", "{}"])
def test_nesting_too_deep(open_: str, close: str) -> None:
    def nested(depth: int) -> str:
        return f"const A = {open_ * depth}1{close * depth}"

    assert codes(nested(MAX_NESTING + 1)) == ["nesting-too-deep"]
    assert codes(nested(MAX_NESTING)) == ([] if open_ == "(" else ["syntax-error"])
    assert codes(f"const A = 1 # {open_ * 200}\n" + f'import "{open_ * 200}"') == []


@pytest.mark.parametrize(
    "character", ["\0", "\x1b", "\x0b", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ud800", "\r"]
)
def test_characters_that_nobody_sees(character: str) -> None:
    assert codes(f"spec a # {character} x") == ["control-character"]


@pytest.mark.parametrize("text", ["", "\n \t\n", "# only a comment\n", "## and a doc\n"])
def test_an_empty_file(text: str) -> None:
    assert codes(text)[0] == "empty-file"


def test_a_number_of_many_digits_is_no_traceback() -> None:
    assert codes(f"const A = {'9' * 9000}") == ["syntax-error"]


def test_lines_end_at_newlines_alone() -> None:
    source = Source("x", "a\x0cb\u2028c\nd\r\n")
    assert (source.line(1), source.line(2), source.line(3), source.line(4)) == ("a\x0cb\u2028c", "d", "", "")
    assert source.position(source.text.index("d")) == (2, 1)


def test_a_large_file_is_too_large_wherever_the_reading_stops(tmp_path: Path) -> None:
    """What was read ends in the middle of a character: that is no mistake of the file."""
    for name, lead in (("even", ""), ("odd", "#")):
        (tmp_path / name).write_text(lead + "é" * (1 << 20))
        with pytest.raises(SpecError) as refusal:
            read_source(tmp_path / name, name)
        assert [d.code for d in refusal.value.diagnostics] == ["file-too-large"]
