"""What could have stood where the parser stopped, in words of the language."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedToken
from lark.lexer import PatternStr
from lark.parsers.lalr_interactive_parser import InteractiveParser

_ROLES = {
    "spec_name": "the spec's name",
    "arch_name": "an arch",
    "const_name": "a constant's name",
    "param_name": "a param's name",
    "layout_name": "the layout's name",
    "record_name": "the record's name",
    "struct_name": "the struct's name",
    "base_name": "the struct that it extends",
    "argument": "an argument's name",
    "axis": "an axis name",
    "digit": "a digit name",
    "instruction": "an instruction",
    "operand": "an operand",
    "let_name": "a name for the path",
    "dim_name": "a dim's name",
    "optional_name": "a name for the optional part",
    "args_name": "the table's name",
    "arg_member": "a field's name",
    "field_name": "a field's name",
    "format": "a format",
    "layout_used": "a layout's name",
    "order": "the source's order (a layout's name)",
    "segment": "a segment's name",
    "group_used": "a group",
    "path_root": "a path",
    "attribute": "an attribute's name",
}

# Terminals that are said in one word where all of them may stand.
_CLASSES = (
    ({"INT", "BYTES", "LPAR", "NAME", "MINUS"}, "an expression"),
    ({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}, "an operator"),
    ({"REQUIRE", "PAD", "SPLIT", "STORE", "PITCH", "SWIZZLE", "SAME", "FEEDS"}, "the next clause of the layout"),
    ({"LET", "REQUIRE", "DIM", "OPTIONAL", "ARGS", "NAME"}, "the next member of the struct"),
    ({"TILE", "SCALE", "SEGMENTS", "CONVERT", "VIEW", "ATTEST", "GATHER"}, "the next clause of the field"),
)

_WORDS = {"COMPARISON": "a comparison", "STRING": 'a file name in quotes (`"x.layout"`)', "$END": "the next item"}


def acceptable(at: InteractiveParser) -> set[str]:
    """Return the names of the terminals that the parser would take next."""
    accepted: set[str] = at.accepts()  # type: ignore[no-untyped-call]
    return accepted


def after(at: InteractiveParser, terminal: str) -> InteractiveParser | None:
    """Return a copy of the parser that took one more terminal, or None where it refuses it. Builds no nodes."""
    moved: InteractiveParser = at.copy(deepcopy_values=False)  # type: ignore[no-untyped-call]
    conf = copy(moved.parser_state.parse_conf)
    conf.callbacks = {}
    moved.parser_state.parse_conf = conf
    try:
        moved.feed_token(Token(terminal, ""))
    except UnexpectedToken:
        return None
    return moved


def expectation(lark: Lark, at: InteractiveParser) -> list[str]:
    """Return what may stand next, most telling first, each in words ("a digit name", "`|`")."""
    left = acceptable(at)
    words: list[str] = []
    for terminals, word in _CLASSES:
        if terminals <= left and not ("NAME" in terminals and word in words):
            words.append(word)
            left -= terminals
    if "NAME" in left:
        words[:0] = _name_roles(at)
    left -= {"NAME"}
    if len(left) > 1 or words:
        left -= {"DOT"}
    words += sorted(_terminal(lark, name) for name in left)
    return words


def keywords(lark: Lark, at: InteractiveParser) -> list[str]:
    """Return the words of the language that may stand next."""
    values = (lark.get_terminal(name).pattern for name in acceptable(at) if name != "$END")
    return sorted(p.value for p in values if isinstance(p, PatternStr) and p.value.isalpha())


def _name_roles(at: InteractiveParser) -> list[str]:
    moved = after(at, "NAME")
    if moved is None:
        return []
    actions: Iterable[tuple[Any, Any]] = moved.choices().values()  # type: ignore[no-untyped-call]
    rules = {argument.origin.name for _, argument in actions if hasattr(argument, "origin")}
    return sorted(_ROLES[rule] for rule in rules if rule in _ROLES)


def _terminal(lark: Lark, name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    pattern = lark.get_terminal(name).pattern
    return f"`{pattern.value}`" if isinstance(pattern, PatternStr) else name.lower()


def one_of(words: list[str]) -> str:
    """Return "a", "a or b", "a, b or c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
