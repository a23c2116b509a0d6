"""Where a field comes from: view or convert, its sources, and who attests the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mono_gen.algebra.layout import is_row_major, movable_run
from mono_gen.diagnostics.model import Label
from mono_gen.formats import NAMES, Format, find_format
from mono_gen.model import (
    AttestModel,
    Attribute,
    AxisExtent,
    ConvertModel,
    FieldModel,
    GatherModel,
    LayoutModel,
    TensorModel,
    ViewModel,
)
from mono_gen.resolve.binding import Spot, bind_layout
from mono_gen.resolve.conditions import Surroundings, attribute
from mono_gen.resolve.gathers import gather_of
from mono_gen.resolve.lookup import Found, Layouts, Poisoned, find_layout
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.resolve.sources import sources_of
from mono_gen.syntax import nodes

ClauseOf = Mapping[type, nodes.FieldClause]
Origin = tuple[ViewModel | ConvertModel, AttestModel | None, GatherModel | None]

CONVERSIONS = {
    ("fp32", "bf16", ""): "cast",
    ("mxfp8", "bf16", ""): "dequantize",
    ("mxfp8", "ptpc_fp8", "bf16"): "dequantize, quantize",
    ("bf16", "ptpc_fp8", ""): "quantize",
}
"""Value changes that exist, by source format, field format and `via`; equal formats move bytes."""


@dataclass(frozen=True, slots=True)
class OriginContext:
    """What an origin is resolved against: names, layouts, the arch's fp8 dialect, arguments, the overridden field."""

    around: Surroundings
    layouts: Layouts
    dialect: str
    args: tuple[str, ...]
    base: FieldModel | None


@dataclass(frozen=True, slots=True)
class Checked:
    """An origin whose names, formats and number of paths are right.

    source: the source's format; the field's own for a view.
    order:  the source's layout, None for row_major; the field's own for a view.
    """

    clause: nodes.View | nodes.Convert
    source: Format
    order: LayoutModel | None
    paths: tuple[Attribute, ...]
    attest_path: Attribute | None
    attest_layout: str


def check_origin(
    item: nodes.Field, clauses: ClauseOf, form: Format | None, context: OriginContext, report: Report
) -> Checked | None:
    """Return an origin as far as it can be checked without extents; None after an error, or after one elsewhere."""
    before = len(report.found)
    attest = clauses.get(nodes.Attest)
    attest_path: Attribute | None = None
    named: Found = None
    if isinstance(attest, nodes.Attest):
        attest_path = attribute(attest.path, context.around, report)
        named = find_layout(attest.layout, context.layouts, report) if attest.layout is not None else None
    clause = _clause(item, clauses, report)
    if clause is None:
        return None
    paths = tuple(attribute(s.path, context.around, report) for s in clause.sources)
    order: Found = None
    source: Format | None = form
    if isinstance(clause, nodes.Convert):
        order = find_layout(clause.order, context.layouts, report)
        source = _source_format(clause, form, order, context, report)
    is_named = form is not None and len(item.names) == (1 if form.scale is None else 2)
    if is_named and source is not None:
        _check_arity(clause, 1 if source.scale is None else 2, report)
    if source is None or isinstance(order, Poisoned) or isinstance(named, Poisoned) or len(report.found) > before:
        return None
    known = tuple(p for p in paths if p is not None)
    layout = attest.layout.text if isinstance(attest, nodes.Attest) and attest.layout is not None else ""
    return Checked(clause, source, order, known, attest_path, layout)


def _clause(item: nodes.Field, clauses: ClauseOf, report: Report) -> nodes.View | nodes.Convert | None:
    """Return the `view` or `convert` clause, of which there is one."""
    view, convert = clauses.get(nodes.View), clauses.get(nodes.Convert)
    if view is not None and convert is not None:
        report.error(
            "clause-twice",
            convert.span,
            f"field {item.names[0].text} has `view` and `convert`, and comes from one of them",
            label="the second one",
            also=(Label(view.span, "the first one"),),
            help="keep `view` if the source already is in the field's order, `convert` if not",
        )
        return None
    clause = view or convert
    if clause is None:
        report.error(
            "origin-missing",
            item.names[0].span,
            f"field {item.names[0].text} has neither `view` nor `convert`",
            label="where does it come from?",
            help="`view PATH` for a source that already is in this order, `convert FORMAT ORDER PATH` for another",
        )
        return None
    assert isinstance(clause, nodes.View | nodes.Convert), "clauses are looked up by type"
    return clause


def _source_format(
    clause: nodes.Convert, form: Format | None, order: Found, context: OriginContext, report: Report
) -> Format | None:
    """Return the source's format, from which there is a conversion to the field's."""
    source = find_format(clause.format.text, context.dialect)
    if source is None:
        if clause.format.text not in context.layouts.by_name and context.layouts.is_complete:
            report.error(
                "unknown-format",
                clause.format.span,
                f"`{clause.format.text}` is no format",
                label="unknown",
                help=report.near(clause.format.text, NAMES),
            )
        return None
    if form is None:
        return None
    if source.name == "ptpc_fp8":
        what = "a source that has a scale for each row already comes later; `view` takes one that needs no change"
        report.not_built(clause.format.span, "`convert ptpc_fp8`", what, "use `view`")
        return None
    via = clause.via.text if clause.via is not None else ""
    if (source.name != form.name or via) and (source.name, form.name, via) not in CONVERSIONS:
        _no_conversion(clause, source, form, via, report)
        return None
    if isinstance(order, LayoutModel) and (source.scale is not None or source.name != form.name):
        what = "a source in another order than row_major is built for one-tensor formats whose values do not change"
        report.not_built(clause.order.span, f"`convert {source.name} {order.name}`", what, "convert from row_major")
        return None
    return source


def _no_conversion(clause: nodes.Convert, source: Format, form: Format, via: str, report: Report) -> None:
    """Report a change of values that no rule states."""
    ways = [(v, b) for a, b, v in CONVERSIONS if a == source.name]
    words = [f"to {b}" + (f" `via {v}`" if v else "") for v, b in ways]
    if source.name == form.name:
        help = "leave `via` out: equal formats move bytes"
    elif words:
        help = f"{source.name} converts {', '.join(words)}; equal formats move bytes"
    else:
        help = f"make the field {source.name}, whose bytes move as they are"
    span = clause.via.span if clause.via is not None else clause.format.span
    report.error(
        "no-conversion",
        span,
        f"there is no conversion {source.name} -> {f'{via} -> ' if via else ''}{form.name}",
        label="values would change in a way that no rule states",
        help=help,
    )


def _check_arity(clause: nodes.View | nodes.Convert, count: int, report: Report) -> None:
    """Report a number of paths other than the format's number of tensors."""
    found = len(clause.sources)
    if found != count:
        report.error(
            "wrong-arity",
            clause.sources[0].span.to(clause.sources[-1].span),
            f"{found} path{'s' if found != 1 else ''} for {count} tensor{'s' if count != 1 else ''}",
            label="data, then scale, expected" if count == 2 else "one path expected",
            help="separate two paths by a comma" if count == 2 else "keep one path",
        )


def origin_of(
    checked: Checked,
    clauses: ClauseOf,
    form: Format,
    tensors: tuple[TensorModel, ...],
    context: OriginContext,
    report: Report,
) -> Origin | None:
    """Return a field's origin, attestation and gather, or None after reporting what contradicts."""
    clause = checked.clause
    origin: ViewModel | ConvertModel | None
    if isinstance(clause, nodes.View):
        stored = [(*t.extents[: t.batch], *(t.inner if t.runtime_row else t.bound.padded)) for t in tensors]
        sources = sources_of(clause.sources, checked.paths, stored, _bits(form), context.around, report)
        origin = None if sources is None else ViewModel(sources, place(clause.span))
    else:
        origin = _convert(clause, checked, tensors, context, report)
    if origin is None:
        return None
    attest = _attest(clauses.get(nodes.Attest), checked, origin, tensors, report)
    gather = gather_of(clauses.get(nodes.Gather), origin, tensors[0], context.args, context.base, report)
    return origin, attest, gather


def _bits(form: Format) -> tuple[int, ...]:
    """Return the element widths of a format's tensors."""
    return (form.data.bits,) if form.scale is None else (form.data.bits, form.scale.bits)


def _convert(
    clause: nodes.Convert, checked: Checked, tensors: tuple[TensorModel, ...], context: OriginContext, report: Report
) -> ConvertModel | None:
    """Return a conversion, with its sources checked against the source format's tensors."""
    source, data = checked.source, tensors[0].extents
    wanted: list[tuple[AxisExtent, ...]] = [data]
    if source.scale is not None:
        last = data[-1]
        if isinstance(last, str) or last % source.block:
            report.error(
                "scale-block",
                clause.format.span,
                f"the last axis has {last} elements, not a multiple of {source.name}'s block of {source.block}",
                label=f"{last} % {source.block} = {last % source.block}" if isinstance(last, int) else "not known here",
                help=f"make it a multiple of {source.block}",
            )
            return None
        wanted.append((*data[:-1], last // source.block))
    if checked.order is not None:
        stored = _stored(clause, checked.order, source, data, report)
        if stored is None:
            return None
        wanted = [stored]
    for tensor in tensors:
        if tensor.element.bits == 4 and not is_row_major(tensor.bound) and movable_run(tensor.bound) % 2:
            what = f"layout {tensor.layout_name} parts two 4-bit elements that share a byte"
            help = "keep the two elements of a byte neighbours"
            report.not_built(clause.span, f"`convert` to layout {tensor.layout_name}", what, help)
            return None
    sources = sources_of(clause.sources, checked.paths, wanted, _bits(source), context.around, report)
    via = clause.via.text if clause.via is not None else ""
    return None if sources is None else ConvertModel(source, checked.order, sources, via, place(clause.span))


def _stored(
    clause: nodes.Convert, order: LayoutModel, source: Format, extents: tuple[AxisExtent, ...], report: Report
) -> tuple[AxisExtent, ...] | None:
    """Return the extents in storage of a source in another order, after checking that it is legal for the field's."""
    batch = len(extents) - len(order.axes)
    spot = Spot(clause.order.span, (clause.order.span,) * len(order.axes), None)
    inner = [n for n in extents[max(batch, 0) :] if isinstance(n, int)]
    if batch < 0 or len(inner) < len(order.axes):
        report.error(
            "wrong-arity",
            clause.order.span,
            f"layout {order.name} has {len(order.axes)} axes ({', '.join(order.axes)}), and the field has "
            f"{len(extents)} dims" + ("" if batch < 0 else f", of which `{extents[0]}` is run-time"),
            label="too many axes",
            help="use an order of fewer axes",
        )
        return None
    bound = bind_layout(spot, order, order.template, tuple(inner), source.data, None, report)
    if bound is None:
        return None
    if source.data.bits == 4 and movable_run(bound) % 2:
        what = f"layout {order.name} parts two 4-bit elements that share a byte"
        help = "keep the two elements of a byte neighbours"
        report.not_built(clause.order.span, f"`convert {source.name} {order.name}`", what, help)
        return None
    return (*extents[:batch], *bound.padded)


def _attest(
    clause: nodes.FieldClause | None,
    checked: Checked,
    origin: ViewModel | ConvertModel,
    tensors: tuple[TensorModel, ...],
    report: Report,
) -> AttestModel | None:
    """Return who promises the source's order, after reporting a promise of another order than the field's."""
    if clause is None or checked.attest_path is None:
        return None
    assert isinstance(clause, nodes.Attest), "clauses are looked up by type"
    if isinstance(origin, ViewModel):
        shuffled = [t.layout_name for t in tensors if not is_row_major(t.bound)]
        orders = shuffled or list(dict.fromkeys((tensors[0].layout_name, "row_major")))
    else:
        shuffled = [origin.order.name] if origin.order is not None else []
        orders = shuffled or ["row_major"]
    if clause.layout is None and shuffled:
        report.error(
            "attest-contradicts",
            clause.span,
            f"`attest not` says that the source is row-major, and the field takes it in {shuffled[0]}",
            label="contradicts the field",
            effect="a source that is not shuffled would pass, and be read as if it were",
            help=f"write `attest {shuffled[0]} when {clause.path.text}`",
        )
        return None
    if clause.layout is not None and checked.attest_layout not in orders:
        report.error(
            "attest-contradicts",
            clause.layout.span,
            f"`attest {checked.attest_layout}` promises another order than the source's, which is {orders[0]}",
            label="contradicts the field",
            effect=f"a source in {checked.attest_layout} would pass, and be read as {orders[0]}",
            help=f"attest `{orders[0]}`, or change the field's layout",
        )
        return None
    return AttestModel(checked.attest_layout, checked.attest_path, place(clause.span))
