"""Sizes in a layout: numbers of elements, or of bytes' worth of elements (`16B`)."""

from __future__ import annotations

from mono_gen.algebra.monomial import Size
from mono_gen.resolve.integers import LIMIT, MAX_FAILURES, Scope, bounded, integer
from mono_gen.resolve.report import Report
from mono_gen.syntax.nodes import ByteCount, Chain, Expr, Negate


def size(expr: Expr, scope: Scope, report: Report, what: str) -> Size | None:
    """Return a size of at least 1, or None after reporting why there is none."""
    value = any_size(expr, scope, report)
    if value is not None and value.value < 1:
        report.error("bad-extent", expr.span, f"{what} is {value}", label="must be at least 1", help="check the sizes")
        return None
    return value


def any_size(expr: Expr, scope: Scope, report: Report) -> Size | None:
    """Return a number of elements or of bytes' worth of them, or None after reporting why there is none."""
    if not has_bytes(expr):
        value = integer(expr, scope, report)
        return None if value is None else Size(value)
    match expr:
        case ByteCount(count, span):
            return None if bounded(count, span, report) is None else Size(count, 1)
        case Negate(operand, _):
            negated = any_size(operand, scope, report)
            return None if negated is None else Size(-negated.value, negated.power)
        case Chain(first, rest, _):
            result = any_size(first, scope, report)
            failed = 0
            for op, operand in rest:
                right = any_size(operand, scope, report)
                result = None if result is None or right is None else _apply(op, result, right, expr, report)
                failed += right is None
                if failed == MAX_FAILURES:
                    return None
            return result
    raise AssertionError(f"no byte count in {expr!r}")


def _apply(op: str, left: Size, right: Size, expr: Expr, report: Report) -> Size | None:
    """Return `left op right`, or None after reporting that it is no size for every element width."""
    match op:
        case "*":
            result: Size | None = left * right
        case "/":
            result = left.divided_by(right)
        case "+" | "-" if left.power == right.power:
            result = Size(left.value + (right.value if op == "+" else -right.value), left.power)
        case _:
            result = None
    if result is None:
        mixed = op in "+-" and left.power != right.power
        report.error(
            "byte-arithmetic",
            expr.span,
            f"`{left} {op} {right}` is no size for every element width",
            label="mixes elements and bytes" if mixed else "not exact",
            effect=f"{right} {op} {left} would be one number for fp8 and another for bf16" if mixed else "",
            help="multiply sizes, as in `2 * 16B`; add bytes to bytes; divide exactly",
        )
        return None
    if abs(result.value) > LIMIT or result.power > 4:
        return None if bounded(result.value * 8**result.power, expr.span, report) is None else result
    return result


def has_bytes(expr: Expr) -> bool:
    """Return whether an expression has a byte count in it."""
    match expr:
        case ByteCount():
            return True
        case Negate(operand, _):
            return has_bytes(operand)
        case Chain(first, rest, _):
            return has_bytes(first) or any(has_bytes(e) for _, e in rest)
    return False
