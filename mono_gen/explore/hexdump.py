"""Bytes of a tensor in lines, each with the elements that lie there."""

from __future__ import annotations

from math import prod

from mono_gen.algebra.layout import row_major
from mono_gen.explore.names import Found
from mono_gen.explore.runs import Run, run_text, runs_of
from mono_gen.explore.where import Spot, at_byte
from mono_gen.formats import Element, Format
from mono_gen.frozen import frozen
from mono_gen.model import Attribute, FieldModel, Place, SourceModel, SpecModel, StructModel, TensorModel, ViewModel
from mono_gen.plan.build import plan_field
from mono_gen.plan.model import SpecPlan, StructPlan

WIDTHS = (4, 8, 16, 32)
"""Bytes of a line: what a lane holds, where it is one of these."""


@frozen
class Line:
    """Bytes from `begin` on, and the elements that lie there.

    lane:      the lane whose bytes they are; None where a line is not a lane's.
    wrong_pads: bytes of pads that are not the fill.
    """

    begin: int
    data: bytes
    runs: tuple[Run, ...]
    lane: int | None
    wrong_pads: tuple[int, ...]


def line_width(found: Found) -> int:
    """Return the bytes of a line: what a lane holds, or 16."""
    model = found.tensor.model
    if model.layout is not None:
        groups = {group.label: group.digits for group in model.layout.template.store}
        if "lane" in groups and "byte" in groups:
            sizes = {digit.name: digit.size for digit in model.bound.digits}
            bits = prod(sizes[name] for name in groups["byte"]) * model.element.bits
            if bits % 8 == 0 and bits // 8 in WIDTHS and bits >= 8 * max(1, model.element.bits // 8):
                return bits // 8
    return 16


def line_of(found: Found, begin: int, data: bytes) -> Line:
    """Return a line of a tensor's bytes.

    Requires: `begin` is the first byte of an element; the tensor has the bytes.
    """
    model = found.tensor.model
    step = max(1, model.element.bits // 8)
    spots: list[Spot] = [s for byte in range(begin, begin + len(data), step) for s in at_byte(found, byte)]
    lanes = {group.index for s in spots if (group := s.group("lane")) is not None}
    wrong = _wrong_pads(model, spots, begin, data)
    return Line(begin, data, runs_of(spots), lanes.pop() if len(lanes) == 1 else None, wrong)


def line_text(found: Found, line: Line, width: int, marked: int | None) -> str:
    """Return a line as text: offset, bytes, lane, elements. The marked byte has a `>` before it."""
    cells = [f"{'>' if line.begin + i == marked else ' '}{byte:02x}" for i, byte in enumerate(line.data)]
    lane = f"lane {line.lane:<3}" if line.lane is not None else ""
    told = " | ".join(run_text(found.tensor.model, run) for run in line.runs)
    wrong = f"   ! pads that are not {found.tensor.model.bound.fill:#04x}" if line.wrong_pads else ""
    return f"{line.begin:10x} {''.join(cells):{3 * width}}  {lane:{8 if lane else 0}} {told}{wrong}".rstrip() + "\n"


def unspecified(name: str, dtype: str, bits: int, shape: tuple[int, ...]) -> Found:
    """Return a tensor of which no spec says anything, in torch's own order: its axes are d0, d1, ...

    Requires: every extent is at least 1.
    """
    extents = shape or (1,)
    axes = tuple(f"d{i}" for i in range(len(extents)))
    batch = max(0, len(extents) - 2)
    element, place = Element(dtype, bits, ()), Place(name, 0)
    tensor = TensorModel(name, element, extents, batch, axes, None, row_major(extents[batch:]), -1, (), False)
    source = SourceModel(Attribute(name, ()), None, place)
    field = FieldModel(Format(dtype, element), (tensor,), ViewModel((source,), place), None, None, "", "", place)
    plan = plan_field(field)
    struct = StructModel(name, (), "", (), (), (), (field,), (), (), frozenset((name,)), "", place)
    spec = SpecModel(name, name, None, "", (), (), (struct,))
    whole = StructPlan(struct, 0, (plan,), (), frozenset((name,)))
    return Found(SpecPlan(spec, "", (), (), (whole,)), whole, plan, 0)


def _wrong_pads(model: TensorModel, spots: list[Spot], begin: int, data: bytes) -> tuple[int, ...]:
    """Return the bytes of pads, of the spots of one line, that are not the fill; none where it is undefined."""
    fill, bits = model.bound.fill, model.element.bits
    if fill is None:
        return ()
    wrong = []
    for spot in spots:
        if spot.is_pad and spot.stored is not None:
            at, width = spot.byte - begin, max(1, bits // 8)
            value = int.from_bytes(data[at : at + width], "little")
            value = value >> (bits * (spot.nibble or 0)) & ((1 << bits) - 1)
            if value != fill:
                wrong.append(spot.byte)
    return tuple(dict.fromkeys(wrong))
