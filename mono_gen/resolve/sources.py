"""The sources of a field: paths into the layer, and the shapes that `as` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mono_gen.model import Attribute, AxisExtent, SourceModel
from mono_gen.resolve.conditions import Surroundings
from mono_gen.resolve.integers import extent
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.text import expr_text

Shape = tuple[tuple[AxisExtent, ...], ...]


def sources_of(
    found: Sequence[nodes.SourcePath],
    paths: Sequence[Attribute],
    wanted: Sequence[tuple[AxisExtent, ...]],
    bits: Sequence[int],
    around: Surroundings,
    report: Report,
) -> tuple[SourceModel, ...] | None:
    """Return the sources, those with `as` checked to have as many elements as the tensor that they become."""
    before = len(report.found)
    result: list[SourceModel] = []
    for source, path, extents, width in zip(found, paths, wanted, bits, strict=True):
        shape = _shape(source, source.shape, extents, width, around, report) if source.shape is not None else None
        if source.shape is None or shape is not None:
            result.append(SourceModel(path, shape, place(source.span)))
    return tuple(result) if len(result) == len(found) and len(report.found) == before else None


def _shape(
    source: nodes.SourcePath,
    exprs: tuple[nodes.Expr, ...],
    extents: tuple[AxisExtent, ...],
    bits: int,
    around: Surroundings,
    report: Report,
) -> Shape | None:
    """Return the source's own shape, each dim as a product of numbers and run-time dims."""
    factors = [_factors(expr, around, report) for expr in exprs]
    dims = tuple(f for f in factors if f is not None)
    if len(dims) < len(exprs):
        return None
    flat = [f for dim in dims for f in dim]
    mine = (prod(f for f in flat if isinstance(f, int)), sorted(f for f in flat if isinstance(f, str)))
    theirs = (prod(n for n in extents if isinstance(n, int)), sorted(n for n in extents if isinstance(n, str)))
    if mine != theirs:
        written = ", ".join(expr_text(e) for e in exprs)
        report.error(
            "as-shape",
            source.span,
            f"`as [{written}]` has {_count(mine)} elements, and storage of the field {_count(theirs)}",
            label="not the same elements",
            help="`as` gives the source's own shape of the same elements, in the same row-major order: "
            f"here they are [{', '.join(str(n) for n in extents)}]",
        )
        return None
    if bits == 4 and prod(f for f in dims[-1] if isinstance(f, int)) % 2:
        report.error(
            "bytes-not-whole",
            exprs[-1].span,
            "the last axis of the source may be odd, and two elements of 4 bits lie in a byte",
            label="not even",
            help="`as` counts logical elements: two a byte",
        )
        return None
    return dims


def _count(size: tuple[int, list[str]]) -> str:
    """Return a product of a number and run-time dims as text."""
    number, dims = size
    return " * ".join((str(number), *dims))


def _factors(expr: nodes.Expr, around: Surroundings, report: Report) -> tuple[AxisExtent, ...] | None:
    """Return a dim of `as` as a product of numbers and run-time dims."""
    match expr:
        case nodes.Path(names, _) if len(names) == 1 and names[0].text in around.dims:
            return (names[0].text,)
        case nodes.Chain(first, rest, _) if _has_dim(expr, around):
            if any(op != "*" for op, _ in rest):
                report.error(
                    "runtime-dim-place",
                    expr.span,
                    f"`{expr_text(expr)}` does more with a run-time dim than multiply it",
                    label="not a product",
                    help="a dim of `as` is a run-time dim, a number, or a product of them",
                )
                return None
            parts = [_factors(e, around, report) for e in (first, *(e for _, e in rest))]
            return None if any(p is None for p in parts) else tuple(f for p in parts if p is not None for f in p)
    value = extent(expr, around.scope, report, "a dim of `as`", "a constant or a dim")
    return None if value is None else (value,)


def _has_dim(expr: nodes.Expr, around: Surroundings) -> bool:
    """Return whether an expression names a run-time dim."""
    match expr:
        case nodes.Path(names, _):
            return len(names) == 1 and names[0].text in around.dims
        case nodes.Negate(operand, _):
            return _has_dim(operand, around)
        case nodes.Chain(first, rest, _):
            return _has_dim(first, around) or any(_has_dim(e, around) for _, e in rest)
    return False
