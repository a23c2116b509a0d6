"""Where resolve puts the mistakes that it finds. A value that is None has already been reported and stops cascades."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from mono_gen.diagnostics.model import Diagnostic, Label
from mono_gen.syntax.source import Span


@dataclass(slots=True)
class Report:
    """The diagnostics of one run, in the order they were found."""

    found: list[Diagnostic] = field(default_factory=list)

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

    def not_built(self, span: Span, clause: str, what: str) -> None:
        """Add the error for a clause of the language that no stage understands yet."""
        self.error(
            "not-built-yet",
            span,
            f"`{clause}` is not built yet",
            label="this clause would have no effect",
            notes=(what,),
            help="leave the clause out until mono-gen builds it; it is never ignored",
        )

    @property
    def has_errors(self) -> bool:
        """Return whether any error (not only warnings) was found."""
        return any(d.severity == "error" for d in self.found)


def near(name: str, known: Iterable[str]) -> str:
    """Return a help text that names what is near an unknown name, or lists what is known."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(f"`{c}`" for c in close) + "?"
    return (
        "known here: " + ", ".join(f"`{n}`" for n in names[:12]) + (", ..." if len(names) > 12 else "") if names else ""
    )
