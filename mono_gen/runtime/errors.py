"""What is wrong with a tensor, a layer or a group, as data; and how it reads in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from mono_gen.frozen import frozen, uncompared

COLUMN_LIMIT = 56  # a wider cell is not padded for: it would push every other line off the screen
REPR_LIMIT = 120


@frozen
class Problem:
    """One thing that is not as the spec says.

    field:    the field, path or condition that it concerns.
    what:     which property: "dtype", "shape", "strides", ...
    expected: what the spec wants.
    found:    what there is.
    help:     what to do, where that is not plain; no part of equality.
    """

    field: str
    what: str
    expected: str
    found: str
    help: str = uncompared(default="")

    def line(self) -> str:
        """Return "field: what: expected ..., found ...; help", on one line."""
        tail = f"; {self.help}" if self.help else ""
        return one_line(f"{self.field}: {self.what}: expected {self.expected}, found {self.found}{tail}")


class MonoUnsupported(Exception):
    """A tensor, model or group that the spec does not cover: a list of problems, never a guess.

    Example:
        >>> print(MonoUnsupported("pack_x", (Problem("t", "dtype", "float8_e4m3fn", "bfloat16"),)))
        pack_x: t: dtype: expected float8_e4m3fn, found bfloat16
    """

    def __init__(self, subject: str, problems: Iterable[Problem]) -> None:
        self.subject = subject
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__(subject, self.problems)  # the arguments that unpickling calls the class with

    def __str__(self) -> str:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        return self.table() if is_terminal else self.log_line()

    def log_line(self) -> str:
        """Return every problem on one line, for logs."""
        if len(self.problems) == 1:
            only = self.problems[0]
            return only.line() if only.field == self.subject else f"{self.subject}: {only.line()}"
        return f"{self.subject}: {len(self.problems)} problems: {' | '.join(p.line() for p in self.problems)}"

    def table(self) -> str:
        """Return the problems one a line, in columns, for people."""
        if len(self.problems) == 1:
            return self.log_line()
        return "\n".join((f"{self.subject}: {len(self.problems)} problems", *_table(self.problems)))


def refuse(subject: str, what: str, expected: str, found: str, help: str = "") -> MonoUnsupported:
    """Return a refusal of one problem whose field is the subject itself."""
    return MonoUnsupported(subject, (Problem(subject, what, expected, found, help),))


def one_line(text: str) -> str:
    """Return `text` with every run of white space made one blank."""
    return " ".join(text.split())


def show(value: object) -> str:
    """Return the value and its type, short enough for a log line. Never reads a tensor's contents.

    A type that prints itself (a tensor would synchronise, a module fills the screen) is named only.
    """
    if isinstance(value, (bool, int, float, str, type(None))):
        text = one_line(repr(value))
        text = text if len(text) <= REPR_LIMIT else text[: REPR_LIMIT - 3] + "..."
        return text if value is None or isinstance(value, bool) else f"{text} ({type(value).__name__})"
    return f"an object of type {type(value).__name__}"


def _table(problems: tuple[Problem, ...]) -> list[str]:
    rows = [
        (p.field, p.what, f"expected {p.expected}", f"found {p.found}{'; ' if p.help else ''}{p.help}")
        for p in problems
    ]
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [min(COLUMN_LIMIT, max(len(row[column]) for row in cells)) for column in range(3)]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, [*widths, 0], strict=True)).rstrip() for row in cells
    ]
