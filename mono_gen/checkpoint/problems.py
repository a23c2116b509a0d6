"""What stands in the way of a conversion, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

WRONG_INPUT = 1
"""The exit code where spec, map and checkpoint do not fit together, or an output differs."""

WRONG_COMMAND = 2
"""The exit code where a file cannot be read or written, or must not be."""


class Refused(Exception):
    """A conversion that cannot be done: what it is about, a line a problem, and the command's exit code."""

    def __init__(self, subject: str, lines: Sequence[str], code: int = WRONG_COMMAND) -> None:
        super().__init__(subject, lines, code)
        self.subject = subject
        self.lines = tuple(lines)
        self.code = code

    def __str__(self) -> str:
        """Return the one problem on one line, or a line each under the subject."""
        if len(self.lines) == 1:
            return f"{self.subject}: {self.lines[0]}"
        return "\n".join((f"{self.subject}: {len(self.lines)} problems", *(f"  {line}" for line in self.lines)))


def joined(shape: Sequence[int]) -> str:
    """Return a shape as `1536 x 6144`."""
    return " x ".join(map(str, shape)) or "a scalar"
