"""A struct to its model: lets, requires, dims, optionals, tables, and what `extends` inherits."""

from __future__ import annotations

from mono_gen.diagnostics.model import Label
from mono_gen.model import ConditionModel, DimModel, FieldModel, LetModel, OptionalModel, StructModel
from mono_gen.resolve.bases import base_of, inherit, overridden_by
from mono_gen.resolve.building import Building, StructContext, claim_new, surroundings
from mono_gen.resolve.conditions import always, attribute, conditions
from mono_gen.resolve.dims import check_dims
from mono_gen.resolve.fields import FieldContext, resolve_field
from mono_gen.resolve.integers import extent
from mono_gen.resolve.names import check_member_name
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.resolve.tables import check_locals, tables_of
from mono_gen.syntax import nodes


def resolve_struct(item: nodes.Struct, context: StructContext, report: Report) -> StructModel | None:
    """Return the model of a struct with all that it inherits, or None after reporting what is wrong with it."""
    before = len(report.found)
    base = base_of(item, context, report)
    if item.base is not None and base is None:
        return None
    building = Building(tuple(a.text for a in item.args), base)
    for arg in item.args:
        check_member_name(arg, "an argument", report)
        claim_new(building, arg, "an argument", context, report)
        building.roots[arg.text] = None
    if item.base is not None and base is not None:
        inherit(item.base, building, base, context, report)
    for member in item.members:
        _member(member, building, context, report)
    tables_of(building, report)
    if not building.fields and not building.poisoned and len(report.found) == before:
        report.error(
            "empty-struct",
            item.name.span,
            f"struct {item.name.text} has no fields",
            label="nothing to load",
            help="add a field, or leave the struct out",
        )
    if building.poisoned or len(report.found) > before:
        return None
    check_dims(item, building, report)
    check_locals(item, building, report)
    if len(report.found) > before:
        return None
    return StructModel(
        item.name.text,
        building.args,
        base.name if base is not None else "",
        tuple(building.lets),
        tuple(building.requires),
        tuple(building.dims),
        tuple(building.fields),
        tuple(building.optionals),
        tuple(building.tables),
        frozenset(building.declares),
        item.doc,
        place(item.span),
    )


def _member(member: nodes.Member_, building: Building, context: StructContext, report: Report) -> None:
    """Read one member of a struct."""
    match member:
        case nodes.Let():
            let = _let(member, building, context, report)
            building.roots[member.name.text] = None  # known even if refused: what hangs on it is not reported again
            building.lets.extend([let] if let is not None else [])
        case nodes.Require():
            building.requires.extend(conditions(member.conditions, surroundings(building, context), report))
        case nodes.Dim():
            _dim(member, building, context, report)
        case nodes.Field():
            _field(member, building, context, "", (), report)
        case nodes.Args():
            _args(member, "", building, context, report)
        case nodes.Optional():
            _optional(member, building, context, report)


def _args(member: nodes.Args, optional: str, building: Building, context: StructContext, report: Report) -> None:
    """Take a table's name; its members are read when all fields are known."""
    check_member_name(member.name, "a table", report)
    claim_new(building, member.name, "a table", context, report)
    building.table_items.append((member, optional))


def _let(
    member: nodes.Let, building: Building, context: StructContext, report: Report, extra: tuple[str, ...] = ()
) -> LetModel | None:
    """Return a let, its paths starting from names seen so far."""
    check_member_name(member.name, "a let", report)
    claim_new(building, member.name, "a let", context, report)
    around = surroundings(building, context, extra)
    paths = tuple(attribute(path, around, report) for path in member.paths)
    if any(p is None for p in paths):
        return None
    return LetModel(member.name.text, tuple(p for p in paths if p is not None), place(member.span))


def _dim(member: nodes.Dim, building: Building, context: StructContext, report: Report) -> None:
    """Read a run-time dim."""
    check_member_name(member.name, "a dim", report)
    if not claim_new(building, member.name, "a dim", context, report):
        return
    values: tuple[int, ...] | None = None
    if member.values is not None:
        found = [extent(v, context.scope, report, f"a value of dim {member.name.text}") for v in member.values]
        values = tuple(v for v in found if v is not None)
        again = next((i for i, v in enumerate(found) if v is not None and v in found[:i]), None)
        if again is not None:
            report.error(
                "duplicate-name",
                member.values[again].span,
                f"dim `{member.name.text}` lists {found[again]} twice",
                label="the second one",
                also=(Label(member.values[found.index(found[again])].span, "the first one"),),
                help="keep one of them",
            )
        if len(values) < len(found):
            values, building.poisoned = None, True
    building.dim_values[member.name.text] = values
    building.dim_names[member.name.text] = member.name
    building.dims.append(DimModel(member.name.text, values, place(member.span)))


def _optional(member: nodes.Optional, building: Building, context: StructContext, report: Report) -> None:
    """Read an optional block: its condition, then its lets, requires, fields and tables."""
    check_member_name(member.name, "an optional", report)
    claim_new(building, member.name, "an optional", context, report)
    when = _when(member, building, context, report)
    lets: list[LetModel] = []
    requires: list[ConditionModel] = []
    inner: list[str] = []
    for part in member.members:
        match part:
            case nodes.Let():
                let = _let(part, building, context, report, tuple(inner))
                lets.extend([let] if let is not None else [])
                inner.append(part.name.text)
            case nodes.Require():
                around = surroundings(building, context, tuple(inner))
                requires.extend(conditions(part.conditions, around, report))
            case nodes.Field():
                _field(part, building, context, member.name.text, tuple(inner), report)
            case nodes.Args():
                _args(part, member.name.text, building, context, report)
            case nodes.Dim() | nodes.Optional():
                _not_in_optional(part, report)
    if not any(isinstance(part, nodes.Field | nodes.Optional) for part in member.members):
        report.error(
            "empty-optional",
            member.name.span,
            f"optional {member.name.text} has no field",
            label="nothing would be absent",
            help="put the fields that may be None into it, or leave it out",
        )
    building.optionals.append(
        OptionalModel(member.name.text, when, tuple(lets), tuple(requires), member.doc, place(member.span))
    )


def _when(
    member: nodes.Optional, building: Building, context: StructContext, report: Report
) -> tuple[ConditionModel, ...]:
    """Return an optional's conditions, which may hold or not."""
    before = len(report.found)
    around = surroundings(building, context)
    when = conditions(member.conditions, around, report)
    building.optional_spans[member.name.text] = member.conditions[0].span
    if len(report.found) > before:
        return when
    known = always(when, around) if when else True
    if known is not None:
        report.error(
            "optional-condition",
            member.conditions[0].span,
            f"optional {member.name.text} is {'always' if known else 'never'} there",
            label="of constants alone" if not when else f"{'true' if known else 'false'} for all that the dim may be",
            help="state a condition on a dim or an attribute that may hold or not",
        )
    return when


def _not_in_optional(part: nodes.Dim | nodes.Optional, report: Report) -> None:
    word = "dim" if isinstance(part, nodes.Dim) else "optional"
    report.error(
        "optional-member",
        part.name.span,
        f"{'a dim' if word == 'dim' else 'another optional'} cannot stand in an optional block",
        label="lets, requires, fields and args only",
        help="move it to the struct" + ("" if word == "dim" else ", and join the conditions with a comma"),
    )


def _field(
    member: nodes.Field,
    building: Building,
    context: StructContext,
    optional: str,
    extra: tuple[str, ...],
    report: Report,
) -> None:
    """Read a field; one that overrides takes the base field's place."""
    overridden = overridden_by(member, building, optional, report)
    for name in member.names:
        if overridden is None:
            check_member_name(name, "a field", report)
            claim_new(building, name, "a field", context, report)
        building.declares.add(name.text)
    if overridden is not None and building.base is not None:
        optional = overridden.optional
        extra = tuple(let.name for o in building.base.optionals if o.name == optional for let in o.lets)
    for name in member.names:
        building.optional_of[name.text] = optional
    around = surroundings(building, context, extra)
    made = resolve_field(
        member, FieldContext(around, context.layouts, context.arch, building.args, overridden, optional), report
    )
    building.poisoned = building.poisoned or made is None
    if made is not None:
        building.field_names[made.name] = member.names[0]
        _place(made, overridden, building)


def _place(made: FieldModel, overridden: FieldModel | None, building: Building) -> None:
    """Enter a field, in the base field's place where it overrides one."""
    if overridden is None:
        building.fields.append(made)
    else:
        index = building.base_index[overridden.name]
        building.fields[index] = made
