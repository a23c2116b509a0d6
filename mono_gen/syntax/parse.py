"""A text to a tree: cut into items, each parsed alone, every mistake a diagnostic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from lark import Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from mono_gen.diagnostics.model import Diagnostic, Label
from mono_gen.syntax import nodes as n
from mono_gen.syntax.build import build_item
from mono_gen.syntax.docs import doc_blocks, misplaced
from mono_gen.syntax.expected import acceptable, after, expectation, keywords, one_of
from mono_gen.syntax.names import reserved_names
from mono_gen.syntax.parser import item_parser
from mono_gen.syntax.read import MAX_DIGITS, check_limits, check_nesting
from mono_gen.syntax.scan import CLOSING, OPENING, Lexeme, Scan, item_lexemes, scan, unclosed
from mono_gen.syntax.source import Source, Span
from mono_gen.syntax.words import LANGUAGE_WORDS

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+B?")
_FIELD_CLAUSES = ("tile", "scale", "segments", "convert", "view", "attest", "gather")
_ITEMS = "an item (`spec`, `arch`, `import`, `const`, `param`, `layout`, `record` or `struct`)"


def parse(source: Source) -> tuple[n.Tree, tuple[Diagnostic, ...]]:
    """Return the tree of a text and what is wrong with it, in order. Never raises for what a user wrote.

    An item with a syntax error is not in the tree (its name is in `broken`) and has one such error; the others are
    there.
    """
    problems = check_limits(source)
    if problems:
        return n.Tree((), source), problems
    scanned = scan(source)
    problems = check_nesting(source, scanned)
    if problems:
        return n.Tree((), source), problems

    blocks = doc_blocks(scanned)
    docs = {block.owner: block.text for block in blocks if block.owner is not None}
    found: list[Diagnostic] = []
    items: list[n.Item] = []
    broken: list[n.Name] = []
    stray = scanned.tokens[: scanned.starts[0] if scanned.starts else None]
    if stray:
        found.append(_stray(source, stray[0]))
    for index in range(len(scanned.starts)):
        item, problem = _parse_item(source, scanned, index, docs)
        if item is not None:
            items.append(item)
        elif name := _broken_name(source, item_lexemes(scanned, index)):
            broken.append(name)
        if problem is not None:
            found.append(problem)
    if not scanned.tokens:
        message = "no items: a spec begins with `spec NAME`"
        found.append(Diagnostic("empty-file", Span(source, 0, 0), message, help="write `spec NAME` first"))
    found += reserved_names(items)
    found += misplaced(source, scanned, blocks, items)
    found.sort(key=lambda d: d.span.start if d.span else 0)
    comments = tuple(n.Comment(c.text, Span(source, c.start, c.end)) for c in scanned.comments)
    return n.Tree(tuple(items), source, comments, tuple(broken)), tuple(found)


def _parse_item(
    source: Source, scanned: Scan, index: int, docs: Mapping[int, str]
) -> tuple[n.Item | None, Diagnostic | None]:
    """Return the item that begins at the index-th boundary, and its syntax error; both where only its end is wrong."""
    tokens = item_lexemes(scanned, index)
    problem = _bad_lexeme(source, tokens)
    if problem is not None:
        return None, problem
    base, end = tokens[0].start, tokens[-1].end
    following = scanned.tokens[scanned.starts[index + 1]] if index + 1 < len(scanned.starts) else None
    try:
        return _build(source, base, end, docs), None
    except UnexpectedInput as error:
        at: InteractiveParser = error.interactive_parser
        place = _place(error, tokens, base)
        problem = _syntax_error(source, tokens, place, following, at)
        complete = place is not None and "$END" in acceptable(at)
        return (_build(source, base, tokens[place - 1].end, docs) if complete and place else None), problem


def _build(source: Source, start: int, end: int, docs: Mapping[int, str]) -> n.Item:
    tree: Tree[Token] = item_parser().parse(source.text[start:end])
    return build_item(tree, source, start, docs)


def _place(error: UnexpectedInput, tokens: tuple[Lexeme, ...], base: int) -> int | None:
    """Return the index of the token that the parser refused, or None for the end of the item."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return None
    offset = base + (error.pos_in_stream or 0)
    return next((i for i, token in enumerate(tokens) if token.start <= offset < token.end), None)


def _bad_lexeme(source: Source, tokens: tuple[Lexeme, ...]) -> Diagnostic | None:
    """Return what is wrong with the tokens of an item, each for itself or with its neighbour."""
    for i, token in enumerate(tokens):
        span = Span(source, token.start, token.end)
        if token.kind == "bad" and token.text.startswith('"'):
            return Diagnostic("syntax-error", span, 'the text after `"` does not end on its line', "no closing quote")
        if token.kind == "bad":
            return Diagnostic("syntax-error", span, f"{_shown(token.text)} is no character of the language", "here")
        if token.kind == "number" and not _NUMBER.fullmatch(token.text):
            help_ = "a name begins with a letter; a number is decimal or `0x` and hex digits; `16B` counts bytes"
            return Diagnostic("syntax-error", span, f"`{_short(token.text)}` is no number", "not a number", help=help_)
        if token.kind == "number" and len(token.text) > MAX_DIGITS:
            message = f"a number of {len(token.text)} digits; numbers are below 2^63"
            return Diagnostic("syntax-error", span, message, "too long")
        sized = tokens[i + 2].text == ":" if i + 2 < len(tokens) else False
        if tokens[0].text == "layout" and _is_byte_count_apart(tokens, i) and not sized:
            return _byte_count_apart(source, tokens, i)
    return None


def _is_byte_count_apart(tokens: tuple[Lexeme, ...], i: int) -> bool:
    return (
        tokens[i].kind == "number" and tokens[i].text.isdecimal() and i + 1 < len(tokens) and tokens[i + 1].text == "B"
    )


def _byte_count_apart(source: Source, tokens: tuple[Lexeme, ...], i: int) -> Diagnostic:
    count = _short(tokens[i].text)
    return Diagnostic(
        "byte-count-apart",
        Span(source, tokens[i].start, tokens[i + 1].end),
        f"`{count} B` is written apart: a count of bytes is one token, `{count}B`",
        "a number, and a name `B`",
        help=f"write `{count}B`; where a digit named `B` is meant, give it a size or another name",
    )


def _syntax_error(
    source: Source, tokens: tuple[Lexeme, ...], place: int | None, following: Lexeme | None, at: InteractiveParser
) -> Diagnostic:
    if place is None:
        return _unfinished(source, tokens, following, at)
    found = tokens[place]
    span = Span(source, found.start, found.end)
    if _is_byte_count_apart(tokens, place - 1):
        return _byte_count_apart(source, tokens, place - 1)
    if _is_word_as_name(source, tokens, place):
        word = tokens[place - 1]
        return Diagnostic(
            "reserved-word",
            Span(source, word.start, word.end),
            f"`{word.text}` is a word of the language and cannot be a name",
            "a name is wanted here",
            help=f"choose another name, `{word.text}_` for example",
        )
    if _is_clause_without_brace(tokens, place):
        return _clause_without_brace(source, tokens, place)
    lark = item_parser()
    words = expectation(lark, at)
    if found.text in CLOSING and "$END" in acceptable(at):
        return Diagnostic(
            "syntax-error", span, f"`{found.text}` closes nothing", "no bracket is open", help="delete it"
        )
    if words == ["the next item"]:
        words = [_ITEMS]
    near = get_close_matches(found.text, _candidates(keywords(lark, at), words), 1, 0.7) if found.kind == "word" else []
    return Diagnostic(
        "syntax-error",
        span,
        f"expected {one_of(words)}, found `{_short(found.text)}`",
        "not expected here",
        also=_enclosing(source, tokens[:place], found),
        help=f"did you mean `{near[0]}`?" if near else "",
    )


def _is_clause_without_brace(tokens: tuple[Lexeme, ...], place: int) -> bool:
    """Return whether the token before the refused one begins a clause, right behind a field's `]`."""
    return place >= 2 and tokens[place - 1].text in _FIELD_CLAUSES and tokens[place - 2].text == "]"


def _clause_without_brace(source: Source, tokens: tuple[Lexeme, ...], place: int) -> Diagnostic:
    word, bracket = tokens[place - 1], tokens[place - 2]
    return Diagnostic(
        "syntax-error",
        Span(source, word.start, word.end),
        f"expected `{{` before `{word.text}`: the clauses of a field stand in braces",
        "outside the field's braces",
        also=(Label(Span(source, bracket.start, bracket.end), "`{` is missing behind this"),),
        help="write `{` behind the `]`, and `}` behind the last clause of the field",
    )


def _candidates(words: list[str], expected: list[str]) -> list[str]:
    items = ["spec", "arch", "import", "const", "param", "layout", "record", "struct"]
    return words + (items if expected == [_ITEMS] else [])


def _unfinished(
    source: Source, tokens: tuple[Lexeme, ...], following: Lexeme | None, at: InteractiveParser
) -> Diagnostic:
    """Return the error for an item that ends too early: the bracket left open, or what is still to come."""
    words = one_of(expectation(item_parser(), at))
    end = tokens[-1].end
    here = Span(source, following.start, following.end) if following else Span(source, end, end)
    where = f"the next item, `{following.text}`," if following else "the end of the file"
    still_open = unclosed(tokens)
    if not still_open:
        message = f"expected {words}, found {where.rstrip(',')}"
        return Diagnostic("syntax-error", here, message, "too early", also=_owner(source, tokens))
    opening = still_open[-1]
    name = f" of {tokens[0].text} `{tokens[1].text}`" if len(tokens) > 1 and tokens[1].kind == "word" else ""
    return Diagnostic(
        "syntax-error",
        Span(source, opening.start, opening.end),
        f"this `{opening.text}`{name} is not closed before {where.rstrip(',')}",
        f"no `{OPENING[opening.text]}` closes it",
        also=(Label(here, f"expected {words}"),),
        help=f"add the `{OPENING[opening.text]}`",
    )


def _owner(source: Source, tokens: tuple[Lexeme, ...]) -> tuple[Label, ...]:
    return (Label(Span(source, tokens[0].start, tokens[0].end), f"in this {tokens[0].text}"),)


def _enclosing(source: Source, before: tuple[Lexeme, ...], found: Lexeme) -> tuple[Label, ...]:
    """Return a label at the bracket that is open where `found` stands, where another line or kind makes it telling."""
    still_open = unclosed(before)
    if not still_open:
        return ()
    opening = still_open[-1]
    if found.text not in CLOSING and opening.line == found.line:
        return ()
    return (Label(Span(source, opening.start, opening.end), f"inside this `{opening.text}`"),)


def _is_word_as_name(source: Source, tokens: tuple[Lexeme, ...], place: int) -> bool:
    """Return whether the token before the refused one is a word of the language, and a name there would have done."""
    word = tokens[place - 1]
    if place < 2 or word.text not in LANGUAGE_WORDS or tokens[place].kind != "symbol":
        return False
    at = item_parser().parse_interactive(source.text[tokens[0].start : tokens[place - 2].end])
    at.exhaust_lexer()
    named = after(at, "NAME")
    if named is None:
        return False
    lark = item_parser()
    pattern = tokens[place].text
    return any(t != "$END" and getattr(lark.get_terminal(t).pattern, "value", "") == pattern for t in acceptable(named))


def _stray(source: Source, token: Lexeme) -> Diagnostic:
    items = ["spec", "arch", "import", "const", "param", "layout", "record", "struct"]
    near = get_close_matches(token.text, items, 1, 0.7)
    return Diagnostic(
        "syntax-error",
        Span(source, token.start, token.end),
        f"expected {_ITEMS}, found {_shown(_short(token.text))}",
        "not expected here",
        help=f"did you mean `{near[0]}`?" if near else "",
    )


def _broken_name(source: Source, tokens: tuple[Lexeme, ...]) -> n.Name | None:
    if len(tokens) < 2 or tokens[1].kind != "word":
        return None
    return n.Name(tokens[1].text, Span(source, tokens[1].start, tokens[1].end))


def _shown(text: str) -> str:
    return f"`{text}`" if text.isprintable() else f"U+{ord(text[0]):04X}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
