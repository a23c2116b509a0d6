"""Where resolve puts the mistakes that it finds. A value that is None has already been reported and stops cascades."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from mono_gen.diagnostics.model import Diagnostic, Label
from mono_gen.syntax.source import Span

SEARCHES = 50
"""Unknown names of a run that are compared with all known ones; more of them get a plain list."""


@dataclass(slots=True)
class Report:
    """The diagnostics of one run, in the order they were found."""

    found: list[Diagnostic] = field(default_factory=list)
    searches: int = 0

    def error(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        label: str = "",
        also: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        effect: str = "",
        help: str = "",
    ) -> None:
        """Add an error."""
        self.found.append(Diagnostic(code, span, message, label, also, notes, effect, help))

    def not_built(self, span: Span, what: str, why: str, help: str = "leave the clause out until it is built") -> None:
        """Add the error for a part of the language that no stage understands yet."""
        self.error(
            "not-built-yet",
            span,
            f"{what} is not built yet",
            label="would have no effect, and is never ignored",
            notes=(why,),
            help=help,
        )

    def near(self, name: str, known: Iterable[str]) -> str:
        """Return `near(name, known)`, or only the list of what is known once many names were searched for."""
        self.searches += 1
        return near(name, known) if self.searches <= SEARCHES else listed(sorted(known))

    @property
    def has_errors(self) -> bool:
        """Return whether any error (not only warnings) was found."""
        return any(d.severity == "error" for d in self.found)


def near(name: str, known: Iterable[str]) -> str:
    """Return a help text that names what is near an unknown name, or lists what is known."""
    names = sorted(known)
    close = [n for n in names if n.lower() == name.lower()] or get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(f"`{c}`" for c in close) + "?"
    return listed(names)


def listed(names: list[str]) -> str:
    """Return a help text that lists what is known; empty where nothing is."""
    if not names:
        return ""
    return "known here: " + ", ".join(f"`{n}`" for n in names[:12]) + (", ..." if len(names) > 12 else "")
