"""What a shell may complete: specs, names in a spec, codes, params. Nothing here may fail or print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mono_gen.cli.report import CommandError

if TYPE_CHECKING:
    from mono_gen.plan.model import SpecPlan


def codes(begin: str) -> list[str]:
    """Return the codes of diagnostics that begin like this."""
    from mono_gen.diagnostics.codes import CODES

    return sorted(code for code in CODES if code.startswith(begin))


def specs(begin: str) -> list[str]:
    """Return the names of specs that begin like this; files are the shell's to complete."""
    from mono_gen.cli.specs import spec_names

    return [] if "/" in begin else sorted(name for name in spec_names() if name.startswith(begin))


def spec_and_names(words: Sequence[str], begin: str, *, with_layouts: bool) -> list[str]:
    """Return what may follow: a spec first, then tensors of it, and layouts where these are drawn, too."""
    if not words:
        return specs(begin)
    names = set()
    for plan in _plans(words[0]):
        names |= {layout.model.name for layout in plan.layouts} | {"row_major"} if with_layouts else set()
        for struct in plan.structs:
            tensors = {tensor.model.name for field in struct.fields for tensor in field.tensors}
            names |= {f"{struct.model.name}.{name}" for name in tensors} if "." in begin else tensors
    return sorted(name for name in names if name.startswith(begin))


def params(begin: str) -> list[str]:
    """Return `SPEC.NAME=` of the params of the specs in the default folder."""
    from mono_gen.cli.arguments import find_specs

    try:
        paths = find_specs(None)
    except CommandError:
        return []
    found = [
        f"{plan.model.name}.{constant.name}="
        for path in paths
        for plan in _plans(str(path))
        for constant in plan.model.constants
        if constant.is_param
    ]
    return sorted(name for name in set(found) if name.startswith(begin))


def _plans(spec: str) -> Sequence[SpecPlan]:
    """Return the plans of a spec, none where it cannot be read."""
    from mono_gen.cli.specs import plans_of
    from mono_gen.diagnostics import SpecError

    try:
        return plans_of(spec, None)
    except (CommandError, SpecError, OSError):
        return ()
