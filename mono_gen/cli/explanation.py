"""`explain`: what the codes of diagnostics mean."""

from __future__ import annotations

import shutil
import textwrap

from mono_gen.cli import report
from mono_gen.diagnostics.codes import CODES
from mono_gen.diagnostics.explain import explain as explained
from mono_gen.diagnostics.explain import similar_codes


def explain(code: str | None) -> int:
    """Return the exit code, after printing what a code means; without one, all codes with their first sentences.

    Raises: CommandError, for a code that no diagnostic has.
    """
    if code is None:
        width = max(map(len, CODES))
        report.out("".join(f"{name:{width}}  {_first_sentence(name)}\n" for name in sorted(CODES)))
        return report.FINE
    text = explained(code)
    if text is None:
        near = similar_codes(code.lower())
        hint = f"did you mean {' or '.join(near)}?" if near else "`mono-gen explain` lists them all"
        raise report.CommandError(f"no diagnostic has the code '{code}'; {hint}")
    columns = min(shutil.get_terminal_size().columns, 100)
    report.out(f"{code}\n\n{textwrap.fill(text, columns)}\n")
    return report.FINE


def _first_sentence(code: str) -> str:
    return (explained(code) or "").split(". ")[0].rstrip(".") + "."
