"""A layout's formulas for any legal extents: sizes, digit values, the element offset, the view that a pack makes."""

from __future__ import annotations

from itertools import chain

from mono_gen.algebra.ids import template_id
from mono_gen.algebra.layout import Layout, offset
from mono_gen.algebra.monomial import ONE, Size
from mono_gen.algebra.template import (
    AxisTemplate,
    NarrowPitch,
    NotDivisible,
    Template,
    bind,
    padded_extent,
    smallest_extents,
)
from mono_gen.model import LayoutModel
from mono_gen.plan.model import DigitPlan, GroupPlan, LayoutPlan, Rule, Sample
from mono_gen.terms import (
    Assign,
    Comparison,
    Num,
    Op,
    Term,
    Var,
    add,
    div,
    holds,
    mod,
    mul,
    numbers,
    rename,
    variables,
)

MOST_TILES = 130
"""How far extents are tried for samples."""
INSIDE = ((63, 36, 73), (22, 69, 52))
"""Where samples lie inside, in percent of the extents of axes: found by trial to tell the digits of layouts apart.

Law: tests/generated/test_samples.py
"""


def plan_layout(model: LayoutModel) -> LayoutPlan:
    """Return the plan of a layout."""
    template = model.template
    padded = tuple(_padded(axis) for axis in template.axes)
    names = _size_names(template)
    sizes, size_of = _sizes(template, names)
    weights = _weights(template, size_of)
    strides = _strides(template, size_of)
    values: dict[str, Term] = {}
    axis_of: dict[str, int] = {}
    assigns: list[Assign] = []
    for index, axis in enumerate(template.axes):
        for position, factor in enumerate(axis.factors):
            value = div(Var(axis.name), weights[factor.name])
            value = value if position == 0 else mod(value, size_of[factor.name])
            values[factor.name], axis_of[factor.name] = value, index
            if factor.name != axis.name:
                assigns.append(Assign(factor.name, value))
    digits = tuple(DigitPlan(n, axis_of[n], values[n], size_of[n], strides[n]) for n in template.order)
    flat = [f.name for axis in template.axes for f in axis.factors]
    view = tuple(size_of[name] for name in flat)
    permute = tuple(flat.index(name) for name in template.order)
    torch_form = model.torch_form or _torch_text(template, permute)
    return LayoutPlan(
        model=model,
        id=template_id(template),
        padded=padded,
        sizes=sizes,
        rules=(*_derived_rules(template), *_stated_rules(model)),
        digits=digits,
        assigns=tuple(assigns),
        element=_element(template, size_of, strides),
        view=view,
        permute=permute,
        groups=tuple(GroupPlan(g.label, g.digits) for g in template.store if g.label),
        has_pack=not template.pitches,
        store_text=_store_text(template),
        torch_text=torch_form,
        samples=_samples(model),
    )


def extent_name(axis: AxisTemplate) -> str:
    """Return the variable that holds an axis' extent of storage."""
    return f"padded_{axis.name}" if axis.pad_to is not None else f"extent_{axis.name}"


def size_term(size: Size) -> Term:
    """Return a size as a term: `16B` is 128 / bits."""
    if size.power == 0:
        return Num(size.value)
    term: Term = Num(size.value * 8**size.power)
    for _ in range(size.power):
        term = Op("/", term, Var("bits"))
    return term


def _padded(axis: AxisTemplate) -> Term | None:
    """Return the padded extent in terms of the logical one, None where the axis is not padded."""
    if axis.pad_to is None:
        return None
    multiple = size_term(axis.pad_to)
    less_one = Num(axis.pad_to.value - 1) if axis.pad_to.power == 0 else Op("-", multiple, Num(1))
    return mul(div(add(Var(f"extent_{axis.name}"), less_one), multiple), multiple)


def _size_names(template: Template) -> dict[str, str]:
    """Return a variable name for each digit's size, which no axis or digit bears."""
    taken = {axis.name for axis in template.axes} | set(template.order)
    names: dict[str, str] = {}
    for name in template.order:
        variable = f"n_{name}"
        while variable in taken:
            variable += "_"
        taken.add(variable)
        names[name] = variable
    return names


def _sizes(template: Template, names: dict[str, str]) -> tuple[tuple[Assign, ...], dict[str, Term]]:
    """Return the named sizes, and each digit's size as a term over them: numbers stay numbers."""
    assigns: list[Assign] = []
    size_of: dict[str, Term] = {}
    for axis in template.axes:
        for factor in axis.factors:
            if factor.size is not None and factor.size.power:
                assigns.append(Assign(names[factor.name], size_term(factor.size), f"{factor.size} of elements"))
                size_of[factor.name] = Var(names[factor.name])
            elif factor.size is not None:
                size_of[factor.name] = Num(factor.size.value)
    for axis in template.axes:
        divisor: Term = Num(1)
        for factor in axis.factors:
            divisor = mul(divisor, size_of[factor.name]) if factor.size is not None else divisor
        for factor in axis.factors:
            if factor.size is None:
                assigns.append(Assign(names[factor.name], div(Var(extent_name(axis)), divisor)))
                size_of[factor.name] = Var(names[factor.name])
    return tuple(assigns), size_of


def _weights(template: Template, size_of: dict[str, Term]) -> dict[str, Term]:
    """Return what one step of each digit counts on its axis."""
    weights: dict[str, Term] = {}
    for axis in template.axes:
        weight: Term = Num(1)
        for factor in reversed(axis.factors):
            weights[factor.name] = weight
            weight = mul(size_of[factor.name], weight)
    return weights


def _strides(template: Template, size_of: dict[str, Term]) -> dict[str, Term]:
    """Return each digit's stride in elements."""
    pitches = dict(template.pitches)
    strides: dict[str, Term] = {}
    inside: Term = Num(1)
    for name in reversed(template.order):
        strides[name] = size_term(pitches[name]) if name in pitches else inside
        inside = mul(size_of[name], strides[name])
    return strides


def _element(template: Template, size_of: dict[str, Term], strides: dict[str, Term]) -> Term:
    """Return the element offset over digit names: nested products, or a sum of strides where a pitch stands."""
    result: Term = Num(0)
    if template.pitches:
        for name in template.order:
            result = add(result, mul(Var(name), strides[name]))
        return result
    for name in template.order:
        result = add(mul(result, size_of[name]), Var(name))
    return result


def _stated_rules(model: LayoutModel) -> tuple[Rule, ...]:
    """Return what `require` says, of logical extents."""
    names = {axis: f"extent_{axis}" for axis in model.axes}
    return tuple(
        Rule(Comparison(rename(r.condition.left, names), r.condition.op, rename(r.condition.right, names)), r.text)
        for r in model.rules
    )


def _derived_rules(template: Template) -> tuple[Rule, ...]:
    """Return the divisibility of padded extents that the splits imply."""
    rules = []
    for axis in template.axes:
        sized = axis.sized
        if sized.value == 1 and sized.power == 0 and not axis.is_fixed:
            continue
        extent, divisor = Var(extent_name(axis)), size_term(sized)
        if axis.is_fixed:
            rules.append(Rule(Comparison(extent, "==", divisor), f"{_spoken(axis)} == {sized}"))
        else:
            rules.append(Rule(Comparison(mod(extent, divisor), "==", Num(0)), f"{_spoken(axis)} % {sized} == 0"))
    return tuple(rules)


def _spoken(axis: AxisTemplate) -> str:
    """Return how messages name an axis' extent of storage."""
    return f"padded {axis.name}" if axis.pad_to is not None else axis.name


def _store_text(template: Template) -> str:
    """Return the store order as the spec writes it."""
    return "store " + " | ".join(" ".join(((g.label,) if g.label else ()) + g.digits) for g in template.store)


def _torch_text(template: Template, permute: tuple[int, ...]) -> str:
    """Return the torch form of a layout that restates none."""
    dims = []
    for axis in template.axes:
        left = axis.name if axis.sized == ONE else f"{axis.name} / {axis.sized}"
        dims += [left if factor.size is None else str(factor.size) for factor in axis.factors]
    return f"view({', '.join(dims)}).permute({', '.join(str(i) for i in permute)})"


def _samples(model: LayoutModel) -> tuple[Sample, ...]:
    """Return sample points at the smallest legal extents with two tiles an axis."""
    bits = 8 if 8 in model.widths else model.widths[0]
    extents = legal_extents(model, bits)
    return () if extents is None else sample_points(bind(model.template, extents, bits), bits)


def legal_extents(model: LayoutModel, bits: int) -> tuple[int, ...] | None:
    """Return small legal extents, of two tiles and with live pads where the rules allow it; None if there are none."""
    alone = tuple(_legal_extent(model, axis, bits) for axis in model.template.axes)
    together = (smallest_extents(model.template, bits, tiles) for tiles in range(2, MOST_TILES))
    return next((extents for extents in chain((alone,), together) if is_legal(model, extents, bits)), None)


def is_legal(model: LayoutModel, extents: tuple[int, ...], bits: int) -> bool:
    """Return whether the layout can be bound at the extents, and its rules hold there."""
    try:
        bind(model.template, extents, bits)
    except (NotDivisible, NarrowPitch):
        return False
    values = {"bits": bits, **dict(zip(model.axes, extents, strict=True))}
    return all(holds(rule.condition, values) for rule in model.rules)


def _legal_extent(model: LayoutModel, axis: AxisTemplate, bits: int) -> int:
    """Return a small extent of an axis that the rules about it alone allow; two tiles where none was found."""
    tile = axis.sized.at(bits)
    rules = [
        rule.condition
        for rule in model.rules
        if variables(rule.condition.left) | variables(rule.condition.right) <= {axis.name, "bits"}
    ]
    named = sorted(n for rule in rules for n in numbers(rule.left) | numbers(rule.right) if n)
    tiles = () if axis.is_fixed else range(2, MOST_TILES)
    multiple = axis.pad_to.at(bits) if axis.pad_to is not None else 0
    live = (2 * multiple - less for less in (1, 2, 4, 8, 16, 32) if less < multiple)
    for extent in (*live, *(tile * n for n in tiles), *named, tile):
        stored = padded_extent(axis, extent, bits)
        fits = stored == tile if axis.is_fixed else stored % tile == 0
        if fits and all(holds(rule, {axis.name: extent, "bits": bits}) for rule in rules):
            return extent
    return tile if axis.is_fixed else 2 * tile


def sample_points(layout: Layout, bits: int) -> tuple[Sample, ...]:
    """Return elements that show a wrong formula: see `telling_points`."""
    return tuple(sample(layout, bits, point) for point in telling_points(layout))


def telling_points(layout: Layout, inside: int = len(INSIDE)) -> tuple[tuple[int, ...], ...]:
    """Return coordinates at which a wrong formula shows, each once; three where there are so many elements.

    The first element of the second tile; some inside; the last. They are few: a digit that moves changes most of them.
    """
    axes = range(len(layout.extents))
    last = tuple(n - 1 for n in layout.extents)
    second = tuple(max((d.weight for d in layout.digits if d.axis == i and d.size > 1), default=0) for i in axes)
    spread = (tuple(n * p[i % len(p)] // 100 for i, n in enumerate(layout.extents)) for p in INSIDE[:inside])
    points = tuple(dict.fromkeys(tuple(map(min, point, last)) for point in (second, *spread, last)))
    ends = (tuple(c if i == axis else 0 for i, c in enumerate(last)) for axis in axes)
    return points if len(points) >= 3 else tuple(dict.fromkeys((*points, *ends, tuple(0 for _ in axes))))


def sample(layout: Layout, bits: int, coordinates: tuple[int, ...]) -> Sample:
    """Return an element with its place in bytes, worked out by the algebra."""
    at = offset(layout, coordinates)
    byte, rest = divmod(at * bits, 8)
    return Sample(layout.extents, bits, coordinates, byte, rest // bits if bits < 8 else None)
