"""Expressions and conditions back to the text that messages and generated code show."""

from __future__ import annotations

from mono_gen.syntax import nodes


def expr_text(expr: nodes.Expr, level: int = 0) -> str:
    """Return an expression as one would write it, with the parentheses that it needs."""
    match expr:
        case nodes.Int(value, span):
            written = span.source.text[span.start : span.end]
            return written if written[:2].lower() == "0x" else str(value)
        case nodes.ByteCount(count, _):
            return f"{count}B"
        case nodes.Path():
            return expr.text
        case nodes.Negate(operand, _):
            return f"-{expr_text(operand, 3)}"
        case nodes.Chain(first, rest, _):
            mine = 1 if rest[0][0] in "+-" else 2
            body = expr_text(first, mine) + "".join(f" {op} {expr_text(e, mine + 1)}" for op, e in rest)
            return f"({body})" if mine < level else body


def condition_text(condition: nodes.Condition) -> str:
    """Return a condition as one would write it."""
    start = "not " if condition.negated else ""
    match condition:
        case nodes.Truth(operand, _, _):
            return start + expr_text(operand)
        case nodes.Compare(left, op, right, _, _):
            return f"{start}{expr_text(left)} {op} {expr_text(right)}"
        case nodes.Member(left, values, _, _):
            return f"{start}{expr_text(left)} in {{ {', '.join(expr_text(v) for v in values)} }}"
