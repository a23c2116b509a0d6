"""Layouts as C++: a class template over logical extents and the width of an element."""

from __future__ import annotations

from math import prod

from mono_gen.algebra.template import AxisTemplate
from mono_gen.emit.hip_axes import layout_axes
from mono_gen.emit.hip_text import (
    assertion,
    checked_function,
    comment,
    constant,
    expression,
    flat_product,
    function,
    id_literal,
    listed,
    literal,
    replaced,
    sampled,
    statement,
)
from mono_gen.frozen import frozen
from mono_gen.model import LayoutModel
from mono_gen.plan.model import LayoutPlan, Sample
from mono_gen.terms import Num, Op, Term, Var

INDENT = 4


@frozen
class LayoutView:
    """A layout's template, in finished lines."""

    name: str
    doc: tuple[str, ...]
    parameters: tuple[str, ...]
    extents: tuple[str, ...]
    rules: tuple[str, ...]
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    steps: tuple[str, ...]
    store: tuple[str, ...]
    digits: tuple[str, ...]
    offset: tuple[str, ...]
    fold: tuple[str, ...]
    samples: tuple[str, ...]


@frozen
class Spelled:
    """A layout's plan with what its text is made of.

    names:    plan variables to names of the header.
    sizes:    each digit's size, over plan variables; a number where it is one.
    """

    plan: LayoutPlan
    names: dict[str, str]
    sizes: dict[str, Term]

    @property
    def split(self) -> tuple[str, ...]:
        """Return the digits in the order of the axes, each axis slowest first."""
        return tuple(factor.name for axis in self.plan.model.template.axes for factor in axis.factors)

    @property
    def order(self) -> tuple[str, ...]:
        """Return the digits in store order."""
        return tuple(digit.name for digit in self.plan.digits)

    def group(self, label: str) -> tuple[str, ...]:
        """Return the digits of a group, empty where the store does not name it."""
        return next((g.digits for g in self.plan.groups if g.label == label), ())

    def stride(self, digit: str) -> Term:
        """Return a digit's stride in elements as a flat product."""
        return flat_product(self._stride_factors(digit))

    def inside(self, digits: tuple[str, ...]) -> Term:
        """Return the elements that digits span, gaps of a pitch included; 1 for none."""
        return flat_product([self.sizes[digits[0]], *self._stride_factors(digits[0])]) if digits else Num(1)

    def _stride_factors(self, digit: str) -> list[Term]:
        """Return what a digit's stride multiplies: a pitch, or the sizes of the faster digits down to one."""
        strides = {d.name: d.stride for d in self.plan.digits}
        pitched = {name for name, _ in self.plan.model.template.pitches}
        factors: list[Term] = []
        at = self.order.index(digit)
        while self.order[at] not in pitched:
            at += 1
            if at == len(self.order):
                return factors
            factors.append(self.sizes[self.order[at]])
        return [*factors, strides[self.order[at]]]


def spelled(plan: LayoutPlan) -> Spelled:
    """Return a layout's plan with the names of its header."""
    names = {"bits": "kBits"}
    for axis in plan.model.axes:
        names[f"extent_{axis}"] = f"kExtent_{axis}"
        names[f"padded_{axis}"] = f"kPadded_{axis}"
    sizes = {digit.name: digit.size for digit in plan.digits}
    names |= {size.name: f"kSize_{digit}" for digit, size in sizes.items() if isinstance(size, Var)}
    return Spelled(plan, names, sizes)


def layout_view(plan: LayoutPlan) -> LayoutView:
    """Return the view of a layout."""
    layout = spelled(plan)
    model = plan.model
    digit_values = {digit.name: expression(digit.value, layout.names) for digit in plan.digits}
    return LayoutView(
        name=model.name,
        doc=comment([*model.doc.split("\n"), str(model.place)] if model.doc else [str(model.place)], 0),
        parameters=listed("template <", _parameters(layout), ">", 0),
        extents=_extents(layout),
        rules=_rules(layout),
        sizes=_sizes(layout),
        strides=_strides(layout),
        steps=(*_steps(layout), *_axes(layout)),
        store=comment([f"Digits in the order of {model.store_place}.", *_feeds(model)], INDENT),
        digits=_digits(layout),
        offset=function(
            "auto",
            "offset",
            [f"offset_t {axis}" for axis in model.axes],
            f"digits({', '.join(digit_values[name] for name in layout.order)})",
            INDENT,
        ),
        fold=_fold(layout),
        samples=tuple(line for s in plan.samples for line in _sampled(model.name, s)),
    )


def _free(layout: Spelled, name: str) -> str:
    """Return a template parameter's name, which no axis or digit bears: their functions would hide it."""
    while name in layout.plan.model.axes or name in layout.order:
        name += "_"
    return name


def padded_axes(plan: LayoutPlan) -> tuple[AxisTemplate, ...]:
    """Return the axes that the layout pads; their padded extents are template parameters after the width."""
    return tuple(axis for axis in plan.model.template.axes if axis.pad_to is not None)


def _parameters(layout: Spelled) -> list[str]:
    """Return the template's parameters: extents, the width, and padded extents that follow from them if not given."""
    axes = layout.plan.model.axes
    names = {f"extent_{axis}": _free(layout, f"extent_{axis}") for axis in axes} | {"bits": _free(layout, "bits")}
    padded = [
        f"long long {_free(layout, f'padded_{axis}')} = {expression(term, names)}"
        for axis, term in zip(axes, layout.plan.padded, strict=True)
        if term is not None
    ]
    return [*(f"long long {names[f'extent_{axis}']}" for axis in axes), f"int {names['bits']}", *padded]


def _extents(layout: Spelled) -> tuple[str, ...]:
    """Return width, extents, the bytes of storage, the id, and the type that holds offsets."""
    plan = layout.plan
    axes = list(zip(plan.model.axes, plan.padded, strict=True))
    lines = [*constant("int", "kBits", _free(layout, "bits"), INDENT)]
    for axis, _ in axes:
        lines += constant("long long", f"kExtent_{axis}", _free(layout, f"extent_{axis}"), INDENT)
    for axis, term in axes:
        value = f"kExtent_{axis}" if term is None else _free(layout, f"padded_{axis}")
        lines += constant("long long", f"kPadded_{axis}", value, INDENT)
    lines += constant("long long", "kElements", expression(_span(layout), layout.names), INDENT, "of storage")
    lines += constant("long long", "kBytes", "detail::bytes<long long, kElements, kBits>()", INDENT)
    fill = plan.model.template.fill
    if padded_axes(plan) and fill is None:
        lines += comment(["The bytes of pads are undefined."], INDENT)
    elif padded_axes(plan):
        lines += constant("unsigned long long", "kFill", f"0x{fill:02X}ULL", INDENT, "of a pad")
    lines += constant("unsigned long long", "kId", id_literal(plan.id), INDENT)
    lines += statement("using offset_t = detail::offset_t<kElements, kBits>;", INDENT)
    lines += statement(f"using layout = {plan.model.name};  // by which a tensor names what it derives from", INDENT)
    return tuple(lines)


def _span(layout: Spelled) -> Term:
    """Return the elements of storage over extents: the padded extents multiplied, or what the slowest pitch spans."""
    plan = layout.plan
    if not plan.model.template.pitches:
        extents = [Var(f"padded_{axis}") for axis in plan.model.axes]
        return flat_product(list(extents))
    values: dict[str, Term] = {}
    for size in plan.sizes:
        values[size.name] = replaced(size.value, values)
    return replaced(layout.inside(layout.order), values)


def _rules(layout: Spelled) -> tuple[str, ...]:
    """Return an assertion for each rule of legal sizes."""
    plan = layout.plan
    name, widths = plan.model.name, plan.model.widths
    rules = {" || ".join(f"kBits == {w}" for w in widths): f"elements of {', '.join(str(w) for w in widths)} bits"}
    for axis in plan.model.axes:
        rules[f"kExtent_{axis} >= 1"] = f"{axis} >= 1"
    for padded in padded_axes(plan):
        rules[f"kPadded_{padded.name} >= kExtent_{padded.name}"] = f"padded {padded.name} >= {padded.name}"
    if may_part_bytes(layout, layout.inside(layout.order)):
        rules["kBits != 4 || kElements % 2 == 0"] = "whole bytes in all"
    for rule in plan.rules:
        left, right = (expression(t, layout.names) for t in (rule.condition.left, rule.condition.right))
        rules.setdefault(f"{left} {rule.condition.op} {right}", rule.text)
    return tuple(line for condition, rule in rules.items() for line in assertion(condition, f"{name}: {rule}", INDENT))


def _sizes(layout: Spelled) -> tuple[str, ...]:
    """Return the values of each digit: those in bytes first, for the others hang on them."""
    plan = layout.plan
    digit_of = {size.name: digit for digit, size in layout.sizes.items() if isinstance(size, Var)}
    lines: list[str] = []
    for size in plan.sizes:
        value = f"static_cast<offset_t>({expression(size.value, layout.names)})"
        lines += constant("offset_t", f"kSize_{digit_of[size.name]}", value, INDENT, size.remark)
    for digit in layout.split:
        if isinstance(term := layout.sizes[digit], Num):
            lines += constant("offset_t", f"kSize_{digit}", literal(term.value), INDENT)
    return tuple(lines)


def _strides(layout: Spelled) -> tuple[str, ...]:
    """Return the elements that a step of each digit moves: what the store order, and it alone, decides."""
    lines: list[str] = [
        *comment(["What a step of each digit moves: elements, and bytes where they are whole."], INDENT)
    ]
    for digit in layout.split:
        lines += constant("offset_t", f"kStride_{digit}", expression(layout.stride(digit), layout.names), INDENT)
    for digit, pitch in layout.plan.model.template.pitches:
        faster = layout.order[layout.order.index(digit) + 1 :]
        wide = f"kStride_{digit} >= {expression(layout.inside(faster), layout.names)}"
        lines += assertion(wide, f"{layout.plan.model.name}: pitch {digit} = {pitch} spans what lies inside it", INDENT)
    return tuple(lines)


def _digits(layout: Spelled) -> tuple[str, ...]:
    """Return the function from digits, in store order, to the place of an element."""
    strides = {digit: layout.stride(digit) for digit in layout.split}
    terms = [d if strides[d] == Num(1) else f"{d} * kStride_{d}" for d in layout.split]
    parameters = [f"offset_t {name}" for name in layout.order]
    whole = function("auto", "digits", parameters, f"detail::place<kBits>({' + '.join(terms)})", INDENT)
    if len(whole) == 1:
        return whole
    return (
        *listed("static MONO_HD constexpr auto digits(", parameters, ") {", INDENT),
        *listed("return detail::place<kBits>(", terms, ");", INDENT + 4, joint=" +"),
        " " * INDENT + "}",
    )


def _bytes(elements: str) -> str:
    """Return the bytes of so many elements: no number where they are not whole."""
    return f"detail::bytes<offset_t, {elements}, kBits>()"


def _steps(layout: Spelled) -> tuple[str, ...]:
    """Return the bytes of one step of each digit, and the sizes of the groups that the store names."""
    lines: list[str] = []
    for digit in layout.split:
        lines += constant("auto", f"kStep_{digit}", _bytes(f"kStride_{digit}"), INDENT)
    tile, lane, byte = (layout.group(label) for label in ("tile", "lane", "byte"))
    pitched = {name for name, _ in layout.plan.model.template.pitches}
    tile_bytes = _bytes(expression(layout.inside((*lane, *byte)), layout.names))
    if lane:
        lanes = flat_product([layout.sizes[name] for name in lane])
        count = expression(lanes, layout.names)
        lines += constant("int", "kLanes", count if isinstance(lanes, Num) else f"static_cast<int>({count})", INDENT)
        in_lane = layout.inside(byte)
        lane_bytes = _bytes(expression(in_lane, layout.names)) if lane[-1] in pitched else f"kStep_{lane[-1]}"
        lines += constant("auto", "kLaneBytes", lane_bytes, INDENT)
        if not pitched & set(lane) and not may_part_bytes(layout, in_lane):
            tile_bytes = "kLanes * kLaneBytes"
    if tile:
        lines += constant("auto", "kTileBytes", tile_bytes, INDENT)
    return tuple(lines)


def _feeds(model: LayoutModel) -> list[str]:
    """Return what a lane's bytes are proved to be, a line an operand."""
    return [f"Feeds {f.instruction}.{f.operand} for {' and '.join(f.elements)}." for f in model.feeds]


def _axes(layout: Spelled) -> tuple[str, ...]:
    """Return the digits of each axis for folds over a wave."""
    axes = [
        [(f"kSize_{f.name}", f"kStride_{f.name}") for f in reversed(axis.factors)]
        for axis in layout.plan.model.template.axes
    ]
    return layout_axes("offset_t", axes, INDENT)


def may_part_bytes(layout: Spelled, elements: Term) -> bool:
    """Return whether so many 4-bit elements may be no whole bytes: no factor is even, or 16B and the like."""
    in_bytes = {s.name for s in layout.plan.sizes if isinstance(s.value, Op) and s.value.right == Var("bits")}

    def is_even(term: Term) -> bool:
        match term:
            case Num(value):
                return value % 2 == 0
            case Var(name):
                return name in in_bytes
            case Op("*", left, right):
                return is_even(left) or is_even(right)
            case Op("/", Num(), right):
                return right == Var("bits")
        return False

    return 4 in layout.plan.model.widths and not is_even(elements)


def _fold(layout: Spelled) -> tuple[str, ...]:
    """Return the fold: an offset is tile + lane + the position inside the lane's bytes."""
    lines: list[str] = []
    tile, lane, byte = (layout.group(label) for label in ("tile", "lane", "byte"))
    if tile:
        lines += comment(["Byte offset of a tile: the same in all lanes."], INDENT)
        value = " + ".join(f"{name} * kStep_{name}" for name in tile)
        lines += _checked(layout, "offset_t", "tile", [f"offset_t {name}" for name in tile], value, tile)
    if lane:
        lines += comment([f"Byte offset of lane l inside a tile, l = {lane_number(layout)}."], INDENT)
        lines += _checked(layout, "offset_t", "lane", ["offset_t l"], _lane(layout), lane)
    if has_select(layout.plan):
        lines += comment(["The byte of a lane's dword that an operand select takes."], INDENT)
        value = f"static_cast<int>({expression(_horner([(n, layout.sizes[n]) for n in byte]), layout.names)})"
        condition = "kBits == 8 && kSize_" + " * kSize_".join(byte) + " == 4"
        rule = "an operand select takes a byte of a dword: a lane holds 4 elements of 8 bits"
        lines += checked_function("int", "select", [f"int {n}" for n in byte], value, {condition: rule}, INDENT)
    return tuple(lines)


def _checked(
    layout: Spelled, kind: str, name: str, parameters: list[str], value: str, digits: tuple[str, ...]
) -> tuple[str, ...]:
    """Return a function over digits whose steps must be whole bytes, asserted where they may not be."""
    rules = {}
    for digit in digits:
        stride = layout.stride(digit)
        if may_part_bytes(layout, stride):
            even = "" if isinstance(stride, Num) else f" || {expression(stride, layout.names)} % 2 == 0"
            rules[f"kBits != 4{even}"] = f"{layout.plan.model.name}: a step of {digit} is whole bytes"
    return checked_function(kind, name, parameters, value, rules, INDENT)


def _horner(digits: list[tuple[str, Term]]) -> Term:
    """Return the mixed-radix number of digits, slowest first."""
    result: Term = Var(digits[0][0])
    for name, size in digits[1:]:
        result = Op("+", Op("*", result, size), Var(name))
    return result


def lane_number(layout: Spelled) -> str:
    """Return how a lane's number is made of its digits."""
    return expression(_horner([(name, layout.sizes[name]) for name in layout.group("lane")]), layout.names)


def _lane(layout: Spelled) -> str:
    """Return the byte offset of lane l; only a pitch among the lanes needs their digits apart."""
    lane = layout.group("lane")
    pitched = {name for name, _ in layout.plan.model.template.pitches}
    if not pitched:
        return "l * kLaneBytes"
    if not pitched & set(lane[:-1]):
        return f"l * kStep_{lane[-1]}"
    parts = []
    for index, name in enumerate(lane):
        weight = flat_product([layout.sizes[n] for n in lane[index + 1 :]])
        value: Term = Var("l") if weight == Num(1) else Op("/", Var("l"), weight)
        value = value if index == 0 else Op("%", value, layout.sizes[name])
        parts.append(f"{expression(value, layout.names)} * kStep_{name}")
    return " + ".join(parts)


def has_select(plan: LayoutPlan) -> bool:
    """Return whether a lane's byte group makes four elements of 8 bits, in order and without gaps."""
    template = plan.model.template
    byte = next((g.digits for g in template.store if g.label == "byte"), ())
    sizes = {f.name: f.size for axis in template.axes for f in axis.factors}
    if not byte or 8 not in plan.model.widths or {name for name, _ in template.pitches} & set(byte):
        return False
    if any(sizes[name] is None for name in byte):
        return False
    return prod(size.at(8) for name in byte if (size := sizes[name]) is not None) == 4


def _sampled(name: str, sample: Sample) -> tuple[str, ...]:
    """Return the assertion that an element lies where the algebra puts it."""
    extents = ", ".join(literal(n) for n in (*sample.extents, sample.bits))
    at = ", ".join(literal(c) for c in sample.coordinates)
    place = f"{name}<{extents}>::offset({at})"
    if sample.nibble is None:
        return sampled(f"{place} == {literal(sample.byte)}", 0)
    return sampled(f"{place} == detail::Nibble<int>{{{literal(sample.byte)}, {sample.nibble}}}", 0)
