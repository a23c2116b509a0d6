"""A diagnostic is data: code, span, message, label, notes, effect, help. Renderers stand beside it."""

from __future__ import annotations

from typing import Literal

from mono_gen.frozen import frozen
from mono_gen.syntax.source import Span


@frozen
class Label:
    """A second place that the reader should see, and what to see there."""

    span: Span
    text: str


@frozen
class Diagnostic:
    """One mistake in a spec.

    code:     a key of `diagnostics.codes.CODES`.
    span:     where; None only where there is no text (a file that cannot be read).
    file:     the name shown where there is no span.
    message:  what was expected and what was found, with the values.
    label:    what stands under the caret.
    also:     other places that matter.
    effect:   one concrete consequence: a pair of coordinates, a byte.
    help:     the change that mends it.
    """

    code: str
    span: Span | None
    message: str
    label: str = ""
    also: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    effect: str = ""
    help: str = ""
    severity: Literal["error", "warning"] = "error"
    file: str = ""


class SpecError(Exception):
    """One or more diagnostics about specs."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in diagnostics))
        self.diagnostics = diagnostics
