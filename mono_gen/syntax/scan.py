"""Tokens, comments and item boundaries of a text, found before any grammar: what holds even where nothing parses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mono_gen.syntax.source import Source

ITEM_WORDS = frozenset({"spec", "arch", "import", "const", "param", "layout", "record", "struct"})
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {close: open_ for open_, close in OPENING.items()}

Kind = Literal["word", "number", "string", "symbol", "comment", "bad"]

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<comment>\#[^\r\n]*)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>[0-9][A-Za-z0-9_]*)
      | (?P<string>"[^"\r\n]*")
      | (?P<symbol>\^=|[=!<>]=|[][(){},:.=+\-*/%|<>])
      | (?P<bad>"[^"\r\n]*|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token, or a comment: characters `start` to `end` of the source.

    first_on_line: nothing but space stands before it on its line.
    depth:         brackets open before it, counted from the start of its item.
    """

    kind: Kind
    text: str
    start: int
    end: int
    line: int
    first_on_line: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Scan:
    """A text cut up: every token in order, the comments apart, and the places where items begin.

    starts: indices into `tokens`; what stands before the first is no item.
    """

    tokens: tuple[Lexeme, ...]
    comments: tuple[Lexeme, ...]
    starts: tuple[int, ...]


def scan(source: Source) -> Scan:
    """Return the tokens, comments and item boundaries of a text. Every character is space or in one of them."""
    tokens: list[Lexeme] = []
    comments: list[Lexeme] = []
    starts: list[int] = []
    line = 1
    depth = 0
    fresh = True
    for match in _TOKEN.finditer(source.text):
        kind: str = match.lastgroup or ""
        text = match.group()
        if kind == "space":
            newlines = text.count("\n")
            line += newlines
            fresh = fresh or newlines > 0
            continue
        if kind == "word" and text in ITEM_WORDS and _begins_item(tokens, depth, fresh):
            starts.append(len(tokens))
            depth = 0
        if text in CLOSING:
            depth = max(0, depth - 1)
        lexeme = Lexeme(kind, text, match.start(), match.end(), line, fresh, depth)  # type: ignore[arg-type]
        if text in OPENING:
            depth += 1
        (comments if kind == "comment" else tokens).append(lexeme)
        fresh = False
    return Scan(tuple(tokens), tuple(comments), tuple(starts))


def _begins_item(tokens: list[Lexeme], depth: int, first_on_line: bool) -> bool:
    """Return whether an item's keyword begins an item here.

    After a dot it is part of a path. Within a line it counts only where an item may have ended: between brackets, after
    an operator and after another item's keyword it is a name badly chosen, which is said better than two broken items.
    """
    if not tokens:
        return True
    before = tokens[-1]
    if before.text == ".":
        return False
    if first_on_line:
        return True
    if depth > 0 or before.text in ITEM_WORDS:
        return False
    return before.kind != "symbol" or before.text in CLOSING


def item_lexemes(scanned: Scan, index: int) -> tuple[Lexeme, ...]:
    """Return the tokens of item `index`, its keyword first."""
    end = scanned.starts[index + 1] if index + 1 < len(scanned.starts) else len(scanned.tokens)
    return scanned.tokens[scanned.starts[index] : end]


def unclosed(tokens: tuple[Lexeme, ...]) -> list[Lexeme]:
    """Return the opening brackets without a partner, outermost first; other closing brackets are passed over."""
    stack: list[Lexeme] = []
    for token in tokens:
        if token.kind != "symbol":
            continue
        if token.text in OPENING:
            stack.append(token)
        elif token.text in CLOSING and stack and stack[-1].text == CLOSING[token.text]:
            stack.pop()
    return stack
