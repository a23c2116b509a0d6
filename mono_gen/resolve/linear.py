"""Expressions of a restatement at known extents: their value, and their coefficients over digits."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mono_gen.resolve.integers import MAX_FAILURES, Scope, integer
from mono_gen.resolve.report import Report
from mono_gen.resolve.sizes import any_size, has_bytes
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span
from mono_gen.syntax.text import expr_text


class NotLinear(Exception):
    """An expression that is no sum of digits times numbers."""

    def __init__(self, span: Span, why: str) -> None:
        super().__init__(why)
        self.span, self.why = span, why


def value_at(expr: nodes.Expr, scope: Scope, env: Mapping[str, int], bits: int) -> int | None:
    """Return the value of an expression with axes and element width given; None where it has none (a remainder)."""
    match expr:
        case nodes.Int(value, _):
            return value
        case nodes.ByteCount(count, _):
            return count * 8 // bits if count * 8 % bits == 0 else None
        case nodes.Path(names, _):
            name = names[0].text
            return (env.get(name) if name in env else scope.get(name)) if len(names) == 1 else None
        case nodes.Negate(operand, _):
            negated = value_at(operand, scope, env, bits)
            return None if negated is None else -negated
        case nodes.Chain(first, rest, _):
            result = value_at(first, scope, env, bits)
            for op, operand in rest:
                right = value_at(operand, scope, env, bits)
                if result is None or right is None:
                    return None
                result = _apply(op, result, right)
            return result


def _apply(op: str, left: int, right: int) -> int | None:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left // right if right > 0 and left % right == 0 else None
        case _:
            return left % right if right > 0 and left >= 0 else None


def linear(expr: nodes.Expr, digits: Collection[str], scope: Scope, bits: int) -> dict[str, int]:
    """Return the factor of each digit in an expression, and the constant under the empty name.

    Raises: NotLinear.
    """
    match expr:
        case nodes.Path(names, _) if len(names) == 1 and names[0].text in digits:
            return {names[0].text: 1}
        case nodes.Negate(operand, _):
            return {n: -c for n, c in linear(operand, digits, scope, bits).items()}
        case nodes.Chain(first, rest, span):
            result = linear(first, digits, scope, bits)
            for op, operand in rest:
                result = _combine(op, result, linear(operand, digits, scope, bits), span)
            return result
    value = value_at(expr, scope, {}, bits)
    if value is None:
        raise NotLinear(expr.span, f"`{expr_text(expr)}` is no whole number of {bits}-bit elements")
    return {"": value} if value else {}


def _combine(op: str, left: dict[str, int], right: dict[str, int], span: Span) -> dict[str, int]:
    """Return left op right of two sums."""
    if op in "+-":
        sign = 1 if op == "+" else -1
        merged = {n: left.get(n, 0) + sign * right.get(n, 0) for n in {**left, **right}}
        return {n: c for n, c in merged.items() if c}
    if op == "*" and (not any(left) or not any(right)):
        number, factors = (left, right) if not any(left) else (right, left)
        return {n: c * number.get("", 0) for n, c in factors.items() if number.get("", 0)}
    if op in "/%" and not any(left) and not any(right):
        value = _apply(op, left.get("", 0), right.get("", 0))
        if value is not None:
            return {"": value} if value else {}
    raise NotLinear(span, f"`{op}` does not stand between digits")


def mentions(expr: nodes.Expr, names: Collection[str]) -> bool:
    """Return whether an expression names one of these."""
    match expr:
        case nodes.Path(parts, _):
            return len(parts) == 1 and parts[0].text in names
        case nodes.Negate(operand, _):
            return mentions(operand, names)
        case nodes.Chain(first, rest, _):
            return mentions(first, names) or any(mentions(e, names) for _, e in rest)
    return False


def names_known(expr: nodes.Expr, names: Collection[str], scope: Scope, report: Report, kind: str) -> bool:
    """Return whether all names of an expression have a value, after reporting what has none in what is constant.

    names: what may stand beside constants: axes, or digits.
    """
    match expr:
        case nodes.Path(parts, span) if len(parts) == 1 and parts[0].text not in (*names, *scope):
            help = report.near(parts[0].text, (*names, *scope))
            report.error("unknown-name", span, f"`{parts[0].text}` is not {kind}", label="unknown", help=help)
            return False
    if not mentions(expr, names):
        return (any_size if has_bytes(expr) else integer)(expr, scope, report) is not None
    match expr:
        case nodes.Negate(operand, _):
            return names_known(operand, names, scope, report, kind)
        case nodes.Chain(first, rest, _):
            failed = 0
            for operand in (first, *(e for _, e in rest)):
                failed += not names_known(operand, names, scope, report, kind)
                if failed == MAX_FAILURES:
                    return False
            return not failed
    return True
