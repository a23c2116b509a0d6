"""The lines of a spec that a diagnostic is about, with carets under them. Columns are those of a terminal."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from mono_gen.diagnostics.model import Diagnostic
from mono_gen.diagnostics.style import Paint, paint
from mono_gen.syntax.source import Source, Span

TAB = 4
MAX_COLUMNS = 160
_BEFORE = 60
_CUT = "..."


@dataclass(frozen=True, slots=True)
class _Mark:
    """One underline of a line: characters `start` to `end` of it, and what stands beside the underline."""

    start: int
    end: int
    text: str
    how: Paint


def clean(text: str) -> str:
    """Return text that is safe on a terminal and stays on its line: what cannot be printed is written as its number."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)


def snippets(diagnostic: Diagnostic, colour: bool) -> tuple[list[str], int]:
    """Return the lines below a diagnostic's message, and the width of their gutter."""
    if diagnostic.span is None:
        return [], 2
    how: Paint = diagnostic.severity
    marks: dict[tuple[Source, int], list[_Mark]] = {}
    for span, text, kind in [
        (diagnostic.span, diagnostic.label, how),
        *((label.span, label.text, "frame") for label in diagnostic.also),
    ]:
        line, mark = _mark(span, text, kind)
        marks.setdefault((span.source, line), []).append(mark)
    main = diagnostic.span.source
    width = max(len(str(line)) for _, line in marks) + 1
    gutter = " " * width
    bar = paint("|", "frame", colour)
    places = sorted(marks, key=lambda place: (place[0] is not main, place[0].name, place[1]))
    lines = [f"{gutter}{paint('-->', 'frame', colour)} {_where(diagnostic.span)}"]
    shown: tuple[Source, int] | None = None
    for source, line in places:
        if shown and source is not shown[0]:
            first = marks[source, line][0]
            lines.append(f"{gutter}{paint(':::', 'frame', colour)} {clean(source.name)}:{line}:{first.start + 1}")
        if shown is None or source is not shown[0]:
            lines.append(f"{gutter} {bar}")
        elif line > shown[1] + 1:
            lines.append(f"{gutter} {paint('...', 'frame', colour)}")
        lines += _line(source.line(line), line, marks[source, line], width, bar, colour)
        shown = (source, line)
    return lines, width


def _where(span: Span) -> str:
    line, column = span.source.position(span.start)
    return f"{clean(span.source.name)}:{line}:{column}"


def _mark(span: Span, text: str, how: Paint) -> tuple[int, _Mark]:
    line, column = span.source.position(span.start)
    length = len(span.source.line(line))
    start = min(column - 1, length)
    end = min(start + max(1, span.end - span.start), max(length, start + 1))
    return line, _Mark(start, end, text, how)


def _line(text: str, number: int, marks: list[_Mark], width: int, bar: str, colour: bool) -> list[str]:
    """Return a numbered line, cut to what fits around its first mark, and a line of carets a mark."""
    columns = _columns(text)
    first = 0
    if columns[-1] > MAX_COLUMNS:
        first = max(0, marks[0].start - _BEFORE)
    last = len(text)
    while columns[last] - columns[first] > MAX_COLUMNS:
        last = first + (last - first) * 7 // 8
    head, tail = _CUT if first else "", _CUT if last < len(text) else ""
    body = "".join(_shown(c, columns[i + 1] - columns[i]) for i, c in enumerate(text[first:last], first))
    lines = [f"{paint(str(number).rjust(width), 'frame', colour)} {bar} {head}{body}{tail}".rstrip()]
    for mark in sorted(marks, key=lambda m: (m.how == "frame", m.start)):
        start, end = min(max(mark.start, first), last), min(max(mark.end, first), last)
        indent = columns[start] - columns[first] + len(head)
        length = max(1, columns[end] - columns[start])
        under = ("-" if mark.how == "frame" else "^") * length
        told = f"{under} {clean(mark.text)}".rstrip()
        lines.append(f"{' ' * width} {bar} {' ' * indent}{paint(told, mark.how, colour)}")
    return lines


@lru_cache(maxsize=16)
def _columns(text: str) -> tuple[int, ...]:
    """Return the terminal column at which each character of a line begins, and that at which the line ends."""
    columns = [0]
    for character in text:
        at = columns[-1]
        columns.append(at + (TAB - at % TAB if character == "\t" else _width(character)))
    return tuple(columns)


def _width(character: str) -> int:
    if not character.isprintable():
        return len(clean(character))
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _shown(character: str, width: int) -> str:
    return " " * width if character == "\t" else clean(character)
