"""Nodes from Lark's trees: one method a rule of grammar.lark, run bottom up and without recursion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lark import Token, Tree
from lark.tree import Meta

from mono_gen.syntax import nodes as n
from mono_gen.syntax.source import Source, Span

Children = list[Any]


def build_item(tree: Tree[Token], source: Source, base: int, docs: Mapping[int, str]) -> n.Item:
    """Return the node of one parsed item.

    base: offset in the source of the text that was parsed.
    docs: doc comments by the offset of the item that each stands above.
    """
    builder = _Builder(source, base, docs)
    parents_first: list[Any] = []
    work: list[Any] = [tree]
    while work:
        part = work.pop()
        parents_first.append(part)
        if isinstance(part, Tree):
            work.extend(part.children)
    values: list[Any] = []
    for part in reversed(parents_first):
        if isinstance(part, Tree):
            begin = len(values) - len(part.children)
            values[begin:] = [getattr(builder, part.data)(part.meta, values[begin:])]
        else:
            values.append(builder.token(part) if isinstance(part, Token) else part)
    item: n.Item = values[0]
    return item


def number(text: str) -> int:
    """Return the value of a literal, decimal or `0x`."""
    return int(text, 16) if text[:2] in ("0x", "0X") else int(text)


class _Builder:
    """A method a rule, called with the positions of the rule and the nodes of its parts, those left out being None."""

    def __init__(self, source: Source, base: int, docs: Mapping[int, str]) -> None:
        self._source = source
        self._base = base
        self._docs = docs

    def _span(self, meta: Meta | Token) -> Span:
        return Span(self._source, self._base + _position(meta.start_pos), self._base + _position(meta.end_pos))

    def _doc(self, meta: Meta) -> str:
        return self._docs.get(self._base + meta.start_pos, "")

    def token(self, token: Token) -> n.Name | n.Int | n.ByteCount | Token:
        """Return the node of a token: operators and the like stay tokens."""
        match token.type:
            case "NAME" | "TILE" | "LANE" | "BYTE":
                return n.Name(str(token), self._span(token))
            case "INT":
                return n.Int(number(token), self._span(token))
            case "BYTES":
                return n.ByteCount(int(token[:-1]), self._span(token))
            case _:
                return token

    # --- items ---

    def spec(self, meta: Meta, c: Children) -> n.Spec:
        return n.Spec(c[0], self._doc(meta), self._span(meta))

    def arch(self, meta: Meta, c: Children) -> n.Arch:
        return n.Arch(c[0], self._span(meta))

    def import_item(self, meta: Meta, c: Children) -> n.Import:
        return n.Import(str(c[0])[1:-1], self._span(meta))

    def const(self, meta: Meta, c: Children) -> n.Const:
        return n.Const(c[0], c[1], self._doc(meta), self._span(meta))

    def param(self, meta: Meta, c: Children) -> n.Param:
        return n.Param(c[0], c[1], self._doc(meta), self._span(meta))

    def layout(self, meta: Meta, c: Children) -> n.Layout:
        name, *rest = c
        axes = tuple(x for x in rest if isinstance(x, n.Name))
        return n.Layout(name, axes, tuple(rest[len(axes) :]), self._doc(meta), self._span(meta))

    def record(self, meta: Meta, c: Children) -> n.Record:
        return n.Record(c[0], c[1], tuple(c[2:]), self._doc(meta), self._span(meta))

    def struct(self, meta: Meta, c: Children) -> n.Struct:
        name, arguments, base, *members = c
        return n.Struct(name, arguments, base, tuple(members), self._doc(meta), self._span(meta))

    def arguments(self, meta: Meta, c: Children) -> tuple[n.Name, ...]:
        return tuple(x for x in c if x is not None)

    # --- clauses of a layout ---

    def require(self, meta: Meta, c: Children) -> n.Require:
        return n.Require(c[0], self._span(meta))

    def pad(self, meta: Meta, c: Children) -> n.Pad:
        return n.Pad(tuple(c[:-1]), c[-1], self._span(meta))

    def pad_axis(self, meta: Meta, c: Children) -> n.PadAxis:
        return n.PadAxis(c[0], c[1], self._span(meta))

    def undefined(self, meta: Meta, c: Children) -> n.Undefined:
        return n.Undefined(self._span(meta))

    def split(self, meta: Meta, c: Children) -> n.Split:
        return n.Split(c[0], tuple(c[1:]), self._span(meta))

    def part(self, meta: Meta, c: Children) -> n.Part:
        return n.Part(c[0], c[1], self._span(meta))

    def store(self, meta: Meta, c: Children) -> n.Store:
        groups: list[n.Group] = []
        end = self._base + meta.start_pos + len("store")
        for label, digits, span in c:
            placed = span or Span(self._source, end, end)
            groups.append(n.Group(label, digits, placed))
            end = placed.end
        return n.Store(tuple(groups), self._span(meta))

    def group(self, meta: Meta, c: Children) -> tuple[n.Name | None, tuple[n.Name, ...], Span | None]:
        return c[0], tuple(c[1:]), None if meta.empty else self._span(meta)

    def pitch(self, meta: Meta, c: Children) -> n.Pitch:
        return n.Pitch(c[0], c[1], self._span(meta))

    def swizzle(self, meta: Meta, c: Children) -> n.Swizzle:
        return n.Swizzle(c[0], c[1], self._span(meta))

    def same_as_torch(self, meta: Meta, c: Children) -> n.SameAsTorch:
        return n.SameAsTorch(c[0], c[1], self._span(meta))

    def same_as_lane(self, meta: Meta, c: Children) -> n.SameAsLane:
        return n.SameAsLane(c[0], c[1], tuple(c[2:]), self._span(meta))

    def holds(self, meta: Meta, c: Children) -> n.Holds:
        return n.Holds(c[0], c[1], self._span(meta))

    def feeds(self, meta: Meta, c: Children) -> n.Feeds:
        return n.Feeds(c[0], c[1], self._span(meta))

    # --- members of a struct ---

    def let(self, meta: Meta, c: Children) -> n.Let:
        return n.Let(c[0], tuple(c[1:]), self._span(meta))

    def dim(self, meta: Meta, c: Children) -> n.Dim:
        return n.Dim(c[0], c[1], self._span(meta))

    def optional(self, meta: Meta, c: Children) -> n.Optional:
        return n.Optional(c[0], c[1], tuple(c[2:]), self._doc(meta), self._span(meta))

    def args(self, meta: Meta, c: Children) -> n.Args:
        return n.Args(c[0], c[1] or (), tuple(c[2:]), self._doc(meta), self._span(meta))

    def field(self, meta: Meta, c: Children) -> n.Field:
        names, format_name, dims, clauses = c
        return n.Field(names, format_name, dims, clauses, self._doc(meta), self._span(meta))

    # --- clauses of a field ---

    def tile(self, meta: Meta, c: Children) -> n.Tile:
        return n.Tile(c[0], self._span(meta))

    def scale(self, meta: Meta, c: Children) -> n.Scale:
        return n.Scale(c[0], self._span(meta))

    def segments(self, meta: Meta, c: Children) -> n.Segments:
        return n.Segments(c[0], tuple(c[1:-1]), c[-1] is not None, self._span(meta))

    def convert(self, meta: Meta, c: Children) -> n.Convert:
        return n.Convert(c[0], c[1], c[2], c[3], self._span(meta))

    def view(self, meta: Meta, c: Children) -> n.View:
        return n.View(c[0], self._span(meta))

    def source(self, meta: Meta, c: Children) -> n.SourcePath:
        return n.SourcePath(c[0], c[1], self._span(meta))

    def attest(self, meta: Meta, c: Children) -> n.Attest:
        return n.Attest(c[0], c[1], self._span(meta))

    def attest_not(self, meta: Meta, c: Children) -> n.Attest:
        return n.Attest(None, c[0], self._span(meta))

    def gather(self, meta: Meta, c: Children) -> n.Gather:
        return n.Gather(c[0], c[1], self._span(meta))

    # --- conditions ---

    def truth(self, meta: Meta, c: Children) -> n.Truth:
        return n.Truth(c[0], False, self._span(meta))

    def compare(self, meta: Meta, c: Children) -> n.Compare:
        return n.Compare(c[0], str(c[1]), c[2], False, self._span(meta))

    def is_in(self, meta: Meta, c: Children) -> n.Member:
        return n.Member(c[0], c[1], False, self._span(meta))

    def is_not_in(self, meta: Meta, c: Children) -> n.Member:
        return n.Member(c[0], c[1], True, self._span(meta))

    def negated(self, meta: Meta, c: Children) -> n.Condition:
        span = self._span(meta)
        match c[0]:
            case n.Truth(operand, negated):
                return n.Truth(operand, not negated, span)
            case n.Compare(left, op, right, negated):
                return n.Compare(left, op, right, not negated, span)
            case n.Member(left, values, negated):
                return n.Member(left, values, not negated, span)
            case other:
                raise AssertionError(f"not a condition: {other!r}")

    # --- expressions ---

    def chain(self, meta: Meta, c: Children) -> n.Chain:
        rest = tuple((str(op), operand) for op, operand in zip(c[1::2], c[2::2], strict=True))
        return n.Chain(c[0], rest, self._span(meta))

    def negate(self, meta: Meta, c: Children) -> n.Negate:
        return n.Negate(c[0], self._span(meta))

    def path(self, meta: Meta, c: Children) -> n.Path:
        return n.Path(tuple(c), self._span(meta))

    # --- parts that are no node of their own ---

    def _all(self, meta: Meta, c: Children) -> tuple[Any, ...]:
        return tuple(c)

    def _only(self, meta: Meta, c: Children) -> Any:
        return c[0]

    conditions = sources = exprs = field_names = _all
    extends = fill = size = label = via = pad_each = choices = _only

    def field_body(self, meta: Meta, c: Children) -> tuple[n.FieldClause, ...]:
        return tuple(x for x in c if x is not None)


def _position(offset: int | None) -> int:
    if offset is None:
        raise AssertionError("a token without a position")
    return offset
