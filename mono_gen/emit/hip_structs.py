"""A struct as C++: a class a tensor, the tables of pointers, the ids that a kernel exports."""

from __future__ import annotations

from mono_gen.emit.hip_tensors import TensorView, tensor_view
from mono_gen.emit.hip_text import comment, id_literal, sampled
from mono_gen.frozen import frozen
from mono_gen.model import TableModel, TensorModel
from mono_gen.plan.model import FieldPlan, LayoutPlan, SpecPlan, StructPlan

POINTER_BYTES = 8


@frozen
class Alias:
    """`using name = target;`"""

    name: str
    target: str


@frozen
class TableView:
    """A table of pointers, and the assertions of its size and of each member's place."""

    name: str
    doc: tuple[str, ...]
    members: tuple[str, ...]
    asserts: tuple[str, ...]


@frozen
class StructView:
    """A struct: what it defines itself and what it takes from its base, what is asserted of it, and its aliases."""

    name: str
    doc: tuple[str, ...]
    inherited: tuple[Alias, ...]
    tensors: tuple[TensorView, ...]
    tables: tuple[TableView, ...]
    field_ids: tuple[str, ...]
    field_count: int
    id: str
    asserts: tuple[str, ...]
    aliases: tuple[Alias, ...]


def struct_view(struct: StructPlan, spec: SpecPlan) -> StructView:
    """Return the view of a struct of a spec."""
    model = struct.model
    base = next((s for s in spec.structs if s.model.name == model.base), None)
    theirs = {id(part) for part in (*base.fields, *base.tables)} if base is not None else set()
    shared = [f for f in struct.fields if id(f) in theirs]
    inherited = [*_names(shared), *(t.name for t in struct.tables if id(t) in theirs)]
    tensors = [
        tensor_view(model.name, f, t, _layout(t.model, spec))
        for f in struct.fields
        if id(f) not in theirs
        for t in f.tensors
    ]
    tables = [_table(model.name, t) for t in struct.tables if id(t) not in theirs]
    known = [*_names(struct.fields), *(t.name for t in struct.tables)]
    return StructView(
        name=model.name,
        doc=comment([*model.doc.split("\n"), str(model.place)] if model.doc else [str(model.place)], 0),
        inherited=tuple(Alias(name, f"{model.base}::{name}") for name in inherited),
        tensors=tuple(tensors),
        tables=tuple(tables),
        field_ids=tuple(f.model.name for f in struct.fields),
        field_count=len(struct.fields),
        id=id_literal(struct.id),
        asserts=(*(line for t in tensors for line in t.samples), *(line for t in tables for line in t.asserts)),
        aliases=tuple(Alias(name, f"{model.name}::{name}") for name in known if name in struct.first),
    )


def _layout(tensor: TensorModel, spec: SpecPlan) -> LayoutPlan | None:
    """Return the plan of a tensor's layout, which the header defines; None for row-major order."""
    if tensor.layout is None:
        return None
    return next(layout for layout in spec.layouts if layout.model is tensor.layout)


def _names(fields: list[FieldPlan] | tuple[FieldPlan, ...]) -> list[str]:
    """Return the names of the fields' tensors, in the order of the spec."""
    return [tensor.model.name for field in fields for tensor in field.tensors]


def _table(struct: str, table: TableModel) -> TableView:
    """Return the view of a table: a pointer of 8 bytes a member, in order."""
    whole = f"{struct}::{table.name}"
    absent = f", optional {table.optional}" if table.optional else ""
    asserts = [*sampled(f"sizeof({whole}) == {POINTER_BYTES * len(table.members)}", 0)]
    for index, name in enumerate(table.members):
        size = f"sizeof({whole}::{name}) == {POINTER_BYTES}"  # padding would hide a narrower member from the offsets
        asserts += sampled(f"MONO_OFFSETOF({whole}, {name}) == {POINTER_BYTES * index} && {size}", 0)
    return TableView(
        table.name,
        comment([*(table.doc.split("\n") if table.doc else []), f"{table.place}  args{absent}"], 4),
        tuple(f"{'void*' if name in table.extras else 'const void*'} {name};" for name in table.members),
        tuple(asserts),
    )
