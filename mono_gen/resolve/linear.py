"""Expressions of a restatement at known extents: their value, and their coefficients over digits."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mono_gen.resolve.integers import Scope
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


def linear(
    expr: nodes.Expr, digits: Collection[str], scope: Scope, env: Mapping[str, int], bits: int
) -> dict[str, int]:
    """Return the factor of each digit in an expression, and the constant under the empty name.

    Raises: NotLinear.
    """
    match expr:
        case nodes.Path(names, _) if len(names) == 1 and names[0].text in digits:
            return {names[0].text: 1}
        case nodes.Negate(operand, _):
            return {n: -c for n, c in linear(operand, digits, scope, env, bits).items()}
        case nodes.Chain(first, rest, span):
            result = linear(first, digits, scope, env, bits)
            for op, operand in rest:
                result = _combine(op, result, linear(operand, digits, scope, env, bits), span)
            return result
    value = value_at(expr, scope, env, bits)
    if value is None:
        raise NotLinear(expr.span, f"`{expr_text(expr)}` is no digit, axis or constant")
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


def literals(exprs: tuple[nodes.Expr, ...], scope: Scope, bits: int) -> list[int]:
    """Return every number above 1 that stands in the expressions, byte counts as elements."""
    found: list[int] = []
    waiting: list[nodes.Expr] = list(exprs)
    while waiting:
        match waiting.pop():
            case nodes.Int(value, _) if value > 1:
                found.append(value)
            case nodes.ByteCount(count, _) if count * 8 // bits > 1:
                found.append(count * 8 // bits)
            case nodes.Path(names, _) if len(names) == 1 and (scope.get(names[0].text) or 0) > 1:
                found.append(scope.get(names[0].text) or 1)
            case nodes.Negate(operand, _):
                waiting.append(operand)
            case nodes.Chain(first, rest, _):
                waiting.extend((first, *(e for _, e in rest)))
    return found
