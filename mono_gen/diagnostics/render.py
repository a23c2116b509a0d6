"""Diagnostics as text: one function a style. Nothing that a user wrote reaches a terminal raw."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from mono_gen.diagnostics.model import Diagnostic
from mono_gen.diagnostics.snippet import clean, snippets
from mono_gen.diagnostics.style import paint
from mono_gen.syntax.source import Span

Style = Literal["full", "concise", "json", "github"]


def render(diagnostics: Sequence[Diagnostic], style: Style, colour: bool) -> str:
    """Return the diagnostics as text without a final line end, by file and place."""
    ordered = sorted(diagnostics, key=_place)
    match style:
        case "full":
            return "\n\n".join(_full(d, colour) for d in ordered)
        case "concise":
            return "\n".join(_concise(d, colour) for d in ordered)
        case "json":
            return json.dumps([_json(d) for d in ordered], indent=2)
        case "github":
            return "\n".join(_github(d) for d in ordered)


def file_of(diagnostic: Diagnostic) -> str:
    """Return the name of the file that a diagnostic is about."""
    return diagnostic.span.source.name if diagnostic.span else diagnostic.file


def _place(diagnostic: Diagnostic) -> tuple[str, int, str]:
    return file_of(diagnostic), diagnostic.span.start if diagnostic.span else -1, diagnostic.code


def _full(d: Diagnostic, colour: bool) -> str:
    head = f"{paint(f'{d.severity}[{d.code}]', d.severity, colour)}{paint(f': {clean(d.message)}', 'bold', colour)}"
    lines, width = snippets(d, colour)
    gutter = " " * width
    if not d.span:
        lines = [f"{gutter}{paint('-->', 'frame', colour)} {clean(d.file)}"] if d.file else []
    remarks = [("note", note) for note in d.notes] + [("effect", d.effect), ("help", d.help)]
    told = [(name, text) for name, text in remarks if text]
    if told and d.span:
        lines.append(f"{gutter} {paint('|', 'frame', colour)}")
    for name, text in told:
        indent = f"\n{gutter}   {' ' * (len(name) + 2)}"
        body = indent.join(clean(line) for line in text.splitlines())
        lines.append(f"{gutter} {paint('=', 'frame', colour)} {paint(f'{name}:', 'bold', colour)} {body}")
    return "\n".join([head, *lines])


def _concise(d: Diagnostic, colour: bool) -> str:
    where = clean(file_of(d))
    if d.span:
        line, column = d.span.source.position(d.span.start)
        where = f"{where}:{line}:{column}"
    code = paint(f"{d.severity}[{d.code}]", d.severity, colour)
    return f"{where}: {code} {clean(d.message)}"


def _json(d: Diagnostic) -> dict[str, Any]:
    return {
        "code": d.code,
        "severity": d.severity,
        **_json_place(d.span, file_of(d)),
        "message": d.message,
        "label": d.label,
        "also": [{**_json_place(label.span, ""), "message": label.text} for label in d.also],
        "notes": list(d.notes),
        "effect": d.effect,
        "help": d.help,
    }


def _json_place(span: Span | None, file: str) -> dict[str, Any]:
    if span is None:
        return {"file": file, "line": None, "column": None, "end_line": None, "end_column": None}
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return {
        "file": span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


def _github(d: Diagnostic) -> str:
    properties = {"file": file_of(d)}
    if d.span:
        line, column = d.span.source.position(d.span.start)
        properties |= {"line": str(line), "col": str(column)}
    properties["title"] = d.code
    written = ",".join(f"{key}={_escape(value, property_=True)}" for key, value in properties.items())
    told = [d.message, *d.notes]
    told += [f"effect: {d.effect}"] if d.effect else []
    told += [f"help: {d.help}"] if d.help else []
    return f"::{d.severity} {written}::{_escape(chr(10).join(told), property_=False)}"


def _escape(text: str, *, property_: bool) -> str:
    """Return text as GitHub's workflow commands want it: percent, CR and LF, and in a property `:` and `,` too."""
    kept = re.sub(r"[^\r\n]+", lambda match: clean(match.group()), text)
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A"} | ({":": "%3A", ",": "%2C"} if property_ else {})
    return "".join(escapes.get(character, character) for character in kept)
