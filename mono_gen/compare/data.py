"""A difference as JSON: every item, change, move, name and mention."""

from __future__ import annotations

import json
from typing import Any

from mono_gen.compare.model import Difference, Item, Move
from mono_gen.model import Place


def render_json(found: Difference) -> str:
    """Return the difference as JSON with these keys, all of them always there."""
    symbols = found.symbols
    return json.dumps(
        {
            "old": found.old,
            "new": found.new,
            "specs": found.specs,
            "classes": list(found.classes),
            "items": [_item(item) for item in found.items],
            "symbols": {"python": list(symbols.python), "cpp": list(symbols.cpp)},
            "kernels": None
            if found.kernels is None
            else {
                "folder": found.kernels.folder,
                "sources": found.kernels.sources,
                "mentions": [{"file": m.file, "line": m.line, "names": list(m.names)} for m in found.kernels.mentions],
            },
        },
        indent=2,
    )


def _item(item: Item) -> dict[str, Any]:
    return {
        "spec": item.spec,
        "kind": item.kind,
        "name": item.name,
        "old": _place(item.old),
        "new": _place(item.new),
        "changes": [{"class": c.kind, "text": c.text, "because": c.because or None} for c in item.changes],
        "moves": [{"tensor": name, **_move(move)} for name, move in item.moves],
        "symbols": {"python": list(item.symbols.python), "cpp": list(item.symbols.cpp)},
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    return {"file": place.file, "line": place.line} if place is not None else None


def _move(move: Move) -> dict[str, Any]:
    """Return a move; units stand in the names."""
    first = None
    if move.first_bit is not None:
        first = {"byte": move.first_bit // 8, "bit": move.first_bit % 8, "was": move.was, "now": move.now}
    return {
        "at": move.at,
        "elements": move.elements,
        "moved_elements": move.moved,
        "element_bits": move.bits,
        "granule_bits": move.granule_bits,
        "first": first,
        "old_bytes": move.sizes[0],
        "new_bytes": move.sizes[1],
        "refilled_bytes": move.refilled,
    }
