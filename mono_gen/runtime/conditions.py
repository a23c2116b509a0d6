"""Conditions on a layer: what holds, and how it reads in a refusal. Never a truth value that is guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mono_gen.runtime.dims import Dim, Product, known
from mono_gen.runtime.errors import show

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def unbound(value: Any) -> bool:
    """Return whether a value is a run-time dim that no tensor has bound yet."""
    return isinstance(value, (Dim, Product)) and known(value) is None


def _number(value: Any) -> Any:
    return known(value) if isinstance(value, (Dim, Product)) else value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def holds(value: Any, op: str, operand: Any) -> bool:
    """Return whether the condition holds. Flags are bools and sizes are ints: nothing else is taken for one."""
    left, right = _number(value), _number(operand)
    match op:
        case "is true":
            return left is True
        case "is false":
            return left is False
        case "in":
            return _is_int(left) and left in right
        case "not in":
            return _is_int(left) and left not in right
        case _:
            return _is_int(left) and _is_int(right) and COMPARISONS[op](left, right)


def expected(op: str, operand: Any) -> str:
    """Return what a condition asks for, in words."""
    right = _number(operand)
    match op:
        case "is true":
            return "True"
        case "is false":
            return "False"
        case "in" | "not in":
            return f"{'one of' if op == 'in' else 'none of'} {', '.join(map(str, right))}"
        case "==":
            return str(operand)
        case _:
            return f"{op} {operand}"


def found(value: Any) -> str:
    """Return what there is, in words."""
    return str(value) if isinstance(value, (Dim, Product)) else show(value)
