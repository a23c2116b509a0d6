"""Laws of the language: what is formatted says the same, and is formatted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mono_gen.diagnostics.render import render
from mono_gen.syntax.format import format_text
from mono_gen.syntax.parse import parse
from mono_gen.syntax.source import Source
from tests.laws.budget import examples

NAMES = st.sampled_from(["row", "k", "half", "b", "R", "K", "E", "HIDDEN", "w13", "x_y", "B"])
WORDS = st.sampled_from(["row", "class", "view", "_k", "in", "spec", "weight"])

# Between two tokens: what the language lets stand there.
_COMMENTS = st.sampled_from(["# c", "## doc", "### h", "#", "##", "# { ( spec", "## é \t"])
_GAPS = st.one_of(
    st.sampled_from([" ", " ", " ", "  ", "\t", "\n", "\n\n\n", "\r\n", "\n   \n ", " \n\t"]),
    st.builds(lambda before, comment, after: before + comment + after, st.sampled_from([" ", "\n", "\n\n "]), _COMMENTS,
              st.sampled_from(["\n", "\n\n", "\n  "])),
)  # fmt: skip


def seq(*parts: st.SearchStrategy[list[str]] | str) -> st.SearchStrategy[list[str]]:
    """Return token lists one after another; a string is tokens apart by spaces."""
    made = [st.just(part.split()) if isinstance(part, str) else part for part in parts]
    return st.tuples(*made).map(lambda lists: [token for tokens in lists for token in tokens])


def many(part: st.SearchStrategy[list[str]], least: int = 0, separator: str = "") -> st.SearchStrategy[list[str]]:
    """Return `least` to three of a part, a separator between them."""

    def join(lists: list[list[str]]) -> list[str]:
        tokens: list[str] = []
        for one in lists:
            tokens += ([separator] if tokens and separator else []) + one
        return tokens

    return st.lists(part, min_size=least, max_size=3).map(join)


def maybe(part: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), part)


name = NAMES.map(lambda text: [text])
path = st.builds(lambda first, rest: [first] + [t for w in rest for t in (".", w)], NAMES, st.lists(WORDS, max_size=3))
atom = st.one_of(
    st.integers(0, 2**70).map(lambda i: [str(i)]), st.just(["0x7F"]), st.integers(1, 64).map(lambda i: [f"{i}B"]), path
)
expr = st.recursive(
    atom,
    lambda inner: st.one_of(
        seq("(", inner, ")"),
        seq("- (", inner, ")"),
        st.builds(lambda a, op, b: [*a, op, *b], inner, st.sampled_from(list("+-*/%")), inner),
    ),
    max_leaves=5,
)
exprs = many(expr, 1, ",")
plain = st.one_of(
    expr,
    st.builds(lambda a, op, b: [*a, op, *b], expr, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), expr),
    seq(expr, "in {", exprs, "}"),
    seq(expr, "not in {", exprs, "}"),
)
conditions = many(st.one_of(plain, seq("not", plain)), 1, ",")
require = seq("require", conditions)

sized = seq(name, maybe(seq(":", expr)))
digit_parts = many(sized, 1)
group = seq(maybe(st.sampled_from([["tile"], ["lane"], ["byte"]])), many(name))
layout_clause = st.one_of(
    require,
    seq(
        "pad", many(seq(name, "to", expr), 1, ","), maybe(st.one_of(seq("fill", expr), st.just(["fill", "undefined"])))
    ),
    seq("split", name, "=", digit_parts),
    seq("store", many(group, 1, "|")),
    seq("pitch", name, "=", expr),
    seq("swizzle", name, "^=", name),
    seq("same as torch view (", exprs, ") . permute (", exprs, ")"),
    seq("same as lane", expr, ", byte", expr, "holds", many(seq(name, expr), 1, ",")),
    seq("feeds", name, ".", WORDS.map(lambda w: [w])),
)
sources = many(seq(path, maybe(seq("as [", exprs, "]"))), 1, ",")
field_clause = st.one_of(
    seq("tile", name),
    seq("scale", name),
    seq("segments", name, "=", many(sized, 1), maybe(st.just(["pad", "each"]))),
    seq("convert", name, name, sources, maybe(seq("via", name))),
    seq("view", sources),
    seq("attest", name, "when", path),
    seq("attest not", path),
    seq("gather", name, "over", name),
)
field = seq(many(name, 1, ","), ":", name, "[", exprs, "]", maybe(seq("{", many(field_clause), "}")))
extras = maybe(seq("(", many(name, 0, ","), ")"))
args = seq("args", name, extras, "{", many(name), "}")
flat = st.one_of(
    seq("let", name, "=", many(path, 1, "or")), require, seq("dim", name, maybe(seq("in {", exprs, "}"))), args, field
)
member = st.one_of(flat, seq("optional", name, "when", conditions, "{", many(flat), "}"))
item = st.one_of(
    seq("spec", name),
    seq("arch", name),
    st.just(["import", '"x.layout"']),
    seq("const", name, "=", expr),
    seq("param", name, "=", expr),
    seq("layout", name, "(", many(name, 1, ","), ") {", many(layout_clause), "}"),
    seq("record", name, "align", expr, "{", many(field), "}"),
    seq("struct", name, "(", many(name, 0, ","), ")", maybe(seq("extends", name)), "{", many(member), "}"),
)


@st.composite
def specs(draw: st.DrawFn) -> str:
    """Draw a text of the language: items, with any space and comments between their tokens."""
    items = draw(st.lists(item, min_size=1, max_size=4))
    text = draw(st.sampled_from(["", "\n", "# first\n", "## doc\n"]))
    plain_spaces = draw(st.booleans())
    for tokens in items:
        for i, token in enumerate(tokens):
            if i == 0:
                text += draw(st.sampled_from(["\n", "\n## doc\n", "\n\n## one\n## two\n", " # x\n"]))
                text += token
            else:
                text += (" " if plain_spaces else draw(_GAPS)) + token
    return text + draw(st.sampled_from(["", "\n", " # end", "\n## end\n\n"]))


@examples(300)
@given(specs())
def test_formatting_keeps_the_meaning_and_is_done_once(text: str) -> None:
    source = Source("x.layout", text)
    tree, problems = parse(source)
    if any(problem.code == "byte-count-apart" for problem in problems):
        return
    assert [p for p in problems if p.severity == "error"] == []
    neat = Source("x.layout", format_text(source))
    again, warnings = parse(neat)
    assert again == tree
    assert [c.text for c in again.comments] == [c.text.rstrip() for c in tree.comments]
    assert len(warnings) == len(problems)
    assert format_text(neat) == neat.text
    lines = neat.text.split("\n")
    assert all(line == line.rstrip() for line in lines)
    assert neat.text == neat.text.strip("\n") + "\n"
    assert "\n\n\n" not in neat.text


@examples(300)
@given(st.text(max_size=200))
def test_any_text_parses_or_is_refused(text: str) -> None:
    _, problems = parse(Source("x.layout", text))
    for style in ("full", "concise", "json", "github"):
        render(problems, style, False)  # type: ignore[arg-type]
