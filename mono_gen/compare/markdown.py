"""A difference as Markdown, for the top of a pull request: what a reviewer decides by, the rest folded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from mono_gen.compare.model import Class, Difference, Item, Symbols
from mono_gen.compare.text import consequences, title
from mono_gen.compare.words import plural

MOST_ITEMS = 12
"""How many items a class shows above the fold."""

# `_` inside a word is none, and `>` and `#` are some at the start of a line alone.
_SPECIAL = re.compile(r"([\\`*\[\]<|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def render_markdown(found: Difference) -> str:
    """Return the difference as GitHub's Markdown."""
    between = f"{_code(found.old)} → {_code(found.new)}"
    if not found.items:
        return f"**No difference in layouts**: {between} mean the same ({plural(found.specs, 'spec')}).\n"
    lines = [f"### Layouts: {', '.join(f'**{kind.upper()}**' for kind in found.classes)}", "", between, ""]
    for kind in found.classes:
        lines += _summary(found.items, kind)
    if found.kernels is not None:
        lines += [_kernels(found)]
    lines += ["", *_folded(f"Details: {_counts(found.items)}", _details(found.items))]
    symbols = found.symbols
    if symbols.python or symbols.cpp:
        named = [f"- {word}: {', '.join(map(_code, names))}" for word, names in _by_language(symbols) if names]
        lines += ["", *_folded(f"Generated names: {len(symbols.python) + len(symbols.cpp)} touched", named)]
    return "\n".join(lines) + "\n"


def _by_language(symbols: Symbols) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("Python", symbols.python), ("C++", symbols.cpp)


def _code(text: str) -> str:
    """Return a text as code, whatever quotes it holds."""
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def _escaped(text: str) -> str:
    """Return a text in which nothing is markup but the code in it."""
    parts = re.split(r"(`[^`]+`)", text)
    plain = (_SPECIAL.sub(r"\\\1", part).replace(" -> ", " → ") for part in parts[::2])
    return "".join(text for pair in zip_longest(plain, parts[1::2], fillvalue="") for text in pair)


def _summary(items: Sequence[Item], kind: Class) -> list[str]:
    """Return the bullets of one class, what follows from them one bullet below."""
    lines: list[str] = []
    direct = [item for item in items if any(c.kind == kind and not c.because for c in item.changes)]
    for item in direct[:MOST_ITEMS]:
        told = "; ".join(_escaped(c.text) for c in item.changes if c.kind == kind and not c.because)
        lines.append(f"- **{kind.upper()}** {item.kind} {_code(item.name)}: {told}")
    if len(direct) > MOST_ITEMS:
        lines.append(f"- **{kind.upper()}** {len(direct) - MOST_ITEMS} items more, in the details")
    indent = "  " if lines else ""
    mark = "" if lines else f"**{kind.upper()}** "
    lines += [f"{indent}- {mark}{_escaped(text)}" for text in consequences(items, kind, 6)]
    return lines


def _kernels(found: Difference) -> str:
    """Return the bullet about kernel sources."""
    kernels = found.kernels
    if kernels is None or not kernels.mentions:
        sources = plural(kernels.sources, "source") if kernels is not None else "no source"
        return f"- Kernels: none of {sources} in {_code(kernels.folder if kernels is not None else '')} mentions them"
    shown = [f"{_code(m.file)}:{m.line} ({', '.join(map(_code, m.names))})" for m in kernels.mentions[:MOST_ITEMS]]
    rest = len(kernels.mentions) - MOST_ITEMS
    return f"- Kernels to look at: {', '.join(shown)}{f' and {rest} more' if rest > 0 else ''}"


def _counts(items: Sequence[Item]) -> str:
    kinds = dict.fromkeys(item.kind for item in items)
    return ", ".join(plural(sum(i.kind == kind for i in items), kind) for kind in kinds)


def _details(items: Sequence[Item]) -> list[str]:
    """Return every change of every item."""
    lines = []
    for item in items:
        lines.append(f"- {_escaped(title(item))}")
        for change in item.changes:
            cause = f" (through {_escaped(change.because)})" if change.because else ""
            lines.append(f"  - {change.kind.upper()}: {_escaped(change.text)}{cause}")
    return lines


def _folded(title_: str, lines: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{title_}</summary>", "", *lines, "", "</details>"]
