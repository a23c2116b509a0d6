"""Python source text: calls, tuples and sums, broken over lines as a formatter would break them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from mono_gen.terms import PYTHON, Op, Term, text

WIDTH = 120


def quoted(value: str) -> str:
    """Return a string literal with double quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def wrapped(doc: Sequence[str]) -> list[str]:
    """Return doc lines, those that are too long broken between words."""
    return [part for line in doc for part in textwrap.wrap(line, 110, break_on_hyphens=False) or [""]]


def safe(line: str) -> str:
    """Return a line that can stand in a docstring."""
    line = line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f"{line} " if line.endswith('"') else line


def tuple_text(items: Sequence[str]) -> str:
    """Return a tuple of source texts, the comma of a single one kept."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def call(start: str, args: Sequence[str], indent: int) -> list[str]:
    """Return `start(args)` on one line where it fits at the indent, else an argument a line."""
    line = f"{start}({', '.join(args)})"
    if indent + len(line) <= WIDTH:
        return [line]
    return [f"{start}(", *(f"    {arg}," for arg in args), ")"]


def assignment(name: str, term: Term, indent: int) -> list[str]:
    """Return `name = term`, a sum that is too long with a term a line."""
    line = f"{name} = {text(term, PYTHON)}"
    if indent + len(line) <= WIDTH:
        return [line]
    return [f"{name} = (", *broken_sum(term), ")"]


def returned(term: Term, indent: int) -> list[str]:
    """Return `return term`, a sum that is too long with a term a line."""
    line = f"return {text(term, PYTHON)}"
    if indent + len(line) <= WIDTH:
        return [line]
    return ["return (", *broken_sum(term), ")"]


def broken_sum(term: Term) -> list[str]:
    """Return a sum with a term a line, indented once."""
    parts: list[Term] = []
    while isinstance(term, Op) and term.op == "+":
        parts.append(term.right)
        term = term.left
    parts.append(term)
    first, *rest = [
        text(part, PYTHON, 2 if isinstance(part, Op) and part.op in "+-" else 0) for part in reversed(parts)
    ]
    return [f"    {first}", *(f"    + {part}" for part in rest)]
