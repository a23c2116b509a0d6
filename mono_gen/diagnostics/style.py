"""Colours of a terminal, as plain ANSI codes."""

from __future__ import annotations

from typing import Literal

Paint = Literal["error", "warning", "bold", "frame"]

_CODES: dict[Paint, str] = {"error": "1;31", "warning": "1;33", "bold": "1", "frame": "1;34"}


def paint(text: str, how: Paint, colour: bool) -> str:
    """Return the text, in colour where that is wanted."""
    return f"\x1b[{_CODES[how]}m{text}\x1b[0m" if colour and text else text
