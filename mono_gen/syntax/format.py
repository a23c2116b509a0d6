"""The house style of a `.layout` file: line breaks and indentation, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from mono_gen.diagnostics.model import SpecError
from mono_gen.syntax import nodes as n
from mono_gen.syntax.parse import parse
from mono_gen.syntax.read import check_limits
from mono_gen.syntax.scan import CLOSING, Lexeme, scan
from mono_gen.syntax.source import Source

INDENT = 4
MAX_COLUMNS = 120


def format_text(source: Source) -> str:
    """Return the text with lines broken and indented as the house does; what stands on a line keeps its spacing.

    Every item begins a line. In a body that spans lines, every member and clause does; a body on one line stays there
    where it ends within 120 columns. Lines that go on with a statement keep their break, one level further in.

    Raises: SpecError where the text does not parse.
    Law:    parse(format_text(x)) == parse(x), and format_text is idempotent: tests/laws/test_syntax.py.
    """
    tree, problems = parse(source)
    errors = tuple(problem for problem in problems if problem.severity == "error" and problem.code != "reserved-word")
    if errors:
        raise SpecError(errors)
    text = _Layout(source, frozenset(_statement_starts(tree.items))).run()
    too_large = check_limits(Source(source.name, text))
    if too_large:
        raise SpecError(too_large)
    return text


def _statement_starts(items: Iterable[n.Item]) -> Iterable[int]:
    """Return the offsets where items, members and clauses begin."""
    work: list[n.Item | n.Member_ | n.LayoutClause | n.FieldClause] = list(items)
    while work:
        node = work.pop()
        yield node.span.start
        match node:
            case n.Layout(clauses=clauses):
                work.extend(clauses)
            case n.Record(regions=regions):
                work.extend(regions)
            case n.Struct(members=members) | n.Optional(members=members):
                work.extend(members)
            case n.Field(clauses=field_clauses):
                work.extend(field_clauses)
            case _:
                pass


@dataclass(slots=True)
class _Body:
    """An open `{` of a layout, struct, field and so on."""

    spans_lines: bool
    is_args: bool


@dataclass(slots=True)
class _Layout:
    """One pass over the tokens and comments, with what is known so far."""

    source: Source
    starts: frozenset[int]
    lines: list[str] = field(default_factory=list)
    line: str = ""
    bodies: list[_Body] = field(default_factory=list)
    braces: list[bool] = field(default_factory=list)
    statement: str = ""

    def run(self) -> str:
        scanned = scan(self.source)
        lexemes = sorted((*scanned.tokens, *scanned.comments), key=lambda lexeme: lexeme.start)
        following = _next_tokens(lexemes)
        openings = _body_braces(scanned.tokens)
        ends = _closing_braces(scanned.tokens)
        for i, lexeme in enumerate(lexemes):
            if i > 0:
                self._separate(lexemes[i - 1], lexeme, following[i], lexeme.start in openings)
            if lexeme.kind == "comment":
                self.line += lexeme.text.rstrip()
                continue
            if lexeme.start in self.starts:
                self.statement = lexeme.text
            self._brace(lexeme, lexeme.start in openings, ends)
            self.line += lexeme.text
        return "\n".join([*self.lines, self.line]) + "\n"

    def _separate(self, before: Lexeme, lexeme: Lexeme, following: Lexeme | None, opens_body: bool) -> None:
        """Put what stands between two lexemes: a line end and indentation, or the user's spaces."""
        gap = self.source.text[before.end : lexeme.start]
        if lexeme.kind == "comment":
            breaks = lexeme.first_on_line
        elif before.kind == "comment" or self._begins_line(before, lexeme):
            breaks = True
        elif opens_body and "\n" in gap:
            breaks, gap = False, " "
        else:
            breaks = "\n" in gap
        if not breaks:
            self.line += gap
            return
        empty = gap.count("\n") > 1 and not self._closes_body(lexeme) and before.text != "{"
        self.lines += [self.line, ""] if empty else [self.line]
        self.line = " " * (INDENT * self._level(lexeme, following))

    def _begins_line(self, before: Lexeme, lexeme: Lexeme) -> bool:
        if not self.bodies:
            return lexeme.start in self.starts
        if not self.bodies[-1].spans_lines:
            return False
        opened = before.text == "{" and self.braces[-1]
        return lexeme.start in self.starts or opened or self._closes_body(lexeme)

    def _closes_body(self, lexeme: Lexeme) -> bool:
        return lexeme.text == "}" and bool(self.braces) and self.braces[-1]

    def _level(self, lexeme: Lexeme, following: Lexeme | None) -> int:
        """Return how far in a line begins; a comment stands where the token that follows it does."""
        level = len(self.bodies)
        if following is None or following.start in self.starts:
            return level
        if self._closes_body(following):
            return level - (lexeme is following)
        if (self.bodies and self.bodies[-1].is_args) or (lexeme.text in CLOSING):
            return level
        return level + 1

    def _brace(self, lexeme: Lexeme, opens_body: bool, ends: dict[int, int]) -> None:
        if lexeme.text == "{":
            self.braces.append(opens_body)
            if opens_body:
                inside = self.source.text[lexeme.start : ends[lexeme.start]]
                spans_lines = "\n" in inside or len(self.line) + len(inside) > MAX_COLUMNS
                self.bodies.append(_Body(spans_lines, self.statement == "args"))
        elif lexeme.text == "}" and self.braces.pop():
            self.bodies.pop()


def _next_tokens(lexemes: list[Lexeme]) -> list[Lexeme | None]:
    """Return for each lexeme the token that it is or that follows it, comments passed over."""
    following: list[Lexeme | None] = []
    token: Lexeme | None = None
    for lexeme in reversed(lexemes):
        token = token if lexeme.kind == "comment" else lexeme
        following.append(token)
    return following[::-1]


def _body_braces(tokens: tuple[Lexeme, ...]) -> frozenset[int]:
    """Return the offsets of the `{` that open a body, which are all but those of `in { ... }`."""
    before = [("", ""), ("", tokens[0].text), *((a.text, b.text) for a, b in pairwise(tokens))]
    is_set = [b == "in" and a != "." for a, b in before]
    return frozenset(t.start for t, in_set in zip(tokens, is_set, strict=False) if t.text == "{" and not in_set)


def _closing_braces(tokens: tuple[Lexeme, ...]) -> dict[int, int]:
    """Return, by the offset of each `{`, the offset after its `}`."""
    ends: dict[int, int] = {}
    stack: list[int] = []
    for token in tokens:
        if token.text == "{":
            stack.append(token.start)
        elif token.text == "}":
            ends[stack.pop()] = token.end
    return ends
