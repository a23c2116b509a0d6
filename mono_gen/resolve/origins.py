"""Where a field comes from: view or convert, its sources, who attests the order, what is gathered."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mono_gen.algebra.layout import is_row_major
from mono_gen.diagnostics.model import Label
from mono_gen.formats import NAMES, Format, find_format
from mono_gen.model import (
    AttestModel,
    AxisExtent,
    ConvertModel,
    FieldModel,
    GatherModel,
    LayoutModel,
    SourceModel,
    TensorModel,
    ViewModel,
)
from mono_gen.resolve.conditions import Surroundings, attribute
from mono_gen.resolve.integers import extent
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report, near
from mono_gen.syntax import nodes
from mono_gen.syntax.text import expr_text

Clauses = Mapping[type, nodes.FieldClause]
Layouts = Mapping[str, LayoutModel | None]
Origin = tuple[ViewModel | ConvertModel, AttestModel | None, GatherModel | None]

CONVERSIONS = {
    ("fp32", "bf16", ""): "cast",
    ("mxfp8", "bf16", ""): "dequantize",
    ("mxfp8", "ptpc_fp8", "bf16"): "dequantize, quantize",
    ("bf16", "ptpc_fp8", ""): "quantize",
}
"""Value changes that exist, by source format, field format and `via`; equal formats move bytes."""


def origin_of(
    item: nodes.Field,
    clauses: Clauses,
    form: Format,
    tensors: tuple[TensorModel, ...],
    args: tuple[str, ...],
    around: Surroundings,
    layouts: Layouts,
    base: FieldModel | None,
    report: Report,
) -> Origin | None:
    """Return a field's origin, attestation and gather, or None after reporting what is missing or contradicts."""
    view, convert = clauses.get(nodes.View), clauses.get(nodes.Convert)
    if view is None and convert is None:
        report.error(
            "origin-missing",
            item.names[0].span,
            f"field {item.names[0].text} has neither `view` nor `convert`",
            label="where does it come from?",
            help="`view PATH` for a source that already is in this order, `convert FORMAT ORDER PATH` for another",
        )
        return None
    if view is not None and convert is not None:
        report.error(
            "clause-twice",
            convert.span,
            f"field {item.names[0].text} has `view` and `convert`",
            label="the second one",
            also=(Label(view.span, "the first one"),),
        )
        return None
    origin: ViewModel | ConvertModel | None
    if isinstance(view, nodes.View):
        origin = _view(view, tensors, around, report)
    else:
        assert isinstance(convert, nodes.Convert), "one of the two is there"
        origin = _convert(convert, form, tensors, around, layouts, report)
    if origin is None:
        return None
    attest = _attest(clauses.get(nodes.Attest), origin, tensors, around, layouts, report)
    gather = _gather(clauses.get(nodes.Gather), origin, tensors[0], args, base, report)
    return origin, attest, gather


def _view(
    clause: nodes.View, tensors: tuple[TensorModel, ...], around: Surroundings, report: Report
) -> ViewModel | None:
    """Return a view with its sources checked against what storage holds, pads included."""
    if not _arity(clause, clause.sources, len(tensors), report):
        return None
    wanted = [(*t.extents[: t.batch], *_stored(t)) for t in tensors]
    sources = _sources(clause.sources, wanted, around, report)
    return None if sources is None else ViewModel(sources, place(clause.span))


def _stored(tensor: TensorModel) -> tuple[AxisExtent, ...]:
    """Return the extents in storage of the axes after the batch dims."""
    if tensor.runtime_row:
        return tensor.inner
    return tensor.bound.padded


def _convert(
    clause: nodes.Convert,
    form: Format,
    tensors: tuple[TensorModel, ...],
    around: Surroundings,
    layouts: Layouts,
    report: Report,
) -> ConvertModel | None:
    """Return a conversion that exists, with its sources checked against the source format's tensors."""
    source = find_format(clause.format.text, "fn")
    if source is None:
        report.error(
            "unknown-format",
            clause.format.span,
            f"`{clause.format.text}` is no format",
            help=near(clause.format.text, NAMES),
        )
        return None
    order: LayoutModel | None = None
    if clause.order.text != "row_major":
        if clause.order.text not in layouts:
            known = (*layouts, "row_major")
            report.error(
                "unknown-name",
                clause.order.span,
                f"`{clause.order.text}` is no layout",
                help=near(clause.order.text, known),
            )
            return None
        order = layouts[clause.order.text]
        if order is None:
            return None
        if source.scale is not None or source.name != form.name:
            report.not_built(
                clause.order.span,
                f"convert {source.name} {order.name}",
                "a source in another order than row_major is built for one-tensor formats whose values do not change",
            )
            return None
    via = clause.via.text if clause.via is not None else ""
    if (source.name != form.name or via) and (source.name, form.name, via) not in CONVERSIONS:
        known_list = ", ".join(f"{a} -> {f'{v} -> ' if v else ''}{b}" for a, b, v in CONVERSIONS)
        report.error(
            "no-conversion",
            clause.span,
            f"there is no conversion {source.name} -> {f'{via} -> ' if via else ''}{form.name}",
            label="values would change in a way that no rule states",
            notes=(f"known: {known_list}; equal formats move bytes and take no `via`",),
            help="write `via bf16` for mxfp8 -> ptpc_fp8" if (source.name, form.name) == ("mxfp8", "ptpc_fp8") else "",
        )
        return None
    count = 1 if source.scale is None else 2
    if not _arity(clause, clause.sources, count, report):
        return None
    data = tensors[0].extents
    wanted: list[tuple[AxisExtent, ...]] = [data]
    if source.scale is not None:
        last = data[-1]
        if isinstance(last, str) or last % source.block:
            report.error(
                "scale-block",
                clause.format.span,
                f"the last axis has {last} elements, not a multiple of {source.name}'s block of {source.block}",
            )
            return None
        wanted.append((*data[:-1], last // source.block))
    sources = _sources(clause.sources, wanted, around, report)
    return None if sources is None else ConvertModel(source, order, sources, via, place(clause.span))


def _arity(clause: nodes.FieldClause, sources: tuple[nodes.SourcePath, ...], count: int, report: Report) -> bool:
    """Report a number of paths other than the format's number of tensors."""
    if len(sources) == count:
        return True
    report.error(
        "wrong-arity",
        clause.span,
        f"{len(sources)} path{'s' if len(sources) != 1 else ''} for {count} tensor{'s' if count != 1 else ''}",
        label="data, then scale" if count == 2 else "one path expected",
    )
    return False


def _sources(
    found: tuple[nodes.SourcePath, ...],
    wanted: list[tuple[AxisExtent, ...]],
    around: Surroundings,
    report: Report,
) -> tuple[SourceModel, ...] | None:
    """Return the sources, those with `as` checked to have as many elements as the field."""
    result: list[SourceModel] = []
    for source, extents in zip(found, wanted, strict=True):
        path = attribute(source.path, around, report)
        shape = None
        if source.shape is not None:
            shape = _as_shape(source, extents, around, report)
            if shape is None:
                return None
        if path is None:
            return None
        result.append(SourceModel(path, shape, place(source.span)))
    return tuple(result)


def _as_shape(
    source: nodes.SourcePath, extents: tuple[AxisExtent, ...], around: Surroundings, report: Report
) -> tuple[tuple[AxisExtent, ...], ...] | None:
    """Return the source's own shape, each dim as a product of numbers and run-time dims."""
    assert source.shape is not None, "called where `as` stands"
    dims: list[tuple[AxisExtent, ...]] = []
    for expr in source.shape:
        factors = _factors(expr, around, report)
        if factors is None:
            return None
        dims.append(factors)
    flat = [f for dim in dims for f in dim]
    mine = (prod(f for f in flat if isinstance(f, int)), sorted(f for f in flat if isinstance(f, str)))
    theirs = (prod(n for n in extents if isinstance(n, int)), sorted(n for n in extents if isinstance(n, str)))
    if mine != theirs:
        written = ", ".join(expr_text(e) for e in source.shape)
        report.error(
            "as-shape",
            source.span,
            f"`as [{written}]` has {_count(mine)} elements, the field {_count(theirs)}",
            label="not the same elements",
            help="`as` gives the source's own shape of the same elements in the same row-major order",
        )
        return None
    return tuple(dims)


def _count(size: tuple[int, list[str]]) -> str:
    """Return a product of a number and run-time dims as text."""
    number, dims = size
    return " * ".join((str(number), *dims))


def _factors(expr: nodes.Expr, around: Surroundings, report: Report) -> tuple[AxisExtent, ...] | None:
    """Return a dim of `as` as a product of numbers and run-time dims."""
    match expr:
        case nodes.Path(names, _) if len(names) == 1 and names[0].text in around.dims:
            return (names[0].text,)
        case nodes.Chain(first, rest, _) if _has_dim(expr, around) and all(op == "*" for op, _ in rest):
            parts = [_factors(e, around, report) for e in (first, *(e for _, e in rest))]
            return None if any(p is None for p in parts) else tuple(f for p in parts if p is not None for f in p)
    value = extent(expr, around.scope, report, "a dim of `as`")
    return None if value is None else (value,)


def _has_dim(expr: nodes.Expr, around: Surroundings) -> bool:
    """Return whether an expression names a run-time dim."""
    match expr:
        case nodes.Path(names, _):
            return len(names) == 1 and names[0].text in around.dims
        case nodes.Chain(first, rest, _):
            return _has_dim(first, around) or any(_has_dim(e, around) for _, e in rest)
    return False


def _attest(
    clause: nodes.FieldClause | None,
    origin: ViewModel | ConvertModel,
    tensors: tuple[TensorModel, ...],
    around: Surroundings,
    layouts: Layouts,
    report: Report,
) -> AttestModel | None:
    """Return who promises the source's order, after reporting a promise of another order than the field's."""
    if clause is None:
        return None
    assert isinstance(clause, nodes.Attest), "clauses are looked up by type"
    path = attribute(clause.path, around, report)
    match origin:
        case ViewModel():
            order = tensors[0].layout_name
            plain = all(is_row_major(t.bound) for t in tensors)
        case ConvertModel():
            order = origin.order.name if origin.order is not None else "row_major"
            plain = origin.order is None
    if clause.layout is None:
        if not plain:
            report.error(
                "attest-contradicts",
                clause.span,
                f"`attest not` promises a row-major source, but the source is in {order}",
                label="contradicts the field",
                help=f"write `attest {order} when {clause.path.text}`",
            )
            return None
        return None if path is None else AttestModel("", path, place(clause.span))
    name = clause.layout.text
    if name not in layouts and name != "row_major":
        report.error(
            "unknown-name", clause.layout.span, f"`{name}` is no layout", help=near(name, (*layouts, "row_major"))
        )
        return None
    if name != order:
        report.error(
            "attest-contradicts",
            clause.layout.span,
            f"`attest {name}` promises another order than the source's, which is {order}",
            label="contradicts the field",
            help=f"attest `{order}`, or change the field's layout",
        )
        return None
    return None if path is None else AttestModel(name, path, place(clause.span))


def _gather(
    clause: nodes.FieldClause | None,
    origin: ViewModel | ConvertModel,
    data: TensorModel,
    args: tuple[str, ...],
    base: FieldModel | None,
    report: Report,
) -> GatherModel | None:
    """Return what ranks gather, and of how many ranks where the overridden field says so."""
    if clause is None:
        return None
    assert isinstance(clause, nodes.Gather), "clauses are looked up by type"
    group = clause.group.text
    if group not in args:
        report.error(
            "gather-no-group",
            clause.group.span,
            f"`{group}` is no argument of the struct, so no process group reaches the loader",
            label="unknown group",
            help=f"add it: `struct NAME({', '.join((*args, group))})`",
        )
        return None
    if isinstance(origin, ViewModel) or origin.order is not None or any(s.shape is not None for s in origin.sources):
        report.error(
            "gather-source",
            clause.span,
            "`gather` needs `convert` from a row_major source without `as`: slices are ranges of the source",
            label="nothing to gather into",
        )
        return None
    segment = next((s for s in data.segments if s.name == clause.segment.text), None)
    if segment is None:
        report.error(
            "unknown-name",
            clause.segment.span,
            f"`{clause.segment.text}` is no segment of this field",
            help=near(clause.segment.text, (s.name for s in data.segments)),
        )
        return None
    length, world = segment.end - segment.begin, None
    if base is not None:
        slices = {s.name: s.end - s.begin for s in base.tensors[0].segments}
        own = slices.get(segment.name)
        if own is not None:
            if length % own:
                report.error(
                    "gather-not-divisible",
                    clause.segment.span,
                    f"segment `{segment.name}` has {length} rows, not a whole number of the {own} that a rank brings",
                    label=f"{length} % {own} = {length % own}",
                    notes=(f"a rank's own rows stand in the overridden field at {base.place}",),
                    effect="the last rank's slice would be cut",
                )
                return None
            world = length // own
    return GatherModel(segment, group, world, place(clause.span))
