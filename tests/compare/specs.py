"""Two specs as text, through the whole pipeline, and what the comparison says of them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from mono_gen.compare.model import Class, Item
from mono_gen.compare.specs import compare_specs
from mono_gen.pipeline import plan_specs
from mono_gen.plan.model import SpecPlan

_NUMBER = itertools.count()


def plans(folder: Path, text: str, name: str = "s") -> tuple[SpecPlan, ...]:
    """Return the plans of a spec; `spec NAME` and `arch gfx950` are put before a text that says no spec."""
    path = folder / f"side{next(_NUMBER)}" / f"{name}.layout"
    path.parent.mkdir()
    path.write_text(text if re.search(r"^spec ", text, re.MULTILINE) else f"spec {name}\narch gfx950\n{text}\n")
    return plan_specs([path], {})[0]


def compared(folder: Path, old: str, new: str) -> tuple[Item, ...]:
    """Return what is different between two texts."""
    return compare_specs(plans(folder, old), plans(folder, new))


def told(items: tuple[Item, ...], kind: Class | None = None) -> list[str]:
    """Return the changes of a class, or all, as `label: text`; what follows from another item ends in `<- item`."""
    return [
        f"{item.label}: {'' if kind else f'{c.kind} '}{c.text}{f' <- {c.because}' if c.because else ''}"
        for item in items
        for c in item.changes
        if kind in (None, c.kind)
    ]
