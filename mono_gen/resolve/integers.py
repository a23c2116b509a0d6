"""Exact integer arithmetic on expressions: constants and extents, within 63 bits, `/` without a remainder."""

from __future__ import annotations

from collections.abc import Mapping

from mono_gen.resolve.report import Report
from mono_gen.syntax.nodes import ByteCount, Chain, Expr, Int, Negate, Path
from mono_gen.syntax.source import Span

LIMIT = 2**63 - 1
MAX_FAILURES = 8
"""Operands of one expression at most that are reported one by one."""

Scope = Mapping[str, int | None]
"""Names to values; None for a name whose own definition was already refused."""


def integer(expr: Expr, scope: Scope, report: Report, kind: str = "a constant") -> int | None:
    """Return the value of an expression, or None after reporting why it has none."""
    match expr:
        case Int(value, span):
            return bounded(value, span, report)
        case ByteCount(count, span):
            report.error(
                "byte-count-here",
                span,
                f"`{count}B` counts bytes' worth of elements, which only the sizes of a layout do",
                label="not the size of a layout",
                help="write a plain number",
            )
            return None
        case Path():
            return _named(expr, scope, report, kind)
        case Negate(operand, span):
            negated = integer(operand, scope, report, kind)
            return None if negated is None else bounded(-negated, span, report)
        case Chain(first, rest, span):
            result = integer(first, scope, report, kind)
            reach = first.span
            failed = 0
            for op, operand in rest:
                right = integer(operand, scope, report, kind)
                reach = reach.to(operand.span)
                both = result is not None and right is not None
                result = apply(op, result or 0, right or 0, reach, report) if both else None
                failed += right is None
                if failed == MAX_FAILURES:
                    return None
            return result


def _named(path: Path, scope: Scope, report: Report, kind: str) -> int | None:
    """Return the value of a name of the scope."""
    if len(path.names) > 1:
        report.error(
            "attribute-in-integer",
            path.span,
            f"`{path.text}` is an attribute of the layer, which is not known when the spec is checked",
            label=f"{kind} is needed here",
            help="an attribute stands alone on one side of a comparison, as in `require layer.heads == 4`",
        )
        return None
    name = path.names[0].text
    if name not in scope:
        report.error(
            "unknown-name", path.span, f"`{name}` is not {kind}", label="unknown", help=report.near(name, scope)
        )
        return None
    return scope[name]


def apply(op: str, left: int, right: int, span: Span, report: Report) -> int | None:
    """Return `left op right`, or None after reporting why it has no exact value within 63 bits."""
    if op in "/%":
        if right == 0:
            report.error(
                "zero-divisor",
                span,
                f"`{left} {op} 0` has no value",
                label="the divisor is 0",
                help="a divisor is 1 or more",
            )
            return None
        if left < 0 or right < 0:
            report.error(
                "negative-operand",
                span,
                f"`{left} {op} {right}` has a negative operand, on which languages disagree",
                label="negative",
                effect=f"Python would make {left // right if op == '/' else left % right} of it, "
                f"C++ {_truncated(op, left, right)}",
                help="`/` and `%` take operands that are not negative",
            )
            return None
        if op == "/" and left % right:
            report.error(
                "inexact-division",
                span,
                f"{left} / {right} is not exact: {left} = {right} * {left // right} + {left % right}",
                label=f"leaves a remainder of {left % right}",
                effect=f"rounded down, {left // right} * {right} = {left // right * right} would stand for {left}",
                help="`/` must divide exactly: change an operand so that it does",
            )
            return None
        return left // right if op == "/" else left % right
    value = left + right if op == "+" else left - right if op == "-" else left * right
    return bounded(value, span, report)


def _truncated(op: str, left: int, right: int) -> int:
    """Return what C++ makes of `left op right`: the quotient goes towards 0."""
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right


def bounded(value: int, span: Span, report: Report) -> int | None:
    """Return the value where it fits 63 bits, or None after reporting that it does not."""
    if -LIMIT <= value <= LIMIT:
        return value
    report.error(
        "overflow",
        span,
        f"{_short(value)} does not fit 63 bits: the largest number is {LIMIT}",
        label="too large",
        notes=("every intermediate result stays within 63 bits, as offsets in kernels do",),
        help="check the factors",
    )
    return None


def _short(value: int) -> str:
    """Return an integer in at most a line, however large."""
    if abs(value) < 10**40:
        return str(value)
    return f"a number of {value.bit_length()} bits"


def extent(expr: Expr, scope: Scope, report: Report, what: str, kind: str = "a constant") -> int | None:
    """Return a value that is at least 1, as an extent, a size or a multiple has to be."""
    value = integer(expr, scope, report, kind)
    if value is not None and value < 1:
        report.error("bad-extent", expr.span, f"{what} is {value}", label="must be at least 1", help="check the sizes")
        return None
    return value
