"""A difference on a terminal: the gravest class first, what follows from a change in one line behind it."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.compare.model import Change, Class, Difference, Item, Kernels, Mention
from mono_gen.compare.words import plural, some

MOST_NAMES = 4
"""How many names stand in a line that only sums up."""

WIDTH = 8
_CODES: dict[str, str] = {"bytes": "1;31", "abi": "1;33", "checks": "1;36", "name": "1", "doc": "1"}


def render_text(found: Difference, colour: bool) -> str:
    """Return the difference as lines for a terminal."""
    if not found.items:
        return f"no difference: {found.old} and {found.new} mean the same ({plural(found.specs, 'spec')})\n"
    classes = ", ".join(_paint(kind.upper(), kind, colour) for kind in found.classes)
    lines = [f"{found.old} -> {found.new}: {classes}"]
    for kind in found.classes:
        lines += _class_lines(found.items, kind, colour)
    symbols = found.symbols
    if symbols.python:
        lines.append(_line("touched", "", some(symbols.python, MOST_NAMES), False))
    if symbols.cpp:
        lines.append(_line("" if symbols.python else "touched", "", some(symbols.cpp, MOST_NAMES), False))
    if found.kernels is not None:
        lines.append(_line("kernels", "", kernels_text(found.kernels), False))
    return "".join(f"{line}\n" for line in lines)


def _paint(text: str, kind: str, colour: bool) -> str:
    return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if colour else text


def _line(head: str, kind: str, text: str, colour: bool) -> str:
    """Return a line with its head in a column of its own."""
    painted = _paint(head, kind, colour) if head and kind else head
    return f"{painted}{' ' * (WIDTH - len(head))}{text}"


def _class_lines(items: Sequence[Item], kind: Class, colour: bool) -> list[str]:
    """Return the lines of one class: an item each, long texts on lines of their own, then what follows from them."""
    lines: list[str] = []
    for item in items:
        told = [c.text for c in item.changes if c.kind == kind and not c.because]
        if told:
            head = kind.upper() if not lines else ""
            first, *rest = _texts(told)
            lines.append(_line(head, kind, f"{title(item)}: {first}", colour))
            lines += [_line("", kind, f"  {text}", colour) for text in rest]
    for text in consequences(items, kind, MOST_NAMES):
        lines.append(_line(kind.upper() if not lines else "", kind, f"  {text}" if lines else text, colour))
    return lines


def _texts(told: Sequence[str]) -> list[str]:
    """Return short texts on one line, the others on theirs."""
    lines: list[str] = []
    for text in told:
        if lines and len(lines[-1]) + len(text) < 84:
            lines[-1] += f"; {text}"
        else:
            lines.append(text)
    return lines


def title(item: Item) -> str:
    """Return an item with the place where it stands."""
    place = item.new or item.old
    return f"{item.label} ({place})" if place is not None else f"{item.label} (spec {item.spec})"


def consequences(items: Sequence[Item], kind: Class, most: int) -> list[str]:
    """Return what follows from changes of other items: bytes by cause, ids together."""
    told = [(item, c) for item in items for c in item.changes if c.kind == kind and c.because]
    if not told:
        return []
    if kind == "abi":
        return [f"with that: ids of {_id_names(told, most)}"]
    found = []
    for cause in dict.fromkeys(c.because for _, c in told):
        mine = [(item, c) for item, c in told if c.because == cause]
        if kind != "bytes":
            names = list(dict.fromkeys(item.name for item, _ in mine))
            found.append(f"through {cause}: {some(names, most)} as well")
            continue
        names = [f"{item.name.partition('.')[0]}.{c.text}" for item, c in mine]
        found.append(f"through {cause}: {some([name.replace(': ', ' ') for name in names], most)}")
    return found


def _id_names(told: Sequence[tuple[Item, Change]], most: int) -> str:
    """Return `2 fields (T.w, T.x) and 1 struct (T)`."""
    parts = []
    for kind in ("field", "struct"):
        names = [item.name.partition(",")[0] for item, _ in told if item.kind == kind]
        parts += [f"{plural(len(names), kind)} ({some(names, most)})"] if names else []
    return " and ".join(parts)


def kernels_text(kernels: Kernels) -> str:
    """Return which sources mention touched names."""
    if not kernels.mentions:
        return f"none of {plural(kernels.sources, 'source')} in {kernels.folder} mentions a touched name"
    return some([mention_text(m) for m in kernels.mentions], MOST_NAMES)


def mention_text(mention: Mention) -> str:
    """Return `kernels/moe.hip:12 (w13, w2)`."""
    return f"{mention.file}:{mention.line} ({some(mention.names, 3)})"
