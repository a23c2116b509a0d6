"""Layouts by name, as fields and structs look them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mono_gen.model import LayoutModel
from mono_gen.resolve.report import Report
from mono_gen.syntax.nodes import Name


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of a file and of its imports.

    by_name:     None for one whose own definition was refused.
    is_complete: whether all are known; an import or an item that could not be read may hold more.
    library:     layouts that an import would bring, each with the file to import.
    """

    by_name: Mapping[str, LayoutModel | None]
    is_complete: bool = True
    library: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What was already refused: nothing that hangs on it is looked at."""


POISONED = Poisoned()
Found = LayoutModel | Poisoned | None
"""A layout; None is `row_major`."""


def find_layout(name: Name, layouts: Layouts, report: Report) -> Found:
    """Return the layout of a name, None for `row_major`; report a name that nothing has."""
    if name.text == "row_major":
        return None
    if name.text in layouts.by_name:
        layout = layouts.by_name[name.text]
        return POISONED if layout is None else layout
    if layouts.is_complete:
        report.error(
            "unknown-name",
            name.span,
            f"`{name.text}` is no layout",
            label="unknown",
            help=_help(name.text, layouts, report),
        )
    return POISONED


def _help(name: str, layouts: Layouts, report: Report) -> str:
    """Return what mends a name that no layout has: an import, where the library knows it or one that is near."""
    known = (*layouts.by_name, "row_major")
    if name in layouts.library:
        return f'the library has it: write `import "{layouts.library[name]}"` behind the `spec` line'
    help = report.near(name, known)
    if help.startswith("did you mean"):
        return help
    further = report.near(name, layouts.library)
    if not further.startswith("did you mean"):
        return help
    files = " and ".join(f'`import "{file}"`' for file in sorted(set(layouts.library.values())))
    return f"{further} The library has it, with {files}"
