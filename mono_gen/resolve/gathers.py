"""`gather SEGMENT over GROUP`: what ranks bring together, and of how many where the spec says so."""

from __future__ import annotations

from mono_gen.model import ConvertModel, FieldModel, GatherModel, TensorModel, ViewModel
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes


def gather_of(
    clause: nodes.FieldClause | None,
    origin: ViewModel | ConvertModel,
    data: TensorModel,
    args: tuple[str, ...],
    base: FieldModel | None,
    report: Report,
) -> GatherModel | None:
    """Return what ranks gather, and of how many ranks where the overridden field says so."""
    if clause is None:
        return None
    assert isinstance(clause, nodes.Gather), "clauses are looked up by type"
    group = clause.group.text
    if group not in args:
        report.error(
            "gather-no-group",
            clause.group.span,
            f"`{group}` is no argument of the struct, so no process group reaches the loader",
            label="unknown group",
            help=f"add it to the struct's arguments: `({', '.join((*args, group))})`",
        )
        return None
    if isinstance(origin, ViewModel) or origin.order is not None or any(s.shape is not None for s in origin.sources):
        report.error(
            "gather-source",
            clause.span,
            "`gather` needs `convert` from a row_major source without `as`: slices are ranges of the source",
            label="nothing to gather into",
            help="write `convert FORMAT row_major PATHS`",
        )
        return None
    segment = next((s for s in data.segments if s.name == clause.segment.text), None)
    if segment is None:
        names = [s.name for s in data.segments]
        report.error(
            "unknown-name",
            clause.segment.span,
            f"`{clause.segment.text}` is no segment of this field",
            label="unknown",
            help=report.near(clause.segment.text, names) or "name the ranges of the axis with `segments`",
        )
        return None
    slices = {s.name: s.end - s.begin for s in base.tensors[0].segments} if base is not None else {}
    length, own = segment.end - segment.begin, slices.get(segment.name)
    if own is None or base is None:
        return GatherModel(segment, group, None, place(clause.span))
    block = origin.format.block if data.segment_axis == len(data.extents) - 1 else 1
    if length % own or own % max(block, 1):
        per = own if length % own else block
        value, whole = (length, "the whole") if length % own else (own, "a rank's part")
        report.error(
            "gather-not-divisible",
            clause.segment.span,
            f"{whole} of segment `{segment.name}` is {value}, not a multiple of the {per} that "
            + ("a rank brings" if length % own else "share a scale"),
            label=f"{value} % {per} = {value % per}",
            notes=(f"a rank's own part is the segment of the overridden field, at {base.place}",),
            effect=f"element {value - value % per} of the segment would come from a part that is not whole",
            help=f"make the segment a multiple of {per}",
        )
        return None
    return GatherModel(segment, group, length // own, place(clause.span))
