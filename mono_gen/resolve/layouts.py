"""A layout item to its model: axes, pads, splits, the store order and its proof, rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from mono_gen.algebra.monomial import ONE, Size
from mono_gen.algebra.template import AxisTemplate, Factor, StoreFaults, StoreGroup, Template, store_faults
from mono_gen.diagnostics.model import Label
from mono_gen.model import LayoutModel
from mono_gen.resolve.integers import Scope, integer
from mono_gen.resolve.names import check_member_name
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report, near
from mono_gen.resolve.restatements import check_lane, check_torch, torch_text
from mono_gen.resolve.rules import layout_rules
from mono_gen.resolve.sizes import size
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span

WIDTHS = (4, 8, 16, 32, 64)
GROUPS = ("tile", "lane", "byte")


@dataclass(slots=True)
class _Clauses:
    """A layout's clauses by kind, as far as they could be understood."""

    pads: dict[str, Size] = field(default_factory=dict)
    fill: int | None = None
    splits: dict[str, nodes.Split] = field(default_factory=dict)
    store: nodes.Store | None = None
    pitches: dict[str, Size] = field(default_factory=dict)
    pitch_spans: dict[str, nodes.Pitch] = field(default_factory=dict)
    sound: bool = True


def resolve_layout(item: nodes.Layout, scope: Scope, report: Report) -> LayoutModel | None:
    """Return the model of a layout, or None after reporting what is wrong with it."""
    before = len(report.found)
    clauses = _collect(item, scope, report)
    _check_axes(item, report)
    factors = _factors(item, clauses, scope, report)
    if factors is None:
        return None
    groups = _groups(item, clauses, report)
    if groups is None:
        return None
    axes = tuple(AxisTemplate(a.text, clauses.pads.get(a.text), tuple(factors[a.text])) for a in item.axes)
    template = Template(axes, groups, clauses.fill, tuple(clauses.pitches.items()))
    names = tuple(f.name for axis in axes for f in axis.factors)
    faults = store_faults(names, template.order)
    if faults:
        _report_faults(item, clauses, template, faults, report)
        return None
    for digit, pitch in clauses.pitch_spans.items():
        if digit not in names:
            report.error("unknown-name", pitch.digit.span, f"`{digit}` is no digit here", help=near(digit, names))
            return None
    rules, rule_sizes = layout_rules(item, scope, report)
    template_widths = template.widths(WIDTHS)
    widths = tuple(w for w in template_widths if all(s.is_whole(w) for s in rule_sizes))
    if not widths:
        report.error(
            "bytes-not-whole",
            item.name.span,
            f"layout {item.name.text} is legal for no element width: its byte counts are whole elements of none of "
            + ", ".join(str(w) for w in WIDTHS)
            + " bits",
        )
        return None
    torch_form = ""
    model = LayoutModel(item.name.text, template, rules, widths, torch_form, item.doc, place(item.span))
    for clause in item.clauses:
        match clause:
            case nodes.SameAsTorch():
                check_torch(clause, model, scope, report)
                torch_form = torch_text(clause)
            case nodes.SameAsLane():
                check_lane(clause, model, scope, report)
    if any(d.severity == "error" for d in report.found[before:]):
        return None
    return LayoutModel(item.name.text, template, rules, widths, torch_form, item.doc, place(item.span))


def _check_axes(item: nodes.Layout, report: Report) -> None:
    """Report axes that are missing, repeated, or named like what generated code defines."""
    if not item.axes:
        report.error("no-axes", item.name.span, f"layout {item.name.text} has no axes", label="name at least one axis")
    seen: dict[str, nodes.Name] = {}
    for axis in item.axes:
        if axis.text in seen:
            report.error(
                "duplicate-name",
                axis.span,
                f"axis `{axis.text}` is named twice",
                also=(Label(seen[axis.text].span, "first here"),),
            )
        seen[axis.text] = axis
        check_member_name(axis, "an axis", report)


def _collect(item: nodes.Layout, scope: Scope, report: Report) -> _Clauses:
    """Return the clauses by kind; report clauses that stand twice, name unknown axes, or are not built yet."""
    found = _Clauses()
    axes = {a.text for a in item.axes}
    pad: nodes.Pad | None = None
    for clause in item.clauses:
        match clause:
            case nodes.Pad():
                if pad is not None:
                    _twice("pad", clause.span, pad.span, report)
                pad = clause
                _collect_pad(clause, axes, scope, found, report)
            case nodes.Split():
                name = clause.axis.text
                if name in found.splits:
                    _twice(f"split of {name}", clause.span, found.splits[name].span, report)
                    found.sound = False
                found.splits[name] = clause
            case nodes.Store():
                if found.store is not None:
                    _twice("store", clause.span, found.store.span, report)
                found.store = clause
            case nodes.Pitch():
                value = size(clause.stride, scope, report, f"the pitch of {clause.digit.text}")
                if value is not None:
                    found.pitches[clause.digit.text] = value
                    found.pitch_spans[clause.digit.text] = clause
            case nodes.Swizzle():
                report.not_built(clause.span, "swizzle", "XOR swizzles are for LDS and come with the kernels")
            case nodes.Feeds():
                report.not_built(clause.span, "feeds", "the table of instruction operand maps comes with the kernels")
    return found


def _twice(what: str, span: Span, first: Span, report: Report) -> None:
    report.error(
        "clause-twice", span, f"`{what}` stands twice", label="the second one", also=(Label(first, "the first one"),)
    )


def _collect_pad(clause: nodes.Pad, axes: set[str], scope: Scope, found: _Clauses, report: Report) -> None:
    """Take the multiples and the fill of a pad clause."""
    for pad in clause.axes:
        name = pad.axis.text
        if name not in axes:
            report.error("unknown-name", pad.axis.span, f"`{name}` is no axis of this layout", help=near(name, axes))
            continue
        if name in found.pads:
            report.error("clause-twice", pad.axis.span, f"axis `{name}` is padded twice", label="the second one")
        multiple = size(pad.multiple, scope, report, f"the multiple of {name}")
        if multiple is not None:
            found.pads[name] = multiple
    match clause.fill:
        case None:
            report.error(
                "fill-missing",
                clause.span,
                "`pad` has no fill, and fill has no default",
                label="what do the pad elements hold?",
                notes=("public kernels disagree: some need 0x00 there, some 0x7F, and 0xFF is NaN in e8m0",),
                effect="pad elements would hold whatever the allocator left, and a kernel would compute with it",
                help="end the clause with `fill 0x00` or `fill 0x7F`, as the kernel needs, or `fill undefined`",
            )
        case nodes.Undefined():
            found.fill = None
        case fill:
            value = integer(fill, scope, report)
            if value is not None and not 0 <= value < 2**64:
                report.error("bad-fill", fill.span, f"fill {value} is no bit pattern", label="0 or more, in 64 bits")
            found.fill = value


def _factors(item: nodes.Layout, clauses: _Clauses, scope: Scope, report: Report) -> dict[str, list[Factor]] | None:
    """Return each axis' digits, slowest first, splits of splits taken apart; None after an error."""
    names: dict[str, nodes.Name] = {a.text: a for a in item.axes}
    for split in clauses.splits.values():
        for part in split.parts:
            if part.name.text in names:
                report.error(
                    "duplicate-name",
                    part.name.span,
                    f"`{part.name.text}` names two digits or axes of one layout",
                    also=(Label(names[part.name.text].span, "first here"),),
                    help="give every digit a name of its own",
                )
                clauses.sound = False
            else:
                names[part.name.text] = part.name
            check_member_name(part.name, "a digit", report)
    for name, split in clauses.splits.items():
        if name not in names:
            report.error(
                "unknown-name", split.axis.span, f"`{name}` is no axis or digit of this layout", help=near(name, names)
            )
            clauses.sound = False
    if not clauses.sound:
        return None
    before = len(report.found)
    result = {axis.text: _leaves(axis.text, clauses, scope, report) for axis in item.axes}
    return result if len(report.found) == before else None


def _leaves(axis: str, clauses: _Clauses, scope: Scope, report: Report) -> list[Factor]:
    """Return the digits of an axis: those of its split, each taken apart again where it is split itself."""
    leaves: list[Factor] = []
    waiting: list[tuple[str, Size | None]] = [(axis, None)]
    while waiting:
        name, whole = waiting.pop()
        split = clauses.splits.get(name)
        if split is None:
            leaves.append(Factor(name, whole))
        else:
            waiting.extend(reversed(_parts(split, whole, scope, report)))
    return leaves


def _parts(split: nodes.Split, whole: Size | None, scope: Scope, report: Report) -> list[tuple[str, Size | None]]:
    """Return the parts of a split with their sizes; of a sized digit, the unsized part takes what is left."""
    sizes: list[tuple[str, Size | None]] = []
    unsized = [part for part in split.parts if part.size is None]
    known = ONE
    for part in split.parts:
        value = None if part.size is None else size(part.size, scope, report, f"the size of {part.name.text}")
        if part.size is not None and value is None:
            return []
        known = known * value if value is not None else known
        sizes.append((part.name.text, value))
    if len(unsized) > 1:
        report.error(
            "two-unsized",
            unsized[1].name.span,
            f"`{unsized[0].name.text}` and `{unsized[1].name.text}` both have no size: only one digit of "
            f"`{split.axis.text}` can take what is left",
            label="a second digit without a size",
            also=(Label(unsized[0].name.span, "the first"),),
            effect=f"an extent of {split.axis.text} = 12 could be 2 * 6, 3 * 4, 4 * 3 or 6 * 2",
            help=f"give one of them a size, as in `{unsized[1].name.text}:16`",
        )
        return []
    if whole is None:
        return sizes
    left = whole.divided_by(known)
    if left is None or (not unsized and left != ONE):
        report.error(
            "size-does-not-divide",
            split.span,
            f"`{split.axis.text}` has {whole} elements, which digits of {known} do not make",
            label=f"{whole} is {'not a multiple of' if unsized else 'not'} {known}",
            help="choose sizes whose product is the digit's size",
        )
        return []
    return [(name, left if value is None else value) for name, value in sizes]


def _groups(item: nodes.Layout, clauses: _Clauses, report: Report) -> tuple[StoreGroup, ...] | None:
    """Return the store groups, checked for names and order."""
    store = clauses.store
    if store is None:
        report.error(
            "store-missing",
            item.name.span,
            f"layout {item.name.text} has no `store`",
            label="in which order do its digits lie?",
            help="write `store` and the digits, slowest first",
        )
        return None
    if len(store.groups) > 1:
        bare = [g for g in store.groups if g.label is None]
        if bare:
            report.error(
                "bars-without-names",
                bare[0].span,
                "a store order with bars names every group",
                label="this group has no name",
                help="begin each group with `tile`, `lane` or `byte`, in that order, or leave the bars out",
            )
            return None
    labels = [g.label.text for g in store.groups if g.label is not None]
    if labels != [g for g in GROUPS if g in labels] or len(set(labels)) != len(labels):
        report.error(
            "group-order",
            store.span,
            f"groups are {', '.join(labels)}; they stand in the order tile, lane, byte, each at most once",
            label="slowest first",
        )
        return None
    for group in store.groups:
        if not group.digits:
            report.error("empty-group", group.span, "a store group has no digits", help="leave the group out")
            return None
    return tuple(StoreGroup(g.label.text if g.label else "", tuple(d.text for d in g.digits)) for g in store.groups)


def _report_faults(
    item: nodes.Layout, clauses: _Clauses, template: Template, faults: StoreFaults, report: Report
) -> None:
    """Report digits left out, stored twice or unknown, each with a pair of coordinates or a byte that shows it."""
    assert clauses.store is not None, "a template has a store clause"
    names = {d.text: d for g in clauses.store.groups for d in g.digits}
    parts = {p.name.text: p.name for s in clauses.splits.values() for p in s.parts}
    known = [f.name for axis in template.axes for f in axis.factors]
    for name in faults.unknown:
        report.error("unknown-name", names[name].span, f"`{name}` is no digit of this layout", help=near(name, known))
    for name in faults.missing:
        here = parts.get(name)
        report.error(
            "digit-dropped",
            clauses.store.span,
            f"digit `{name}` is not stored",
            label=f"`{name}` is missing here",
            also=(Label(here.span, "split off here"),) if here else (),
            effect=_collision(template, name),
            help=f"write `{name}` once in the store order",
        )
    for name in faults.repeated:
        places = [d for g in clauses.store.groups for d in g.digits if d.text == name]
        report.error(
            "digit-twice",
            places[1].span,
            f"digit `{name}` is stored twice",
            label="again here",
            also=(Label(places[0].span, "first here"),),
            effect=_hole(template, name),
            help="store every digit exactly once",
        )


def _collision(template: Template, dropped: str) -> str:
    """Return two coordinates that share a byte when a digit is left out of the store order."""
    for index, axis in enumerate(template.axes):
        for factor in axis.factors:
            if factor.name == dropped:
                weight = 1
                for faster in reversed(axis.factors[axis.factors.index(factor) + 1 :]):
                    weight *= 2 if faster.size is None else faster.size.value
                zero = ", ".join(f"{a.name} 0" for a in template.axes)
                other = ", ".join(f"{a.name} {weight if i == index else 0}" for i, a in enumerate(template.axes))
                return f"the elements at ({zero}) and ({other}) would share byte 0"
    return ""


def _hole(template: Template, repeated: str) -> str:
    """Return a byte that no element reaches when a digit is stored twice."""
    order = template.order
    inside = 1
    for name in reversed(order[order.index(repeated) + 1 :]):
        if name == repeated:
            break
        found = [f.size for axis in template.axes for f in axis.factors if f.name == name]
        inside *= found[0].value if found and found[0] is not None else 2
    return f"the digit would move by two strides at once: element {max(inside, 1)} of storage belongs to no coordinate"
