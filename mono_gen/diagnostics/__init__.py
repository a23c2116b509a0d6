"""Diagnostics: what is wrong with a spec, as data, and how it is shown."""

from mono_gen.diagnostics.model import Diagnostic, Label, SpecError

__all__ = ["Diagnostic", "Label", "SpecError"]
