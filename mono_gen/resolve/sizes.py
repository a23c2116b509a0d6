"""Sizes in a layout: numbers of elements, or of bytes' worth of elements (`16B`)."""

from __future__ import annotations

from mono_gen.algebra.monomial import Size
from mono_gen.resolve.integers import LIMIT, Scope, integer
from mono_gen.resolve.report import Report
from mono_gen.syntax.nodes import ByteCount, Chain, Expr


def size(expr: Expr, scope: Scope, report: Report, what: str) -> Size | None:
    """Return a size of at least 1, or None after reporting why there is none."""
    value = _size(expr, scope, report)
    if value is not None and value.value < 1:
        report.error("bad-extent", expr.span, f"{what} is {value}", label="must be at least 1")
        return None
    return value


def _size(expr: Expr, scope: Scope, report: Report) -> Size | None:
    if not has_bytes(expr):
        value = integer(expr, scope, report)
        return None if value is None else Size(value)
    match expr:
        case ByteCount(count, span):
            if count > LIMIT:
                report.error("overflow", span, "the number of bytes does not fit 63 bits", label="overflows here")
                return None
            return Size(count, 1)
        case Chain(first, rest, span) if rest[0][0] in "*/":
            result = _size(first, scope, report)
            for op, operand in rest:
                factor = _size(operand, scope, report)
                if result is None or factor is None:
                    return None
                product = result * factor if op == "*" else result.divided_by(factor) if op == "/" else None
                if product is None or abs(product.value) > LIMIT:
                    report.error(
                        "byte-arithmetic",
                        span,
                        f"`{op}` of {result} and {factor} is not a size for every element width",
                        label="sizes in bytes are multiplied, or divided exactly",
                    )
                    return None
                result = product
            return result
    report.error(
        "byte-arithmetic",
        expr.span,
        "elements and bytes cannot be added: how many elements a byte holds depends on the format",
        label="mixes elements and bytes",
        help="write the size as one product, such as `2 * 16B`",
    )
    return None


def has_bytes(expr: Expr) -> bool:
    """Return whether an expression has a byte count in it."""
    match expr:
        case ByteCount():
            return True
        case Chain(first, rest, _):
            return has_bytes(first) or any(has_bytes(e) for _, e in rest)
    return False
