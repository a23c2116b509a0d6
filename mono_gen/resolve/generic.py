"""Legal extents of a layout: what each is a multiple of, and extents at which an equality holds everywhere."""

from __future__ import annotations

from math import lcm

from mono_gen.algebra.template import Template
from mono_gen.model import LayoutModel
from mono_gen.terms import Comparison, Num, Op, Term, Var, evaluate

PRIMES = tuple(2**exponent - 1 for exponent in (89, 107, 127, 521, 607, 1279, 2203, 2281))
"""Mersenne primes above 2**63, and so above every size that a spec can state; one for each axis of a layout."""


def plain_first(widths: tuple[int, ...]) -> list[int]:
    """Return the widths, 8 bits first: messages are plainest there."""
    return sorted(widths, key=lambda w: (w != 8, w))


def legal_multiples(model: LayoutModel, bits: int) -> tuple[int, ...]:
    """Return per axis what every legal padded extent is a multiple of, and the extent itself where it is fixed."""
    result = []
    for axis in model.template.axes:
        multiple = axis.sized.at(bits)
        if not axis.is_fixed and axis.pad_to is not None:
            multiple = lcm(multiple, axis.pad_to.at(bits))
        elif not axis.is_fixed:
            multiple = lcm(multiple, *(_modulus(rule.condition, axis.name, bits) for rule in model.rules))
        result.append(multiple)
    return tuple(result)


def _modulus(condition: Comparison, axis: str, bits: int) -> int:
    """Return n of a condition `axis % n == 0`, 1 for any other."""
    match condition:
        case Comparison(Op("%", Var(name), divisor), "==", Num(0)) if name == axis and _is_number(divisor):
            return evaluate(divisor, {"bits": bits}) or 1
    return 1


def _is_number(term: Term) -> bool:
    """Return whether a term names nothing but the element width."""
    match term:
        case Op(_, left, right):
            return _is_number(left) and _is_number(right)
        case Num() | Var("bits"):
            return True
    return False


def generic_extents(template: Template, multiples: tuple[int, ...]) -> tuple[int, ...]:
    """Return padded extents whose free sizes are distinct primes times what every legal extent is a multiple of."""
    axes = zip(template.axes, multiples, PRIMES[: len(multiples)], strict=True)
    return tuple(n if axis.is_fixed else n * prime for axis, n, prime in axes)
