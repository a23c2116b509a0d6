"""Run-time dims of a whole struct: each bound by a tensor, before an optional's condition asks for it."""

from __future__ import annotations

from mono_gen.model import FieldModel
from mono_gen.resolve.building import Building
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes


def check_dims(item: nodes.Struct, building: Building, report: Report) -> None:
    """Report dims that no source binds, and conditions of optionals on dims that only optional fields bind."""
    bound = {name for found in building.fields for name in _bound_by(found)}
    always = {name for found in building.fields if not found.optional for name in _bound_by(found)}
    for dim in building.dims:
        if dim.name not in bound:
            name = building.dim_names.get(dim.name)
            report.error(
                "unbound-dim",
                name.span if name is not None else item.name.span,
                f"no tensor of {item.name.text} binds dim `{dim.name}`",
                label="its value would never be known",
                notes=("a dim is bound where it stands alone in a source's shape; `as [2 * E, K]` does not bind E",),
                help=f"make it the first extent of a field, as in `[{dim.name}, 64]`, or leave the dim out",
            )
    for optional in building.optionals:
        used = {side for c in optional.conditions for side in (c.left, *c.right) if isinstance(side, str)}
        late = sorted(used & bound - always)
        if late:
            report.error(
                "unbound-dim",
                building.optional_spans.get(optional.name, item.name.span),
                f"optional {optional.name} depends on dim `{late[0]}`, which only optional fields bind",
                label="asked for before any tensor binds it",
                effect=f"`{late[0]}` would be unknown, and {optional.name} absent from every layer",
                help="state a condition on an attribute of the layer, or on a dim of a field that is always there",
            )


def _bound_by(found: FieldModel) -> list[str]:
    """Return the dims that a field's sources bind: those that stand alone in a shape."""
    names: list[str] = []
    for source in found.origin.sources:
        if source.shape is not None:
            names.extend(d[0] for d in source.shape if len(d) == 1 and isinstance(d[0], str))
        elif found.tensors[0].runtime_dim is not None:
            names.append(found.tensors[0].runtime_dim)
    return names
