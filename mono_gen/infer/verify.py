"""The written text against the function: parsed and resolved as any spec, at shapes that inference never saw."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.monomial import NotWhole
from mono_gen.algebra.template import NotDivisible, bind
from mono_gen.diagnostics.model import SpecError
from mono_gen.diagnostics.render import render
from mono_gen.infer.errors import NotOneLayout, Shape, at_text, shape_text
from mono_gen.infer.probe import Probe, run
from mono_gen.infer.trace import nibbles, random_bytes
from mono_gen.model import LayoutModel
from mono_gen.resolve.report import Report
from mono_gen.resolve.specs import resolve_spec
from mono_gen.syntax.parse import parse
from mono_gen.syntax.read import decode_source
from mono_gen.terms import compare, evaluate

_CHUNK = 1 << 20
_POISON = 0xC3


def resolve_text(text: str) -> LayoutModel:
    """Return the one layout of a spec's text; a diagnostic is a bug, since the text is our own."""
    try:
        tree, problems = parse(decode_source(text.encode(), "imported.layout"))
    except SpecError as error:
        problems = error.diagnostics
    report = Report(list(problems))
    model = None if report.has_errors else resolve_spec(tree, (), {}, report).model
    if model is None or report.found or len(model.layouts) != 1:
        raise AssertionError(f"the text that import wrote is refused:\n{text}\n{render(report.found, 'full', False)}")
    return model.layouts[0]


def extents_of(probe: Probe, width: int, shape: Shape) -> Shape:
    """Return a torch shape in elements of this width."""
    return (*shape[:-1], shape[-1] * int(probe.dtype.itemsize) * 8 // width)


def bound(model: LayoutModel, extents: Shape, width: int) -> Layout | None:
    """Return the layout at these extents, without batch axes; None where it calls them illegal."""
    values = {"bits": width, **dict(zip(model.axes, extents, strict=True))}
    for rule in model.rules:
        left, right = evaluate(rule.condition.left, values), evaluate(rule.condition.right, values)
        if not compare(rule.condition.op, left, right):
            return None
    try:
        return bind(model.template, extents, width)
    except (NotDivisible, NotWhole):
        return None


def check(probe: Probe, model: LayoutModel, width: int, shape: Shape) -> bool:
    """Return whether the layout is legal at a shape, after every element and pad was found where it says.

    Raises: NotOneLayout, with the first element that is elsewhere; FunctionRaised.
    """
    extents = extents_of(probe, width, shape)
    batch = len(extents) - len(model.axes)
    layout = bound(model, extents[batch:], width)
    if layout is None:
        return False
    data = random_bytes(probe.bytes_of(shape), seed=7 + len(shape))
    made = _units(run(probe, shape, data, _POISON), width)
    given = _units(data, width)
    items = 1
    for extent in extents[:batch]:
        items *= extent
    where = f"at {shape_text(shape)}"
    if len(made) != items * layout.span:
        raise NotOneLayout(
            f"{where} the output has {_bytes(len(made), width)} bytes, where the layout found at other shapes makes "
            f"{_bytes(items * layout.span, width)}"
        )
    size = len(given) // items
    offsets = _offsets(layout)
    for item in range(items):
        mine, theirs = given[item * size :][:size], made[item * layout.span :][: layout.span]
        _check_item(mine, theirs, layout, offsets, where, width)
    return True


def _check_item(
    given: torch.Tensor, made: torch.Tensor, layout: Layout, offsets: list[torch.Tensor], where: str, width: int
) -> None:
    """Raise NotOneLayout for an element, or a pad, that is not where the layout has it."""
    is_pad = torch.ones(layout.span, dtype=torch.bool)
    inner = 1
    for extent in layout.extents[1:]:
        inner *= extent
    rows = max(1, _CHUNK // inner)
    for begin in range(0, layout.extents[0], rows):
        index = offsets[0][begin : begin + rows]
        for other in offsets[1:]:
            index = (index[:, None] + other[None, :]).flatten()
        wrong = (made[index] != given[begin * inner :][: len(index)]).any(dim=1)
        if wrong.any():
            position = begin * inner + int(wrong.nonzero()[0, 0])
            place = _bytes(int(index[position - begin * inner]), width)
            at = at_text(_coordinates(position, layout.extents))
            raise NotOneLayout(
                f"{where} element {at} is not at byte {place}, where the layout found at other shapes has it: the "
                "function has more than one order"
            )
        is_pad[index] = False
    if layout.fill is not None and is_pad.any():
        fill = torch.tensor([layout.fill >> (4 * i) & 15 for i in range(width // 4)], dtype=torch.uint8)
        expected = fill if width == 4 else fill[0::2] | (fill[1::2] << 4)
        wrong = is_pad & (made != expected).any(dim=1)
        if wrong.any():
            pad = _bytes(int(wrong.nonzero()[0, 0]), width)
            raise NotOneLayout(f"{where} the pad at byte {pad} is not 0x{layout.fill:02X}, as at other shapes")


def _units(data: torch.Tensor, width: int) -> torch.Tensor:
    """Return the bytes, or nibbles, of each element in a row."""
    return nibbles(data)[:, None] if width == 4 else data.view(-1, width // 8)


def _offsets(layout: Layout) -> list[torch.Tensor]:
    """Return what each coordinate of each axis adds to an element's offset."""
    found = []
    for axis, extent in enumerate(layout.extents):
        c = torch.arange(extent)
        total = torch.zeros(extent, dtype=torch.int64)
        for digit in layout.digits:
            if digit.axis == axis:
                total += c // digit.weight % digit.size * digit.stride
        found.append(total)
    return found


def _coordinates(position: int, extents: Iterable[int]) -> Shape:
    found = []
    for extent in reversed(tuple(extents)):
        position, c = divmod(position, extent)
        found.append(c)
    return tuple(reversed(found))


def _bytes(units: int, width: int) -> int:
    return units * width // 8
