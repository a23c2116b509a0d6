"""Which kernel sources mention generated C++ names: by their text, comments apart."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mono_gen.compare.model import Kernels, Mention

SUFFIXES = (".hip", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".hpp", ".hh", ".hxx", ".h", ".inc", ".inl")
MOST_BYTES = 4 << 20
MOST_FILES = 5000

# A comment, or a literal in which `//` is none.
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_USING = re.compile(r"\busing\s+namespace\s+(?:::)?(mono::\w+(?:::\w+)*)\s*;")


def mentions(folder: Path, shown: str, names: Sequence[str]) -> Kernels:
    """Return the sources below a folder that mention one of the names, `mono::spec::Struct::field` each.

    A mention is the last part of a name behind `::`: kernels reach it through aliases, `Layer::w_o`, whose meaning is
    the build's. Under `using namespace mono::spec` a bare name is one, too.
    """
    sources = _sources(folder)
    found = []
    for path in sources:
        mine = _mentioned(_plain(_read(path)), names)
        if mine:
            file = f"{shown}/{path.relative_to(folder).as_posix()}"
            found.append(Mention(file, min(mine.values()), tuple(mine)))
    return Kernels(shown, len(sources), tuple(found))


def _sources(folder: Path) -> list[Path]:
    """Return the sources below a folder, hidden folders apart."""
    found: list[Path] = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        found += [Path(base, name) for name in sorted(files) if name.endswith(SUFFIXES)]
    return found[:MOST_FILES]


def _read(path: Path) -> str:
    """Return a source's text, empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _plain(text: str) -> str:
    """Return a text with its comments blanked, its lines where they were."""
    return _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)


def _mentioned(text: str, names: Sequence[str]) -> dict[str, int]:
    """Return the last parts of names that a text mentions, each with the line of its first place."""
    opened = tuple(f"{space}::" for space in _USING.findall(text))
    found: dict[str, int] = {}
    for name in names:
        last = name.rpartition("::")[2]
        if last in found or last not in text:
            continue
        is_bare = name.startswith(opened) if opened else False
        hit = re.search(rf"\b{last}\b" if is_bare else rf"::\s*{last}\b", text)
        if hit is not None:
            found[last] = text.count("\n", 0, hit.end()) + 1
    return found
