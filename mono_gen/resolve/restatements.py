"""`same as torch` and `same as lane`: restatements of a layout, proved equal to its store order or refused.

A map's sizes are products of fixed numbers and one free size an axis. At free sizes that are distinct primes, larger
than every fixed size, the canonical form can be read back to those products: equality there is equality everywhere.
"""

from __future__ import annotations

from math import lcm, prod

from mono_gen.algebra.fold import FoldGroup, fold
from mono_gen.algebra.layout import Digit, Layout, first_difference, from_view, is_equal, offset
from mono_gen.algebra.template import Template, bind, smallest_extents
from mono_gen.model import LayoutModel
from mono_gen.resolve.generic import PRIMES, generic_extents, legal_multiples, plain_first
from mono_gen.resolve.integers import Scope
from mono_gen.resolve.linear import NotLinear, linear, mentions, names_known, value_at
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span
from mono_gen.syntax.text import expr_text

SCANNED = 20_000
"""Coordinates at most that are tried to show the first differing element."""


class _Unequal(Exception):
    """A restatement that does not hold, and why."""

    def __init__(self, why: str, effect: str = "", help: str = "", span: Span | None = None) -> None:
        super().__init__(why)
        self.why, self.effect, self.help, self.span = why, effect, help, span


def torch_text(clause: nodes.SameAsTorch) -> str:
    """Return the clause's view and permute as torch would have them."""
    view = ", ".join(expr_text(e) for e in clause.view)
    return f"view({view}).permute({', '.join(expr_text(e) for e in clause.permute)})"


def check_torch(clause: nodes.SameAsTorch, model: LayoutModel, scope: Scope, report: Report) -> None:
    """Report a `same as torch` clause that is not the map of the store order, for some legal element width."""
    axes = model.axes
    known = [names_known(e, axes, scope, report, "an axis of this layout or a constant") for e in clause.view]
    known += [names_known(e, (), scope, report, "a constant") for e in clause.permute]
    if not all(known):
        return
    for expr in clause.view:
        if mentions(expr, axes) and not _is_product(expr, axes):
            report.error(
                "same-as-torch",
                expr.span,
                f"`{expr_text(expr)}` is no product or quotient of axes and numbers",
                label="not a dim that holds for all extents",
                help="write each dim as in `row / 16`, `2` or `k / 32B`",
            )
            return
    for bits in plain_first(model.widths):
        try:
            _prove_torch(clause, model, scope, bits)
        except _Unequal as fault:
            _refuse(fault.span or clause.span, "same-as-torch", f"`{torch_text(clause)}`", bits, fault, report)
            return


def _is_product(expr: nodes.Expr, axes: tuple[str, ...]) -> bool:
    """Return whether axes are only multiplied and divided in an expression."""
    match expr:
        case nodes.Path():
            return True
        case nodes.Chain(first, rest, _):
            parts = (first, *(e for _, e in rest))
            return all(op in "*/" for op, _ in rest) and all(_is_product(p, axes) for p in parts if mentions(p, axes))
    return False


def check_lane(clause: nodes.SameAsLane, model: LayoutModel, scope: Scope, report: Report) -> None:
    """Report a `same as lane` clause that is not the map of the store order, for some legal element width."""
    kind = "a digit of this layout or a constant"
    exprs = (clause.lane, clause.byte, *(h.value for h in clause.holds))
    known = [names_known(e, model.template.order, scope, report, kind) for e in exprs]
    if not all(known):
        return
    for bits in plain_first(model.widths):
        try:
            _prove_lane(clause, model, scope, bits)
        except _Unequal as fault:
            _refuse(fault.span or clause.span, "same-as-lane", "the lane map", bits, fault, report)
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


def _prove_torch(clause: nodes.SameAsTorch, model: LayoutModel, scope: Scope, bits: int) -> None:
    """Raise _Unequal unless the view and permute make the template's map."""
    template = model.template
    order = _permutation(clause, scope, bits)
    multiples = legal_multiples(model, bits)
    _check_whole(clause, template, multiples, scope, bits)
    generic = generic_extents(template, multiples)
    mine = bind(template, generic, bits)
    theirs = _torch_layout(clause, template, generic, order, scope, bits)
    if is_equal(mine, theirs):
        return
    small = _small_extents(clause, template, multiples, scope, bits)
    if small is None:
        raise _Unequal("the two maps differ", help=_store_line(theirs, mine))
    help = _store_line(theirs, mine)
    mine, theirs = bind(template, small, bits), _torch_layout(clause, template, small, order, scope, bits)
    at = first_difference(mine, theirs)
    effect = ""
    if at is not None:
        where = ", ".join(f"{axis.name} {c}" for axis, c in zip(template.axes, at, strict=True))
        sizes = ", ".join(f"{axis.name} = {n}" for axis, n in zip(template.axes, small, strict=True))
        effect = (
            f"at {sizes}, the element at ({where}) lies at element {offset(mine, at)} by `store` "
            f"and at {offset(theirs, at)} by this clause"
        )
    raise _Unequal("the two maps differ", effect, help)


def _permutation(clause: nodes.SameAsTorch, scope: Scope, bits: int) -> tuple[int, ...]:
    """Return the permute as numbers."""
    order = tuple(value_at(e, scope, {}, bits) for e in clause.permute)
    if any(i is None for i in order) or sorted(i for i in order if i is not None) != list(range(len(clause.view))):
        written = ", ".join(expr_text(e) for e in clause.permute)
        raise _Unequal(
            f"permute({written}) does not order the {len(clause.view)} dims of the view",
            help=f"name each of 0 to {len(clause.view) - 1} once",
            span=clause.permute[0].span.to(clause.permute[-1].span),
        )
    return tuple(i for i in order if i is not None)


def _check_whole(
    clause: nodes.SameAsTorch, template: Template, multiples: tuple[int, ...], scope: Scope, bits: int
) -> None:
    """Raise _Unequal for a dim of the view that is no whole number at the smallest legal extents."""
    env = {axis.name: n for axis, n in zip(template.axes, multiples, strict=True)}
    for expr in clause.view:
        dim = value_at(expr, scope, env, bits)
        if dim is None or dim < 1:
            used = [f"{axis.name} = {env[axis.name]}" for axis in template.axes if mentions(expr, (axis.name,))]
            where = f"where {', '.join(used)}, which is legal" if used else "at any extent"
            raise _Unequal(
                f"`{expr_text(expr)}` is no whole number of 1 or more {where}",
                help="divide by what every legal extent is a multiple of, or `require` more",
                span=expr.span,
            )


def _small_extents(
    clause: nodes.SameAsTorch, template: Template, multiples: tuple[int, ...], scope: Scope, bits: int
) -> tuple[int, ...] | None:
    """Return small extents, of two tiles or more, at which the clause can be evaluated."""
    for tiles in range(2, 65):
        smallest = smallest_extents(template, bits, tiles)
        extents = tuple(
            n if axis.is_fixed else lcm(n, multiple)
            for axis, n, multiple in zip(template.axes, smallest, multiples, strict=True)
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
            raise AssertionError(f"`{expr_text(expr)}` is whole: _check_whole has held it")
        dims.append(dim)
    position = 0
    for axis, extent in zip(template.axes, extents, strict=True):
        start, inside = position, 1
        while position < len(dims) and (inside < extent or dims[position] == 1):
            inside *= dims[position]
            position += 1
        if inside != extent:
            made = " * ".join(expr_text(e) for e in clause.view[start:position]) or "nothing"
            raise _Unequal(f"its dims do not make axis `{axis.name}`: {made} is not {axis.name}")
    if position != len(dims):
        raise _Unequal(f"`{expr_text(clause.view[position])}` is a dim beyond the last axis")
    return from_view(extents, extents, tuple(dims), order)


def _store_line(theirs: Layout, mine: Layout) -> str:
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
    layout = bind(template, generic_extents(template, legal_multiples(model, bits)), bits)
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
    digits = {d.name: d for d in layout.digits}
    for label, group, expr in (("lane", lane, clause.lane), ("byte", byte, clause.byte)):
        said = _factors(expr, digits, scope, bits)
        order = sorted((n for n in said if n), key=lambda n: -said[n])
        help = f"the clause describes `{label} {' '.join(order)}`"
        _match(label, _positions(group), said, layout, template, help, expr.span)
    held: dict[str, nodes.Holds] = {}
    for holds in clause.holds:
        if holds.axis.text in held or holds.axis.text not in model.axes:
            why = "twice" if holds.axis.text in held else "which is no axis of this layout"
            raise _Unequal(f"`holds` names {holds.axis.text}, {why}", help="name each axis once", span=holds.span)
        held[holds.axis.text] = holds
    for index, axis in enumerate(template.axes):
        if axis.name not in held:
            raise _Unequal(
                f"it does not say which {axis.name} a lane holds", help=f"add `{axis.name} ...` after `holds`"
            )
        wanted = {d.name: d.weight for d in layout.digits if d.axis == index and d.size > 1}
        said = _factors(held[axis.name].value, digits, scope, bits)
        _match(axis.name, wanted, said, layout, template, "", held[axis.name].value.span)


def _factors(expr: nodes.Expr, digits: dict[str, Digit], scope: Scope, bits: int) -> dict[str, int]:
    """Return what each digit of more than one step counts in an expression, the constant under the empty name."""
    found = linear(expr, digits.keys(), scope, bits)
    return {name: count for name, count in found.items() if not name or digits[name].size > 1}


def _positions(group: FoldGroup) -> dict[str, int]:
    """Return what one step of each digit counts in the group's positions."""
    counts: dict[str, int] = {}
    inside = 1
    for digit in reversed(group.digits):
        if digit.size > 1:
            counts[digit.name] = inside
        inside *= digit.size
    return counts


def _match(
    what: str,
    wanted: dict[str, int],
    said: dict[str, int],
    layout: Layout,
    template: Template,
    help: str,
    span: Span,
) -> None:
    """Raise _Unequal at the first digit whose factor in the clause is not the store order's."""
    if said.get("", 0):
        raise _Unequal(f"`{what}` begins at {said['']}, not at 0", help=f"leave out the {said['']}", span=span)
    for digit in reversed(layout.digits):
        mine, theirs = wanted.get(digit.name, 0), said.get(digit.name, 0)
        if mine == theirs:
            continue
        at = ", ".join(f"{axis.name} {digit.weight if i == digit.axis else 0}" for i, axis in enumerate(template.axes))
        where = f"({at})" if digit.weight < min(PRIMES) else f"({digit.name} 1, all else 0)"
        raise _Unequal(
            f"`{digit.name}` counts {theirs} in `{what}`, not {mine}",
            f"the element at {where} has {what} {mine} by `store` and {what} {theirs} by this clause",
            help or f"write `{mine}*{digit.name}`" if mine > 1 else help,
            span,
        )
