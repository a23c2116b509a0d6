"""A text with its name, and spans in it. Offsets are stored; lines and columns are worked out when printing."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One `.layout` file as read: `name` is what messages show, `text` its characters."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return (line, column), both from 1, of a character offset."""
        starts = line_starts(self.text)
        line = bisect_right(starts, offset) - 1
        return line + 1, offset - starts[line] + 1

    def line(self, number: int) -> str:
        """Return line `number` (from 1) without its end."""
        starts = line_starts(self.text)
        if not 0 < number <= len(starts):
            return ""
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].removesuffix("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """Return the line of the first character, from 1."""
        return self.source.position(self.start)[0]

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of the other."""
        return Span(self.source, self.start, other.end)


@lru_cache(maxsize=64)
def line_starts(text: str) -> tuple[int, ...]:
    """Return the offset of the first character of each line. Only `\\n` ends a line."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return tuple(starts)
