"""Specs as texts: their models, or the codes of what is wrong with them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mono_gen.diagnostics import Diagnostic, SpecError
from mono_gen.model import FieldModel, LayoutModel, SpecModel, StructModel
from mono_gen.pipeline import plan_specs

HEAD = 'spec x\narch gfx950\nimport "aiter.layout"\n'


def spec_of(text: str, **overrides: int) -> SpecModel:
    """Return the model of a spec; `x.NAME` is overridden by NAME=V."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.layout"
        path.write_text(text)
        plans, _ = plan_specs([path], {f"x.{name}": value for name, value in overrides.items()})
    return plans[-1].model


def problems_of(text: str, **overrides: int) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a spec."""
    try:
        spec_of(text, **overrides)
    except SpecError as error:
        return error.diagnostics
    return ()


def codes_of(text: str, **overrides: int) -> list[str]:
    """Return the codes of what is wrong with a spec, in the order in which it was found."""
    return [d.code for d in problems_of(text, **overrides)]


def layout_text(clauses: str, axes: str = "row, k", before: str = "") -> str:
    """Return a spec with one layout."""
    return f"spec x\n{before}\nlayout a({axes}) {{\n{clauses}\n}}\n"


def layout_of(clauses: str, axes: str = "row, k", before: str = "") -> LayoutModel:
    """Return the model of a layout with these clauses."""
    return spec_of(layout_text(clauses, axes, before)).layouts[0]


def struct_text(members: str, before: str = "", args: str = "layer, group") -> str:
    """Return a spec with one struct."""
    return f"{HEAD}{before}\nstruct S({args}) {{\n{members}\n}}\n"


def struct_of(members: str, before: str = "") -> StructModel:
    """Return the model of a struct with these members."""
    return spec_of(struct_text(members, before)).structs[0]


def field_of(field: str, before: str = "") -> FieldModel:
    """Return the model of the last field of a struct with these members."""
    return struct_of(field, before).fields[-1]
