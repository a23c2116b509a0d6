"""The tree of a `.layout` file: frozen nodes with spans.

Two trees are equal when they say the same, wherever they stand: spans take no part in comparisons. The file is long
because it is one list: a class a construct of the language, nothing else.
"""

from __future__ import annotations

from mono_gen.frozen import frozen, uncompared
from mono_gen.syntax.source import Source, Span


@frozen
class Name:
    """An identifier."""

    text: str
    span: Span = uncompared()


# --- expressions: integers, sizes in bytes, paths ---


@frozen
class Int:
    """A literal, decimal or `0x`."""

    value: int
    span: Span = uncompared()


@frozen
class ByteCount:
    """`16B`: 16 bytes' worth of elements."""

    count: int
    span: Span = uncompared()


@frozen
class Path:
    """`a` or `a.b.c`; a single name may mean a constant, an axis, a digit, a dim or a let."""

    names: tuple[Name, ...]
    span: Span = uncompared()

    @property
    def text(self) -> str:
        """Return the path as written, dots and all."""
        return ".".join(name.text for name in self.names)


@frozen
class Negate:
    """`-x`."""

    operand: Expr
    span: Span = uncompared()


@frozen
class Chain:
    """`first op x op y`, left to right; the operators are all of `+ -` or all of `* / %`."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]
    span: Span = uncompared()


Expr = Int | ByteCount | Path | Negate | Chain


# --- conditions ---


@frozen
class Truth:
    """`path` or `not path`."""

    operand: Expr
    negated: bool
    span: Span = uncompared()


@frozen
class Compare:
    """`left op right`, op one of `== != < <= > >=`; `not` before it negates."""

    left: Expr
    op: str
    right: Expr
    negated: bool
    span: Span = uncompared()


@frozen
class Member:
    """`left in { a, b }`; `not` before it negates."""

    left: Expr
    values: tuple[Expr, ...]
    negated: bool
    span: Span = uncompared()


Condition = Truth | Compare | Member


# --- clauses of a layout ---


@frozen
class Require:
    """`require COND, ...`, in a layout or a struct."""

    conditions: tuple[Condition, ...]
    span: Span = uncompared()


@frozen
class PadAxis:
    """`row to 256` of a pad clause."""

    axis: Name
    multiple: Expr
    span: Span = uncompared()


@frozen
class Undefined:
    """The word `undefined` as a fill."""

    span: Span = uncompared()


@frozen
class Pad:
    """`pad row to 256, k to 8 fill 0x7F`; `fill` is None where it was left out (an error of resolve)."""

    axes: tuple[PadAxis, ...]
    fill: Expr | Undefined | None
    span: Span = uncompared()


@frozen
class Part:
    """`half:2`, or `K` with no size: a digit of a split, a segment of an axis."""

    name: Name
    size: Expr | None
    span: Span = uncompared()


@frozen
class Split:
    """`split k = K half:2 g:4 b:16`, slowest first."""

    axis: Name
    parts: tuple[Part, ...]
    span: Span = uncompared()


@frozen
class Group:
    """`tile R K` of a store clause; without bars there is one group whose label is None."""

    label: Name | None
    digits: tuple[Name, ...]
    span: Span = uncompared()


@frozen
class Store:
    """`store tile R K | lane g r | byte half b`."""

    groups: tuple[Group, ...]
    span: Span = uncompared()


@frozen
class Pitch:
    """`pitch row = 1540`."""

    digit: Name
    stride: Expr
    span: Span = uncompared()


@frozen
class Swizzle:
    """`swizzle b ^= r`."""

    digit: Name
    by: Name
    span: Span = uncompared()


@frozen
class SameAsTorch:
    """`same as torch view(...).permute(...)`."""

    view: tuple[Expr, ...]
    permute: tuple[Expr, ...]
    span: Span = uncompared()


@frozen
class Holds:
    """`row 16*R + r` of a `same as lane` clause."""

    axis: Name
    value: Expr
    span: Span = uncompared()


@frozen
class SameAsLane:
    """`same as lane EXPR, byte EXPR holds row EXPR, k EXPR`."""

    lane: Expr
    byte: Expr
    holds: tuple[Holds, ...]
    span: Span = uncompared()


@frozen
class Feeds:
    """`feeds INSTRUCTION.OPERAND`."""

    instruction: Name
    operand: Name
    span: Span = uncompared()


LayoutClause = Require | Pad | Split | Store | Pitch | Swizzle | SameAsTorch | SameAsLane | Feeds


# --- clauses of a field ---


@frozen
class SourcePath:
    """A path of the layer, and `as [dims]` where the source's own shape differs."""

    path: Path
    shape: tuple[Expr, ...] | None
    span: Span = uncompared()


@frozen
class Tile:
    """`tile LAYOUT`."""

    layout: Name
    span: Span = uncompared()


@frozen
class Scale:
    """`scale LAYOUT`."""

    layout: Name
    span: Span = uncompared()


@frozen
class Segments:
    """`segments row = gate:INTER up:INTER [pad each]`."""

    axis: Name
    parts: tuple[Part, ...]
    pad_each: bool
    span: Span = uncompared()


@frozen
class Convert:
    """`convert FORMAT ORDER PATHS [via FORMAT]`."""

    format: Name
    order: Name
    sources: tuple[SourcePath, ...]
    via: Name | None
    span: Span = uncompared()


@frozen
class View:
    """`view PATHS`."""

    sources: tuple[SourcePath, ...]
    span: Span = uncompared()


@frozen
class Attest:
    """`attest LAYOUT when PATH`, or `attest not PATH` with no layout."""

    layout: Name | None
    path: Path
    span: Span = uncompared()


@frozen
class Gather:
    """`gather SEGMENT over GROUP`."""

    segment: Name
    group: Name
    span: Span = uncompared()


FieldClause = Tile | Scale | Segments | Convert | View | Attest | Gather


# --- members of a struct ---


@frozen
class Let:
    """`let x = path or path`."""

    name: Name
    paths: tuple[Path, ...]
    span: Span = uncompared()


@frozen
class Dim:
    """`dim E in { A, B }`, or `dim E` of any length (values None)."""

    name: Name
    values: tuple[Expr, ...] | None
    span: Span = uncompared()


@frozen
class Args:
    """`args NAME(extra) { field ... }`."""

    name: Name
    extras: tuple[Name, ...]
    members: tuple[Name, ...]
    doc: str
    span: Span = uncompared()


@frozen
class Field:
    """`data, scale : FORMAT[dims] { clauses }`."""

    names: tuple[Name, ...]
    format: Name
    dims: tuple[Expr, ...]
    clauses: tuple[FieldClause, ...]
    doc: str
    span: Span = uncompared()


@frozen
class Optional:
    """`optional NAME when COND { lets, args, fields }`."""

    name: Name
    conditions: tuple[Condition, ...]
    members: tuple[Member_, ...]
    doc: str
    span: Span = uncompared()


Member_ = Let | Require | Dim | Args | Field | Optional


# --- items ---


@frozen
class Spec:
    """`spec NAME`."""

    name: Name
    doc: str
    span: Span = uncompared()


@frozen
class Arch:
    """`arch gfx950`."""

    name: Name
    span: Span = uncompared()


@frozen
class Import:
    """`import "x.layout"`; `path` is what stands between the quotes."""

    path: str
    span: Span = uncompared()


@frozen
class Const:
    """`const NAME = EXPR`."""

    name: Name
    value: Expr
    doc: str
    span: Span = uncompared()


@frozen
class Param:
    """`param NAME = EXPR`."""

    name: Name
    value: Expr
    doc: str
    span: Span = uncompared()


@frozen
class Layout:
    """`layout NAME(axes) { clauses }`."""

    name: Name
    axes: tuple[Name, ...]
    clauses: tuple[LayoutClause, ...]
    doc: str
    span: Span = uncompared()


@frozen
class Record:
    """`record NAME align N { regions }`: each region a Field without sources."""

    name: Name
    align: Expr
    regions: tuple[Field, ...]
    doc: str
    span: Span = uncompared()


@frozen
class Struct:
    """`struct NAME(args) [extends BASE] { members }`."""

    name: Name
    args: tuple[Name, ...]
    base: Name | None
    members: tuple[Member_, ...]
    doc: str
    span: Span = uncompared()


Item = Spec | Arch | Import | Const | Param | Layout | Record | Struct


@frozen
class Comment:
    """A comment with its `#`, and the offset where it begins."""

    text: str
    span: Span = uncompared()


@frozen
class Tree:
    """A parsed file. Comments take no part in comparisons; doc comments stand in the items' `doc`.

    broken: the names of items that did not parse. Nothing more is known of them; they are not to be called missing.
    """

    items: tuple[Item, ...]
    source: Source = uncompared()
    comments: tuple[Comment, ...] = uncompared(default=())
    broken: tuple[Name, ...] = uncompared(default=())
