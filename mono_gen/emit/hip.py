"""Plan to the HIP header."""

from __future__ import annotations

from mono_gen.outputs import OutputFile
from mono_gen.plan.model import SpecPlan


def emit_hip(plan: SpecPlan) -> tuple[OutputFile, ...]:
    """Return the header of a spec."""
    return ()
