"""The house style."""

from __future__ import annotations

from pathlib import Path

import pytest

from mono_gen.diagnostics import SpecError
from mono_gen.syntax.format import format_text
from mono_gen.syntax.parse import parse
from mono_gen.syntax.source import Source

SEEDS = Path(__file__).parent.parent / "fuzz" / "seeds"


def formatted(text: str) -> str:
    source = Source("x.layout", text)
    result = format_text(source)
    again = Source("x.layout", result)
    assert parse(again)[0] == parse(source)[0]
    assert format_text(again) == result
    return result


UGLY = """

spec a  arch b
layout x(row,
 k)

{ split row = R  r:16 split k = K   \t
  b:4
  # hi
  store R K | # trail

 r b



 } const A = 1 +
   # between
 2
struct S(l) { dim E in {
 4, 5
 } a : bf16[E] { view l.x }
 args f(a,
 b) { a
  b
  c # hi
  } optional g when l.in
  {
  let b = c or
    d
  ## doc
  a   : bf16[4] {}}} # end
 ## stray
# last
"""

NEAT = """\
spec a
arch b
layout x(row,
    k) {
    split row = R  r:16
    split k = K
        b:4
    # hi
    store R K | # trail

        r b
}
const A = 1 +
    # between
    2
struct S(l) {
    dim E in {
        4, 5
    }
    a : bf16[E] { view l.x }
    args f(a,
        b) {
        a
        b
        c # hi
    }
    optional g when l.in {
        let b = c or
            d
        ## doc
        a   : bf16[4] {}
    }
} # end
## stray
# last
"""


def test_breaks_and_indentation() -> None:
    assert formatted(UGLY) == NEAT


@pytest.mark.parametrize("seed", sorted(SEEDS.glob("*.layout")), ids=lambda p: p.stem)
def test_seeds_are_in_the_house_style(seed: Path) -> None:
    text = seed.read_text(encoding="utf-8")
    assert formatted(text) == text


def test_a_body_on_one_line_stays_while_it_fits() -> None:
    start = "layout x(row) { split row = R r:16  store R r"
    fits = start + " " * (120 - len(start) - 1) + "}\n"
    assert formatted(fits) == fits
    longer = fits.replace(" }", "  }")
    assert formatted(longer) == "layout x(row) {\n    split row = R r:16\n    store R r\n}\n"


def test_only_the_outer_body_is_broken_where_that_is_enough() -> None:
    fields = " ".join(f"w{i} : bf16[4] {{ view l.x{i} }}" for i in range(5))
    assert formatted(f"struct S(l) {{ {fields} }}").splitlines()[1] == "    w0 : bf16[4] { view l.x0 }"


def test_line_ends_become_newlines() -> None:
    assert formatted("## doc  \r\nspec a # x\t\r\n\r\n\r\n\r\narch b") == "## doc\nspec a # x\n\narch b\n"


def test_a_reserved_word_does_not_stop_it() -> None:
    assert format_text(Source("x", "const   class = 1")) == "const   class = 1\n"


@pytest.mark.parametrize("text", ["layout x(row {}", "spec a const B = ", "", "spec a # \0"])
def test_a_text_that_does_not_parse_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        format_text(Source("x", text))


def test_lines_that_indentation_makes_too_long_are_refused() -> None:
    text = f"spec x\narch gfx950\nstruct S(l) {{\nrequire\n{'1+' * 8188}1 == 2\n}}\n"
    assert not [d for d in parse(Source("x", text))[1] if d.code == "line-too-long"], "as it is, it is not"
    with pytest.raises(SpecError, match="line-too-long"):
        format_text(Source("x", text))
