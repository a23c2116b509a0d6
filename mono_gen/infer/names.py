"""Names of axes and digits, as the library's layouts have them: R K g r b; and names that a spec may have."""

from __future__ import annotations

import re

from mono_gen.infer.combine import Pattern
from mono_gen.resolve.names import MEMBERS, NAMESPACES, PREFIXES
from mono_gen.syntax.words import is_reserved

_NAME = re.compile(r"\A[A-Za-z_]\w*\Z", re.ASCII)


def refused(name: str) -> str | None:
    """Return why a layout, axis or digit cannot have this name, or None where it can."""
    if not _NAME.match(name):
        return "not a name: letters, digits and underscores, no digit first"
    owner = is_reserved(name)
    if owner is not None:
        return f"reserved by {owner}"
    prefix = next((p for p in PREFIXES if name.startswith(p)), None)
    if prefix is not None:
        return f"generated code defines names that begin with `{prefix}` itself"
    if name in MEMBERS or name in NAMESPACES:
        return "generated code defines this name itself"
    return "every spec has this layout: torch's own order" if name == "row_major" else None


def free_name(wanted: str, otherwise: str) -> str:
    """Return a name that a spec may have, as near to the wanted one as can be."""
    plain = re.sub(r"_+", "_", re.sub(r"\W", "_", wanted, flags=re.ASCII)).strip("_")
    for prefix in PREFIXES:
        plain = plain.removeprefix(prefix)
    if plain[:1].isdigit():
        plain = f"{otherwise}_{plain}"
    for name in (plain, f"{plain}_layout", otherwise):
        if refused(name) is None:
            return name
    raise AssertionError(f"{otherwise} is a free name")


def axis_names(pattern: Pattern) -> tuple[str, ...]:
    """Return names for the axes: `row, k`, and `k, n` for a source that is stored the other way round."""
    rank = len(pattern.axes)
    if rank == 1:
        return ("k",)
    last_two = ("row", "k")
    if rank == 2 and pattern.store[0][0] == 1 and pattern.store[-1][0] == 0:
        last_two = ("k", "n")
    return (*(f"d{i}" for i in range(rank - 2)), *last_two)


def digit_names(pattern: Pattern, axes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return a name for each digit of each axis, slowest first; an axis of one digit gives it its own name."""
    taken = {axis for axis, mine in zip(axes, pattern.axes, strict=True) if len(mine.sizes) == 1}
    reserved = set(axes)
    result: list[tuple[str, ...]] = []
    for index, (axis, mine) in enumerate(zip(axes, pattern.axes, strict=True)):
        if len(mine.sizes) == 1:
            result.append((axis,))
            continue
        names = []
        for position in range(len(mine.sizes)):
            wanted = _wanted(pattern, index, position, axis)
            options = (*wanted, *(f"{axis[0].lower()}{n}" for n in range(1, 100)), *(f"digit{n}" for n in range(100)))
            name = next(n for n in options if n not in taken and n not in reserved and refused(n) is None)
            taken.add(name)
            names.append(name)
        result.append(tuple(names))
    return tuple(result)


def _wanted(pattern: Pattern, axis: int, position: int, name: str) -> tuple[str, ...]:
    """Return the names that a reader of the library expects for a digit, the best one first."""
    sizes = pattern.axes[axis].sizes
    size = sizes[position]
    letter = name[0].lower()
    if size is None:
        return (letter.upper(), f"{letter.upper()}{axis}", name.upper())
    free = sizes.index(None) if None in sizes else -1
    if position < free:  # slower than what is left: parts of the axis, gate and up for one
        return ("half", f"{letter}half") if size.value == 2 and not size.power else ("part", f"{letter}part")
    if position == len(sizes) - 1:
        if pattern.store[-1] == (axis, position) and name != "row":
            return ("b", f"{letter}b")
        return ("g", "q", letter) if letter == "k" else (letter, f"{letter}l")
    if size.value == 2 and not size.power:
        return (f"{letter}h",)
    return ("g", "q") if letter == "k" else (f"{letter}q", "q")
