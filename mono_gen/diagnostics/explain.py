"""What `mono-gen explain CODE` says."""

from __future__ import annotations

from difflib import get_close_matches

from mono_gen.diagnostics.codes import CODES


def explain(code: str) -> str | None:
    """Return the explanation of a code as one paragraph, or None where there is no such code."""
    text = CODES.get(code)
    return None if text is None else " ".join(text.split())


def similar_codes(code: str) -> list[str]:
    """Return up to three codes that look like this one, best first."""
    return get_close_matches(code, CODES, 3, 0.5)
