"""Names that no name may be: every `Name` of a tree, walked once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from mono_gen.diagnostics.model import Diagnostic
from mono_gen.frozen import Frozen
from mono_gen.syntax import nodes as n
from mono_gen.syntax.words import is_reserved


def reserved_names(items: Iterable[n.Item]) -> list[Diagnostic]:
    """Return one diagnostic for each reserved word used as a name, at its first use."""
    found: dict[str, Diagnostic] = {}
    for item in items:
        for name in names_in(item):
            owner = is_reserved(name.text)
            if owner is None or (name.text in found and _starts_before(found[name.text], name)):
                continue
            found[name.text] = Diagnostic(
                "reserved-word",
                name.span,
                f"`{name.text}` cannot be a name: it is reserved by {owner}",
                "a name is wanted here",
                notes=("a reserved word may stand only after a dot in a path",),
                help=f"choose another name, `{name.text.strip('_').replace('__', '_') or 'x'}_` for example",
            )
    return list(found.values())


def _starts_before(diagnostic: Diagnostic, name: n.Name) -> bool:
    return diagnostic.span is not None and diagnostic.span.start <= name.span.start


def names_in(item: n.Item) -> Iterator[n.Name]:
    """Return the names of an item that must be free: all but group labels and what follows a dot."""
    work: list[Any] = [item]
    while work:
        node = work.pop()
        match node:
            case n.Name():
                yield node
            case n.Path(names=names):
                yield names[0]
            case n.Group(digits=digits):
                work.extend(digits)
            case n.Feeds(instruction=instruction):
                yield instruction
            case tuple():
                work.extend(node)
            case Frozen():
                kind: Any = type(node)
                work.extend(getattr(node, part) for part in _parts(kind))
            case _:
                pass


@cache
def _parts(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in kind.__match_args__ if name not in ("span", "doc"))
