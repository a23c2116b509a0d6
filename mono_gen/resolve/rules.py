"""`require` of a layout: comparisons of its logical extents, as terms that every target prints."""

from __future__ import annotations

from mono_gen.algebra.monomial import Size
from mono_gen.model import LayoutRule
from mono_gen.resolve.integers import LIMIT, Scope, bounded, integer
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.text import condition_text, expr_text
from mono_gen.terms import Comparison, Num, Op, Term, Var, compare

MAX_OPERATORS = 50
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def layout_rules(item: nodes.Layout, scope: Scope, report: Report) -> tuple[tuple[LayoutRule, ...], tuple[Size, ...]]:
    """Return a layout's rules, and the byte counts in them (which must be whole elements of a legal width)."""
    axes = {a.text for a in item.axes}
    rules: list[LayoutRule] = []
    sizes: list[Size] = []
    for clause in item.clauses:
        if isinstance(clause, nodes.Require):
            for condition in clause.conditions:
                rules.extend(_rules(condition, axes, scope, sizes, report))
    return tuple(rules), tuple(sizes)


def _rules(
    condition: nodes.Condition, axes: set[str], scope: Scope, sizes: list[Size], report: Report
) -> list[LayoutRule]:
    """Return the rules that one condition makes: itself, and that its divisions are exact."""
    match condition:
        case nodes.Truth():
            report.error(
                "bad-condition",
                condition.span,
                f"`{condition_text(condition)}` is a number, not a condition",
                label="not a comparison",
                help="a layout's `require` compares its extents, as in `row % 32 == 0`",
            )
            return []
        case nodes.Member():
            what = "the extents of a layout are compared with one number at a time"
            report.not_built(condition.span, "`in` in a layout", what, "write comparisons, as in `row >= 16`")
            return []
    length = _operators(condition.left) + _operators(condition.right)
    if length > MAX_OPERATORS:
        report.error(
            "nesting-too-deep",
            condition.span,
            f"a condition of {length} operators, and a layout's have at most {MAX_OPERATORS}",
            label="too long",
            help="work its numbers out as a `const`",
        )
        return []
    exact: list[LayoutRule] = []
    left = _term(condition.left, axes, scope, sizes, exact, report)
    right = _term(condition.right, axes, scope, sizes, exact, report)
    if left is None or right is None:
        return []
    op = OPPOSITE[condition.op] if condition.negated else condition.op
    text = condition_text(condition)
    if isinstance(left, Num) and isinstance(right, Num):
        check_constant(compare(op, left.value, right.value), text, left.value, right.value, condition, report)
        return []
    return [*exact, LayoutRule(text, Comparison(left, op, right), place(condition.span))]


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
            help="change the constants, or the condition",
        )


def _term(
    expr: nodes.Expr, axes: set[str], scope: Scope, sizes: list[Size], exact: list[LayoutRule], report: Report
) -> Term | None:
    """Return an expression over axes, constants and byte counts as a term."""
    match expr:
        case nodes.Path(names, span) if len(names) == 1 and names[0].text in axes:
            return Var(names[0].text)
        case nodes.Path(names, span) if len(names) == 1 and names[0].text not in scope:
            name = names[0].text
            report.error(
                "unknown-name",
                span,
                f"`{name}` is neither an axis of this layout nor a constant",
                label="unknown",
                help=report.near(name, axes | set(scope)),
            )
            return None
        case nodes.ByteCount(count, span):
            if count < 1 or count * 8 > LIMIT:
                report.error("bad-extent", span, f"a size of {count} bytes", label="must be at least 1, within 63 bits")
                return None
            sizes.append(Size(count, 1))
            return Op("/", Num(count * 8), Var("bits"))
        case nodes.Chain(first, rest, _) if not _is_constant(expr, axes, scope):
            result = _term(first, axes, scope, sizes, exact, report)
            reach = first.span
            for op, operand in rest:
                right = _term(operand, axes, scope, sizes, exact, report)
                reach = reach.to(operand.span)
                if result is not None:
                    result = None if right is None else _apply(op, result, right, expr, operand, exact, report)
            return result
    value = integer(expr, scope, report, "an axis of this layout or a constant")
    if value is not None and value < 0:
        report.error(
            "negative-operand",
            expr.span,
            f"{value} is negative, and extents are not",
            label="negative",
            help="compare extents with numbers from 0",
        )
        return None
    return None if value is None else Num(value)


def _apply(
    op: str,
    left: Term,
    right: Term,
    expr: nodes.Chain,
    operand: nodes.Expr,
    exact: list[LayoutRule],
    report: Report,
) -> Term | None:
    """Return `left op right`; a quotient brings the rule that it is exact."""
    if op == "-":
        report.error(
            "negative-operand",
            expr.span,
            "a difference of extents may be negative, on which languages disagree",
            label="no `-` on extents in a layout's `require`",
            help="move the term to the other side of the comparison",
        )
        return None
    if op in "/%" and right == Num(0):
        report.error(
            "zero-divisor",
            operand.span,
            f"`{op} 0` has no value",
            label="the divisor is 0",
            help="a divisor is 1 or more",
        )
        return None
    if op in "/%" and isinstance(right, Op) and not _is_positive(right):
        report.error(
            "zero-divisor",
            operand.span,
            f"`{expr_text(operand)}` may be 0 for some extents, and is a divisor",
            label="not always 1 or more",
            help="divide by a number, an axis, or a product of them",
        )
        return None
    if isinstance(left, Num) and isinstance(right, Num):
        value = {"+": left.value + right.value, "*": left.value * right.value}.get(op)
        if value is not None:
            return None if bounded(value, expr.span, report) is None else Num(value)
    if op == "/":
        whole = Comparison(Op("%", left, right), "==", Num(0))
        exact.append(LayoutRule(f"{expr_text(expr)} is exact", whole, place(expr.span)))
    return Op(op, left, right)


def _is_positive(term: Term) -> bool:
    """Return whether a term is at least 1 for all extents and legal widths."""
    match term:
        case Num(value):
            return value > 0
        case Var():
            return True
        case Op("*", left, right):
            return _is_positive(left) and _is_positive(right)
        case Op("+", left, right):
            return _is_positive(left) or _is_positive(right)
        case Op("/", Num(value), Var("bits")):
            return value > 0
    return False


def _operators(expr: nodes.Expr) -> int:
    """Return the number of operators in an expression."""
    match expr:
        case nodes.Negate(operand, _):
            return 1 + _operators(operand)
        case nodes.Chain(first, rest, _):
            return len(rest) + _operators(first) + sum(_operators(e) for _, e in rest)
    return 0


def _is_constant(expr: nodes.Expr, axes: set[str], scope: Scope) -> bool:
    """Return whether an expression names constants alone and counts no bytes."""
    match expr:
        case nodes.Path(names, _):
            return len(names) > 1 or (names[0].text not in axes and names[0].text in scope)
        case nodes.ByteCount():
            return False
        case nodes.Chain(first, rest, _):
            return _is_constant(first, axes, scope) and all(_is_constant(e, axes, scope) for _, e in rest)
        case nodes.Negate(operand, _):
            return _is_constant(operand, axes, scope)
    return True
