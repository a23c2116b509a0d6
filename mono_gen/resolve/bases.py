"""`extends`: the base of a struct, what is inherited from it, and which of its fields an override replaces."""

from __future__ import annotations

from mono_gen.diagnostics.model import Label
from mono_gen.model import FieldModel, StructModel
from mono_gen.resolve.building import Building, StructContext, claim_new
from mono_gen.resolve.feeds import check_field_feeds
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.nodes import Name


def base_of(item: nodes.Struct, context: StructContext, report: Report) -> StructModel | None:
    """Return the struct that this one extends, its arguments checked to begin with the base's."""
    if item.base is None:
        return None
    name = item.base.text
    if name not in context.structs:
        if context.layouts.is_complete:
            _unknown_base(item, item.base, context, report)
        return None
    base = context.structs[name]
    if base is None:
        return None
    mine = tuple(a.text for a in item.args)
    if mine[: len(base.args)] != base.args:
        _wrong_args(item, base, mine, report)
        return None
    return base


def _unknown_base(item: nodes.Struct, base: Name, context: StructContext, report: Report) -> None:
    """Report a base that no struct above has."""
    if base.text == item.name.text:
        message, help = f"struct {base.text} extends itself", "leave `extends` out, or name the base"
    elif base.text in context.later:
        message, help = f"struct {base.text} stands further down", "move the base above the structs that extend it"
    else:
        message, help = f"`{base.text}` is no struct", report.near(base.text, context.structs)
    report.error("unknown-name", base.span, message, label="no struct seen so far", help=help)


def _wrong_args(item: nodes.Struct, base: StructModel, mine: tuple[str, ...], report: Report) -> None:
    """Report arguments that rename or reorder those of the base."""
    at = next((i for i, (a, b) in enumerate(zip(mine, base.args, strict=False)) if a != b), len(mine))
    span = item.args[at].span if at < len(mine) else item.name.span
    more = [m for m in mine[len(base.args) :] if m not in base.args]
    found = f"`{mine[at]}`" if at < len(mine) else "nothing"
    report.error(
        "extends-args",
        span,
        f"argument {at + 1} of {item.name.text} is {found}, and that of {base.name} is `{base.args[at]}`",
        label="must begin with the base's arguments, in their order and under their names",
        also=(Label(item.base.span, f"{base.name}({', '.join(base.args)})"),) if item.base is not None else (),
        effect=f"what {base.name} reads from `{base.args[at]}` would be read from {found}",
        help=f"write `struct {item.name.text}({', '.join((*base.args, *more))})`",
    )


def inherit(here: Name, building: Building, base: StructModel, context: StructContext, report: Report) -> None:
    """Take over lets, requires, dims, fields, optionals and tables of the base; `here` is where it is named."""
    named = [(let.name, "a let") for let in base.lets]
    named += [(let.name, "a let") for optional in base.optionals for let in optional.lets]
    named += [(dim.name, "a dim") for dim in base.dims]
    named += [(optional.name, "an optional") for optional in base.optionals]
    named += [(tensor.name, "a field") for found in base.fields for tensor in found.tensors]
    named += [(table.name, "a table") for table in base.tables]
    for name, what in named:
        claim_new(building, Name(name, here.span), f"{what} of {base.name}", context, report)
    building.roots.update({let.name: None for let in base.lets})
    building.dim_values.update({dim.name: dim.values for dim in base.dims})
    building.lets.extend(base.lets)
    building.requires.extend(base.requires)
    building.dims.extend(base.dims)
    building.fields.extend(base.fields)
    building.optionals.extend(base.optionals)
    building.tables.extend(base.tables)
    for index, found in enumerate(base.fields):
        building.base_index.update({t.name: index for t in found.tensors})
        building.optional_of.update({t.name: found.optional for t in found.tensors})
        _check_dialect(here, found, base, context, report)
        for tensor in found.tensors:
            if tensor.layout is not None:
                check_field_feeds(here.span, tensor.layout, tensor.element, context.arch, report)


def _check_dialect(here: Name, found: FieldModel, base: StructModel, context: StructContext, report: Report) -> None:
    """Report an inherited field whose fp8 this file's arch does not read."""
    if context.arch is None or found.format.data.dialect in ("", context.arch.fp8):
        return
    report.error(
        "dialect",
        here.span,
        f"{base.name} holds `{found.name}` in {found.format.data.name}, but {context.arch.name} reads fp8 in the "
        f"{context.arch.fp8} dialect",
        label=f"{context.arch.name} does not have it",
        notes=(f"the field stands at {found.place}",),
        help="extend a struct of a file with an arch of the same dialect",
    )


def overridden_by(member: nodes.Field, building: Building, optional: str, report: Report) -> FieldModel | None:
    """Return the base's field that this one replaces, after reporting what it must keep and does not."""
    if building.base is None:
        return None
    names = tuple(n.text for n in member.names)
    for name in member.names:
        owner = building.names.get(name.text)
        if owner is None or owner[1] != f"a field of {building.base.name}":
            continue
        found = building.base.fields[building.base_index[name.text]]
        theirs = tuple(t.name for t in found.tensors)
        if names != theirs:
            report.error(
                "extends-names",
                member.names[0].span.to(member.names[-1].span),
                f"`{', '.join(names)}` overrides `{', '.join(theirs)}` of {building.base.name} under other names",
                label="an override keeps the field's name or names",
                notes=(f"the overridden field stands at {found.place}",),
                effect="tables of the base would list one tensor of the new field and one of the old",
                help=f"name it `{', '.join(theirs)}`",
            )
        elif name.text in building.declares:
            report.error(
                "duplicate-name",
                name.span,
                f"field `{name.text}` is overridden twice",
                label="the second time",
                help="keep one of them",
            )
        elif optional:
            report.error(
                "extends-optional",
                name.span,
                f"`{name.text}` overrides a field of {building.base.name} from inside optional {optional}",
                label="takes the base field's place, present or absent as that is",
                notes=(f"the overridden field stands at {found.place}",),
                help="write the override directly in the struct",
            )
        return found
    return None
