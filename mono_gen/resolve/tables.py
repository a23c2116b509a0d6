"""The pointer tables of a struct, and the locals of its loader."""

from __future__ import annotations

from mono_gen.diagnostics.model import Label
from mono_gen.model import ConvertModel, FieldModel, TableModel
from mono_gen.resolve.building import Building
from mono_gen.resolve.names import check_member_name
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.nodes import Name


def tables_of(building: Building, report: Report) -> None:
    """Read the args tables, now that all fields are known."""
    for item, optional in building.table_items:
        _extras(item, building, report)
        extras = tuple(e.text for e in item.extras)
        seen: dict[str, Name] = {}
        for member in item.members:
            if member.text in seen:
                report.error(
                    "duplicate-name",
                    member.span,
                    f"`{member.text}` stands twice in table {item.name.text}",
                    label="the second one",
                    also=(Label(seen[member.text].span, "the first one"),),
                    help="keep one of them",
                )
                continue
            seen[member.text] = member
            _member(item, member, extras, optional, building, report)
        _check_filled(item, optional, seen, building, report)
        building.tables.append(TableModel(item.name.text, extras, tuple(seen), optional, item.doc, place(item.span)))
        building.declares.add(item.name.text)


def _extras(item: nodes.Args, building: Building, report: Report) -> None:
    """Report extras named twice, named like a field, or without a place in the table."""
    members = {m.text for m in item.members}
    seen: dict[str, Name] = {}
    for extra in item.extras:
        check_member_name(extra, "an extra", report)
        if extra.text in seen or extra.text in building.optional_of:
            first = seen.get(extra.text)
            report.error(
                "duplicate-name",
                extra.span,
                f"`{extra.text}` is named twice as an extra of {item.name.text}"
                if first is not None
                else f"`{extra.text}` is an extra of {item.name.text} and a field",
                label="the second one" if first is not None else "which of them is meant?",
                also=(Label(first.span, "the first one"),) if first is not None else (),
                help="rename one" if first is None else "keep one of them",
            )
        elif extra.text not in members:
            report.error(
                "unused-extra",
                extra.span,
                f"extra `{extra.text}` is given at the call, but does not stand in table {item.name.text}",
                label="has no place in the table",
                effect=f"the address given for `{extra.text}` would reach no kernel",
                help=f"write `{extra.text}` in the table, or leave the extra out",
            )
        seen.setdefault(extra.text, extra)


def _check_filled(item: nodes.Args, optional: str, seen: dict[str, Name], building: Building, report: Report) -> None:
    """Report a table without members, and one of an optional that has none of the optional's fields."""
    if not item.members:
        report.error(
            "empty-table",
            item.name.span,
            f"table {item.name.text} has no members",
            label="no addresses",
            help="name the fields whose addresses the kernel takes, in its order",
        )
    elif optional and not any(building.optional_of.get(name) == optional for name in seen):
        report.error(
            "empty-table",
            item.name.span,
            f"table {item.name.text} stands in optional {optional}, and has none of its fields",
            label="nothing in it would be absent",
            help="move it to the struct, or name a field of the optional",
        )


def _member(
    item: nodes.Args, member: Name, extras: tuple[str, ...], optional: str, building: Building, report: Report
) -> None:
    """Report a table member that is no extra and no field, or a field that may be absent when the table is not."""
    name = member.text
    if name in extras:
        return
    if name not in building.optional_of:
        at = [m.text for m in item.members].index(name)
        report.error(
            "args-absent-field",
            member.span,
            f"table {item.name.text} names `{name}`, which is no field of the struct and no extra",
            label="unknown",
            effect=f"entry {at}, bytes {8 * at} to {8 * at + 7} of the table, would have no address",
            help=report.near(name, (*building.optional_of, *extras)),
        )
    elif building.optional_of[name] not in ("", optional):
        at = [m.text for m in item.members].index(name)
        report.error(
            "args-absent-field",
            member.span,
            f"`{name}` is absent when optional {building.optional_of[name]} is, but table {item.name.text} is not",
            label="may be None",
            effect=f"entry {at} of the table would have no address then",
            help=f"move the table into `optional {building.optional_of[name]}`",
        )


def check_locals(item: nodes.Struct, building: Building, report: Report) -> None:
    """Report names that the loader needs for itself: `w_source` for the source of a converted field `w`."""
    owners: dict[str, str] = {}
    for found in building.fields:
        for name in _locals(found):
            taken = building.names.get(name)
            owner = owners.setdefault(name, found.name)
            if taken is None and owner == found.name:
                continue
            span = taken[0].span if taken is not None else building.field_names.get(found.name, item.name).span
            report.error(
                "colliding-name",
                span,
                f"the loader of {item.name.text} needs the name `{name}` for a source of `{found.name}`, "
                + (f"and `{name}` is {taken[1]}" if taken is not None else f"and for one of `{owner}`"),
                label="would collide in generated code",
                effect=f"the tensor of one would be converted into `{found.name}`",
                help="rename one",
            )


def _locals(found: FieldModel) -> list[str]:
    """Return the locals that the loader makes for a field's sources."""
    if not isinstance(found.origin, ConvertModel):
        return []
    stems = [t.name for t in found.tensors]
    if len(found.origin.sources) > len(stems):
        stems.append(f"{stems[0]}_scale")
    gathered = [f"{s}_extent" for s in stems] if found.gather is not None else []
    return [*(f"{s}_source" for s in stems), *gathered]
