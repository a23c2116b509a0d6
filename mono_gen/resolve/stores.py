"""The store order of a layout: its groups, and what keeps it from storing every digit exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from mono_gen.algebra.template import Factor, StoreFaults, StoreGroup, Template
from mono_gen.diagnostics.model import Label
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes

GROUPS = ("tile", "lane", "byte")


def groups_of(item: nodes.Layout, store: nodes.Store | None, report: Report) -> tuple[StoreGroup, ...] | None:
    """Return the store groups, checked for names and order; None after an error."""
    if store is None:
        report.error(
            "store-missing",
            item.name.span,
            f"layout {item.name.text} has no `store`",
            label="in which order do its digits lie?",
            help="write `store` and the digits, slowest first",
        )
        return None
    bare = [g for g in store.groups if g.label is None]
    if len(store.groups) > 1 and bare:
        report.error(
            "bars-without-names",
            bare[0].span,
            "a store order with bars names every group",
            label="this group has no name",
            help="begin each group with `tile`, `lane` or `byte`, in that order, or leave the bars out",
        )
        return None
    labels = [g.label.text for g in store.groups if g.label is not None]
    if labels != [g for g in GROUPS if g in labels]:
        report.error(
            "group-order",
            store.span,
            f"the groups are {', '.join(labels)}; they stand in the order tile, lane, byte, each at most once",
            label="slowest first",
            effect="a kernel would take the digits of one group for those of another",
            help=f"write {' | '.join(f'`{g} ...`' for g in GROUPS if g in labels)}",
        )
        return None
    for group in store.groups:
        if not group.digits:
            report.error(
                "empty-group",
                group.span,
                "a store group has no digits",
                label="nothing after the name",
                help="leave the group out, with its bar",
            )
            return None
    return tuple(StoreGroup(g.label.text if g.label else "", tuple(d.text for d in g.digits)) for g in store.groups)


def report_faults(
    item: nodes.Layout,
    splits: Mapping[str, nodes.Split],
    store: nodes.Store,
    template: Template,
    faults: StoreFaults,
    report: Report,
) -> None:
    """Report digits unknown, stored twice or left out, each mistake once, with coordinates or a byte that shows it."""
    written = [d for g in store.groups for d in g.digits]
    missing = list(faults.missing)
    also: tuple[Label, ...]
    for name in faults.unknown:
        first = next(d for d in written if d.text == name)
        if name in splits:
            leaves = _leaves(name, splits)
            missing = [m for m in missing if m not in leaves]
            message, help = f"`{name}` is split into {', '.join(leaves)}", "store those digits"
            also = (Label(splits[name].span, "split here"),)
        else:
            known = [f.name for axis in template.axes for f in axis.factors]
            meant = get_close_matches(name, missing, 1, 0) if missing else []
            missing = [m for m in missing if m not in meant]
            message = f"`{name}` is no digit of layout {item.name.text}"
            help = f"did you mean `{meant[0]}`, which is not stored?" if meant else report.near(name, known)
            also = ()
        report.error("unknown-name", first.span, message, label="no digit", also=also, help=help)
    for name in faults.repeated:
        if name in faults.unknown:
            continue
        places = [d for d in written if d.text == name]
        other = missing.pop(0) if missing else ""
        report.error(
            "digit-twice",
            places[1].span,
            f"digit `{name}` is stored twice" + (f", and `{other}` is not stored" if other else ""),
            label="again here",
            also=(Label(places[0].span, "first here"),),
            effect=_collision(template, other) if other else _hole(template, name),
            help=f"write `{other}` in one of the two places" if other else "store every digit exactly once",
        )
    parts = {p.name.text: p.name for s in splits.values() for p in s.parts}
    for name in missing:
        here = parts.get(name)
        report.error(
            "digit-dropped",
            store.span,
            f"digit `{name}` is not stored",
            label=f"`{name}` is missing here",
            also=(Label(here.span, "split off here"),) if here else (),
            effect=_collision(template, name),
            help=f"write `{name}` once in the store order",
        )


def _leaves(name: str, splits: Mapping[str, nodes.Split]) -> list[str]:
    """Return the digits that a split name is made of, slowest first."""
    leaves: list[str] = []
    waiting = [name]
    while waiting:
        digit = waiting.pop()
        if digit in splits:
            waiting.extend(p.name.text for p in reversed(splits[digit].parts))
        else:
            leaves.append(digit)
    return leaves


def _collision(template: Template, dropped: str) -> str:
    """Return two coordinates that share a byte when a digit is left out of the store order."""
    for index, axis in enumerate(template.axes):
        for factor in axis.factors:
            if factor.name == dropped and _steps(factor) > 1:
                weight = 1
                for faster in axis.factors[axis.factors.index(factor) + 1 :]:
                    weight *= _steps(faster)
                zero = ", ".join(f"{a.name} 0" for a in template.axes)
                other = ", ".join(f"{a.name} {weight if i == index else 0}" for i, a in enumerate(template.axes))
                return f"the elements at ({zero}) and ({other}) would share byte 0"
    return ""


def _hole(template: Template, repeated: str) -> str:
    """Return an element of storage that nothing reaches when a digit is stored twice."""
    sizes = {f.name: f for axis in template.axes for f in axis.factors}
    inside = 1
    for name in reversed(template.order):
        if name == repeated:
            break
        inside *= _steps(sizes[name]) if name in sizes else 1
    if _steps(sizes[repeated]) == 1:
        return ""
    return f"the digit would move by two strides at once: byte {inside} of fp8 storage would belong to no element"


def _steps(factor: Factor) -> int:
    """Return a digit's size for fp8, two for one that takes what is left."""
    return 2 if factor.size is None else factor.size.at(8)
