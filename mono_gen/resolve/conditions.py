"""Paths and conditions of a struct: attributes of the layer, run-time dims, constants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mono_gen.model import Attribute, ConditionModel, Operand
from mono_gen.resolve.integers import Scope, integer
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.resolve.rules import OPPOSITE, check_constant
from mono_gen.syntax import nodes
from mono_gen.syntax.text import condition_text, expr_text
from mono_gen.terms import compare


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What names mean inside a struct: constants, run-time dims, and the roots that paths may start from."""

    scope: Scope
    dims: Mapping[str, tuple[int, ...] | None]
    roots: Collection[str]


def attribute(path: nodes.Path, around: Surroundings, report: Report) -> Attribute | None:
    """Return a path into the layer, or None after reporting that it starts with no known name."""
    root = path.names[0].text
    if root not in around.roots:
        report.error(
            "unknown-root",
            path.names[0].span,
            f"`{path.text}` starts with `{root}`, which is neither an argument nor a `let` seen so far",
            label="unknown",
            help=report.near(root, around.roots),
        )
        return None
    return Attribute(root, tuple(n.text for n in path.names[1:]))


def conditions(found: tuple[nodes.Condition, ...], around: Surroundings, report: Report) -> tuple[ConditionModel, ...]:
    """Return the conditions on the layer; those of constants alone are checked here and leave nothing behind."""
    models = (_condition(c, around, report) for c in found)
    return tuple(m for m in models if m is not None)


def _condition(condition: nodes.Condition, around: Surroundings, report: Report) -> ConditionModel | None:
    text, here = condition_text(condition), place(condition.span)
    match condition:
        case nodes.Truth(operand, negated, span):
            left = _operand(operand, around, report)
            if isinstance(left, int) or (isinstance(left, str) and left):
                report.error(
                    "bad-condition",
                    span,
                    f"`{text}` is a number, not a condition",
                    label="not a comparison",
                    help="compare it, as in `x == 1`",
                )
                return None
            return None if left is None else ConditionModel(text, left, "is false" if negated else "is true", (), here)
        case nodes.Compare(left_expr, op, right_expr, negated, span):
            left, right = _operand(left_expr, around, report), _operand(right_expr, around, report)
            if left is None or right is None:
                return None
            op = OPPOSITE[op] if negated else op
            if isinstance(left, int) and isinstance(right, int):
                check_constant(compare(op, left, right), text, left, right, condition, report)
                return None
            return ConditionModel(text, left, op, (right,), here)
        case nodes.Member(left_expr, values, negated, span):
            left = _operand(left_expr, around, report)
            numbers = tuple(integer(v, around.scope, report) for v in values)
            if left is None or any(n is None for n in numbers):
                return None
            known = tuple(n for n in numbers if n is not None)
            if isinstance(left, int):
                listed = ", ".join(str(n) for n in known)
                check_constant((left in known) != negated, text, left, f"{{ {listed} }}", condition, report)
                return None
            return ConditionModel(text, left, "not in" if negated else "in", known, here)


def _operand(expr: nodes.Expr, around: Surroundings, report: Report) -> Operand | None:
    """Return what a condition compares: an attribute, a run-time dim or an integer."""
    if isinstance(expr, nodes.Path):
        name = expr.names[0].text
        if len(expr.names) > 1 or name in around.roots:
            return attribute(expr, around, report)
        if name in around.dims:
            return name
        if name not in around.scope:
            known = {*around.scope, *around.dims, *around.roots}
            report.error(
                "unknown-name",
                expr.span,
                f"`{name}` is no constant, dim, argument or let",
                label="unknown",
                help=report.near(name, known),
            )
            return None
    if not isinstance(expr, nodes.Path) and _starts_from(expr, (*around.dims, *around.roots)):
        report.error(
            "bad-condition",
            expr.span,
            f"`{expr_text(expr)}` calculates with what is known only at load",
            label="a dim or an attribute stands alone",
            help="move the numbers to the other side, as in `E == 2 * A`",
        )
        return None
    return integer(expr, around.scope, report)


def _starts_from(expr: nodes.Expr, roots: tuple[str, ...]) -> bool:
    """Return whether a path in an expression starts from one of these."""
    match expr:
        case nodes.Path(names, _):
            return names[0].text in roots
        case nodes.Negate(operand, _):
            return _starts_from(operand, roots)
        case nodes.Chain(first, rest, _):
            return _starts_from(first, roots) or any(_starts_from(e, roots) for _, e in rest)
    return False


def always(found: tuple[ConditionModel, ...], around: Surroundings) -> bool | None:
    """Return whether conditions on one dim of listed values hold for all of them (True) or none (False), else None."""
    names = {c.left for c in found}
    name = next(iter(names)) if len(names) == 1 else None
    values = around.dims.get(name) if isinstance(name, str) else None
    if not values or any(not isinstance(r, int) for c in found for r in c.right):
        return None
    held = {all(_holds(c, value) for c in found) for value in values}
    return held.pop() if len(held) == 1 else None


def _holds(condition: ConditionModel, value: int) -> bool:
    numbers = [n for n in condition.right if isinstance(n, int)]
    match condition.op:
        case "in":
            return value in numbers
        case "not in":
            return value not in numbers
        case op:
            return compare(op, value, numbers[0])
