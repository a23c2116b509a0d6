"""Paths and conditions of a struct: attributes of the layer, run-time dims, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mono_gen.model import Attribute, ConditionModel, Operand
from mono_gen.resolve.integers import Scope, integer
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report, near
from mono_gen.resolve.rules import OPPOSITE, check_constant
from mono_gen.syntax import nodes
from mono_gen.syntax.text import condition_text
from mono_gen.terms import compare


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What names mean inside a struct: constants, run-time dims, and the roots that paths may start from."""

    scope: Scope
    dims: Mapping[str, tuple[int, ...] | None]
    roots: tuple[str, ...]


def attribute(path: nodes.Path, around: Surroundings, report: Report) -> Attribute | None:
    """Return a path into the layer, or None after reporting that it starts with no known name."""
    root = path.names[0].text
    if root not in around.roots:
        report.error(
            "unknown-root",
            path.names[0].span,
            f"`{path.text}` starts with `{root}`, which is neither an argument nor a `let` seen so far",
            label="unknown",
            help=near(root, around.roots),
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
                    "bad-condition", span, f"`{text}` is a number, not a condition", label="compare it, as in `x == 1`"
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
                help=near(name, known),
            )
            return None
    return integer(expr, around.scope, report)
