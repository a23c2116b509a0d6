"""Integer expressions that no target language owns: the plan builds them, each emitter prints them.

All values are non-negative, so that `/` and `%` mean the same in Python and in C++.
"""

from __future__ import annotations

from collections.abc import Mapping

from mono_gen.frozen import frozen


@frozen
class Num:
    """A literal."""

    value: int


@frozen
class Var:
    """A variable of the emitted code."""

    name: str


@frozen
class Op:
    """`left op right`, op one of `+ - * / %`; `/` is exact or rounds down."""

    op: str
    left: Term
    right: Term


@frozen
class Step:
    """`amount` where variable `name` is at least `at`, else 0."""

    name: str
    at: int
    amount: int


Term = Num | Var | Op | Step


@frozen
class Comparison:
    """`left op right` with op one of `== != < <= > >=`."""

    left: Term
    op: str
    right: Term


@frozen
class Assign:
    """`name = value`, and the remark that stands beside it."""

    name: str
    value: Term
    remark: str = ""


def add(left: Term, right: Term) -> Term:
    """Return left + right, folded where a side is a literal 0 or both are literals."""
    match left, right:
        case Num(a), Num(b):
            return Num(a + b)
        case Num(0), _:
            return right
        case _, Num(0):
            return left
    return Op("+", left, right)


def mul(left: Term, right: Term) -> Term:
    """Return left * right, folded where a side is a literal 0 or 1 or both are literals."""
    match left, right:
        case Num(a), Num(b):
            return Num(a * b)
        case (Num(0), _) | (_, Num(0)):
            return Num(0)
        case Num(1), _:
            return right
        case _, Num(1):
            return left
    return Op("*", left, right)


def div(left: Term, right: Term) -> Term:
    """Return left / right rounded down, folded where it is plain."""
    match left, right:
        case Num(a), Num(b) if b:
            return Num(a // b)
        case _, Num(1):
            return left
    return Op("/", left, right)


def mod(left: Term, right: Term) -> Term:
    """Return left % right, folded where it is plain."""
    match left, right:
        case Num(a), Num(b) if b:
            return Num(a % b)
        case _, Num(1):
            return Num(0)
    return Op("%", left, right)


def total(terms: list[Term]) -> Term:
    """Return the sum of the terms, 0 for none."""
    result: Term = Num(0)
    for term in terms:
        result = add(result, term)
    return result


def evaluate(term: Term, values: Mapping[str, int]) -> int:
    """Return the value of a term.

    Requires: every variable has a value; no divisor is 0.
    """
    match term:
        case Num(value):
            return value
        case Var(name):
            return values[name]
        case Step(name, at, amount):
            return amount if values[name] >= at else 0
        case Op(op, left, right):
            a, b = evaluate(left, values), evaluate(right, values)
            match op:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "/":
                    return a // b
                case _:
                    return a % b


def holds(comparison: Comparison, values: Mapping[str, int]) -> bool:
    """Return whether a comparison is true at the given values."""
    return compare(comparison.op, evaluate(comparison.left, values), evaluate(comparison.right, values))


def compare(op: str, left: int, right: int) -> bool:
    """Return `left op right` of two integers."""
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def rename(term: Term, names: Mapping[str, str]) -> Term:
    """Return a term with variables renamed."""
    match term:
        case Num():
            return term
        case Var(name):
            return Var(names.get(name, name))
        case Step(name, at, amount):
            return Step(names.get(name, name), at, amount)
        case Op(op, left, right):
            return Op(op, rename(left, names), rename(right, names))


def variables(term: Term) -> frozenset[str]:
    """Return the names of the variables in a term."""
    match term:
        case Num():
            return frozenset()
        case Var(name) | Step(name, _, _):
            return frozenset((name,))
        case Op(_, left, right):
            return variables(left) | variables(right)


def numbers(term: Term) -> frozenset[int]:
    """Return the literals in a term."""
    match term:
        case Num(value):
            return frozenset((value,))
        case Op(_, left, right):
            return numbers(left) | numbers(right)
    return frozenset()


@frozen
class Spelling:
    """How a target writes what languages differ in: the division sign, and a step with `{name} {at} {amount}`."""

    divide: str
    step: str


PYTHON = Spelling("//", "({name} >= {at}) * {amount}")
CPP = Spelling("/", "({name} >= {at} ? {amount} : 0)")


def text(term: Term, spelling: Spelling, parent: int = 0) -> str:
    """Return a term as source text with as few parentheses as reading needs."""
    match term:
        case Num(value):
            return str(value)
        case Var(name):
            return name
        case Step(name, at, amount):
            body = spelling.step.format(name=name, at=at, amount=amount)
            return f"({body})" if parent > 2 and not body.endswith(")") else body
        case Op(op, left, right):
            level = 1 if op in "+-" else 2
            sign = spelling.divide if op == "/" else op
            body = f"{text(left, spelling, level)} {sign} {text(right, spelling, level + 1)}"
            return f"({body})" if level < parent else body
