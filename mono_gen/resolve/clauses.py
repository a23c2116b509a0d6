"""The clauses of a layout by kind: each once, those that are not built yet refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from mono_gen.algebra.monomial import Size
from mono_gen.diagnostics.model import Label
from mono_gen.resolve.integers import Scope, bounded, integer
from mono_gen.resolve.report import Report
from mono_gen.resolve.sizes import size
from mono_gen.syntax import nodes
from mono_gen.syntax.source import Span


@dataclass(slots=True)
class Clauses:
    """A layout's clauses, as far as they could be understood; `sound` is False after one that could not."""

    pads: dict[str, Size] = field(default_factory=dict)
    pad_spans: dict[str, Span] = field(default_factory=dict)
    fill: int | None = None
    fill_span: Span | None = None
    splits: dict[str, nodes.Split] = field(default_factory=dict)
    store: nodes.Store | None = None
    pitches: dict[str, Size] = field(default_factory=dict)
    pitch_spans: dict[str, nodes.Pitch] = field(default_factory=dict)
    torch: nodes.SameAsTorch | None = None
    lane: nodes.SameAsLane | None = None
    feeds: list[nodes.Feeds] = field(default_factory=list)
    sound: bool = True


def collect(item: nodes.Layout, scope: Scope, report: Report) -> Clauses:
    """Return the clauses by kind; report those that stand twice, name unknown axes, or are not built yet."""
    found = Clauses()
    first: dict[str, Span] = {}
    for clause in item.clauses:
        word = _once(clause)
        if word and word in first:
            report.error(
                "clause-twice",
                clause.span,
                f"`{word}` stands twice in layout {item.name.text}",
                label="the second one",
                also=(Label(first[word], "the first one"),),
                help="keep one of them",
            )
            continue
        first[word] = clause.span
        match clause:
            case nodes.Pad():
                _pad(clause, {a.text for a in item.axes}, scope, found, report)
            case nodes.Split():
                found.splits[clause.axis.text] = clause
            case nodes.Store():
                found.store = clause
            case nodes.Pitch():
                _pitch(clause, scope, found, report)
            case nodes.SameAsTorch():
                found.torch = clause
            case nodes.SameAsLane():
                found.lane = clause
            case nodes.Swizzle():
                report.not_built(clause.span, "`swizzle`", "XOR swizzles are for LDS and come with the kernels")
            case nodes.Feeds():
                found.feeds.append(clause)
    return found


def _once(clause: nodes.LayoutClause) -> str:
    """Return what may stand once: the clause's word, for some with the digit that it is about; empty for `require`."""
    match clause:
        case nodes.Pad():
            return "pad"
        case nodes.Split(axis=axis):
            return f"split {axis.text}"
        case nodes.Store():
            return "store"
        case nodes.Pitch(digit=digit):
            return f"pitch {digit.text}"
        case nodes.SameAsTorch():
            return "same as torch"
        case nodes.SameAsLane():
            return "same as lane"
        case nodes.Feeds(instruction, operand):
            return f"feeds {instruction.text}.{operand.text}"
        case nodes.Swizzle() | nodes.Require():
            return ""


def _pitch(clause: nodes.Pitch, scope: Scope, found: Clauses, report: Report) -> None:
    """Take a digit's stride."""
    value = size(clause.stride, scope, report, f"the pitch of {clause.digit.text}")
    found.pitch_spans[clause.digit.text] = clause
    if value is None:
        found.sound = False
    else:
        found.pitches[clause.digit.text] = value


def _pad(clause: nodes.Pad, axes: set[str], scope: Scope, found: Clauses, report: Report) -> None:
    """Take the multiples and the fill of a pad clause."""
    seen: dict[str, Span] = {}
    for pad in clause.axes:
        name = pad.axis.text
        if name not in axes:
            report.error(
                "unknown-name",
                pad.axis.span,
                f"`{name}` is no axis of this layout",
                label="unknown",
                notes=("pads round an axis up, before it is split",),
                help=report.near(name, axes),
            )
            continue
        if name in seen:
            report.error(
                "clause-twice",
                pad.axis.span,
                f"axis `{name}` is padded twice",
                label="the second one",
                also=(Label(seen[name], "the first one"),),
                help="keep one of them",
            )
            continue
        seen[name] = pad.axis.span
        multiple = size(pad.multiple, scope, report, f"the multiple of {name}")
        if (
            multiple is None
            or bounded(multiple.value * 2 * 2 ** (3 * multiple.power), pad.multiple.span, report) is None
        ):
            found.sound = False
        else:
            found.pads[name], found.pad_spans[name] = multiple, pad.span
    _fill(clause, scope, found, report)


def _fill(clause: nodes.Pad, scope: Scope, found: Clauses, report: Report) -> None:
    """Take what pad elements hold."""
    match clause.fill:
        case None:
            axis = clause.axes[0]
            report.error(
                "fill-missing",
                clause.span,
                "`pad` has no fill, and fill has no default",
                label="what do the pad elements hold?",
                notes=("public kernels disagree: some need 0x00 there, some 0x7F, and 0xFF is NaN in e8m0",),
                effect=f"the element after the last {axis.axis.text} would hold what the allocator left, "
                "and a kernel would compute with it",
                help="end the clause with `fill 0x00` or `fill 0x7F`, as the kernel needs, or `fill undefined`",
            )
        case nodes.Undefined():
            found.fill = None
        case fill:
            value = integer(fill, scope, report)
            found.sound = found.sound and value is not None
            if value is not None and not 0 <= value < 2**63:
                report.error(
                    "bad-fill",
                    fill.span,
                    f"fill {value} is no bit pattern",
                    label="0 or more",
                    help="write the bits of one element, as in `fill 0x7F`",
                )
                return
            found.fill, found.fill_span = value, fill.span
