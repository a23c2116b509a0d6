"""Two structs of one name: their fields and tables, the order of members, ids, what a layer is asked, names, docs."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.compare.fields import compare_fields, extents_text
from mono_gen.compare.model import Change, Item, Symbols
from mono_gen.compare.words import hex_id, plural
from mono_gen.frozen import replace
from mono_gen.model import ConditionModel, DimModel, LetModel, OptionalModel, StructModel, TableModel
from mono_gen.plan.model import FieldPlan, SpecPlan, StructPlan


def compare_structs(old: StructPlan, new: StructPlan, spec: SpecPlan) -> list[Item]:
    """Return what is different about a struct: an item for itself, one a field and one a table that it declares."""
    dims = {d.name: d for d in new.model.dims}
    pairs = match_fields(old, new)
    parts: list[Item] = []
    for a, b in pairs:
        if b.model.name in new.model.declares or a.model.name in old.model.declares:
            found = compare_fields(a, b, new.model.name, dims)
            parts += [replace(found, symbols=touched(found, spec, new, b))] if found is not None else []
    parts += _members(old, new, pairs, spec)
    changes = [
        *_abi(old, new, pairs, parts),
        *(Change("checks", text) for text in _checks(old.model, new.model)),
        *(Change("name", text) for text in _reworded(old.model, new.model)),
        *(Change("doc", text) for text in _docs(old.model, new.model)),
    ]
    model = new.model
    whole = Item("", "struct", model.name, old.model.place, model.place, tuple(changes))
    whole = replace(whole, symbols=_struct_touched(whole, spec, new))
    return [*([whole] if changes else []), *parts]


# --- generated names ---


def struct_symbols(spec: SpecPlan, name: str) -> Symbols:
    """Return the generated names of a whole struct."""
    return Symbols((name,), (f"mono::{spec.model.name}::{name}",))


def _struct_touched(item: Item, spec: SpecPlan, struct: StructPlan) -> Symbols:
    """Return the generated names that a change of a struct touches: of its id alone, or its loader, or all of it."""
    name = struct.model.name
    direct = {c.kind for c in item.changes if not c.because}
    ids = any(c.kind == "abi" for c in item.changes)
    python = [f"{name}.from_layer"] if direct & {"abi", "checks"} else []
    python += [f"{name}.struct_id", f"{name}.field_ids"] if ids else []
    cpp = [f"mono::{spec.model.name}::{name}::{member}" for member in ("kStructId", "kFieldIds")] if ids else []
    if (
        "name" in direct
        and item.changes
        and any(c.text.startswith("struct ") and c.kind == "name" for c in item.changes)
    ):
        return struct_symbols(spec, name)
    return Symbols(tuple(python), tuple(cpp))


def touched(item: Item, spec: SpecPlan, struct: StructPlan, field: FieldPlan) -> Symbols:
    """Return the generated names that a change of a field touches: those of the tensors that are another thing now.

    Where bytes move through a layout, the field's other tensor has another id and is the same thing.
    """
    if all(c.kind == "doc" for c in item.changes):
        return Symbols()
    if any(c.kind in ("bytes", "abi", "name") and not c.because for c in item.changes):
        return field_symbols(spec, struct, field, None)
    if any(c.kind == "bytes" for c in item.changes):
        return field_symbols(spec, struct, field, {name for name, _ in item.moves})
    return Symbols((f"{struct.model.name}.from_layer",), ())


def field_symbols(spec: SpecPlan, struct: StructPlan, field: FieldPlan, only: set[str] | None) -> Symbols:
    """Return the generated names of a field: those of its struct, of the structs that inherit it, and aliases.

    only: the tensors that are meant; None for all.
    """
    python: list[str] = []
    cpp: list[str] = []
    for tensor in field.tensors:
        name = tensor.model.name
        if only is not None and name not in only:
            continue
        for owner in _owners(spec, struct.model.name, field.model.name):
            python.append(f"{owner}.offset_{name}")
            cpp.append(f"mono::{spec.model.name}::{owner}::{name}")
        if name in struct.first:
            python.append(f"offset_{name}")
            cpp.append(f"mono::{spec.model.name}::{name}")
    return Symbols(tuple(python), tuple(cpp))


def _table_symbols(spec: SpecPlan, struct: StructPlan, table: TableModel) -> Symbols:
    owners = _owners(spec, struct.model.name, table.name)
    cpp = [f"mono::{spec.model.name}::{owner}::{table.name}" for owner in owners]
    cpp += [f"mono::{spec.model.name}::{table.name}"] if table.name in struct.first else []
    return Symbols(tuple(f"{owner}.{table.name}" for owner in owners), tuple(cpp))


def _owners(spec: SpecPlan, struct: str, member: str) -> list[str]:
    """Return a struct and those that inherit this member from it."""
    owners = [struct]
    for other in spec.structs:
        if other.model.base in owners and member not in other.model.declares:
            owners.append(other.model.name)
    return owners


# --- members ---


def match_fields(old: StructPlan, new: StructPlan) -> list[tuple[FieldPlan, FieldPlan]]:
    """Return the fields of both sides in pairs: by name, then those of one id whose name went and came."""
    by_name = {f.model.name: f for f in old.fields}
    pairs = [(by_name[f.model.name], f) for f in new.fields if f.model.name in by_name]
    names = {f.model.name for _, f in pairs}
    gone = [f for f in old.fields if f.model.name not in names]
    for field in new.fields:
        if field.model.name not in names:
            same = next((f for f in gone if f.id == field.id), None)
            if same is not None:
                gone.remove(same)
                pairs.append((same, field))
    return pairs


def _members(
    old: StructPlan, new: StructPlan, pairs: Sequence[tuple[FieldPlan, FieldPlan]], spec: SpecPlan
) -> list[Item]:
    """Return fields that only one side has, and tables."""
    before, after = {id(a) for a, _ in pairs}, {id(b) for _, b in pairs}
    found = []
    for f in old.fields:
        if id(f) not in before and f.model.name in old.model.declares:
            changes = (Change("abi", f"{_field_text(f)} is gone"),)
            name = f"{new.model.name}.{_names(f)}"
            found.append(Item("", "field", name, f.model.place, None, changes, (), field_symbols(spec, old, f, None)))
    for f in new.fields:
        if id(f) not in after and f.model.name in new.model.declares:
            changes = (Change("abi", f"{_field_text(f)} is new"),)
            name = f"{new.model.name}.{_names(f)}"
            found.append(Item("", "field", name, None, f.model.place, changes, (), field_symbols(spec, new, f, None)))
    return [*found, *_tables(old, new, spec)]


def _names(field: FieldPlan) -> str:
    return ", ".join(t.model.name for t in field.tensors)


def _field_text(field: FieldPlan) -> str:
    """Return what a field is: `mxfp4[E, 1536, 6144]`."""
    return f"{field.model.format.name}[{extents_text(field.model.tensors[0])}]"


def _tables(old: StructPlan, new: StructPlan, spec: SpecPlan) -> list[Item]:
    """Return the tables that are different."""
    before, after = ({t.name: t for t in s.tables} for s in (old, new))
    found = []
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        owner = new if b is not None else old
        if name not in owner.model.declares:
            continue
        changes = _table(a, b)
        if changes:
            table = b or a
            symbols = _table_symbols(spec, owner, table) if table is not None else Symbols()
            here, there = a.place if a is not None else None, b.place if b is not None else None
            found.append(Item("", "table", f"{new.model.name}.{name}", here, there, tuple(changes), (), symbols))
    return found


def _table(old: TableModel | None, new: TableModel | None) -> list[Change]:
    """Return what is different about a table of pointers."""
    if old is None or new is None:
        return [Change("abi", "table is new" if old is None else "table is gone")]
    changes = []
    if old.members != new.members:
        changes.append(Change("abi", f"pointers {order_text(old.members, new.members)}"))
    if old.extras != new.extras:
        changes.append(Change("abi", f"arguments ({', '.join(old.extras)}) -> ({', '.join(new.extras)})"))
    if old.optional != new.optional:
        here, there = old.optional or "always there", new.optional or "always there"
        changes.append(Change("checks", f"optional: {here} -> {there}"))
    if old.doc != new.doc:
        changes.append(Change("doc", "doc comment changed"))
    return changes


def order_text(old: Sequence[str], new: Sequence[str]) -> str:
    """Return what became of an order: what was added and dropped, what changed places, with the bytes of a pointer."""
    gone = [name for name in old if name not in new]
    come = [name for name in new if name not in old]
    apart = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    if not gone and not come and len(apart) == 2:
        a, b = apart
        return f"{old[a]} and {old[b]} exchanged, at bytes {8 * a} and {8 * b}"
    told = [f"{name} dropped" for name in gone]
    told += [f"{name} added at byte {8 * list(new).index(name)}" for name in come]
    if [n for n in old if n in new] != [n for n in new if n in old]:
        told.append(f"in another order from byte {8 * apart[0]} on")
    return ", ".join(told)


# --- the struct itself ---


def _abi(
    old: StructPlan, new: StructPlan, pairs: Sequence[tuple[FieldPlan, FieldPlan]], parts: Sequence[Item]
) -> list[Change]:
    """Return what is different about the id, the members and the arguments."""
    found = []
    if old.model.args != new.model.args:
        found.append(f"arguments ({', '.join(old.model.args)}) -> ({', '.join(new.model.args)})")
    if old.model.base != new.model.base:
        found.append(f"extends {old.model.base or 'nothing'} -> {new.model.base or 'nothing'}")
    renames = {a.model.name: b.model.name for a, b in pairs}
    before = [renames[f.model.name] for f in old.fields if f.model.name in renames]
    after = [f.model.name for f in new.fields if f.model.name in renames.values()]
    if before != after:
        at = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
        found.append(f"fields in another order: {before[at]} -> {after[at]} is the first, and so in kFieldIds")
    renamed = [f"member {a.model.name} -> {b.model.name}" for a, b in pairs if a.model.name != b.model.name]
    changes = [Change("abi", text) for text in (*found, *renamed)]
    if old.id != new.id:
        because = "" if changes else _because(old, new, parts)
        changes.append(Change("abi", f"struct id {hex_id(old.id)} -> {hex_id(new.id)}", because))
    return changes


def _because(old: StructPlan, new: StructPlan, parts: Sequence[Item]) -> str:
    """Return what made the id another one: a layout where all fields say so, else the fields and tables."""
    causes = {c.because or item.label for item in parts for c in item.changes if c.kind == "abi"}
    if len(causes) == 1:
        return causes.pop()
    return f"struct {new.model.base}" if not causes and new.model.base else "its fields"


def _checks(old: StructModel, new: StructModel) -> list[str]:
    """Return what a layer is asked now and was not, and the other way round."""
    found = _conditions(old.requires, new.requires)
    found += _lets(old.lets, new.lets)
    found += _dims(old.dims, new.dims)
    before, after = ({o.name: o for o in s.optionals} for s in (old, new))
    for name in dict.fromkeys((*before, *after)):
        found += _optional(name, before.get(name), after.get(name))
    return found


def _key(condition: ConditionModel) -> tuple[object, ...]:
    return condition.left, condition.op, condition.right


def _conditions(old: Sequence[ConditionModel], new: Sequence[ConditionModel]) -> list[str]:
    """Return conditions that are asked of a layer on one side alone."""
    before, after = ({_key(c): c for c in side} for side in (old, new))
    gone = [c for key, c in before.items() if key not in after]
    come = [c for key, c in after.items() if key not in before]
    found = []
    for c in gone:
        again = next((n for n in come if n.left == c.left and n.op == c.op), None)
        if again is None:
            found.append(f"`{_condition_text(c)}` is no longer asked")
        else:
            come.remove(again)
            found.append(f"`{_condition_text(c)}` -> `{_condition_text(again)}`")
    return [*found, *(f"`{_condition_text(c)}` is asked now" for c in come)]


def _condition_text(condition: ConditionModel) -> str:
    """Return a condition with its numbers put in, as the loader asks it."""
    left, op = str(condition.left), condition.op
    if op in ("is true", "is false"):
        return left if op == "is true" else f"not {left}"
    right = ", ".join(map(str, condition.right))
    return f"{left} {op} {{{right}}}" if op.endswith("in") else f"{left} {op} {right}"


def _lets(old: Sequence[LetModel], new: Sequence[LetModel]) -> list[str]:
    """Return lets that read other attributes."""
    before, after = ({let.name: let.paths for let in side} for side in (old, new))
    found = []
    for name in dict.fromkeys((*before, *after)):
        a, b = (" or ".join(map(str, side.get(name, ()))) for side in (before, after))
        if a != b:
            found.append(f"let {name}: {a or 'not there'} -> {b or 'not there'}")
    return found


def _dims(old: Sequence[DimModel], new: Sequence[DimModel]) -> list[str]:
    """Return run-time dims that take other extents."""
    before, after = ({dim.name: dim for dim in side} for side in (old, new))
    found = []
    for name in dict.fromkeys((*before, *after)):
        a, b = (_dim_text(side.get(name)) for side in (before, after))
        if a != b:
            found.append(f"dim {name}: {a} -> {b}")
    return found


def _dim_text(dim: DimModel | None) -> str:
    if dim is None:
        return "not there"
    return f"{{{', '.join(map(str, dim.values))}}}" if dim.values is not None else "any length"


def _optional(name: str, old: OptionalModel | None, new: OptionalModel | None) -> list[str]:
    """Return what is different about when an optional block is there, and what it asks."""
    if old is None or new is None:
        return [f"optional {name} is {'new' if old is None else 'gone'}"]
    told = [
        *_conditions(old.conditions, new.conditions),
        *_conditions(old.requires, new.requires),
        *_lets(old.lets, new.lets),
    ]
    return [f"optional {name}: {text}" for text in told]


def _reworded(old: StructModel, new: StructModel) -> list[str]:
    """Return the struct's new name, and what is the same and written in another order or another way."""
    found = [f"struct {old.name} -> {new.name}"] if old.name != new.name else []
    for word, before, after in (
        ("dims", [d.name for d in old.dims], [d.name for d in new.dims]),
        ("lets", [let.name for let in old.lets], [let.name for let in new.lets]),
        ("conditions", [str(_key(c)) for c in old.requires], [str(_key(c)) for c in new.requires]),
        ("optionals", [o.name for o in old.optionals], [o.name for o in new.optionals]),
        ("tables", [t.name for t in old.tables], [t.name for t in new.tables]),
    ):
        found += [f"{word} in another order"] if before != after and sorted(before) == sorted(after) else []
    if old.args != new.args:
        return found
    texts = {_key(c): c.text for c in _all_conditions(old)}
    for c in _all_conditions(new):
        text = texts.get(_key(c), c.text)
        if text != c.text:
            found.append(f"`{text}` reads `{c.text}`")
    return list(dict.fromkeys(found))


def _all_conditions(struct: StructModel) -> list[ConditionModel]:
    return [*struct.requires, *(c for o in struct.optionals for c in (*o.conditions, *o.requires))]


def _docs(old: StructModel, new: StructModel) -> list[str]:
    """Return doc comments that changed."""
    found = ["doc comment changed"] if old.doc != new.doc else []
    before = {o.name: o.doc for o in old.optionals}
    found += [f"doc comment of optional {o.name} changed" for o in new.optionals if before.get(o.name, o.doc) != o.doc]
    return found


def struct_text(struct: StructPlan) -> str:
    """Return what a struct holds, for one that only one side has."""
    return f"{plural(len(struct.fields), 'field')}, {plural(len(struct.tables), 'table')}"
