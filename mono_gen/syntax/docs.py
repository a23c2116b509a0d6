"""Doc comments: which `##` lines belong to which item, and which belong to none."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from mono_gen.diagnostics.model import Diagnostic
from mono_gen.syntax import nodes as n
from mono_gen.syntax.scan import Lexeme, Scan
from mono_gen.syntax.source import Source, Span


@dataclass(frozen=True, slots=True)
class DocBlock:
    """`##` lines in a row. `owner` is the offset of the token that they stand directly above, or None."""

    text: str
    start: int
    end: int
    owner: int | None


def doc_blocks(scanned: Scan) -> tuple[DocBlock, ...]:
    """Return the blocks of `##` comments of a text, in order. `###` is a plain comment and ends a block."""
    first_tokens = {token.line: token.start for token in scanned.tokens if token.first_on_line}
    blocks: list[DocBlock] = []
    run: list[Lexeme] = []
    for comment in (*scanned.comments, None):
        follows = bool(run) and comment is not None and comment.line == run[-1].line + 1
        if run and not (follows and comment is not None and _is_doc(comment) and comment.first_on_line):
            blocks.append(_block(run, first_tokens))
            run = []
        if comment is not None and _is_doc(comment):
            run.append(comment)
            if not comment.first_on_line:
                blocks.append(_block(run, {}))
                run = []
    return tuple(blocks)


def _is_doc(comment: Lexeme) -> bool:
    return comment.text.startswith("##") and not comment.text.startswith("###")


def _block(run: list[Lexeme], first_tokens: dict[int, int]) -> DocBlock:
    lines = [comment.text[2:].removeprefix(" ").rstrip() for comment in run]
    return DocBlock("\n".join(lines), run[0].start, run[-1].end, first_tokens.get(run[-1].line + 1))


def documentable(items: Iterable[n.Item]) -> set[int]:
    """Return the offsets of everything that may have a doc comment."""
    offsets: set[int] = set()
    work: list[n.Item | n.Member_] = list(items)
    while work:
        match work.pop():
            case n.Spec(span=span) | n.Const(span=span) | n.Param(span=span) | n.Layout(span=span):
                offsets.add(span.start)
            case n.Args(span=span) | n.Field(span=span):
                offsets.add(span.start)
            case n.Record(regions=regions, span=span):
                offsets.add(span.start)
                work.extend(regions)
            case n.Struct(members=members, span=span) | n.Optional(members=members, span=span):
                offsets.add(span.start)
                work.extend(members)
            case n.Arch() | n.Import() | n.Let() | n.Require() | n.Dim():
                pass
    return offsets


def misplaced(source: Source, scanned: Scan, blocks: tuple[DocBlock, ...], items: list[n.Item]) -> list[Diagnostic]:
    """Return a warning for each block that documents nothing. Items that did not parse are passed over."""
    owners = documentable(items)
    whole = sorted((item.span.start, item.span.end) for item in items)
    begins = [scanned.tokens[i].start for i in scanned.starts]
    parsed = {start for start, _ in whole}
    found: list[Diagnostic] = []
    for block in blocks:
        if block.owner in owners:
            continue
        at = block.start if block.owner is None else block.owner
        place = bisect_left(begins, at + 1) - 1
        if place >= 0 and begins[place] not in parsed:
            continue
        found.append(
            Diagnostic(
                "doc-comment-misplaced",
                Span(source, block.start, block.end),
                "this `##` comment documents nothing",
                "not directly above an item",
                help="use `#`, or put it on lines of its own directly above a spec, const, param, layout, record,"
                " struct, field, optional or args",
                severity="warning",
            )
        )
    return found
