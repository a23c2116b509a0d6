"""`same as torch` and `same as lane`: restatements of a layout, proved equal to its store order or refused.

A map's sizes are products of fixed numbers and one free size an axis. At free sizes that are distinct primes, larger
than every fixed size, the canonical form can be read back to those products: equality there is equality everywhere.
"""

from __future__ import annotations

from math import lcm, prod

from mono_gen.algebra.fold import fold
from mono_gen.algebra.layout import Digit, Layout, first_difference, is_equal, offset
from mono_gen.algebra.template import Template, bind, smallest_extents
from mono_gen.model import LayoutModel
from mono_gen.resolve.integers import Scope
from mono_gen.resolve.linear import NotLinear, linear, literals, value_at
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span
from mono_gen.syntax.text import expr_text

PRIMES = tuple(2**exponent - 1 for exponent in (89, 107, 127, 521, 607, 1279, 2203, 2281))
"""Mersenne primes above 2**63, and so above every size that a spec can state."""

SCANNED = 200_000
"""Coordinates at most that are tried to show the first differing element."""


class _Unequal(Exception):
    """A restatement that does not hold, and why."""

    def __init__(self, why: str, effect: str = "", help: str = "") -> None:
        super().__init__(why)
        self.why, self.effect, self.help = why, effect, help


def torch_text(clause: nodes.SameAsTorch) -> str:
    """Return the clause's view and permute as torch would have them."""
    view = ", ".join(expr_text(e) for e in clause.view)
    return f"view({view}).permute({', '.join(expr_text(e) for e in clause.permute)})"


def check_torch(clause: nodes.SameAsTorch, model: LayoutModel, scope: Scope, report: Report) -> None:
    """Report a `same as torch` clause that is not the map of the store order, for some legal element width."""
    for bits in model.widths:
        try:
            _prove_torch(clause, model.template, scope, bits)
        except _Unequal as fault:
            _refuse(clause.span, "same-as-torch", f"`{torch_text(clause)}`", bits, fault, report)
            return


def check_lane(clause: nodes.SameAsLane, model: LayoutModel, scope: Scope, report: Report) -> None:
    """Report a `same as lane` clause that is not the map of the store order, for some legal element width."""
    for bits in model.widths:
        try:
            _prove_lane(clause, model, scope, bits)
        except _Unequal as fault:
            _refuse(clause.span, "same-as-lane", "the lane map", bits, fault, report)
            return
        except NotLinear as fault:
            report.error(
                "same-as-lane",
                fault.span,
                f"{fault.why}: a lane map is a sum of digits times numbers",
                label="not of that form",
                help="write it as in `lane 16*g + r, byte 16*half + b holds row 16*R + r, k 128*K + b`",
            )
            return


def _refuse(span: Span, code: str, what: str, bits: int, fault: _Unequal, report: Report) -> None:
    report.error(
        code,
        span,
        f"{what} is not what `store` says, with {bits}-bit elements: {fault.why}",
        label="disagrees with the store order",
        effect=fault.effect,
        help=fault.help,
    )


def _prove_torch(clause: nodes.SameAsTorch, template: Template, scope: Scope, bits: int) -> None:
    """Raise _Unequal unless the view and permute make the template's map."""
    order = _permutation(clause, scope, bits)
    generic = _generic_extents(clause.view, template, scope, bits)
    mine = bind(template, generic, bits)
    theirs = _torch_layout(clause, template, generic, order, scope, bits)
    if is_equal(mine, theirs):
        return
    small = _small_extents(clause, template, scope, bits)
    if small is None:
        raise _Unequal("the two maps differ", help=_store_line(theirs, mine, template))
    mine, theirs = bind(template, small, bits), _torch_layout(clause, template, small, order, scope, bits)
    at = first_difference(mine, theirs)
    effect = ""
    if at is not None:
        where = ", ".join(f"{axis.name} {c}" for axis, c in zip(template.axes, at, strict=True))
        effect = (
            f"the element at ({where}) lies at element {offset(mine, at)} by `store` "
            f"and at {offset(theirs, at)} by this clause"
        )
    raise _Unequal("the two maps differ", effect, _store_line(theirs, mine, template))


def _permutation(clause: nodes.SameAsTorch, scope: Scope, bits: int) -> tuple[int, ...]:
    """Return the permute as numbers."""
    order = tuple(value_at(e, scope, {}, bits) for e in clause.permute)
    if any(i is None for i in order) or sorted(i for i in order if i is not None) != list(range(len(clause.view))):
        written = ", ".join(expr_text(e) for e in clause.permute)
        raise _Unequal(f"permute({written}) does not order the {len(clause.view)} dims of the view")
    return tuple(i for i in order if i is not None)


def _generic_extents(exprs: tuple[nodes.Expr, ...], template: Template, scope: Scope, bits: int) -> tuple[int, ...]:
    """Return padded extents whose free sizes are distinct primes times what the clause divides by."""
    factor = prod(literals(exprs, scope, bits))
    result = []
    for axis, prime in zip(template.axes, PRIMES * (1 + len(template.axes) // len(PRIMES)), strict=False):
        sized = axis.sized.at(bits)
        multiple = lcm(sized, axis.pad_to.at(bits)) if axis.pad_to is not None else sized
        result.append(sized if axis.is_fixed else multiple * factor * prime)
    return tuple(result)


def _small_extents(clause: nodes.SameAsTorch, template: Template, scope: Scope, bits: int) -> tuple[int, ...] | None:
    """Return the smallest extents, of two tiles or more, at which the clause can be evaluated."""
    for tiles in range(2, 65):
        extents = tuple(
            n * (axis.pad_to.at(bits) if axis.pad_to is not None and not axis.is_fixed else 1)
            for axis, n in zip(template.axes, smallest_extents(template, bits, tiles), strict=True)
        )
        env = {axis.name: n for axis, n in zip(template.axes, extents, strict=True)}
        if sum(extents) > SCANNED:
            return None
        dims = [value_at(e, scope, env, bits) for e in clause.view]
        if all(d is not None and d > 0 for d in dims) and prod(d or 0 for d in dims) == prod(extents):
            return extents
    return None


def _torch_layout(
    clause: nodes.SameAsTorch,
    template: Template,
    extents: tuple[int, ...],
    order: tuple[int, ...],
    scope: Scope,
    bits: int,
) -> Layout:
    """Return the layout that view(...).permute(...) makes of a row-major tensor of the given extents."""
    env = {axis.name: n for axis, n in zip(template.axes, extents, strict=True)}
    dims: list[int] = []
    for expr in clause.view:
        dim = value_at(expr, scope, env, bits)
        if dim is None or dim < 1:
            raise _Unequal(f"`{expr_text(expr)}` is not a whole number for every legal extent")
        dims.append(dim)
    placed: list[tuple[int, int, int]] = []
    position = 0
    for index, (axis, extent) in enumerate(zip(template.axes, extents, strict=True)):
        start, inside = position, 1
        while position < len(dims) and (inside < extent or dims[position] == 1):
            inside *= dims[position]
            position += 1
        if inside != extent:
            made = " * ".join(expr_text(e) for e in clause.view[start:position]) or "nothing"
            raise _Unequal(f"its dims do not make axis `{axis.name}`: {made} is not {axis.name}")
        weight = extent
        for dim in dims[start:position]:
            weight //= dim
            placed.append((index, dim, weight))
    if position != len(dims):
        raise _Unequal(f"`{expr_text(clause.view[position])}` is a dim beyond the last axis")
    strides = [0] * len(dims)
    inside = 1
    for i in reversed(order):
        strides[i] = inside
        inside *= dims[i]
    digits = tuple(Digit(f"d{i}", axis, size, weight, strides[i]) for i, (axis, size, weight) in enumerate(placed))
    return Layout(extents, extents, tuple(digits[i] for i in order), None, prod(extents))


def _store_line(theirs: Layout, mine: Layout, template: Template) -> str:
    """Return the `store` line that another map describes in this layout's digits, or nothing where they do not fit."""
    names: list[str] = []
    for digit in theirs.digits:
        if digit.size == 1:
            continue
        inside = [
            d
            for d in mine.digits
            if d.axis == digit.axis and digit.weight <= d.weight < digit.weight * digit.size and d.size > 1
        ]
        inside.sort(key=lambda d: -d.weight)
        if prod(d.size for d in inside) != digit.size:
            return "the clause splits the axes at other places than this layout does"
        names.extend(d.name for d in inside)
    return f"the clause describes `store {' '.join(names)}`"


def _prove_lane(clause: nodes.SameAsLane, model: LayoutModel, scope: Scope, bits: int) -> None:
    """Raise _Unequal unless lanes, bytes and what they hold are as the store order has them."""
    template = model.template
    exprs = (clause.lane, clause.byte, *(h.value for h in clause.holds))
    extents = _generic_extents(exprs, template, scope, bits)
    layout = bind(template, extents, bits)
    groups = {g.label: g for g in fold(template, layout)}
    lane, byte = groups.get("lane"), groups.get("byte")
    if lane is None or byte is None:
        raise _Unequal(
            "the store order names no lane and byte groups", help="write `store tile ... | lane ... | byte ...`"
        )
    sizes = {f.name: f.size for axis in template.axes for f in axis.factors}
    free = [d.name for d in (*lane.digits, *byte.digits) if sizes[d.name] is None]
    if free:
        raise _Unequal(f"`{free[0]}` has no size, so that lanes cannot be counted", help=f"give `{free[0]}` a size")
    env = {axis.name: n for axis, n in zip(template.axes, extents, strict=True)}
    digits = {d.name: d for d in layout.digits}
    for label, group, expr in (("lane", lane, clause.lane), ("byte", byte, clause.byte)):
        wanted = {d.name: d.stride // group.step for d in group.digits if d.size > 1}
        said = {n: c for n, c in linear(expr, digits.keys(), scope, env, bits).items() if not n or digits[n].size > 1}
        order = sorted((n for n in said if n), key=lambda n: -said[n])
        _match(label, wanted, said, layout, template, f"the clause describes `{label} {' '.join(order)}`")
    held = {h.axis.text: h for h in clause.holds}
    for index, axis in enumerate(template.axes):
        if axis.name not in held:
            raise _Unequal(
                f"it does not say which {axis.name} a lane holds", help=f"add `{axis.name} ...` after `holds`"
            )
        wanted = {d.name: d.weight for d in layout.digits if d.axis == index and d.size > 1}
        found = linear(held[axis.name].value, digits.keys(), scope, env, bits)
        said = {n: c for n, c in found.items() if not n or digits[n].size > 1}
        _match(axis.name, wanted, said, layout, template, "")
    extra = [name for name in held if name not in env]
    if extra or len(held) != len(clause.holds):
        raise _Unequal(f"`holds` names {', '.join(extra) or 'an axis twice'}")


def _match(
    what: str, wanted: dict[str, int], said: dict[str, int], layout: Layout, template: Template, help: str
) -> None:
    """Raise _Unequal at the first digit whose factor in the clause is not the store order's."""
    if said.get("", 0):
        raise _Unequal(f"`{what}` begins at {said['']}, not at 0")
    for digit in reversed(layout.digits):
        mine, theirs = wanted.get(digit.name, 0), said.get(digit.name, 0)
        if mine != theirs:
            at = ", ".join(
                f"{axis.name} {digit.weight if i == digit.axis else 0}" for i, axis in enumerate(template.axes)
            )
            raise _Unequal(
                f"`{digit.name}` counts {theirs} in `{what}`, not {mine}",
                f"the element at ({at}) is {what} {mine} by `store` and {what} {theirs} by this clause",
                help,
            )
