"""Places in specs as generated code and messages name them: the file's name, without its folder, and the line."""

from __future__ import annotations

from pathlib import Path

from mono_gen.model import Place
from mono_gen.syntax.source import Span


def place(span: Span) -> Place:
    """Return the file and line of a span."""
    return Place(Path(span.source.name).name, span.line)
