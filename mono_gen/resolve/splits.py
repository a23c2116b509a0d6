"""The digits of a layout's axes: splits, and splits of digits, taken apart."""

from __future__ import annotations

from collections.abc import Mapping

from mono_gen.algebra.monomial import ONE, Size
from mono_gen.algebra.template import Factor
from mono_gen.diagnostics.model import Label
from mono_gen.resolve.integers import Scope
from mono_gen.resolve.names import check_member_name
from mono_gen.resolve.report import Report
from mono_gen.resolve.sizes import size
from mono_gen.syntax import nodes

Splits = Mapping[str, nodes.Split]


def factors_of(item: nodes.Layout, splits: Splits, scope: Scope, report: Report) -> dict[str, list[Factor]] | None:
    """Return each axis' digits, slowest first, splits of splits taken apart; None after an error."""
    before = len(report.found)
    _check_names(item, splits, report)
    if len(report.found) > before:
        return None
    result: dict[str, list[Factor]] = {}
    seen: set[str] = set()
    for axis in item.axes:
        leaves = _leaves(axis.text, splits, scope, seen, report)
        if leaves is not None:
            result[axis.text] = leaves
    unreached = [split for name, split in splits.items() if name not in seen]
    if unreached and len(result) == len(item.axes):
        report.error(
            "unknown-name",
            unreached[0].axis.span,
            f"`{unreached[0].axis.text}` is a digit of no axis: its splits only name each other",
            label="no axis is split into it",
            help=f"begin with an axis: {', '.join(a.text for a in item.axes)}",
        )
        return None
    return result if len(result) == len(item.axes) and len(report.found) == before else None


def _check_names(item: nodes.Layout, splits: Splits, report: Report) -> None:
    """Report digits that have a name twice, and splits of what is neither axis nor digit."""
    names: dict[str, nodes.Name] = {a.text: a for a in item.axes}
    for split in splits.values():
        for part in split.parts:
            if part.name.text in names:
                report.error(
                    "duplicate-name",
                    part.name.span,
                    f"`{part.name.text}` names two digits or axes of one layout",
                    label="the second one",
                    also=(Label(names[part.name.text].span, "the first one"),),
                    help="give every digit a name of its own",
                )
            else:
                names[part.name.text] = part.name
            check_member_name(part.name, "a digit", report)
    for name, split in splits.items():
        if name not in names:
            report.error(
                "unknown-name",
                split.axis.span,
                f"`{name}` is no axis or digit of this layout",
                label="unknown",
                help=report.near(name, names),
            )


def _leaves(axis: str, splits: Splits, scope: Scope, seen: set[str], report: Report) -> list[Factor] | None:
    """Return the digits of an axis: those of its split, each taken apart again where it is split itself."""
    leaves: list[Factor] = []
    waiting: list[tuple[str, Size | None]] = [(axis, None)]
    sound = True
    while waiting:
        name, whole = waiting.pop()
        split = splits.get(name)
        if split is None:
            leaves.append(Factor(name, whole))
            continue
        seen.add(name)
        parts = _parts(split, whole, scope, report)
        if parts is None:
            sound = False
            parts = [(part.name.text, None) for part in split.parts if part.name.text in splits]
        waiting.extend(reversed(parts))
    return leaves if sound else None


def _parts(
    split: nodes.Split, whole: Size | None, scope: Scope, report: Report
) -> list[tuple[str, Size | None]] | None:
    """Return the parts of a split with their sizes; of a sized digit, the unsized part takes what is left."""
    sizes: list[tuple[str, Size | None]] = []
    unsized = [part for part in split.parts if part.size is None]
    known = ONE
    sound = True
    for part in split.parts:
        value = None if part.size is None else size(part.size, scope, report, f"the size of {part.name.text}")
        sound = sound and (part.size is None or value is not None)
        known = known * value if value is not None else known
        sizes.append((part.name.text, value))
    if len(unsized) > 1:
        report.error(
            "two-unsized",
            unsized[1].name.span,
            f"`{unsized[0].name.text}` and `{unsized[1].name.text}` both have no size: only one digit of "
            f"`{split.axis.text}` can take what is left",
            label="a second digit without a size",
            also=(Label(unsized[0].name.span, "the first"),),
            effect=f"12 that are left of {split.axis.text} could be 2 * 6, 3 * 4, 4 * 3 or 6 * 2: its element 7 would "
            f"be ({unsized[0].name.text} 1, {unsized[1].name.text} 1) or ({unsized[0].name.text} 1, "
            f"{unsized[1].name.text} 3)",
            help=f"give one of them a size, as in `{unsized[1].name.text}:16`",
        )
        return None
    if not sound:
        return None
    if whole is None:
        return sizes
    left = whole.divided_by(known)
    if left is None or (not unsized and left != ONE):
        made = f"{known}" if unsized or len(split.parts) == 1 else " * ".join(str(s) for _, s in sizes) + f" = {known}"
        report.error(
            "size-does-not-divide",
            split.span,
            f"`{split.axis.text}` has {whole} elements, and its digits make {made}",
            label=f"{whole} is {'not a multiple of' if unsized else 'not'} {known}",
            effect=_beyond(split, whole, known, bool(unsized)),
            help=f"choose sizes whose product {'divides' if unsized else 'is'} {whole}",
        )
        return None
    return [(name, left if value is None else value) for name, value in sizes]


def _beyond(split: nodes.Split, whole: Size, known: Size, left_over: bool) -> str:
    """Return a coordinate that only the digit has, or only its own digits; nothing where bytes meet elements."""
    if whole.power != known.power:
        return ""
    if left_over and known.value < whole.value:
        at = whole.value - whole.value % known.value
    else:
        at = min(whole.value, known.value)
    who = "no digits" if at < whole.value else "digits, but no element"
    return f"{split.axis.text} {at} would have {who}"
