"""A tensor by the name that a person gives it: `name`, of the struct that declares it first, or `Struct.name`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mono_gen.frozen import frozen
from mono_gen.plan.model import FieldPlan, SpecPlan, StructPlan, TensorPlan
from mono_gen.resolve.report import near


class Unfound(ValueError):
    """What was asked for is not there; the message says what is."""


@frozen
class Found:
    """A tensor with the field, struct and spec that it belongs to; `index` is 0 for data, 1 for a scale."""

    spec: SpecPlan
    struct: StructPlan
    field: FieldPlan
    index: int

    @property
    def tensor(self) -> TensorPlan:
        """Return the tensor's plan."""
        return self.field.tensors[self.index]

    @property
    def name(self) -> str:
        """Return `Struct.name`."""
        return f"{self.struct.model.name}.{self.tensor.model.name}"

    @property
    def dims(self) -> dict[str, tuple[int, ...] | None]:
        """Return the run-time dims of the struct with their values, None for any length."""
        return {dim.name: dim.values for dim in self.struct.model.dims}

    def other(self, index: int) -> Found:
        """Return the field's tensor of another index: the scale of data, the data of a scale."""
        return Found(self.spec, self.struct, self.field, index)


def find_tensor(plans: Sequence[SpecPlan], text: str) -> Found:
    """Return the tensor that a text names, looked for in the specs in turn.

    A bare name is the tensor of the struct that declares it first; in a spec that only inherits it, of the first struct
    that has it.
    Raises: Unfound, with what is near.
    """
    struct_name, _, name = text.rpartition(".")
    structs = [(plan, struct) for plan in plans for struct in plan.structs]
    if struct_name:
        structs = [(plan, struct) for plan, struct in structs if struct.model.name == struct_name]
        if not structs:
            raise Unfound(_no_struct(plans, struct_name))
    found = [Found(plan, struct, *place) for plan, struct in structs for place in _places(struct, name)]
    first = [f for f in found if f.tensor.model.name in f.struct.first]
    if found:
        return (first if first and not struct_name else found)[0]
    raise Unfound(_no_tensor(plans, structs, struct_name, name))


def _places(struct: StructPlan, name: str) -> Iterable[tuple[FieldPlan, int]]:
    """Yield the field of a tensor's name, and which of its tensors it is."""
    for field in struct.fields:
        for index, tensor in enumerate(field.tensors):
            if tensor.model.name == name:
                yield field, index


def _no_struct(plans: Sequence[SpecPlan], name: str) -> str:
    """Return the message for a struct that is not there."""
    known = [struct.model.name for plan in plans for struct in plan.structs]
    tail = near(name, known) if known else _no_structs(plans)
    return f"there is no struct `{name}` in {_specs(plans)}; {tail}"


def _no_tensor(
    plans: Sequence[SpecPlan], structs: Sequence[tuple[SpecPlan, StructPlan]], struct_name: str, name: str
) -> str:
    """Return the message for a tensor that is not there: what the name means instead, or what is near."""
    where = f"struct `{struct_name}`" if struct_name else _specs(plans)
    if any(layout.model.name == name for plan in plans for layout in plan.layouts) and not struct_name:
        return f"`{name}` is a layout, and has no extents: name a tensor of a struct"
    if any(table.name == name for _, struct in structs for table in struct.tables):
        return f"`{name}` is a table of pointers in {where}: name a tensor"
    known = {t.model.name for _, struct in structs for field in struct.fields for t in field.tensors}
    tail = near(name, known) if known else _no_structs(plans)
    return f"there is no tensor `{name}` in {where}; {tail}"


def _no_structs(plans: Sequence[SpecPlan]) -> str:
    """Return what a spec without structs has instead."""
    return f"{_specs(plans)} has layouts alone, and tensors belong to structs"


def _specs(plans: Sequence[SpecPlan]) -> str:
    """Return `spec minimax_m3`, or several: those with structs, where there are any."""
    names = dict.fromkeys(plan.model.name for plan in plans if plan.structs or not any(p.structs for p in plans))
    return f"spec{'s' if len(names) > 1 else ''} {', '.join(f'`{name}`' for name in names)}"
