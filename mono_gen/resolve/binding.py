"""A layout bound to the extents of a field's tensor: rules, divisibility, fills, sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.template import NotDivisible, Template, bind
from mono_gen.diagnostics.model import Label
from mono_gen.formats import Element
from mono_gen.model import LayoutModel
from mono_gen.resolve.integers import LIMIT
from mono_gen.resolve.report import Report
from mono_gen.syntax.source import Span
from mono_gen.terms import Num, Op, Step, Term, Var, compare, variables


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a tensor stands in the spec: its name, its dims after the batch, the clause that names its layout."""

    name: Span
    dims: tuple[Span, ...]
    clause: Span | None

    @property
    def labels(self) -> tuple[Label, ...]:
        """Return a label at the clause that names the layout."""
        return (Label(self.clause, "laid out by this"),) if self.clause is not None else ()


class _TooLarge(Exception):
    """A rule whose terms leave 63 bits."""


def bind_layout(
    spot: Spot,
    layout: LayoutModel | None,
    template: Template,
    inner: tuple[int, ...],
    element: Element,
    padded: tuple[int, ...] | None,
    report: Report,
) -> Layout | None:
    """Return the layout at the extents, or None after reporting why they do not fit. `layout` None is `row_major`."""
    if layout is not None and not _is_legal(spot, layout, inner, element, report):
        return None
    try:
        bound = bind(template, inner, element.bits, padded)
    except NotDivisible as fault:
        _not_divisible(spot, layout, template, fault, element, report)
        return None
    if element.bits == 4 and (inner[-1] % 2 or bound.padded[-1] % 2):
        odd = inner[-1] if inner[-1] % 2 else bound.padded[-1]
        report.error(
            "bytes-not-whole",
            spot.dims[-1],
            f"the last axis has {odd} elements of 4 bits, and two of them lie in a byte",
            label="not even",
            also=spot.labels,
            effect=f"the last byte of row 0 would hold element {odd - 1}, and element 0 of row 1",
            help="make it even",
        )
        return None
    if element.name == "e8m0" and template.has_pads and bound.fill == 0xFF:
        name = layout.name if layout is not None else "row_major"
        poison = "pads would be NaN at other extents"
        if bound.live_pads:
            pad = bound.live_pads[0]
            at = ", ".join(f"{a.name} {inner[i] if i == pad else 0}" for i, a in enumerate(template.axes))
            poison = f"the pad at ({at}) would be NaN"
        report.error(
            "fill-nan",
            spot.clause or spot.name,
            f"layout {name} fills pads with 0xFF, which is NaN in e8m0",
            label="used for an e8m0 scale",
            notes=(f"the fill stands at {layout.place}",) if layout is not None else (),
            effect=f"{poison}, and NaN times 0 is NaN: a kernel that reads past the last scale loses the whole row",
            help="fill with 0x7F (1.0) or 0x00 (2^-127), as the kernel needs",
        )
        return None
    return bound


def _is_legal(spot: Spot, layout: LayoutModel, inner: tuple[int, ...], element: Element, report: Report) -> bool:
    """Report element widths and extents that the layout's rules refuse."""
    if layout.template.pitches:
        report.not_built(
            spot.clause or spot.name,
            f"a field in layout {layout.name}, which has a pitch,",
            "a pitched layout has offsets for kernels, but no pack; tensors with gaps are not checked yet",
            "use a layout without a pitch",
        )
        return False
    if element.bits not in layout.widths:
        _wrong_width(spot, layout, element, report)
        return False
    values = {"bits": element.bits, **dict(zip(layout.axes, inner, strict=True))}
    for rule in layout.rules:
        try:
            left, right = _value(rule.condition.left, values), _value(rule.condition.right, values)
        except _TooLarge:
            left = right = LIMIT + 1
        if not compare(rule.condition.op, left, right) or left > LIMIT:
            used = variables(rule.condition.left) | variables(rule.condition.right)
            axis = next((i for i, name in enumerate(layout.axes) if name in used), 0)
            sizes = ", ".join(f"{name} = {n}" for name, n in values.items() if name in used)
            report.error(
                "layout-rule",
                spot.dims[axis],
                f"layout {layout.name} requires `{rule.text}`, and here {sizes or 'it is false'}",
                label="leaves 63 bits" if left > LIMIT else f"{left} {rule.condition.op} {right} is false",
                also=spot.labels,
                notes=(f"required at {rule.place}", f"{element.bits}-bit elements ({element.name})"),
                help="change the extent, or use a layout that is legal for it",
            )
            return False
    return True


def _wrong_width(spot: Spot, layout: LayoutModel, element: Element, report: Report) -> None:
    """Report an element width for which byte counts are no whole elements, or into which the fill does not fit."""
    fill = layout.template.fill
    widths = ", ".join(str(w) for w in layout.widths)
    if fill is not None and fill >= 2**element.bits:
        report.error(
            "bad-fill",
            spot.clause or spot.name,
            f"layout {layout.name} fills pads with {fill:#x}, which does not fit {element.bits}-bit {element.name}",
            label="does not fit",
            notes=(f"the fill stands at {layout.place}",),
            help="fill with the bits of one element",
        )
        return
    report.error(
        "bytes-not-whole",
        spot.clause or spot.name,
        f"byte counts of layout {layout.name} are no whole number of {element.bits}-bit {element.name} elements",
        label=f"legal for elements of {widths} bits",
        notes=(f"the layout stands at {layout.place}",),
        help=f"use byte counts that are multiples of {max(1, element.bits // 8)}, or another layout",
    )


def _not_divisible(
    spot: Spot, layout: LayoutModel | None, template: Template, fault: NotDivisible, element: Element, report: Report
) -> None:
    """Report an extent that the sized digits of its axis do not divide."""
    axis = template.axes[fault.axis].name
    name = layout.name if layout is not None else "row_major"
    more = -(-fault.extent // fault.divisor) * fault.divisor
    made = f"the {fault.divisor} that digits {', '.join(fault.digits)} of layout {name} make"
    if fault.exact:
        help = f"make it {fault.divisor}, or leave one digit of {axis} without a size"
        label = f"{fault.extent} is not {fault.divisor}"
        at = min(fault.extent, fault.divisor)
        effect = f"{axis} {at} would have " + ("no digits" if at < fault.extent else "digits, but no element")
    else:
        help = f"pad {axis} in the layout, to {more} here, or change the extent"
        label = f"{fault.extent} % {fault.divisor} = {fault.extent % fault.divisor}"
        effect = f"{axis} {fault.extent} to {more - 1} would have places in storage, but no elements"
    report.error(
        "not-divisible",
        spot.dims[fault.axis],
        f"axis `{axis}` is {fault.extent}, not {'equal to' if fault.exact else 'a multiple of'} {made}",
        label=label,
        also=spot.labels,
        notes=(f"{element.bits}-bit elements ({element.name})",),
        effect=effect,
        help=help,
    )


def _value(term: Term, values: Mapping[str, int]) -> int:
    """Return the value of a term.

    Raises: _TooLarge, where an intermediate result leaves 63 bits.
    """
    match term:
        case Num(value):
            return value
        case Var(name):
            return values[name]
        case Step():
            raise AssertionError("rules have no steps")
        case Op(op, left, right):
            a, b = _value(left, values), _value(right, values)
            result = a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else 0
            if op in "/%":
                result = a // b if op == "/" else a % b
            if result > LIMIT:
                raise _TooLarge
            return result
