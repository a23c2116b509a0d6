"""A field to its model: format, extents, layouts of data and scale, segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.monomial import NotWhole
from mono_gen.algebra.template import NarrowPitch, NotDivisible, Template, bind, row_major_template
from mono_gen.archs import ArchFacts
from mono_gen.diagnostics.model import Label
from mono_gen.formats import NAMES, Element, Format, find_format
from mono_gen.model import AxisExtent, FieldModel, LayoutModel, TensorModel
from mono_gen.resolve.conditions import Surroundings
from mono_gen.resolve.integers import extent
from mono_gen.resolve.origins import origin_of
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report, near
from mono_gen.resolve.segments import SegmentPlan, padded_axis, plan_segments, scale_segments
from mono_gen.syntax import nodes
from mono_gen.terms import evaluate, holds


@dataclass(frozen=True, slots=True)
class FieldContext:
    """What a field is resolved against.

    layouts: by name; None for one whose own definition was refused.
    args:    the struct's arguments.
    base:    the field that this one overrides, where the struct extends another.
    """

    around: Surroundings
    layouts: Mapping[str, LayoutModel | None]
    arch: ArchFacts | None
    args: tuple[str, ...]
    base: FieldModel | None
    optional: str


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A layout that was already refused: what hangs on it is not looked at."""


def resolve_field(item: nodes.Field, context: FieldContext, report: Report) -> FieldModel | None:
    """Return the model of a field, or None after reporting what is wrong with it."""
    before = len(report.found)
    clauses = _by_kind(item, report)
    form = _format(item, context, report)
    extents = _extents(item, context.around, report)
    if form is None or extents is None or len(report.found) > before:
        return None
    scale_extents = _scale_extents(item, form, extents, report) if form.scale is not None else None
    tile = _layout_of(clauses.get(nodes.Tile), "tile", item, extents, context, report)
    scale = (
        _layout_of(clauses.get(nodes.Scale), "scale", item, scale_extents, context, report)
        if scale_extents is not None
        else None
    )
    if form.scale is None and nodes.Scale in clauses:
        report.error("clause-without-use", clauses[nodes.Scale].span, f"{form.name} has no scale tensor")
    if len(report.found) > before or isinstance(tile, Poisoned) or isinstance(scale, Poisoned):
        return None
    plan = plan_segments(clauses.get(nodes.Segments), form, extents, tile, context.around.scope, report)
    if plan is None:
        return None
    data = _tensor(item, item.names[0], form.data, extents, tile, plan, form, report)
    tensors = [data]
    if form.scale is not None and scale_extents is not None:
        side = scale_segments(plan, form, len(extents), scale, report, item)
        tensors.append(_tensor(item, item.names[1], form.scale, scale_extents, scale, side, form, report))
    done = tuple(t for t in tensors if t is not None)
    if len(done) < len(tensors) or len(report.found) > before:
        return None
    parts = origin_of(item, clauses, form, done, context.args, context.around, context.layouts, context.base, report)
    if parts is None or len(report.found) > before:
        return None
    origin, attest, gather = parts
    return FieldModel(form, done, origin, attest, gather, context.optional, item.doc, place(item.span))


def _by_kind(item: nodes.Field, report: Report) -> dict[type, nodes.FieldClause]:
    """Return the clauses by type, after reporting those that stand twice."""
    found: dict[type, nodes.FieldClause] = {}
    for clause in item.clauses:
        kind = type(clause)
        if kind in found:
            report.error(
                "clause-twice",
                clause.span,
                f"`{kind.__name__.lower()}` stands twice in field {item.names[0].text}",
                label="the second one",
                also=(Label(found[kind].span, "the first one"),),
            )
        found[kind] = clause
    return found


def _format(item: nodes.Field, context: FieldContext, report: Report) -> Format | None:
    """Return the field's format, checked for the number of tensors and the arch's fp8 dialect."""
    dialect = context.arch.fp8 if context.arch is not None else "fn"
    form = find_format(item.format.text, dialect)
    if form is None:
        report.error(
            "unknown-format",
            item.format.span,
            f"`{item.format.text}` is no format",
            label="unknown",
            help=near(item.format.text, NAMES),
        )
        return None
    wanted = 1 if form.scale is None else 2
    if len(item.names) != wanted:
        shape = "data and scale: write `data, scale : ...`" if wanted == 2 else "one tensor: name it alone"
        report.error(
            "wrong-arity",
            item.names[-1].span,
            f"{form.name} is {shape}; here stand {len(item.names)} names",
            label=f"{wanted} expected",
        )
    if context.arch is not None and form.data.dialect not in ("", context.arch.fp8):
        other = "240" if context.arch.fp8 == "fnuz" else "448"
        read, meant = ("0.5", "1.0") if context.arch.fp8 == "fnuz" else ("1.0", "0.5")
        report.error(
            "dialect",
            item.format.span,
            f"{form.name} holds {form.data.name}, but {context.arch.name} reads fp8 in the {context.arch.fp8} dialect",
            label=f"{context.arch.name} does not have it",
            notes=(f"source: {context.arch.source}; the largest value there is {other}",),
            effect=f"{context.arch.name} would read byte 0x38 as {read}, where {meant} was meant",
            help=f"use fp8_e4m3{context.arch.fp8} or ptpc_fp8, which takes the arch's dialect",
        )
        return None
    return form


def _extents(item: nodes.Field, around: Surroundings, report: Report) -> tuple[AxisExtent, ...] | None:
    """Return the logical extents: numbers, and a run-time dim at most as the first one."""
    result: list[AxisExtent] = []
    if not item.dims:
        report.error("wrong-arity", item.format.span, f"field {item.names[0].text} has no dims")
        return None
    for index, expr in enumerate(item.dims):
        names = dims_in(expr, around)
        if names and index > 0:
            report.error(
                "runtime-dim-place",
                expr.span,
                f"run-time dim `{names[0]}` stands as dim {index + 1} of {item.names[0].text}",
                label="not the first axis",
                effect="offsets of every element after it would depend on a number that no header has",
                help="only the first axis may be a run-time extent",
            )
            return None
        if names and not isinstance(expr, nodes.Path):
            report.error(
                "runtime-dim-place",
                expr.span,
                f"run-time dim `{names[0]}` stands inside an expression",
                label="must stand alone",
                help="write the dim alone, or list what it may be: `dim E in { A, A + 1 }`",
            )
            return None
        if names:
            result.append(names[0])
            continue
        value = extent(expr, around.scope, report, f"dim {index + 1} of {item.names[0].text}")
        if value is None:
            return None
        result.append(value)
    return tuple(result)


def dims_in(expr: nodes.Expr, around: Surroundings) -> list[str]:
    """Return the run-time dims that an expression names."""
    match expr:
        case nodes.Path(names, _):
            return [names[0].text] if len(names) == 1 and names[0].text in around.dims else []
        case nodes.Negate(operand, _):
            return dims_in(operand, around)
        case nodes.Chain(first, rest, _):
            return dims_in(first, around) + [d for _, e in rest for d in dims_in(e, around)]
    return []


def _scale_extents(
    item: nodes.Field, form: Format, extents: tuple[AxisExtent, ...], report: Report
) -> tuple[AxisExtent, ...] | None:
    """Return the scale's logical extents: blocks along the last axis, or all axes but the last."""
    last = extents[-1]
    if len(extents) < 2:
        report.error(
            "wrong-arity", item.dims[0].span, f"{form.name} has a scale a row: it takes two axes or more, not one"
        )
        return None
    if form.block == 0:
        return extents[:-1]
    if isinstance(last, str) or last % form.block:
        report.error(
            "scale-block",
            item.dims[-1].span,
            f"the last axis has {last} elements, not a multiple of the {form.block} that share a scale in {form.name}",
            label=f"{last} % {form.block} is not 0",
            effect="the last scale would cover elements that do not exist",
        )
        return None
    return (*extents[:-1], last // form.block)


def _layout_of(
    clause: nodes.FieldClause | None,
    word: str,
    item: nodes.Field,
    extents: tuple[AxisExtent, ...] | None,
    context: FieldContext,
    report: Report,
) -> LayoutModel | Poisoned | None:
    """Return the layout that `tile` or `scale` names; None is `row_major`, which vectors have without saying."""
    if extents is None:
        return Poisoned()
    if clause is None:
        if len(extents) >= 2:
            report.error(
                "layout-missing",
                item.names[0 if word == "tile" else -1].span,
                f"{'data' if word == 'tile' else 'scale'} of {len(extents)} axes has no `{word}`",
                label="how does it lie in memory?",
                effect="an order taken for granted is how differently laid-out weights are read without a fault",
                help=f"add `{word} row_major` if that is what it is, or the layout's name",
            )
        return None
    assert isinstance(clause, nodes.Tile | nodes.Scale), "only these clauses name a layout"
    name = clause.layout.text
    if name == "row_major":
        return None
    if name not in context.layouts:
        report.error(
            "unknown-name",
            clause.layout.span,
            f"`{name}` is no layout",
            label="unknown",
            help=near(name, (*context.layouts, "row_major")),
        )
        return None
    layout = context.layouts[name]
    if layout is None:
        return Poisoned()
    if len(layout.axes) > len(extents):
        report.error(
            "wrong-arity",
            clause.layout.span,
            f"layout {name} has {len(layout.axes)} axes ({', '.join(layout.axes)}), the tensor {len(extents)}",
            label="too many axes",
        )
    return layout


def _tensor(
    item: nodes.Field,
    name: nodes.Name,
    element: Element,
    extents: tuple[AxisExtent, ...],
    layout: LayoutModel | None,
    plan: SegmentPlan,
    form: Format,
    report: Report,
) -> TensorModel | None:
    """Return a tensor with its layout bound to the extents, or None after reporting why they do not fit."""
    runtime = isinstance(extents[0], str)
    batch = len(extents) - (len(layout.axes) if layout is not None else min(2, len(extents)))
    if layout is not None and runtime and batch == 0:
        report.error(
            "runtime-dim-place",
            item.dims[0].span,
            f"run-time dim `{extents[0]}` is axis `{layout.axes[0]}` of layout {layout.name}",
            label="an axis of the layout",
            effect="the layout's strides would depend on a number that no header has",
            help="put the run-time dim before the layout's axes, or use `row_major`",
        )
        return None
    inner = tuple(1 if isinstance(n, str) else n for n in extents[batch:])
    template = layout.template if layout is not None else row_major_template(_row_major_axes(len(inner)))
    is_scale = element is not form.data
    if layout is not None and not _is_legal(item, layout, inner, element, report):
        return None
    padded = padded_axis(plan, batch, inner, template, element.bits)
    bound = _bind(item, layout, template, inner, element, padded, report)
    if bound is None:
        return None
    axes = _coordinate_names(extents, batch, template, is_scale and form.block > 0)
    return TensorModel(name.text, element, extents, batch, axes, layout, bound, plan.axis, plan.segments, plan.pad_each)


def _row_major_axes(rank: int) -> tuple[str, ...]:
    """Return the axis names under `row_major`: row and k; a vector has rows alone."""
    return ("row", "k")[:rank]


def _coordinate_names(extents: tuple[AxisExtent, ...], batch: int, template: Template, blocks: bool) -> tuple[str, ...]:
    """Return a coordinate name a dim: the run-time dim's in small letters, i0, i1 for other batch dims, the axes."""
    inner = [axis.name for axis in template.axes]
    if blocks:
        inner[-1] = "block"
    names: list[str] = []
    for index, n in enumerate(extents[:batch]):
        name = n.lower() if isinstance(n, str) else f"i{index}"
        names.append(name if name not in inner and name not in names else f"i{index}")
    return (*names, *inner)


def _is_legal(item: nodes.Field, layout: LayoutModel, inner: tuple[int, ...], element: Element, report: Report) -> bool:
    """Report element widths and extents that the layout's rules refuse."""
    span = item.names[0].span
    if element.bits not in layout.widths:
        report.error(
            "bytes-not-whole",
            span,
            f"byte counts of layout {layout.name} are no whole number of {element.bits}-bit {element.name} elements",
            label=f"legal for {', '.join(str(w) for w in layout.widths)} bits",
            notes=(f"the layout stands at {layout.place}",),
        )
        return False
    values = {"bits": element.bits, **dict(zip(layout.axes, inner, strict=True))}
    for rule in layout.rules:
        if not holds(rule.condition, values):
            left, right = evaluate(rule.condition.left, values), evaluate(rule.condition.right, values)
            sizes = ", ".join(f"{axis} = {n}" for axis, n in zip(layout.axes, inner, strict=True))
            report.error(
                "layout-rule",
                span,
                f"layout {layout.name} requires `{rule.text}`, and here {sizes} ({element.bits}-bit elements)",
                label=f"{left} against {right}",
                notes=(f"required at {rule.place}",),
            )
            return False
    return True


def _bind(
    item: nodes.Field,
    layout: LayoutModel | None,
    template: Template,
    inner: tuple[int, ...],
    element: Element,
    padded: tuple[int, ...] | None,
    report: Report,
) -> Layout | None:
    """Return the layout at the extents, or None after reporting what does not divide or fit."""
    span = item.names[0].span
    name = layout.name if layout is not None else "row_major"
    try:
        bound = bind(template, inner, element.bits, padded)
    except NotDivisible as fault:
        axis = template.axes[fault.axis].name
        rule = "exactly" if fault.exact else "a multiple of"
        more = -(-fault.extent // fault.divisor) * fault.divisor
        report.error(
            "not-divisible",
            span,
            f"axis '{axis}' is {fault.extent}, not {rule} the {fault.divisor} that digits {', '.join(fault.digits)} "
            f"of layout {name} make",
            label=f"{fault.extent} % {fault.divisor} = {fault.extent % fault.divisor}",
            notes=(f"{element.bits}-bit elements ({element.name})",),
            help=f"pad {axis} to {fault.divisor} in the layout (here: {more}), or change the extent",
        )
        return None
    except NarrowPitch as fault:
        report.error(
            "narrow-pitch",
            span,
            f"layout {name}: the pitch of {fault.digit} is {fault.pitch}, but {fault.inside} elements lie inside it",
            label="elements would share a place",
        )
        return None
    except NotWhole as fault:
        report.error("bytes-not-whole", span, f"layout {name}: {fault}")
        return None
    if bound.span * element.bits >= 2**66:
        report.error("overflow", span, f"{item.names[0].text} has more bytes than 63 bits count")
        return None
    if bound.live_pads and bound.fill is not None and bound.fill >= 2**element.bits:
        report.error(
            "bad-fill", span, f"fill {bound.fill:#x} of layout {name} does not fit {element.bits}-bit elements"
        )
        return None
    if element.name == "e8m0" and template.has_pads and bound.fill == 0xFF:
        report.error(
            "fill-nan",
            span,
            f"layout {name} fills e8m0 pads with 0xFF, which is NaN",
            label="an e8m0 scale",
            notes=(f"the fill stands at {layout.place}" if layout is not None else "",),
            effect="NaN times zero is NaN: one pad byte poisons every row that a kernel reads past the last scale",
            help="use 0x7F (1.0) or 0x00 (2^-127), as the kernel needs",
        )
        return None
    return bound
