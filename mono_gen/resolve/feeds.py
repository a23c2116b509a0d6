"""`feeds INSTRUCTION.OPERAND`: what a lane's bytes hold, proved to be what a matrix instruction takes, or refused."""

from __future__ import annotations

from mono_gen.archs import ArchFacts
from mono_gen.formats import Element
from mono_gen.model import FeedsModel, LayoutModel
from mono_gen.operands import OperandRow, by_instruction
from mono_gen.resolve.feeding import Fault, Taken, fault_of
from mono_gen.resolve.places import place
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span


def check_feeds(clause: nodes.Feeds, model: LayoutModel, arch: ArchFacts | None, report: Report) -> FeedsModel | None:
    """Return what the layout feeds, and for which element types; None after reporting why it does not."""
    name, operand = clause.instruction.text, clause.operand.text
    known = by_instruction()
    if name not in known:
        note = "what an instruction takes is a row of the table of operand maps; without one it would be a guess"
        _unknown(clause.instruction, f"`{name}` is no instruction that mono-gen knows", note, tuple(known), report)
        return None
    rows = known[name]
    operands = ("a", "b", "a_scale", "b_scale") if rows[0].scale is not None else ("a", "b")
    if operand not in operands:
        note = "" if rows[0].scale is not None else "it takes no scales"
        _unknown(clause.operand, f"`{operand}` is no operand of {name}", note, operands, report)
        return None
    if not _has_instruction(clause.span, name, arch, "", report):
        return None
    shape = _shape_fault(model)
    if shape is not None:
        why, help = shape
        report.error("feeds", clause.span, f"{why}", label="what does a lane hold?", help=help)
        return None
    found = [(taken, fault_of(taken, model)) for taken in _takes(rows, operand.endswith("_scale"))]
    proved = tuple(taken.elements for taken, fault in found if fault is None)
    if proved:
        return FeedsModel(name, operand, proved, place(clause.span))
    faults = [fault for _, fault in found if fault is not None]
    _refuse(clause, sorted(faults, key=lambda f: (f.help.startswith("`store"), f.agreed), reverse=True), report)
    return None


def check_field_feeds(
    span: Span, layout: LayoutModel, element: Element, arch: ArchFacts | None, report: Report
) -> None:
    """Report a field whose layout feeds an instruction with other elements than the field's, or one the arch lacks."""
    kind = element.name.partition("_")[0]
    for feeds in layout.feeds:
        operand = f"{feeds.instruction}.{feeds.operand}"
        there = f"the clause stands at {feeds.place}"
        if not _has_instruction(span, feeds.instruction, arch, there, report):
            return
        if kind not in feeds.elements:
            known = {row.elements for rows in by_instruction().values() for row in rows}
            report.error(
                "feeds-elements",
                span,
                f"layout {layout.name} feeds {operand} for {' and '.join(feeds.elements)}, not for {kind}",
                label=f"laid out for {' and '.join(feeds.elements)}",
                notes=(there,),
                effect=f"a lane would hand over {kind} of other coordinates than the instruction multiplies",
                help=(f"use a layout that feeds it for {kind}, or one" if kind in known else "use a layout")
                + " without the clause",
            )
            return


def _unknown(name: nodes.Name, message: str, note: str, known: tuple[str, ...], report: Report) -> None:
    report.error(
        "unknown-name",
        name.span,
        message,
        label="unknown",
        notes=(note,) if note else (),
        help=report.near(name.text, known),
    )


def _has_instruction(span: Span, name: str, arch: ArchFacts | None, note: str, report: Report) -> bool:
    """Return whether the arch has the instruction, after reporting one that has not; a library has no arch."""
    archs = by_instruction()[name][0].archs
    if arch is None or arch.name in archs:
        return True
    others = sorted({n for n, rows in by_instruction().items() if arch.name in rows[0].archs})
    report.error(
        "feeds-arch",
        span,
        f"{arch.name} has no {name}: it is an instruction of {' and '.join(archs)}",
        label=f"not on {arch.name}",
        notes=(note,) if note else (),
        help=f"{arch.name} has {', '.join(others)}" if others else f"leave the clause out for {arch.name}",
    )
    return False


def _takes(rows: tuple[OperandRow, ...], is_scale: bool) -> tuple[Taken, ...]:
    """Return what an operand takes, one for each element type; scales are e8m0, whatever they scale."""
    if is_scale:
        return tuple(Taken("e8m0", 8, r.scale, True, r.confirmed) for r in rows[:1] if r.scale is not None)
    return tuple(Taken(r.elements, r.bits, r.data, False, r.confirmed) for r in rows)


def _shape_fault(model: LayoutModel) -> tuple[str, str] | None:
    """Return why the layout says nothing of lanes, and what to do; None where it does."""
    template = model.template
    if len(model.axes) != 2:
        return (
            f"layout {model.name} has {len(model.axes)} axes ({', '.join(model.axes)}), and an operand two",
            "leave leading axes to the field's batch dims; the operand's k is the axis `k`, or else the last one",
        )
    if not template.store[0].label:
        return "the store order names no lanes and bytes", "write `store tile ... | lane ... | byte ...`"
    sizes = {f.name: f.size for axis in template.axes for f in axis.factors}
    free = [d for group in template.store if group.label == "byte" for d in group.digits if sizes[d] is None]
    if free:
        return f"`{free[0]}` has no size, so that a lane's bytes cannot be counted", f"give `{free[0]}` a size"
    return None


def _refuse(clause: nodes.Feeds, faults: list[Fault], report: Report) -> None:
    """Report why the layout feeds the operand with no element type, the one that it comes nearest to first."""
    fault, *others = faults
    taken = fault.taken
    notes = [f"source of the map: {taken.held.source}; {_confirmation(taken)}"]
    notes += [f"with {other.taken.elements}: {other.why}" for other in others]
    if fault.is_order and not taken.is_scale:
        notes.append(
            "another order of k cancels where A and B are read alike (then leave the clause out); scales do not"
        )
    report.error(
        "feeds",
        clause.span,
        f"`store` does not feed {clause.instruction.text}.{clause.operand.text} with {taken.elements}: {fault.why}",
        label="not what the instruction takes",
        notes=tuple(notes),
        effect=fault.effect,
        help=fault.help,
    )


def _confirmation(taken: Taken) -> str:
    return f"confirmed on {taken.confirmed}" if taken.confirmed else "not confirmed on hardware"
