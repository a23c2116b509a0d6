"""A struct to its model: lets, requires, dims, optionals, tables, and what `extends` inherits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mono_gen.archs import ArchFacts
from mono_gen.diagnostics.model import Label
from mono_gen.model import (
    ConditionModel,
    DimModel,
    FieldModel,
    LayoutModel,
    LetModel,
    OptionalModel,
    StructModel,
    TableModel,
)
from mono_gen.resolve.conditions import Surroundings, attribute, conditions
from mono_gen.resolve.fields import FieldContext, resolve_field
from mono_gen.resolve.integers import Scope, extent
from mono_gen.resolve.names import check_member_name, claim
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report, near
from mono_gen.syntax import nodes
from mono_gen.syntax.nodes import Name


@dataclass(slots=True)
class _Building:
    """A struct while its members are read, in the order of the spec."""

    args: tuple[str, ...]
    base: StructModel | None
    names: dict[str, tuple[Name, str]] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    lets: list[LetModel] = field(default_factory=list)
    requires: list[ConditionModel] = field(default_factory=list)
    dims: list[DimModel] = field(default_factory=list)
    dim_values: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    fields: list[FieldModel] = field(default_factory=list)
    optionals: list[OptionalModel] = field(default_factory=list)
    tables: list[TableModel] = field(default_factory=list)
    table_items: list[tuple[nodes.Args, str]] = field(default_factory=list)
    declares: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    optional_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StructContext:
    """What a struct is resolved against: constants, layouts, structs by name (None: refused), the arch."""

    scope: Scope
    layouts: Mapping[str, LayoutModel | None]
    structs: Mapping[str, StructModel | None]
    arch: ArchFacts | None


def resolve_struct(item: nodes.Struct, context: StructContext, report: Report) -> StructModel | None:
    """Return the model of a struct with all that it inherits, or None after reporting what is wrong with it."""
    before = len(report.found)
    base = _base(item, context, report)
    if item.base is not None and base is None:
        return None
    args = tuple(a.text for a in item.args)
    building = _Building(args, base)
    for arg in item.args:
        check_member_name(arg, "an argument", report)
        _claim_new(building, arg, "an argument", context, report)
        building.roots.append(arg.text)
    if base is not None:
        _inherit(item, building, base, report)
    for member in item.members:
        _member(member, building, context, "", report)
    _tables(building, report)
    if len(report.found) > before:
        return None
    return StructModel(
        item.name.text,
        args,
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


def _base(item: nodes.Struct, context: StructContext, report: Report) -> StructModel | None:
    """Return the struct that this one extends, its arguments checked to begin with the base's."""
    if item.base is None:
        return None
    name = item.base.text
    if name not in context.structs:
        report.error(
            "unknown-name",
            item.base.span,
            f"`{name}` is no struct seen so far",
            help=near(name, context.structs) or "a base stands before the structs that extend it",
        )
        return None
    base = context.structs[name]
    if base is None:
        return None
    mine = tuple(a.text for a in item.args)
    if mine[: len(base.args)] != base.args:
        more = [m for m in mine if m not in base.args]
        report.error(
            "extends-args",
            item.name.span,
            f"arguments are ({', '.join(mine)}), but those of {name} are ({', '.join(base.args)})",
            label="must begin with the base's arguments, in their order and under their names",
            effect="what the base's lets read from one argument would be read from another",
            help=f"write `struct {item.name.text}({', '.join((*base.args, *more))})`",
        )
        return None
    return base


def _inherit(item: nodes.Struct, building: _Building, base: StructModel, report: Report) -> None:
    """Take over lets, requires, dims, fields, optionals and tables of the base."""
    assert item.base is not None, "called for a struct that extends"
    here = item.base
    optional_lets = [let for optional in base.optionals for let in optional.lets]
    for let in (*base.lets, *optional_lets):
        claim(building.names, Name(let.name, here.span), "a let of the base", report, "this struct")
    building.roots.extend(let.name for let in base.lets)
    for dim in base.dims:
        claim(building.names, Name(dim.name, here.span), "a dim of the base", report, "this struct")
    building.dim_values.update({dim.name: dim.values for dim in base.dims})
    for optional in base.optionals:
        claim(building.names, Name(optional.name, here.span), "an optional of the base", report, "this struct")
    for table in base.tables:
        claim(building.names, Name(table.name, here.span), "a table of the base", report, "this struct")
    building.lets.extend(base.lets)
    building.requires.extend(base.requires)
    building.dims.extend(base.dims)
    building.fields.extend(base.fields)
    building.optionals.extend(base.optionals)
    building.tables.extend(base.tables)
    for found in base.fields:
        building.optional_of.update({t.name: found.optional for t in found.tensors})


def _claim_new(building: _Building, name: Name, what: str, context: StructContext, report: Report) -> bool:
    """Enter a name of the struct, which must not be one of the spec's constants either."""
    if name.text in context.scope:
        report.error(
            "duplicate-name",
            name.span,
            f"`{name.text}` names {what}, and already a constant of the spec",
            label="the second one",
            help="rename one: conditions could mean either",
        )
        return False
    return claim(building.names, name, what, report, "this struct")


def _surroundings(building: _Building, context: StructContext, extra: tuple[str, ...] = ()) -> Surroundings:
    return Surroundings(context.scope, building.dim_values, (*building.roots, *extra))


def _member(member: nodes.Member_, building: _Building, context: StructContext, optional: str, report: Report) -> None:
    """Read one member of a struct."""
    match member:
        case nodes.Let():
            let = _let(member, building, context, report)
            if let is not None:
                building.lets.append(let)
                building.roots.append(let.name)
        case nodes.Require():
            building.requires.extend(conditions(member.conditions, _surroundings(building, context), report))
        case nodes.Dim():
            _dim(member, building, context, report)
        case nodes.Field():
            _field(member, building, context, optional, (), report)
        case nodes.Args():
            check_member_name(member.name, "a table", report)
            _claim_new(building, member.name, "a table", context, report)
            building.table_items.append((member, optional))
        case nodes.Optional():
            _optional(member, building, context, report)


def _let(
    member: nodes.Let, building: _Building, context: StructContext, report: Report, extra: tuple[str, ...] = ()
) -> LetModel | None:
    """Return a let, its paths starting from names seen so far."""
    check_member_name(member.name, "a let", report)
    _claim_new(building, member.name, "a let", context, report)
    around = _surroundings(building, context, extra)
    paths = tuple(attribute(path, around, report) for path in member.paths)
    if any(p is None for p in paths):
        building.roots.append(member.name.text)  # known, so that what hangs on it is not reported again
        return None
    return LetModel(member.name.text, tuple(p for p in paths if p is not None), place(member.span))


def _dim(member: nodes.Dim, building: _Building, context: StructContext, report: Report) -> None:
    """Read a run-time dim."""
    check_member_name(member.name, "a dim", report)
    if not _claim_new(building, member.name, "a dim", context, report):
        return
    values = None
    if member.values is not None:
        found = [extent(v, context.scope, report, f"a value of dim {member.name.text}") for v in member.values]
        values = tuple(v for v in found if v is not None)
        if len(set(values)) != len(values):
            report.error("duplicate-name", member.span, f"dim `{member.name.text}` lists a value twice: {values}")
    building.dim_values[member.name.text] = values
    building.dims.append(DimModel(member.name.text, values, place(member.span)))


def _optional(member: nodes.Optional, building: _Building, context: StructContext, report: Report) -> None:
    """Read an optional block: its condition, then its lets, fields and tables."""
    check_member_name(member.name, "an optional", report)
    _claim_new(building, member.name, "an optional", context, report)
    around = _surroundings(building, context)
    for condition in member.conditions:
        _check_condition_dims(condition, around, report)
    before = len(report.found)
    when = conditions(member.conditions, around, report)
    lets: list[LetModel] = []
    requires: list[ConditionModel] = []
    inner: list[str] = []
    for part in member.members:
        match part:
            case nodes.Let():
                let = _let(part, building, context, report, tuple(inner))
                if let is not None:
                    lets.append(let)
                inner.append(part.name.text)
            case nodes.Require():
                requires.extend(conditions(part.conditions, _surroundings(building, context, tuple(inner)), report))
            case nodes.Field():
                _field(part, building, context, member.name.text, tuple(inner), report)
            case nodes.Args():
                _member(part, building, context, member.name.text, report)
            case nodes.Dim() | nodes.Optional():
                word = "dim" if isinstance(part, nodes.Dim) else "optional"
                report.error(
                    "optional-member",
                    part.span,
                    f"`{word}` cannot stand in an optional block",
                    label="lets, requires, fields and args only",
                    help="move it to the struct",
                )
    if len(report.found) == before and not when:
        report.error(
            "optional-condition",
            member.span,
            f"optional {member.name.text} depends on constants alone",
            label="always there, or never",
            help="state a condition on a dim or an attribute",
        )
    building.optionals.append(
        OptionalModel(member.name.text, when, tuple(lets), tuple(requires), member.doc, place(member.span))
    )


def _check_condition_dims(condition: nodes.Condition, around: Surroundings, report: Report) -> None:
    """Report a comparison of a dim with a value that it can never have."""
    if not isinstance(condition, nodes.Compare) or condition.op != "==" or not isinstance(condition.left, nodes.Path):
        return
    values = around.dims.get(condition.left.text)
    if not values or not isinstance(condition.right, nodes.Path | nodes.Int):
        return
    right = condition.right.value if isinstance(condition.right, nodes.Int) else around.scope.get(condition.right.text)
    if right is not None and right not in values:
        report.error(
            "optional-condition",
            condition.span,
            f"dim `{condition.left.text}` is one of {', '.join(str(v) for v in values)}, never {right}",
            label="never true",
        )


def _field(
    member: nodes.Field,
    building: _Building,
    context: StructContext,
    optional: str,
    extra: tuple[str, ...],
    report: Report,
) -> None:
    """Read a field; one that overrides takes the base field's place."""
    names = tuple(n.text for n in member.names)
    overridden = _overridden(member, building, report)
    if overridden is None:
        for name in member.names:
            check_member_name(name, "a field", report)
            _claim_new(building, name, "a field", context, report)
    building.declares.update(names)
    for text in names:
        building.optional_of[text] = overridden.optional if overridden is not None else optional
    inherited = overridden.optional if overridden is not None else optional
    if overridden is not None and building.base is not None:
        extra = tuple(let.name for o in building.base.optionals if o.name == inherited for let in o.lets)
    around = _surroundings(building, context, extra)
    base = overridden
    made = resolve_field(
        member, FieldContext(around, context.layouts, context.arch, building.args, base, inherited), report
    )
    if made is None:
        building.failed.update(names)
    elif overridden is None:
        building.fields.append(made)
    else:
        building.fields = [made if f is overridden else f for f in building.fields]


def _overridden(member: nodes.Field, building: _Building, report: Report) -> FieldModel | None:
    """Return the base's field that this one replaces, after reporting names that match it only in part."""
    if building.base is None:
        return None
    names = tuple(n.text for n in member.names)
    for found in building.base.fields:
        theirs = tuple(t.name for t in found.tensors)
        if names == theirs:
            twice = next((n for n in member.names if n.text in building.declares), None)
            if twice is not None:
                report.error("duplicate-name", twice.span, f"field `{twice.text}` is overridden twice")
            return found
        if set(names) & set(theirs):
            report.error(
                "extends-names",
                member.names[0].span,
                f"`{', '.join(names)}` overrides `{', '.join(theirs)}` of {building.base.name} under other names",
                label="an override keeps the field's name or names",
                also=(),
                notes=(f"the overridden field stands at {found.place}",),
                effect="tables of the base would list one tensor of the new field and one of the old",
                help=f"name it `{', '.join(theirs)}`",
            )
            return found
    return None


def _tables(building: _Building, report: Report) -> None:
    """Read the args tables, now that all fields are known."""
    for item, optional in building.table_items:
        extras = tuple(e.text for e in item.extras)
        seen: dict[str, Name] = {}
        for extra in item.extras:
            check_member_name(extra, "an extra", report)
        if len(set(extras)) != len(extras):
            report.error("duplicate-name", item.name.span, f"an extra of {item.name.text} is named twice")
        if not item.members:
            report.error("empty-table", item.name.span, f"table {item.name.text} has no members")
        for member in item.members:
            if member.text in seen:
                report.error(
                    "duplicate-name",
                    member.span,
                    f"`{member.text}` stands twice in table {item.name.text}",
                    also=(Label(seen[member.text].span, "first here"),),
                )
            seen[member.text] = member
            _table_member(item, member, extras, optional, building, report)
        for extra in item.extras:
            if extra.text not in seen:
                report.error(
                    "unused-extra",
                    extra.span,
                    f"extra `{extra.text}` is given at the call, but does not stand in table {item.name.text}",
                    label="has no place in the table",
                )
        building.tables.append(TableModel(item.name.text, extras, tuple(seen), optional, item.doc, place(item.span)))
        building.declares.add(item.name.text)


def _table_member(
    item: nodes.Args, member: Name, extras: tuple[str, ...], optional: str, building: _Building, report: Report
) -> None:
    """Report a table member that is no extra and no field, or a field that may be absent when the table is not."""
    name = member.text
    if name in extras:
        if name in building.optional_of:
            report.error("duplicate-name", member.span, f"`{name}` is an extra and a field")
        return
    if name not in building.optional_of:
        report.error(
            "args-absent-field",
            member.span,
            f"table {item.name.text} names `{name}`, which is no field of the struct and no extra",
            label="unknown",
            effect="every address after it would move by one entry",
            help=near(name, (*building.optional_of, *extras)),
        )
    elif building.optional_of[name] not in ("", optional):
        report.error(
            "args-absent-field",
            member.span,
            f"`{name}` is absent when optional {building.optional_of[name]} is, but table {item.name.text} is not",
            label="may be None",
            help=f"move the table into `optional {building.optional_of[name]}`",
        )
