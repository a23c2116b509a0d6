"""A tree to a spec's model: its head, constants, imports, layouts and structs, and the one scope of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mono_gen.archs import ARCHS, ArchFacts
from mono_gen.diagnostics.model import Label
from mono_gen.model import Constant, ConvertModel, LayoutModel, SpecModel, StructModel
from mono_gen.resolve.building import StructContext
from mono_gen.resolve.integers import bounded, integer
from mono_gen.resolve.layouts import resolve_layout
from mono_gen.resolve.lookup import Layouts
from mono_gen.resolve.names import check_member_name, claim
from mono_gen.resolve.report import Report
from mono_gen.resolve.structs import resolve_struct
from mono_gen.syntax import nodes
from mono_gen.syntax.nodes import Name

_IMPORT = re.compile(r"^[ \t]*import\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Exports:
    """What a file gives to those that import it: layouts (records among them) and structs, None for one refused."""

    layouts: Mapping[str, LayoutModel | None]
    structs: Mapping[str, StructModel | None]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A file's model (None after an error) and its exports."""

    model: SpecModel | None
    exports: Exports


Imports = tuple[tuple[nodes.Import, Exports], ...]


def resolve_spec(
    tree: nodes.Tree,
    imports: Imports,
    overrides: Mapping[str, int],
    report: Report,
    library: Mapping[str, str] | None = None,
) -> Resolved:
    """Return the model of a file. After it without errors, no mistake of a user is left.

    overrides: values of this spec's params, by name.
    library:   layouts of the packaged library, each with the file that an import would name; for helps alone.
    """
    before = len(report.found)
    head = _head(tree, report)
    arch = _arch(tree, report)
    names: dict[str, tuple[Name, str]] = {}
    layouts: dict[str, LayoutModel | None] = {}
    structs: dict[str, StructModel | None] = {}
    is_complete = _take_imports(tree, imports, names, layouts, structs, report)
    imported = frozenset(names)
    constants = _constants(tree, overrides, names, imported, report)
    scope: dict[str, int | None] = {c.name: c.value for c in constants}
    for broken in tree.broken:
        for known in (layouts, structs, scope):
            known.setdefault(broken.text, None)
    scope.update({name: None for name, (_, what) in names.items() if what == "a constant" and name not in scope})
    own = _own_layouts(tree, scope, arch, names, imported, layouts, report)
    later = frozenset(i.name.text for i in tree.items if isinstance(i, nodes.Struct))
    context = StructContext(scope, Layouts(layouts, is_complete, library or {}), structs, arch, later)
    made = _own_structs(tree, context, structs, names, imported, report)
    _check_arch(tree, arch, report)
    _check_tensor_names(tree, names, report)
    used = _used_layouts(tree, made, own, report)
    exports = Exports(
        {n: layouts[n] for n in layouts if n not in imported}, {n: structs[n] for n in structs if n not in imported}
    )
    if head is None or any(d.severity == "error" for d in report.found[before:]):
        return Resolved(None, exports)
    file = Path(tree.source.name).name
    model = SpecModel(head.name.text, file, arch, head.doc, tuple(constants), (*own, *used), tuple(made))
    return Resolved(model, exports)


def _head(tree: nodes.Tree, report: Report) -> nodes.Spec | None:
    """Return the `spec NAME` item, which stands first and once."""
    heads = [i for i in tree.items if isinstance(i, nodes.Spec)]
    if not heads:
        if tree.items and not any(n.text == "spec" for n in tree.broken):
            report.error(
                "spec-missing",
                tree.items[0].span,
                "the file does not begin with `spec NAME`",
                label="expected before this",
                help="name the spec: generated files and namespaces take the name",
            )
        return None
    if tree.items[0] is not heads[0]:
        report.error(
            "spec-not-first",
            heads[0].span,
            "`spec` is not the first item",
            label="belongs to the top",
            also=(Label(tree.items[0].span, "before it"),),
            help="move it to the top",
        )
    for again in heads[1:]:
        _twice("spec", again, heads[0], report)
    check_member_name(heads[0].name, "a spec", report)
    return heads[0]


def _arch(tree: nodes.Tree, report: Report) -> ArchFacts | None:
    """Return the arch's facts."""
    items = [i for i in tree.items if isinstance(i, nodes.Arch)]
    for again in items[1:]:
        _twice("arch", again, items[0], report)
    if not items:
        return None
    name = items[0].name
    if name.text not in ARCHS:
        report.error(
            "unknown-arch",
            name.span,
            f"`{name.text}` is no arch that mono-gen knows",
            label="unknown",
            effect="byte 0x38 of fp8 is 1.0 in one dialect and 0.5 in the other: which one would be a guess",
            help=report.near(name.text, ARCHS),
        )
        return None
    return ARCHS[name.text]


def _twice(word: str, again: nodes.Spec | nodes.Arch, first: nodes.Spec | nodes.Arch, report: Report) -> None:
    report.error(
        "clause-twice",
        again.span,
        f"`{word}` stands twice",
        label="the second one",
        also=(Label(first.span, "the first one"),),
        help="a file has one: keep one of them",
    )


def _check_arch(tree: nodes.Tree, arch: ArchFacts | None, report: Report) -> None:
    """Report structs in a file that names no arch."""
    if arch is not None or any(isinstance(i, nodes.Arch) for i in tree.items):
        return
    struct = next((i for i in tree.items if isinstance(i, nodes.Struct)), None)
    if struct is not None:
        report.error(
            "arch-missing",
            struct.name.span,
            "a file with structs names its arch",
            label="which fp8 dialect do its kernels read?",
            help=f"add `arch NAME` after `spec`: {', '.join(ARCHS)}",
        )


def _take_imports(
    tree: nodes.Tree,
    imports: Imports,
    names: dict[str, tuple[Name, str]],
    layouts: dict[str, LayoutModel | None],
    structs: dict[str, StructModel | None],
    report: Report,
) -> bool:
    """Bring over what imported files declare; return whether that is all: each import was understood and found."""
    taken: dict[str, nodes.Import] = {}
    for item, exports in imports:
        first = taken.setdefault(item.path, item)
        if first is not item:
            report.error(
                "clause-twice",
                item.span,
                f'`import "{item.path}"` stands twice',
                label="the second one",
                also=(Label(first.span, "the first one"),),
                help="keep one of them",
            )
            continue
        here = f'import "{item.path}"'
        for name, layout in exports.layouts.items():
            if claim(names, Name(name, item.span), f"a layout of {here}", report, "this file"):
                layouts[name] = layout
        for name, struct in exports.structs.items():
            if name in exports.layouts:
                structs.setdefault(name, struct)
            elif claim(names, Name(name, item.span), f"a struct of {here}", report, "this file"):
                structs[name] = struct
    return len(imports) == max(len(_IMPORT.findall(tree.source.text)), _count(tree, nodes.Import))


def _count(tree: nodes.Tree, kind: type) -> int:
    return sum(isinstance(i, kind) for i in tree.items)


def _claim_own(
    names: dict[str, tuple[Name, str]], imported: frozenset[str], name: Name, what: str, report: Report
) -> bool:
    """Enter a name that this file declares; report one that shadows an imported name."""
    if name.text in imported:
        first, kind = names[name.text]
        report.error(
            "shadowed-name",
            name.span,
            f"`{name.text}` is already {kind}",
            label=f"would hide it behind {what}",
            also=(Label(first.span, "comes over here"),),
            effect=f"a reader of the imported file and one of this would mean two things by `{name.text}`",
            help="choose another name",
        )
        return False
    return claim(names, name, what, report, "this file")


def _constants(
    tree: nodes.Tree,
    overrides: Mapping[str, int],
    names: dict[str, tuple[Name, str]],
    imported: frozenset[str],
    report: Report,
) -> list[Constant]:
    """Return consts and params with their values, each seeing those above it."""
    scope: dict[str, int | None] = {n.text: None for n in tree.broken}
    places = {i.name.text: i.name for i in tree.items if isinstance(i, nodes.Const | nodes.Param)}
    result: list[Constant] = []
    for item in tree.items:
        if not isinstance(item, nodes.Const | nodes.Param):
            continue
        check_member_name(item.name, "a constant", report)
        value = None
        if not _names_later(item, scope, places, report):
            value = integer(item.value, scope, report, "a constant seen so far")
        if isinstance(item, nodes.Param) and item.name.text in overrides:
            value = bounded(overrides[item.name.text], item.name.span, report)
        if not _claim_own(names, imported, item.name, "a constant", report):
            continue
        scope[item.name.text] = value
        if value is not None:
            result.append(Constant(item.name.text, value, isinstance(item, nodes.Param), item.doc))
    return result


def _names_later(
    item: nodes.Const | nodes.Param, scope: Mapping[str, int | None], places: Mapping[str, Name], report: Report
) -> bool:
    """Report a constant that names itself or one further down; return whether it does."""
    waiting: list[nodes.Expr] = [item.value]
    while waiting:
        match waiting.pop():
            case nodes.Path(names, span) if len(names) == 1 and names[0].text not in scope and names[0].text in places:
                there = places[names[0].text]
                report.error(
                    "unknown-name",
                    span,
                    f"`{there.text}` stands further down, and a constant sees those above it"
                    if there is not item.name
                    else f"`{there.text}` names itself",
                    label="not known yet",
                    also=(Label(there.span, "stands here"),),
                    help=f"move `{item.name.text}` below it" if there is not item.name else "give it a value",
                )
                return True
            case nodes.Negate(operand, _):
                waiting.append(operand)
            case nodes.Chain(first, rest, _):
                waiting.extend((first, *(e for _, e in rest)))
    return False


def _own_layouts(
    tree: nodes.Tree,
    scope: Mapping[str, int | None],
    arch: ArchFacts | None,
    names: dict[str, tuple[Name, str]],
    imported: frozenset[str],
    layouts: dict[str, LayoutModel | None],
    report: Report,
) -> list[LayoutModel]:
    """Return the layouts of the file, and report records, which no stage builds yet."""
    own: list[LayoutModel] = []
    for item in tree.items:
        match item:
            case nodes.Layout():
                check_member_name(item.name, "a layout", report)
                free = _claim_own(names, imported, item.name, "a layout", report)
                if item.name.text == "row_major":
                    report.error(
                        "duplicate-name",
                        item.name.span,
                        "`row_major` is torch's own order in every spec",
                        label="taken",
                        help="choose another name",
                    )
                model = resolve_layout(item, scope, arch, report)
                if free:
                    layouts[item.name.text] = model
                    own.extend([model] if model is not None else [])
            case nodes.Record():
                if _claim_own(names, imported, item.name, "a record", report):
                    layouts[item.name.text] = None
                report.not_built(
                    item.name.span,
                    "`record`",
                    "regions with offsets come with the kernels' scratch buffers",
                    "leave it out until it is built",
                )
    return own


def _own_structs(
    tree: nodes.Tree,
    context: StructContext,
    structs: dict[str, StructModel | None],
    names: dict[str, tuple[Name, str]],
    imported: frozenset[str],
    report: Report,
) -> list[StructModel]:
    """Return the structs of the file, each seeing those above it."""
    made: list[StructModel] = []
    for item in tree.items:
        if not isinstance(item, nodes.Struct):
            continue
        check_member_name(item.name, "a struct", report)
        free = _claim_own(names, imported, item.name, "a struct", report)
        model = resolve_struct(item, context, report)
        if free:
            structs[item.name.text] = model
            made.extend([model] if model is not None else [])
    return made


def _check_tensor_names(tree: nodes.Tree, names: dict[str, tuple[Name, str]], report: Report) -> None:
    """Report fields and tables named like a layout, struct or constant: headers alias them in one namespace."""
    for item in tree.items:
        if not isinstance(item, nodes.Struct):
            continue
        flat: list[nodes.Member_] = [m for m in item.members if not isinstance(m, nodes.Optional)]
        flat += [m for o in item.members if isinstance(o, nodes.Optional) for m in o.members]
        for member in flat:
            declared = member.names if isinstance(member, nodes.Field) else ()
            declared = (member.name,) if isinstance(member, nodes.Args) else declared
            for name in declared:
                if name.text in names and names[name.text][1] != "a constant":
                    first, kind = names[name.text]
                    report.error(
                        "colliding-name",
                        name.span,
                        f"`{name.text}` names a member of {item.name.text} and {kind}",
                        label="the header aliases both in one namespace",
                        also=(Label(first.span, f"{kind}"),),
                        help="rename one",
                    )


def _used_layouts(
    tree: nodes.Tree, structs: list[StructModel], own: list[LayoutModel], report: Report
) -> list[LayoutModel]:
    """Return the imported layouts that fields use, in the order of their first use; report two of one name."""
    known = {layout.name: layout for layout in own}
    places = {i.name.text: i.name for i in tree.items if isinstance(i, nodes.Struct)}
    used: list[LayoutModel] = []
    clashes: set[str] = set()
    for struct in structs:
        for field in struct.fields:
            order = field.origin.order if isinstance(field.origin, ConvertModel) else None
            for layout in (*(t.layout for t in field.tensors), order):
                if layout is None or layout.name in clashes:
                    continue
                first = known.setdefault(layout.name, layout)
                if first is layout:
                    used.extend([layout] if layout not in (*own, *used) else [])
                    continue
                clashes.add(layout.name)
                _clash(places[struct.name], field.name, layout, first, report)
    return used


def _clash(struct: Name, field: str, layout: LayoutModel, first: LayoutModel, report: Report) -> None:
    """Report a field, inherited from another file, whose layout has the name of another one that this file uses."""
    report.error(
        "colliding-name",
        struct.span,
        f"field `{field}` of {struct.text} is laid out by `{layout.name}` of {layout.place}, and this file has another "
        f"`{layout.name}`, of {first.place}",
        label="would have two layouts of one name",
        effect=f"`pack_{layout.name}` would store the bytes of one in the order of the other",
        help="rename one of the layouts",
    )
