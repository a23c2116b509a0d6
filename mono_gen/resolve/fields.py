"""A field to its model: format, extents, layouts of data and scale, segments, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mono_gen.algebra.template import Template, row_major_template
from mono_gen.archs import ArchFacts
from mono_gen.diagnostics.model import Label
from mono_gen.formats import NAMES, Element, Format, find_format
from mono_gen.model import AxisExtent, FieldModel, LayoutModel, TensorModel
from mono_gen.resolve.binding import Spot, bind_layout
from mono_gen.resolve.conditions import Surroundings
from mono_gen.resolve.feeds import check_field_feeds
from mono_gen.resolve.integers import LIMIT, extent
from mono_gen.resolve.lookup import Found, Layouts, Poisoned, find_layout
from mono_gen.resolve.names import MEMBERS
from mono_gen.resolve.origins import ClauseOf, OriginContext, check_origin, origin_of
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.resolve.segments import SegmentPlan, padded_axis, plan_segments, scale_segments
from mono_gen.syntax import nodes
from mono_gen.syntax.words import is_reserved

MAX_RANK = 16


@dataclass(frozen=True, slots=True)
class FieldContext:
    """What a field is resolved against.

    args:     the struct's arguments.
    base:     the field that this one overrides, where the struct extends another.
    optional: the optional block that the field stands in, or empty.
    """

    around: Surroundings
    layouts: Layouts
    arch: ArchFacts | None
    args: tuple[str, ...]
    base: FieldModel | None
    optional: str


def resolve_field(item: nodes.Field, context: FieldContext, report: Report) -> FieldModel | None:
    """Return the model of a field, or None after reporting what is wrong with it."""
    before = len(report.found)
    clauses = _by_kind(item, report)
    form = _format(item, context, report)
    extents = _extents(item, context.around, report)
    tile = _named_layout(clauses.get(nodes.Tile), context, report)
    scale = _named_layout(clauses.get(nodes.Scale), context, report)
    origin = check_origin(item, clauses, form, _origin_context(context), report)
    if form is None or extents is None:
        return None
    scale_extents = _scale_extents(item, form, extents, report)
    if len(item.names) != (1 if form.scale is None else 2):
        return None
    _check_layouts(item, clauses, form, extents, scale_extents, tile, scale, context.arch, report)
    if isinstance(tile, Poisoned) or isinstance(scale, Poisoned) or len(report.found) > before:
        return None
    plan = plan_segments(clauses.get(nodes.Segments), form, extents, tile, context.around.scope, report)
    if plan is None:
        return None
    tensors = [_tensor(item, clauses, form.data, extents, tile, plan, form, report)]
    if form.scale is not None and scale_extents is not None:
        side = scale_segments(plan, form, len(extents), scale, report, item)
        tensors.append(_tensor(item, clauses, form.scale, scale_extents, scale, side, form, report))
    done = tuple(t for t in tensors if t is not None)
    if len(done) < len(tensors) or origin is None or len(report.found) > before:
        return None
    parts = origin_of(origin, clauses, form, done, _origin_context(context), report)
    if parts is None or len(report.found) > before:
        return None
    return FieldModel(form, done, *parts, context.optional, item.doc, place(item.span))


def _origin_context(context: FieldContext) -> OriginContext:
    dialect = context.arch.fp8 if context.arch is not None else "fn"
    return OriginContext(context.around, context.layouts, dialect, context.args, context.base)


def _by_kind(item: nodes.Field, report: Report) -> ClauseOf:
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
                help="keep one of them",
            )
        found.setdefault(kind, clause)
    return found


def _format(item: nodes.Field, context: FieldContext, report: Report) -> Format | None:
    """Return the field's format, checked for the number of tensors and the arch's fp8 dialect."""
    dialect = context.arch.fp8 if context.arch is not None else "fn"
    form = find_format(item.format.text, dialect)
    if form is None:
        if item.format.text not in context.layouts.by_name and context.layouts.is_complete:
            report.error(
                "unknown-format",
                item.format.span,
                f"`{item.format.text}` is no format",
                label="unknown",
                help=report.near(item.format.text, NAMES),
            )
        return None
    wanted = 1 if form.scale is None else 2
    if len(item.names) != wanted:
        shape = "two tensors, data and scale" if wanted == 2 else "one tensor"
        report.error(
            "wrong-arity",
            item.names[0].span.to(item.names[-1].span),
            f"{form.name} is {shape}, and here {_names(len(item.names))}",
            label=f"{_names(wanted)} expected".replace(" stands", "").replace(" stand", ""),
            help=f"write `data, scale : {form.name}[...]`" if wanted == 2 else "name one tensor",
        )
    if context.arch is not None and form.data.dialect not in ("", context.arch.fp8):
        _wrong_dialect(item, form, context.arch, report)
        return None
    return form


def _names(count: int) -> str:
    return f"{count} name stands" if count == 1 else f"{count} names stand"


def _wrong_dialect(item: nodes.Field, form: Format, arch: ArchFacts, report: Report) -> None:
    """Report a format whose fp8 the arch's instructions do not read."""
    read, meant, largest = ("0.5", "1.0", "240") if arch.fp8 == "fnuz" else ("1.0", "0.5", "448")
    own = "write ptpc_fp8, which takes the arch's dialect" if form.scale is not None else f"write fp8_e4m3{arch.fp8}"
    report.error(
        "dialect",
        item.format.span,
        f"{form.name} holds {form.data.name}, but {arch.name} reads fp8 in the {arch.fp8} dialect",
        label=f"{arch.name} does not have it",
        notes=(f"the largest {arch.fp8} value is {largest}; source: {arch.source}",),
        effect=f"{arch.name} would read byte 0x38 as {read}, where {meant} was meant",
        help=f"{own}; a `convert` source may be in either dialect",
    )


def _extents(item: nodes.Field, around: Surroundings, report: Report) -> tuple[AxisExtent, ...] | None:
    """Return the logical extents: numbers, and a run-time dim at most as the first one."""
    name = item.names[0].text
    if len(item.dims) > MAX_RANK:
        report.error(
            "too-many-digits",
            item.dims[MAX_RANK].span,
            f"field {name} has {len(item.dims)} dims, and a field has at most {MAX_RANK}",
            label="one too many",
            help="join batch dims",
        )
        return None
    result: list[AxisExtent | None] = []
    for index, expr in enumerate(item.dims):
        names = dims_in(expr, around)
        if not names:
            result.append(extent(expr, around.scope, report, f"dim {index + 1} of {name}", "a constant or a dim"))
            continue
        result.append(names[0] if index == 0 and isinstance(expr, nodes.Path) else None)
        if index > 0:
            report.error(
                "runtime-dim-place",
                expr.span,
                f"run-time dim `{names[0]}` is dim {index + 1} of {name}",
                label="not the first axis",
                effect=f"the element at {name}[1, 0] would lie at `{names[0]}`, which no header knows",
                help="only the first axis may be a run-time extent",
            )
        elif not isinstance(expr, nodes.Path):
            report.error(
                "runtime-dim-place",
                expr.span,
                f"run-time dim `{names[0]}` stands inside an expression",
                label="must stand alone",
                help="write the dim alone; list what it may be as in `dim E in { A, A + 1 }`",
            )
    known = tuple(n for n in result if n is not None)
    return known if len(known) == len(result) else None


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
    """Return the scale's logical extents: blocks along the last axis, or all axes but the last; None: no scale."""
    last = extents[-1]
    if form.scale is None:
        return None
    if form.block == 0 and len(extents) < 2:
        report.error(
            "wrong-arity",
            item.dims[0].span,
            f"{form.name} has a scale for each row: it takes two axes or more, and {item.names[0].text} has one",
            label="no row",
            help="write the rows as an axis of their own, as in `[1, K]`",
        )
        return None
    if form.block == 0:
        return extents[:-1]
    if isinstance(last, str) or last % form.block:
        rest = f"{last} % {form.block} = {last % form.block}" if isinstance(last, int) else "not known here"
        report.error(
            "scale-block",
            item.dims[-1].span,
            f"the last axis has {last} elements, not a multiple of the {form.block} that share a scale in {form.name}",
            label=rest,
            effect=f"scale {last // form.block} would cover element {last}, which does not exist"
            if isinstance(last, int)
            else "",
            help=f"make it a multiple of {form.block}",
        )
        return None
    return (*extents[:-1], last // form.block)


def _named_layout(clause: nodes.FieldClause | None, context: FieldContext, report: Report) -> Found:
    """Return the layout that `tile` or `scale` names; None where the clause is absent, too."""
    if clause is None:
        return None
    assert isinstance(clause, nodes.Tile | nodes.Scale), "only these clauses name a layout"
    return find_layout(clause.layout, context.layouts, report)


def _check_layouts(
    item: nodes.Field,
    clauses: ClauseOf,
    form: Format,
    extents: tuple[AxisExtent, ...],
    scale_extents: tuple[AxisExtent, ...] | None,
    tile: Found,
    scale: Found,
    arch: ArchFacts | None,
    report: Report,
) -> None:
    """Report tensors of two axes whose layout is not said, layouts of too many axes, and a scale that is not there."""
    if form.scale is None and nodes.Scale in clauses:
        report.error(
            "clause-without-use",
            clauses[nodes.Scale].span,
            f"{form.name} has no scale tensor",
            label="would have no effect",
            help="leave the clause out, or use a format with a scale",
        )
    for word, kind, found, shape in (("tile", nodes.Tile, tile, extents), ("scale", nodes.Scale, scale, scale_extents)):
        if shape is None:
            continue
        clause = clauses.get(kind)
        if clause is None and len(shape) >= 2:
            report.error(
                "layout-missing",
                item.names[0 if word == "tile" else -1].span,
                f"{'data' if word == 'tile' else 'a scale'} of {len(shape)} axes has no `{word}`",
                label="how does it lie in memory?",
                effect="taken for row-major, the element at (1, 0) would be read "
                f"{shape[-1]} elements after the first; in a tiled source another one lies there",
                help=f"add `{word} row_major` if that is what it is, or the layout's name",
            )
        if clause is not None and isinstance(found, LayoutModel) and len(found.axes) > len(shape):
            report.error(
                "wrong-arity",
                clause.span,
                f"layout {found.name} has {len(found.axes)} axes ({', '.join(found.axes)}), the tensor {len(shape)}",
                label="too many axes",
                help="use a layout of at most as many axes; leading dims beyond them are batch dims",
            )
        element = form.data if word == "tile" else form.scale
        if clause is not None and isinstance(found, LayoutModel) and element is not None:
            check_field_feeds(clause.span, found, element, arch, report)


def _tensor(
    item: nodes.Field,
    clauses: ClauseOf,
    element: Element,
    extents: tuple[AxisExtent, ...],
    layout: LayoutModel | None,
    plan: SegmentPlan,
    form: Format,
    report: Report,
) -> TensorModel | None:
    """Return a tensor with its layout bound to the extents, or None after reporting why they do not fit."""
    is_scale = element is not form.data
    first = extents[0]
    batch = len(extents) - (len(layout.axes) if layout is not None else min(2, len(extents)))
    name = item.names[1 if is_scale else 0]
    clause = clauses.get(nodes.Scale if is_scale else nodes.Tile)
    if layout is not None and isinstance(first, str) and batch == 0:
        report.error(
            "runtime-dim-place",
            item.dims[0].span,
            f"run-time dim `{first}` is axis `{layout.axes[0]}` of layout {layout.name}",
            label="an axis of the layout",
            also=(Label(clause.span, "laid out by this"),) if clause is not None else (),
            effect=f"strides of the layout would depend on `{first}`, which no header knows",
            help="put the run-time dim before the layout's axes, or use `row_major`",
        )
        return None
    if element.bits == 4 and len(extents) == 1 and isinstance(first, str):
        report.error(
            "runtime-dim-place",
            item.dims[0].span,
            f"run-time dim `{first}` is the only axis of a 4-bit tensor, of which two elements lie in a byte",
            label="may be odd",
            help="add a last axis of fixed, even extent",
        )
        return None
    inner = tuple(1 if isinstance(n, str) else n for n in extents[batch:])
    template = layout.template if layout is not None else row_major_template(("row", "k")[: len(inner)])
    is_wide = layout is not None and element.bits not in layout.widths  # reported below
    padded = None if is_wide else padded_axis(plan, batch, inner, template, element.bits)
    spans = tuple(item.dims[batch + i].span for i in range(len(inner)))
    spot = Spot(name.span, spans, clause.span if clause is not None else None)
    bound = bind_layout(spot, layout, template, inner, element, padded, report)
    if bound is None:
        return None
    items = prod(n for n in extents[:batch] if isinstance(n, int))
    if bound.span * items * element.bits > LIMIT * 8:
        report.error(
            "overflow",
            name.span,
            f"{name.text} has {bound.span * items} elements of {element.bits} bits: more bytes than 63 bits count",
            label="too large",
            help="check the dims",
        )
        return None
    axes = _coordinate_names(extents, batch, template, is_scale and form.block > 0)
    return TensorModel(name.text, element, extents, batch, axes, layout, bound, plan.axis, plan.segments, plan.pad_each)


def _coordinate_names(extents: tuple[AxisExtent, ...], batch: int, template: Template, blocks: bool) -> tuple[str, ...]:
    """Return a coordinate name a dim: the run-time dim's in small letters, i0, i1 for other batch dims, the axes."""
    inner = [axis.name for axis in template.axes]
    if blocks and "block" not in inner[:-1]:
        inner[-1] = "block"
    names: list[str] = []
    for index, n in enumerate(extents[:batch]):
        name = n.lower() if isinstance(n, str) else ""
        if not name or name in inner or name in MEMBERS or is_reserved(name) is not None:
            name = f"i{index}"
        while name in inner:
            name += "_"
        names.append(name)
    return (*names, *inner)
