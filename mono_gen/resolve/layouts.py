"""A layout item to its model: its clauses by kind, its digits and store order, its rules and restatements."""

from __future__ import annotations

from mono_gen.algebra.monomial import Size, product
from mono_gen.algebra.template import AxisTemplate, Template, store_faults
from mono_gen.archs import ArchFacts
from mono_gen.diagnostics.model import Label
from mono_gen.frozen import replace
from mono_gen.model import LayoutModel, LayoutRule
from mono_gen.resolve.clauses import Clauses, collect
from mono_gen.resolve.feeds import check_feeds
from mono_gen.resolve.integers import LIMIT, Scope, bounded
from mono_gen.resolve.names import check_member_name
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.resolve.restatements import check_lane, check_torch, torch_text
from mono_gen.resolve.rules import layout_rules
from mono_gen.resolve.splits import factors_of
from mono_gen.resolve.stores import groups_of, report_faults
from mono_gen.syntax import nodes

WIDTHS = (4, 8, 16, 32, 64)
MAX_AXES = 8
MAX_DIGITS = 60
"""torch views have at most 64 dims; batch axes take some."""


def resolve_layout(item: nodes.Layout, scope: Scope, arch: ArchFacts | None, report: Report) -> LayoutModel | None:
    """Return the model of a layout, or None after reporting what is wrong with it."""
    before = len(report.found)
    clauses = collect(item, scope, report)
    _check_axes(item, report)
    rules, rule_sizes = layout_rules(item, scope, report)
    template = _template(item, clauses, scope, report)
    if template is None or not clauses.sound or len(report.found) > before:
        return None
    widths = _widths(item, clauses, template, rule_sizes, report)
    if not widths:
        return None
    _check_pads(clauses, template, widths, report)
    _check_pitches(clauses, template, widths, report)
    if len(report.found) > before:
        return None
    model = _model(item, template, rules, widths, clauses)
    if clauses.torch is not None:
        check_torch(clauses.torch, model, scope, report)
    if clauses.lane is not None:
        check_lane(clauses.lane, model, scope, report)
    feeds = tuple(check_feeds(clause, model, arch, report) for clause in clauses.feeds)
    proved = tuple(f for f in feeds if f is not None)
    return replace(model, feeds=proved) if len(report.found) == before else None


def _model(
    item: nodes.Layout, template: Template, rules: tuple[LayoutRule, ...], widths: tuple[int, ...], clauses: Clauses
) -> LayoutModel:
    torch_form = torch_text(clauses.torch) if clauses.torch is not None else ""
    store = place(clauses.store.span if clauses.store is not None else item.span)
    return LayoutModel(item.name.text, template, rules, widths, torch_form, (), item.doc, place(item.span), store)


def _check_axes(item: nodes.Layout, report: Report) -> None:
    """Report axes that are too many, repeated, or named like what generated code defines."""
    if len(item.axes) > MAX_AXES:
        report.error(
            "too-many-digits",
            item.axes[MAX_AXES].span,
            f"layout {item.name.text} has {len(item.axes)} axes, and a layout has at most {MAX_AXES}",
            label="one too many",
            help="leading row-major axes are batch dims of the field, not axes of the layout",
        )
    seen: dict[str, nodes.Name] = {}
    for axis in item.axes:
        if axis.text in seen:
            report.error(
                "duplicate-name",
                axis.span,
                f"axis `{axis.text}` is named twice",
                label="the second one",
                also=(Label(seen[axis.text].span, "the first one"),),
                help="give every axis a name of its own",
            )
        seen.setdefault(axis.text, axis)
        check_member_name(axis, "an axis", report)
        if axis.text.startswith(("extent_", "padded_")) and axis.text[7:] in {a.text for a in item.axes}:
            report.error(
                "member-name",
                axis.span,
                f"`{axis.text}` cannot name an axis beside `{axis.text[7:]}`, whose extent generated code calls so",
                label="would collide in generated code",
                help="choose another name",
            )


def _template(item: nodes.Layout, clauses: Clauses, scope: Scope, report: Report) -> Template | None:
    """Return the digits in their store order, proved a bijection; None after an error."""
    factors = factors_of(item, clauses.splits, scope, report)
    groups = groups_of(item, clauses.store, report)
    if factors is None or groups is None:
        return None
    axes = tuple(AxisTemplate(a.text, clauses.pads.get(a.text), tuple(factors[a.text])) for a in item.axes)
    names = tuple(f.name for axis in axes for f in axis.factors)
    if len(names) > MAX_DIGITS:
        report.error(
            "too-many-digits",
            item.name.span,
            f"layout {item.name.text} has {len(names)} digits, and a layout has at most {MAX_DIGITS}",
            label="too many digits",
            notes=("a pack views a tensor with a dim for each digit, and torch has 64 dims at most",),
            help="join digits that stay neighbours",
        )
        return None
    template = Template(axes, groups, clauses.fill, tuple(clauses.pitches.items()))
    faults = store_faults(names, template.order)
    if faults and clauses.store is not None:
        report_faults(item, clauses.splits, clauses.store, template, faults, report)
        return None
    for digit, pitch in clauses.pitch_spans.items():
        if digit not in names:
            report.error(
                "unknown-name",
                pitch.digit.span,
                f"`{digit}` is no digit of layout {item.name.text}",
                label="unknown",
                help=report.near(digit, names),
            )
            return None
    return template


def _widths(
    item: nodes.Layout, clauses: Clauses, template: Template, rule_sizes: tuple[Size, ...], report: Report
) -> tuple[int, ...]:
    """Return the element widths for which byte counts are whole and the fill fits; none after an error."""
    whole = tuple(w for w in template.widths(WIDTHS) if all(s.is_whole(w) for s in rule_sizes))
    for axis in template.axes:
        sized = product(tuple(f.size for f in axis.factors if f.size is not None))
        for width in whole:
            split = clauses.splits.get(axis.name)
            span = split.span if split is not None else item.name.span
            if sized.at(width) > LIMIT:
                bounded(sized.at(width), span, report)
                return ()
    if template.fill is None:
        return whole
    fits = tuple(w for w in whole if template.fill < 2**w)
    if not fits and clauses.fill_span is not None:
        report.error(
            "bad-fill",
            clauses.fill_span,
            f"fill {template.fill:#x} fits no element of {', '.join(str(w) for w in whole)} bits",
            label="a bit pattern of one element",
            help="write the bits of one element, as in `fill 0x7F`",
        )
    return fits


def _check_pads(clauses: Clauses, template: Template, widths: tuple[int, ...], report: Report) -> None:
    """Report a pad to a multiple that the sizes of an axis without a free digit can never be."""
    for axis in template.axes:
        if axis.pad_to is None or not axis.is_fixed:
            continue
        for bits in sorted(widths, key=lambda w: (w != 8, w)):
            whole, multiple = axis.sized.at(bits), axis.pad_to.at(bits)
            if whole % multiple:
                report.error(
                    "size-does-not-divide",
                    clauses.pad_spans[axis.name],
                    f"`{axis.name}` is padded to a multiple of {multiple}, and its digits make {whole}",
                    label=f"{whole} % {multiple} = {whole % multiple}",
                    notes=(f"{bits}-bit elements",),
                    effect=f"an extent of {whole} would be padded to {-(-whole // multiple) * multiple}, and "
                    f"{axis.name} {whole} would have no digits",
                    help=f"pad to a divisor of {whole}, or leave one digit of {axis.name} without a size",
                )
                break


def _check_pitches(clauses: Clauses, template: Template, widths: tuple[int, ...], report: Report) -> None:
    """Report a pitch that is too small at all extents: a digit without a size counts as one step."""
    sizes = {f.name: f.size for axis in template.axes for f in axis.factors}
    for bits in sorted(widths, key=lambda w: (w != 8, w)):
        inside = 1
        for name in reversed(template.order):
            size = sizes[name]
            pitch = clauses.pitches.get(name)
            stride = inside if pitch is None else pitch.at(bits)
            if stride < inside:
                narrow_pitch(clauses.pitch_spans[name], stride, inside, bits, report)
                return
            inside = stride * (1 if size is None else size.at(bits))


def narrow_pitch(clause: nodes.Pitch, pitch: int, inside: int, bits: int, report: Report) -> None:
    """Report a pitch that is smaller than what lies inside it."""
    report.error(
        "narrow-pitch",
        clause.span,
        f"the pitch of {clause.digit.text} is {pitch}, smaller than the {inside} elements inside one step of it",
        label=f"{pitch} is less than {inside}",
        notes=(f"{bits}-bit elements",),
        effect=f"`{clause.digit.text}` 1 and the element {pitch} places after `{clause.digit.text}` 0 would share "
        f"byte {pitch * bits // 8}",
        help=f"make it {inside} or more",
    )
