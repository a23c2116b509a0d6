"""Lark's parser for one item.

Building it from the grammar costs more than all else that `check` does, so that its tables are kept beside the grammar:
`python -m mono_gen.syntax.parser` makes them again. A table made from another grammar or by another Lark is never used.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLE = Path(__file__).with_name("grammar_table.json")


def build_parser(*, strict: bool) -> Lark:
    """Return a parser made from grammar.lark. `strict` also proves that no two terminals and no two rules collide."""
    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        start="item",
        strict=strict,
        propagate_positions=True,
        maybe_placeholders=True,
    )


@cache
def item_parser() -> Lark:
    """Return the parser for one item: from the table where it fits, else from the grammar."""
    return load_table() or build_parser(strict=False)


def table_text() -> str:
    """Return what grammar_table.json should hold."""
    data, memo = build_parser(strict=True).memo_serialize([TerminalDef, Rule])
    table = {"made_from": _made_from(), "data": data, "memo": memo}
    return json.dumps(table, default=sorted, separators=(",", ":"), sort_keys=True) + "\n"


def load_table() -> Lark | None:
    """Return the parser of grammar_table.json, or None where that is absent or made from something else."""
    try:
        text = TABLE.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    table = json.loads(text, object_hook=_with_integer_keys)
    if table["made_from"] != _made_from():
        return None
    return Lark.load({"data": table["data"], "memo": table["memo"]})


def _made_from() -> dict[str, str]:
    return {"grammar": blake2b(GRAMMAR.read_bytes(), digest_size=8).hexdigest(), "lark": lark.__version__}


def _with_integer_keys(entries: dict[str, Any]) -> dict[str | int, Any]:
    return {int(key) if key.isdecimal() else key: value for key, value in entries.items()}


if __name__ == "__main__":
    TABLE.write_text(table_text(), encoding="utf-8")
