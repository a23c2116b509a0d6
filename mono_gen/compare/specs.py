"""Two runs of specs: which specs, constants, layouts and structs belong together, and what is different about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mono_gen.compare.layouts import compare_layouts, layout_symbols
from mono_gen.compare.model import Change, Item, Symbols
from mono_gen.compare.structs import compare_structs, struct_symbols, struct_text
from mono_gen.compare.words import plural
from mono_gen.frozen import replace
from mono_gen.model import Constant, SpecModel
from mono_gen.plan.model import LayoutPlan, SpecPlan, StructPlan

Pair = tuple[SpecPlan | None, SpecPlan | None]


def compare_specs(old: Sequence[SpecPlan], new: Sequence[SpecPlan]) -> tuple[Item, ...]:
    """Return all that is different between two runs, in the order of the new specs."""
    found: list[Item] = []
    for before, after in _pairs(old, new):
        if before is not None and after is not None:
            found += _compare(before, after)
        else:
            found += _alone(before, after)
    return tuple(found)


def _pairs(old: Sequence[SpecPlan], new: Sequence[SpecPlan]) -> list[Pair]:
    """Return the specs of both sides by name; one that went and one that came are one where they share a name."""
    by_name = {plan.model.name: plan for plan in old}
    pairs: list[Pair] = [(by_name.pop(plan.model.name, None), plan) for plan in new]
    come = [plan for before, plan in pairs if before is None and plan is not None]
    gone = list(by_name.values())
    if len(come) == 1 and len(gone) == 1 and _item_names(come[0].model) & _item_names(gone[0].model):
        return [(gone[0], plan) if plan is come[0] else (before, plan) for before, plan in pairs]
    return [*pairs, *((plan, None) for plan in gone)]


def _item_names(model: SpecModel) -> set[str]:
    return {layout.name for layout in model.layouts} | {struct.name for struct in model.structs}


def _alone(old: SpecPlan | None, new: SpecPlan | None) -> list[Item]:
    """Return the item of a spec that only one side has."""
    plan = new or old
    if plan is None:
        return []
    model = plan.model
    holds = f"{plural(len(model.layouts), 'layout')}, {plural(len(model.structs), 'struct')}"
    change = Change("abi", f"spec is {'new' if old is None else 'gone'}: {holds}")
    return [Item(model.name, "spec", model.name, None, None, (change,), (), _spec_symbols(model))]


def _spec_symbols(model: SpecModel) -> Symbols:
    return Symbols((model.name,), (f"mono::{model.name}",))


def _compare(old: SpecPlan, new: SpecPlan) -> list[Item]:
    """Return what is different about a spec and all that stands in it."""
    name = new.model.name
    found = _head(old.model, new.model)
    found += _constants(old.model, new.model)
    found += _layouts(old, new)
    before, after = {s.model.name: s for s in old.structs}, {s.model.name: s for s in new.structs}
    renames = _renamed_structs(before, after)
    for struct in new.structs:
        mine = before.get(renames.get(struct.model.name, struct.model.name))
        found += compare_structs(mine, struct, new) if mine is not None else [_struct_alone(struct, new, "new")]
    taken = {renames.get(n, n) for n in after}
    found += [_struct_alone(struct, old, "gone") for n, struct in before.items() if n not in taken]
    bases = {s.model.name: s.model.base for s in new.structs}
    return [replace(item, spec=name) for item in _inherited(found, bases)]


def _head(old: SpecModel, new: SpecModel) -> list[Item]:
    """Return the item of the spec's own lines: its name, arch and doc comment."""
    changes = []
    if old.name != new.name:
        text = f"spec {old.name} -> {new.name}: module {new.name}.py, namespace mono::{new.name}"
        changes.append(Change("abi", text))
    archs = tuple(side.arch.name if side.arch is not None else "none" for side in (old, new))
    if archs[0] != archs[1]:
        changes.append(Change("checks", f"arch {archs[0]} -> {archs[1]}"))
    if old.doc != new.doc:
        changes.append(Change("doc", "doc comment changed"))
    symbols = _spec_symbols(old) if old.name != new.name else Symbols()
    return [Item(new.name, "spec", new.name, None, None, tuple(changes), (), symbols)] if changes else []


# --- constants ---


def _constants(old: SpecModel, new: SpecModel) -> list[Item]:
    """Return the constants that are different. What follows from a value stands with the fields that use it."""
    before, after = ({c.name: c for c in side.constants} for side in (old, new))
    gone = [c for n, c in before.items() if n not in after]
    found = []
    for name, constant in after.items():
        mine = before.get(name)
        if mine is None:
            mine = next((c for c in gone if (c.value, c.is_param) == (constant.value, constant.is_param)), None)
            gone = [c for c in gone if c is not mine]
        changes = _constant(mine, constant)
        found += [_constant_item(constant, changes)] if changes else []
    return found + [_constant_item(c, [_only(c, "gone")]) for c in gone]


def _constant_item(constant: Constant, changes: list[Change]) -> Item:
    kind = "param" if constant.is_param else "const"
    return Item("", kind, constant.name, None, None, tuple(changes))


def _only(constant: Constant, word: str) -> Change:
    """Return what it means that one side alone has a constant: a param may be set, a const is a name."""
    text = f"{word}, {constant.value}"
    if constant.is_param:
        return Change("checks", f"{text}: `--set` of it is {'accepted' if word == 'new' else 'refused'} now")
    return Change("name", text)


def _constant(old: Constant | None, new: Constant) -> list[Change]:
    """Return what is different about a constant."""
    if old is None:
        return [_only(new, "new")]
    changes = []
    if old.value != new.value:
        changes.append(Change("checks", f"{old.value} -> {new.value}"))
    if old.is_param != new.is_param:
        kinds = ("param" if side.is_param else "const" for side in (old, new))
        allowed = "accepted" if new.is_param else "refused"
        changes.append(Change("checks", f"{' -> '.join(kinds)}: `--set` of it is {allowed} now"))
    if old.name != new.name:
        changes.append(Change("checks" if new.is_param else "name", f"{old.name} -> {new.name}"))
    if old.doc != new.doc:
        changes.append(Change("doc", "doc comment changed"))
    return changes


# --- layouts ---


def _layouts(old: SpecPlan, new: SpecPlan) -> list[Item]:
    """Return the layouts that are different: the spec's own, and which imported ones it has in its files."""
    before, after = ({p.model.name: p for p in side.layouts} for side in (old, new))
    gone = {n: p for n, p in before.items() if n not in after}
    found = []
    for name, plan in after.items():
        mine = before.get(name)
        if mine is None:
            mine = next((p for p in gone.values() if p.id == plan.id and _is_own(p, old) and _is_own(plan, new)), None)
            if mine is not None:
                del gone[mine.model.name]
        if mine is None:
            found.append(_layout_alone(plan, new, "new"))
        elif _is_own(plan, new) or _is_own(mine, old):
            item = compare_layouts(mine, plan, new.model.name)
            found += [item] if item is not None else []
    return found + [_layout_alone(plan, old, "gone") for plan in gone.values()]


def _is_own(plan: LayoutPlan, spec: SpecPlan) -> bool:
    """Return whether a layout stands in the spec's own file: what is imported is compared where it stands."""
    return plan.model.place.file == spec.model.file


def _layout_alone(plan: LayoutPlan, spec: SpecPlan, word: str) -> Item:
    model = plan.model
    name = spec.model.name
    file = model.place.file
    changes = (Change("abi", f"{word}{'' if _is_own(plan, spec) else f' in this spec, of {file}'}"),)
    old, new = (None, model.place) if word == "new" else (model.place, None)
    return Item("", "layout", model.name, old, new, changes, (), layout_symbols(name, model.name))


# --- structs ---


def _renamed_structs(old: dict[str, StructPlan], new: dict[str, StructPlan]) -> dict[str, str]:
    """Return {new name: old name} of structs whose id is the same and whose name went and came."""
    gone = {n: s for n, s in old.items() if n not in new}
    renames: dict[str, str] = {}
    for name, struct in new.items():
        same = next((n for n, s in gone.items() if s.id == struct.id), None) if name not in old else None
        if same is not None:
            renames[name] = same
            del gone[same]
    return renames


def _inherited(items: Sequence[Item], bases: Mapping[str, str]) -> list[Item]:
    """Return the items with the changes that a struct only inherits marked as its base's."""
    structs = {item.name: item for item in items if item.kind == "struct"}
    found = []
    for item in items:
        base = structs.get(bases.get(item.name, "")) if item.kind == "struct" else None
        if base is not None:
            theirs = {(c.kind, c.text) for c in base.changes}
            marked = [
                replace(c, because=c.because or base.label) if (c.kind, c.text) in theirs else c for c in item.changes
            ]
            own = [c for c in marked if c.kind == "abi" and not c.because]
            if len(own) == 1 and own[0].text.startswith("struct id ") and len(marked) > 1:
                marked = [replace(c, because=base.label) if c is own[0] else c for c in marked]
            item = replace(item, changes=tuple(marked))
        found.append(item)
    return found


def _struct_alone(struct: StructPlan, spec: SpecPlan, word: str) -> Item:
    model = struct.model
    changes = (Change("abi", f"{word}: {struct_text(struct)}"),)
    old, new = (None, model.place) if word == "new" else (model.place, None)
    return Item("", "struct", model.name, old, new, changes, (), struct_symbols(spec, model.name))
