"""Exact integer arithmetic on expressions: constants and extents, within 63 bits, `/` without a remainder."""

from __future__ import annotations

from collections.abc import Mapping

from mono_gen.resolve.report import Report, near
from mono_gen.syntax.nodes import ByteCount, Chain, Expr, Int, Negate, Path
from mono_gen.syntax.source import Span

LIMIT = 2**63 - 1
Scope = Mapping[str, int | None]
"""Names to values; None for a name whose own definition was already refused."""


def integer(expr: Expr, scope: Scope, report: Report, kind: str = "a constant") -> int | None:
    """Return the value of an expression, or None after reporting why it has none."""
    match expr:
        case Int(value, span):
            return _bounded(value, span, report)
        case ByteCount(count, span):
            report.error(
                "byte-count-here",
                span,
                f"`{count}B` counts bytes, which only a layout turns into elements",
                label="not inside a layout",
                help="write the number of elements",
            )
            return None
        case Path():
            return _named(expr, scope, report, kind)
        case Negate(operand, span):
            negated = integer(operand, scope, report, kind)
            return None if negated is None else _bounded(-negated, span, report)
        case Chain(first, rest, span):
            result = integer(first, scope, report, kind)
            for op, operand in rest:
                right = integer(operand, scope, report, kind)
                both = result is not None and right is not None
                result = apply(op, result or 0, right or 0, span, report) if both else None
            return result


def _named(path: Path, scope: Scope, report: Report, kind: str) -> int | None:
    """Return the value of a name of the scope."""
    if len(path.names) > 1:
        report.error(
            "attribute-in-integer",
            path.span,
            f"`{path.text}` is an attribute of the layer, which is not known when the spec is checked",
            label=f"{kind} is needed here",
            help="compare attributes in `require`, or make the extent a `dim`",
        )
        return None
    name = path.names[0].text
    if name not in scope:
        report.error("unknown-name", path.span, f"`{name}` is not {kind}", label="unknown", help=near(name, scope))
        return None
    return scope[name]


def apply(op: str, left: int, right: int, span: Span, report: Report) -> int | None:
    """Return `left op right`, or None after reporting why it has no exact value within 63 bits."""
    if op in "/%":
        if right == 0:
            report.error("zero-divisor", span, f"`{left} {op} 0` has no value", label="the divisor is 0")
            return None
        if left < 0 or right < 0:
            report.error(
                "negative-operand",
                span,
                f"`{left} {op} {right}` has a negative operand, on which languages disagree",
                label="negative",
                help="`/` and `%` take operands that are not negative",
            )
            return None
        if op == "/" and left % right:
            report.error(
                "inexact-division",
                span,
                f"{left} / {right} is not exact: {left} = {right} * {left // right} + {left % right}",
                label=f"leaves a remainder of {left % right}",
                effect=f"rounding down would lose {left % right} of {left}",
                help=f"choose operands that divide, or subtract the remainder {left % right} first",
            )
            return None
        return left // right if op == "/" else left % right
    value = left + right if op == "+" else left - right if op == "-" else left * right
    return _bounded(value, span, report)


def _bounded(value: int, span: Span, report: Report) -> int | None:
    """Return the value where it fits 63 bits."""
    if -LIMIT <= value <= LIMIT:
        return value
    report.error(
        "overflow",
        span,
        f"{_short(value)} does not fit 63 bits",
        label="overflows here",
        notes=("every intermediate result stays within 63 bits, as offsets in kernels do",),
        help="check the factors",
    )
    return None


def _short(value: int) -> str:
    """Return an integer in at most a line, however large."""
    if abs(value) < 10**40:
        return str(value)
    return f"a number of {value.bit_length()} bits"


def extent(expr: Expr, scope: Scope, report: Report, what: str) -> int | None:
    """Return a value that is at least 1, as an extent, a size or a multiple has to be."""
    value = integer(expr, scope, report)
    if value is not None and value < 1:
        report.error("bad-extent", expr.span, f"{what} is {value}", label="must be at least 1")
        return None
    return value
