"""Segments: named ranges that fill an axis, of data and of scale, padded each or not."""

from __future__ import annotations

from dataclasses import dataclass

from mono_gen.algebra.monomial import Size
from mono_gen.algebra.template import Template, padded_extent
from mono_gen.diagnostics.model import Label
from mono_gen.formats import Format
from mono_gen.model import AxisExtent, LayoutModel, Segment
from mono_gen.resolve.integers import Scope, extent
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """The segments of one tensor: on which dim, which ranges; no segments where `axis` is -1."""

    axis: int = -1
    segments: tuple[Segment, ...] = ()
    pad_each: bool = False


def plan_segments(
    clause: nodes.FieldClause | None,
    form: Format,
    extents: tuple[AxisExtent, ...],
    layout: LayoutModel | None,
    scope: Scope,
    report: Report,
) -> SegmentPlan | None:
    """Return the data tensor's segments, or None after reporting that they do not fill the axis or cut a block."""
    if clause is None:
        return SegmentPlan()
    assert isinstance(clause, nodes.Segments), "clauses are looked up by type"
    names = layout.axes if layout is not None else (("row", "k") if len(extents) > 1 else ("row",))
    if clause.axis.text not in names:
        report.error(
            "unknown-name",
            clause.axis.span,
            f"`{clause.axis.text}` is no axis of this field",
            label="unknown",
            help=report.near(clause.axis.text, names),
        )
        return None
    axis = len(extents) - len(names) + names.index(clause.axis.text)
    whole = extents[axis]
    lengths = _lengths(clause, scope, report)
    if lengths is None:
        return None
    if isinstance(whole, str):
        report.error(
            "segments-fill",
            clause.axis.span,
            f"axis `{clause.axis.text}` is run-time dim `{whole}`, which segments of fixed length cannot fill",
            label="not of a fixed length",
            help="leave the segments out, or make the axis a number",
        )
        return None
    total = sum(lengths)
    if total != whole:
        sums = " + ".join(str(n) for n in lengths) if len(lengths) <= 8 else f"{len(lengths)} lengths"
        report.error(
            "segments-fill",
            clause.span,
            f"segments make {sums} = {total}, but axis `{clause.axis.text}` is {whole}",
            label=f"{abs(whole - total)} {'missing' if total < whole else 'too many'}",
            effect=f"{clause.axis.text} {min(total, whole)} would belong to "
            + ("no segment" if total < whole else "a segment but to no element"),
            help="segments fill the axis exactly",
        )
        return None
    unit = form.block or (2 if form.data.bits == 4 else 0)
    if axis == len(extents) - 1 and unit and not _whole_blocks(clause, lengths, unit, report):
        return None
    pad_to = layout.template.axes[names.index(clause.axis.text)].pad_to if layout is not None else None
    if clause.pad_each and pad_to is None:
        report.error(
            "pad-each",
            clause.span,
            f"`pad each` on axis `{clause.axis.text}`, which the layout does not pad",
            label="would have no effect",
            help="pad the axis in the layout, or leave `pad each` out",
        )
        return None
    multiple = _multiple(pad_to, form.data.bits) if clause.pad_each else 1
    return SegmentPlan(axis, _ranges(clause.parts, lengths, multiple), clause.pad_each)


def _multiple(pad_to: Size | None, bits: int) -> int:
    """Return the multiple of a pad in elements; 1 where the width is not legal, which is reported elsewhere."""
    return pad_to.at(bits) if pad_to is not None and pad_to.is_whole(bits) else 1


def _lengths(clause: nodes.Segments, scope: Scope, report: Report) -> list[int] | None:
    """Return the length of each segment."""
    seen: dict[str, Span] = {}
    lengths: list[int] = []
    for part in clause.parts:
        if part.name.text in seen:
            report.error(
                "duplicate-name",
                part.name.span,
                f"segment `{part.name.text}` is named twice",
                label="the second one",
                also=(Label(seen[part.name.text], "the first one"),),
                help="give every segment a name of its own",
            )
            return None
        seen[part.name.text] = part.name.span
        if part.size is None:
            report.error(
                "segments-fill",
                part.name.span,
                f"segment `{part.name.text}` has no length",
                label="how many elements?",
                help="write `name:LENGTH`",
            )
            return None
        length = extent(part.size, scope, report, f"segment {part.name.text}")
        if length is None:
            return None
        lengths.append(length)
    return lengths


def _whole_blocks(clause: nodes.Segments, lengths: list[int], unit: int, report: Report) -> bool:
    """Report a segment of the last axis that cuts a block of elements sharing a scale, or a byte of two elements."""
    shared = "scale" if unit > 2 else "byte"
    what = f"the scale's block of {unit}" if unit > 2 else "the 2 elements that share a byte"
    before = 0
    for part, length in zip(clause.parts, lengths, strict=True):
        if length % unit:
            report.error(
                "segment-cuts-block",
                part.span,
                f"segment `{part.name.text}` has {length} elements, no multiple of {what}",
                label=f"{length} % {unit} = {length % unit}",
                effect=f"{shared} {(before + length) // unit} of a row would serve the end of `{part.name.text}` and "
                "what follows",
                help=f"make segments multiples of {unit}",
            )
            return False
        before += length
    return True


def _ranges(parts: tuple[nodes.Part, ...], lengths: list[int], multiple: int) -> tuple[Segment, ...]:
    """Return the segments one after another, each rounded up to a multiple in storage."""
    begin = stored = 0
    result = []
    for part, length in zip(parts, lengths, strict=True):
        room = -(-length // multiple) * multiple
        result.append(Segment(part.name.text, begin, begin + length, stored, stored + room))
        begin, stored = begin + length, stored + room
    return tuple(result)


def scale_segments(
    plan: SegmentPlan, form: Format, rank: int, scale: LayoutModel | None, report: Report, item: nodes.Field
) -> SegmentPlan:
    """Return the scale's segments: the data's rows as they are, the data's last axis in blocks."""
    if plan.axis < 0:
        return plan
    last = plan.axis == rank - 1
    if last and form.block == 0:
        return SegmentPlan()
    per = form.block if last else 1
    lengths = [(s.end - s.begin) // per for s in plan.segments]
    multiple = 1
    if plan.pad_each:
        scale_rank = rank if form.block else rank - 1
        index = plan.axis - (scale_rank - (len(scale.axes) if scale is not None else scale_rank))
        pad_to = scale.template.axes[index].pad_to if scale is not None and index >= 0 else None
        if pad_to is None:
            report.error(
                "pad-each",
                item.names[-1].span,
                f"`pad each` pads the segments of {item.names[0].text}, but the scale's layout does not pad that axis",
                label="segments of the scale would not move",
                help="give the scale a layout that pads the axis",
            )
            return SegmentPlan()
        multiple = _multiple(pad_to, form.scale.bits if form.scale is not None else 8)
    begin = stored = 0
    result = []
    for segment, length in zip(plan.segments, lengths, strict=True):
        room = -(-length // multiple) * multiple
        result.append(Segment(segment.name, begin, begin + length, stored, stored + room))
        begin, stored = begin + length, stored + room
    return SegmentPlan(plan.axis, tuple(result), plan.pad_each)


def padded_axis(
    plan: SegmentPlan, batch: int, inner: tuple[int, ...], template: Template, bits: int
) -> tuple[int, ...] | None:
    """Return the padded extents where segments are padded each; None where the layout's own padding is all."""
    if not plan.pad_each:
        return None
    padded = [padded_extent(axis, n, bits) for axis, n in zip(template.axes, inner, strict=True)]
    padded[plan.axis - batch] = plan.segments[-1].padded_end
    return tuple(padded)
