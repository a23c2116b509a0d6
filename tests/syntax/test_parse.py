"""Every construct of the language as nodes, and what is said where a text is not in the language."""

from __future__ import annotations

from pathlib import Path

import pytest

from mono_gen.diagnostics import Diagnostic
from mono_gen.syntax import nodes as n
from mono_gen.syntax.parse import parse
from mono_gen.syntax.source import Source

SEEDS = Path(__file__).parent.parent / "fuzz" / "seeds"


def tree_of(text: str) -> n.Tree:
    tree, problems = parse(Source("x.layout", text))
    assert problems == ()
    return tree


def problems_of(text: str) -> tuple[Diagnostic, ...]:
    return parse(Source("x.layout", text))[1]


def the_problem(text: str) -> Diagnostic:
    (problem,) = problems_of(text)
    return problem


def at(problem: Diagnostic) -> str:
    """Return the characters that a diagnostic is about."""
    assert problem.span is not None
    return problem.span.source.text[problem.span.start : problem.span.end]


def name(text: str) -> n.Name:
    return n.Name(text, ANYWHERE)


def path(text: str) -> n.Path:
    return n.Path(tuple(name(part) for part in text.split(".")), ANYWHERE)


ANYWHERE = n.Span(Source("", ""), 0, 0)


def layout_clause(text: str) -> n.LayoutClause:
    (item,) = tree_of(f"layout x(row, k) {{ {text} }}").items
    assert isinstance(item, n.Layout)
    (clause,) = item.clauses
    return clause


def member(text: str) -> n.Member_:
    (item,) = tree_of(f"struct S(layer) {{ {text} }}").items
    assert isinstance(item, n.Struct)
    (found,) = item.members
    return found


def field_clause(text: str) -> n.FieldClause:
    field = member(f"w : bf16[4] {{ {text} }}")
    assert isinstance(field, n.Field)
    (clause,) = field.clauses
    return clause


def value(text: str) -> n.Expr:
    (item,) = tree_of(f"const X = {text}").items
    assert isinstance(item, n.Const)
    return item.value


def integer(number: int) -> n.Int:
    return n.Int(number, ANYWHERE)


# --- items ---


def test_items() -> None:
    tree = tree_of(
        'spec a arch gfx950 import "x.layout" const A = 1 param B = 0x1F struct S() { } struct T(x) extends S{}'
    )
    assert tree.items == (
        n.Spec(name("a"), "", ANYWHERE),
        n.Arch(name("gfx950"), ANYWHERE),
        n.Import("x.layout", ANYWHERE),
        n.Const(name("A"), integer(1), "", ANYWHERE),
        n.Param(name("B"), integer(31), "", ANYWHERE),
        n.Struct(name("S"), (), None, (), "", ANYWHERE),
        n.Struct(name("T"), (name("x"),), name("S"), (), "", ANYWHERE),
    )


def test_record() -> None:
    (record,) = tree_of("record r align 16 { k : fp8[2, A] { tile p } v : pair[4] }").items
    tile = n.Tile(name("p"), ANYWHERE)
    assert record == n.Record(
        name("r"),
        integer(16),
        (
            n.Field((name("k"),), name("fp8"), (integer(2), path("A")), (tile,), "", ANYWHERE),
            n.Field((name("v"),), name("pair"), (integer(4),), (), "", ANYWHERE),
        ),
        "",
        ANYWHERE,
    )


def test_spans_are_the_text_of_their_nodes() -> None:
    text = "const A = 1 + B # x\n\nlayout x(row) {\n split row = R r:16 }"
    const, layout = tree_of(text).items
    assert text[const.span.start : const.span.end] == "const A = 1 + B"
    assert text[layout.span.start : layout.span.end] == "layout x(row) {\n split row = R r:16 }"
    assert isinstance(layout, n.Layout)
    part = layout.clauses[0].parts[1]  # type: ignore[union-attr]
    assert (part.span.line, text[part.span.start : part.span.end]) == (4, "r:16")


# --- expressions ---


def test_chains_are_flat_and_products_bind_tighter() -> None:
    assert value("1 + 2 * 3 - (4 - -5)") == n.Chain(
        integer(1),
        (
            ("+", n.Chain(integer(2), (("*", integer(3)),), ANYWHERE)),
            ("-", n.Chain(integer(4), (("-", n.Negate(integer(5), ANYWHERE)),), ANYWHERE)),
        ),
        ANYWHERE,
    )
    assert value("((A))") == path("A")
    assert value("16B") == n.ByteCount(16, ANYWHERE)
    assert value("0x10B") == integer(0x10B)


def test_a_chain_as_long_as_a_line_may_be_parses() -> None:
    chain = value("+".join(["1"] * 8000))
    assert isinstance(chain, n.Chain)
    assert len(chain.rest) == 7999


def test_names_after_a_dot_may_be_any_word() -> None:
    assert member("let x = a.class._k.layout.view.or or b") == n.Let(
        name("x"), (path("a.class._k.layout.view.or"), path("b")), ANYWHERE
    )


# --- clauses of a layout ---


def test_require() -> None:
    assert layout_clause("require not row, row % 2 == 0, not k in { 1, A }, k not in { 2 }") == n.Require(
        (
            n.Truth(path("row"), True, ANYWHERE),
            n.Compare(n.Chain(path("row"), (("%", integer(2)),), ANYWHERE), "==", integer(0), False, ANYWHERE),
            n.Member(path("k"), (integer(1), path("A")), True, ANYWHERE),
            n.Member(path("k"), (integer(2),), True, ANYWHERE),
        ),
        ANYWHERE,
    )


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(op: str) -> None:
    assert layout_clause(f"require k{op}2") == n.Require(
        (n.Compare(path("k"), op, integer(2), False, ANYWHERE),), ANYWHERE
    )


def test_pad() -> None:
    row = n.PadAxis(name("row"), integer(256), ANYWHERE)
    k = n.PadAxis(name("k"), n.ByteCount(8, ANYWHERE), ANYWHERE)
    assert layout_clause("pad row to 256, k to 8B fill 0x7F") == n.Pad((row, k), integer(127), ANYWHERE)
    assert layout_clause("pad row to 256 fill undefined") == n.Pad((row,), n.Undefined(ANYWHERE), ANYWHERE)
    assert layout_clause("pad row to 256") == n.Pad((row,), None, ANYWHERE)


def test_split() -> None:
    assert layout_clause("split k = K half:2 b:16B") == n.Split(
        name("k"),
        (
            n.Part(name("K"), None, ANYWHERE),
            n.Part(name("half"), integer(2), ANYWHERE),
            n.Part(name("b"), n.ByteCount(16, ANYWHERE), ANYWHERE),
        ),
        ANYWHERE,
    )


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("row k", [(None, "row k")]),
        ("tile R K | lane g r | byte b", [("tile", "R K"), ("lane", "g r"), ("byte", "b")]),
        ("tile R K", [("tile", "R K")]),
        ("R K | g | b", [(None, "R K"), (None, "g"), (None, "b")]),
        ("tile | | byte", [("tile", ""), (None, ""), ("byte", "")]),
        ("", [(None, "")]),
    ],
)
def test_store(text: str, groups: list[tuple[str | None, str]]) -> None:
    assert layout_clause(f"store {text}") == n.Store(
        tuple(
            n.Group(name(label) if label else None, tuple(map(name, digits.split())), ANYWHERE)
            for label, digits in groups
        ),
        ANYWHERE,
    )


def test_pitch_swizzle_feeds() -> None:
    assert layout_clause("pitch row = 1540") == n.Pitch(name("row"), integer(1540), ANYWHERE)
    assert layout_clause("swizzle b ^= r") == n.Swizzle(name("b"), name("r"), ANYWHERE)
    assert layout_clause("feeds mfma_x.a") == n.Feeds(name("mfma_x"), name("a"), ANYWHERE)


def test_same_as() -> None:
    assert layout_clause("same as torch view(row, 16).permute(1, 0)") == n.SameAsTorch(
        (path("row"), integer(16)), (integer(1), integer(0)), ANYWHERE
    )
    assert layout_clause("same as lane r, byte b holds row 16, k -b") == n.SameAsLane(
        path("r"),
        path("b"),
        (
            n.Holds(name("row"), integer(16), ANYWHERE),
            n.Holds(name("k"), n.Negate(path("b"), ANYWHERE), ANYWHERE),
        ),
        ANYWHERE,
    )


# --- members of a struct ---


def test_members() -> None:
    assert member("dim E in { A, A + 1 }") == n.Dim(
        name("E"), (path("A"), n.Chain(path("A"), (("+", integer(1)),), ANYWHERE)), ANYWHERE
    )
    assert member("dim POS") == n.Dim(name("POS"), None, ANYWHERE)
    assert member("args f(ar, x) { ar w }") == n.Args(
        name("f"), (name("ar"), name("x")), (name("ar"), name("w")), "", ANYWHERE
    )
    assert member("args f { }") == n.Args(name("f"), (), (), "", ANYWHERE)
    assert member("optional o when E == 4, x { dim D }") == n.Optional(
        name("o"),
        (n.Compare(path("E"), "==", integer(4), False, ANYWHERE), n.Truth(path("x"), False, ANYWHERE)),
        (n.Dim(name("D"), None, ANYWHERE),),
        "",
        ANYWHERE,
    )


def test_a_field_may_follow_anything() -> None:
    (struct,) = tree_of("struct S(x) { require x.a b : f[1] { } let l = x.b c, d : f[1] {} dim E e : f[E] {} }").items
    assert isinstance(struct, n.Struct)
    assert [type(m).__name__ for m in struct.members] == ["Require", "Field", "Let", "Field", "Dim", "Field"]


# --- clauses of a field ---


def test_field_clauses() -> None:
    plain, shaped = (
        n.SourcePath(path("a.b"), None, ANYWHERE),
        n.SourcePath(path("c"), (integer(2), path("P")), ANYWHERE),
    )
    assert field_clause("tile row_major") == n.Tile(name("row_major"), ANYWHERE)
    assert field_clause("scale e8m0_tiles") == n.Scale(name("e8m0_tiles"), ANYWHERE)
    assert field_clause("view a.b, c as [2, P]") == n.View((plain, shaped), ANYWHERE)
    assert field_clause("convert mxfp8 row_major a.b via bf16") == n.Convert(
        name("mxfp8"), name("row_major"), (plain,), name("bf16"), ANYWHERE
    )
    assert field_clause("convert fp32 own c as [2, P], a.b") == n.Convert(
        name("fp32"), name("own"), (shaped, plain), None, ANYWHERE
    )
    assert field_clause("attest own when a.b") == n.Attest(name("own"), path("a.b"), ANYWHERE)
    assert field_clause("attest not a.b") == n.Attest(None, path("a.b"), ANYWHERE)
    assert field_clause("gather q over group") == n.Gather(name("q"), name("group"), ANYWHERE)
    parts = (n.Part(name("gate"), path("I"), ANYWHERE), n.Part(name("up"), path("I"), ANYWHERE))
    assert field_clause("segments row = gate:I up:I") == n.Segments(name("row"), parts, False, ANYWHERE)
    assert field_clause("segments row = gate:I up:I pad each") == n.Segments(name("row"), parts, True, ANYWHERE)


@pytest.mark.parametrize("seed", sorted(SEEDS.glob("*.layout")), ids=lambda p: p.stem)
def test_seeds_parse(seed: Path) -> None:
    assert tree_of(seed.read_text(encoding="utf-8")).items


# --- comments ---


def test_doc_comments() -> None:
    text = (
        "##  A spec.\n##\n## More.\nspec a\n### Heading\n# plain\n## Const.\r\nconst A = 1\n"
        "## Struct.\nstruct S(x) {\n  ## Field.\n  w : f[1] { }\n  ## Opt.\n  optional o when x { ## trailing\n"
        "   ## Args.\n   args g { w }\n } }"
    )
    tree, (warning,) = parse(Source("x", text))
    spec, const, struct = tree.items
    assert isinstance(spec, n.Spec)
    assert isinstance(const, n.Const)
    assert isinstance(struct, n.Struct)
    field, optional = struct.members
    assert isinstance(field, n.Field)
    assert isinstance(optional, n.Optional)
    (args,) = optional.members
    assert isinstance(args, n.Args)
    assert (spec.doc, const.doc) == (" A spec.\n\nMore.", "Const.")
    assert (struct.doc, field.doc, optional.doc, args.doc) == ("Struct.", "Field.", "Opt.", "Args.")
    assert (warning.severity, warning.code, at(warning)) == ("warning", "doc-comment-misplaced", "## trailing")
    assert [c.text for c in tree.comments][4:7] == ["# plain", "## Const.", "## Struct."]


@pytest.mark.parametrize(
    "text",
    [
        "## far\n\nspec a",
        "spec a ## beside",
        "## above an arch\narch b",
        "layout x(row) {\n## a clause\nstore row }",
        "struct S(x) {\n## a let\nlet l = x }",
        "## no item\n# between\nspec a",
        "spec a\n## last",
    ],
)
def test_misplaced_doc_comments_are_warned_of(text: str) -> None:
    problem = the_problem(text)
    assert (problem.code, problem.severity) == ("doc-comment-misplaced", "warning")


def test_no_doc_warning_about_what_did_not_parse() -> None:
    assert [p.code for p in problems_of("## doc\nlayout x(row {\n## doc\n}\nspec a")] == ["syntax-error"]


# --- mistakes ---


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("layout x(row k) { }", "expected `)` or `,`, found `k`", "k"),
        ("layout x(row) { split row R r:16 }", "expected `=`, found `R`", "R"),
        ("layout x(row) { split row = R r:16 | }", "a digit name", "|"),
        ("layout x(row) { store tile R = }", "expected a digit name, the next clause of the layout, `|` or `}`", "="),
        ("layout x(row) { pad row 16 }", "expected `to`, found `16`", "16"),
        ("layout x() { }", "expected an axis name, found `)`", ")"),
        ("layout 4(row) { }", "expected the layout's name, found `4`", "4"),
        ("struct S(l) { let x = 5 }", "expected a path, found `5`", "5"),
        ("struct S(l) { dim E in { } }", "expected an expression, found `}`", "}"),
        ("struct S(l) { w : f[] { } }", "expected an expression, found `]`", "]"),
        ("struct S(l) { w f[1] { } }", "expected `,` or `:`, found `f`", "f"),
        ("struct S(l) { w : f[1] { tile } }", "expected a layout's name, found `}`", "}"),
        ("struct S(l) { w : f[1] { attest x.y } }", "expected `when`, found `.`", "."),
        ("struct S(l) { w : f[1] { gather q group } }", "expected `over`, found `group`", "group"),
        ("record r { }", "expected `align`, found `{`", "{"),
        ("spec", "expected the spec's name, found the end of the file", ""),
        ("const A = 1 +\nconst B = 2", "expected an expression, found the next item, `const`", "const"),
        ("const A = --1", "expected", "-"),
        ("const A = 12abc", "`12abc` is no number", "12abc"),
        ("const A = 0x", "`0x` is no number", "0x"),
        ("const A = 3 $ 4", "`$` is no character of the language", "$"),
        ("import x", 'expected a file name in quotes (`"x.layout"`), found `x`', "x"),
        ('import "x\nspec a', 'the text after `"` does not end on its line', '"x'),
        ("spec a }", "`}` closes nothing", "}"),
        ("hello", "expected an item", "hello"),
    ],
)
def test_syntax_errors_are_said_in_words_of_the_language(text: str, message: str, where: str) -> None:
    problem = the_problem(text)
    assert problem.code == "syntax-error"
    assert message in problem.message
    assert at(problem) == where


@pytest.mark.parametrize(
    ("text", "word"),
    [("layuot a(row) { }", "layout"), ("spec a\ncosnt A = 1", "const"), ("layout x(k) { splt k = a b:2 }", "split")],
)
def test_a_word_nearly_right_is_suggested(text: str, word: str) -> None:
    assert the_problem(text).help == f"did you mean `{word}`?"


def test_every_broken_item_is_reported_and_the_others_are_kept() -> None:
    text = "spec a\nlayout x(row k) { }\nconst A = 1\nstruct S(l) { let = }\nconst B = 2 2\nlayout y(row) { store row }"
    tree, problems = parse(Source("x", text))
    assert [p.code for p in problems] == ["syntax-error"] * 3
    assert [type(item).__name__ for item in tree.items] == ["Spec", "Const", "Const", "Layout"]
    assert [broken.text for broken in tree.broken] == ["x", "S"]


def test_an_unclosed_brace_is_shown_where_it_opens() -> None:
    text = "layout x(row) {\n  store row\n\nconst A = 1\nstruct S(l) { w : f[1] { view l.x }"
    tree, (layout, struct) = parse(Source("x", text))
    assert [type(item).__name__ for item in tree.items] == ["Const"]
    assert layout.message == "this `{` of layout `x` is not closed before the next item, `const`"
    assert layout.span is not None
    assert layout.span.start == text.index("{")
    assert struct.message == "this `{` of struct `S` is not closed before the end of the file"
    assert [label.span.start for label in layout.also] == [text.index("const")]


def test_a_wrong_closing_bracket_shows_the_open_one() -> None:
    problem = the_problem("struct S(l) { w : f[1 } }")
    assert (at(problem), [label.text for label in problem.also]) == ("}", ["inside this `[`"])


@pytest.mark.parametrize(
    "text",
    [
        "layout x(d) { split d = D b:16 B }",
        "layout x(d) { split d = D b:16\t# bytes\n B }",
        "layout x(d) { pitch d = 16 B }",
        "layout x(d) { pad d to 16 B fill 0 }",
        "const A = 16 B",
    ],
)
def test_a_byte_count_written_apart(text: str) -> None:
    problem = the_problem(text)
    assert (problem.code, problem.help[:12]) == ("byte-count-apart", "write `16B`;")


def test_a_digit_named_b_is_no_byte_count() -> None:
    tree_of("layout x(d) { split d = A:16 B:4 } struct S(l) { require l.x == 16 B, C : f[1] { } }")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("const class = 1\nconst B = class + 1", "class"),
        ("const layout = 4", "layout"),
        ("const A = layout + 1", "layout"),
        ("layout x(row) { split row = R int:4 }", "int"),
        ("layout x(row) { split row = R pad:4 }", "pad"),
        ("layout x(row) { split row = R spec:4 }", "spec"),
        ("struct S(l) { args : f[1] { } }", "args"),
        ("struct S(lambda) { }", "lambda"),
        ("struct S(l) { w : f[1] { view torch.x } }", "torch"),
        ("spec linux", "linux"),
        ("const _a = 1", "_a"),
        ("const a__b = 1", "a__b"),
        ("const INT_MAX = 1", "INT_MAX"),
        ("struct S(l) { args threadIdx { } }", "threadIdx"),
    ],
)
def test_reserved_words_are_no_names(text: str, word: str) -> None:
    problem = the_problem(text)
    assert (problem.code, at(problem)) == ("reserved-word", word)


def test_messages_show_no_raw_terminal_names() -> None:
    texts = [
        "layout x(row) { require a = 4 }",
        "struct S(l) { w : f[1] { x } }",
        "struct S(l) { 4 }",
        "layout x(k) { 4 }",
        "struct S(l) { w : f[1] { view a.b 4 } }",
    ]
    for text in texts:
        message = the_problem(text).message
        words = message.replace("`", " ").replace(",", " ").split()
        assert not [word for word in words if word.isupper() and len(word) > 1], message
