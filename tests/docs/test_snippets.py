"""What stands in the fenced blocks of README.md and specs/README.md is so."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.docs.fences import PAGES, Fence, fences, outcome

FENCES = [fence for page in PAGES for fence in fences(page)]
SPECS = [f for f in FENCES if f.language == "layout" and "prelude" not in f.options]
EXCERPTS = [f for f in FENCES if f.options.get("from") == "above"]
SUFFIXES = {"python": ".py", "cpp": ".hpp"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("fence", SPECS, ids=str)
def test_a_layout_block_resolves_or_is_refused_as_it_says(fence: Fence) -> None:
    found = outcome(fence)
    wanted = [fence.options[kind] for kind in ("error", "warning") if kind in fence.options]
    assert list(found.codes) == wanted, found.said
    assert bool(found.files) == ("error" not in fence.options)


@pytest.mark.parametrize("fence", EXCERPTS, ids=str)
def test_an_excerpt_is_what_the_layout_block_above_gives(fence: Fence) -> None:
    assert fence.above is not None, f"{fence}: no layout block stands above"
    found = outcome(fence.above)
    whole = found.said if fence.language == "text" else found.files[SUFFIXES[fence.language]]
    assert is_excerpt(fence.text, whole), whole


def is_excerpt(text: str, whole: str) -> bool:
    """Return whether the parts of `text` between lines `...` stand in `whole` in this order, at any one indent each."""
    lines = whole.splitlines()
    place = 0
    for part in textwrap.dedent(text).replace("\n...\n", "\0").split("\0"):
        wanted = textwrap.dedent(part).strip("\n").splitlines()
        places = (n for n in range(place, len(lines) - len(wanted) + 1) if _same(lines[n : n + len(wanted)], wanted))
        found = next(places, None)
        if found is None:
            return False
        place = found + len(wanted)
    return True


def _same(lines: list[str], wanted: list[str]) -> bool:
    return textwrap.dedent("\n".join(lines)).rstrip() == "\n".join(wanted).rstrip()


def test_an_excerpt_that_is_stale_is_noticed() -> None:
    whole = "def f(a):\n    b = a + 1\n    return b\n"
    assert is_excerpt("b = a + 1\nreturn b\n", whole)
    assert is_excerpt("def f(a):\n...\nreturn b\n", whole)
    assert not is_excerpt("b = a + 2\nreturn b\n", whole)
    assert not is_excerpt("return b\n...\nb = a + 1\n", whole)
    assert not is_excerpt("return\n", whole)
