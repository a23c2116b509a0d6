"""`require` of a layout: comparisons of its logical extents, as terms that every target prints."""

from __future__ import annotations

from mono_gen.algebra.monomial import Size
from mono_gen.model import LayoutRule
from mono_gen.resolve.integers import Scope, integer
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report, near
from mono_gen.syntax import nodes
from mono_gen.syntax.text import condition_text
from mono_gen.terms import Comparison, Num, Op, Term, Var, compare

OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def layout_rules(item: nodes.Layout, scope: Scope, report: Report) -> tuple[tuple[LayoutRule, ...], tuple[Size, ...]]:
    """Return a layout's rules, and the byte counts in them (which must be whole elements of a legal width)."""
    axes = {a.text for a in item.axes}
    rules: list[LayoutRule] = []
    sizes: list[Size] = []
    for clause in item.clauses:
        if not isinstance(clause, nodes.Require):
            continue
        for condition in clause.conditions:
            if not isinstance(condition, nodes.Compare):
                report.error(
                    "bad-condition",
                    condition.span,
                    "a layout's `require` compares its extents, as in `row % 32 == 0`",
                    label="not a comparison",
                )
                continue
            left = _term(condition.left, axes, scope, sizes, report)
            right = _term(condition.right, axes, scope, sizes, report)
            if left is None or right is None:
                continue
            op = OPPOSITE[condition.op] if condition.negated else condition.op
            text = condition_text(condition)
            if isinstance(left, Num) and isinstance(right, Num):
                check_constant(compare(op, left.value, right.value), text, left.value, right.value, condition, report)
                continue
            rules.append(LayoutRule(text, Comparison(left, op, right), place(condition.span)))
    return tuple(rules), tuple(sizes)


def check_constant(
    holds: bool, text: str, left: int, right: int | str, condition: nodes.Condition, report: Report
) -> None:
    """Report a condition of constants alone that is false."""
    if not holds:
        report.error(
            "require-false",
            condition.span,
            f"`{text}` is false: {left} against {right}",
            label="of constants alone, so it is checked here",
        )


def _term(expr: nodes.Expr, axes: set[str], scope: Scope, sizes: list[Size], report: Report) -> Term | None:
    """Return an expression over axes, constants and byte counts as a term."""
    match expr:
        case nodes.Path(names, span) if len(names) == 1 and names[0].text in axes:
            return Var(names[0].text)
        case nodes.ByteCount(count, _):
            sizes.append(Size(count, 1))
            return Op("/", Num(count * 8), Var("bits"))
        case nodes.Chain(first, rest, span) if not _is_constant(expr, axes):
            result = _term(first, axes, scope, sizes, report)
            for op, operand in rest:
                right = _term(operand, axes, scope, sizes, report)
                if result is None or right is None:
                    return None
                if op == "-":
                    report.error(
                        "negative-operand",
                        span,
                        "a difference of extents may be negative, on which languages disagree",
                        label="no `-` on extents in a layout's `require`",
                        help="move the term to the other side of the comparison",
                    )
                    return None
                if op in "/%" and right == Num(0):
                    report.error("zero-divisor", span, f"`{op} 0` has no value", label="the divisor is 0")
                    return None
                result = Op(op, result, right)
            return result
        case nodes.Path(names, span) if len(names) == 1 and names[0].text not in scope:
            name = names[0].text
            report.error(
                "unknown-name",
                span,
                f"`{name}` is neither an axis of this layout nor a constant",
                label="unknown",
                help=near(name, axes | set(scope)),
            )
            return None
    value = integer(expr, scope, report)
    if value is not None and value < 0:
        report.error("negative-operand", expr.span, f"{value} is negative", label="extents are not negative")
        return None
    return None if value is None else Num(value)


def _is_constant(expr: nodes.Expr, axes: set[str]) -> bool:
    """Return whether an expression names no axis and counts no bytes."""
    match expr:
        case nodes.Path(names, _):
            return not (len(names) == 1 and names[0].text in axes)
        case nodes.ByteCount():
            return False
        case nodes.Chain(first, rest, _):
            return _is_constant(first, axes) and all(_is_constant(e, axes) for _, e in rest)
        case nodes.Negate(operand, _):
            return _is_constant(operand, axes)
    return True
