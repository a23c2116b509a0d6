"""The pages for contributors say what is there."""

from __future__ import annotations

import re
from pathlib import Path

from tools.file_map import PAGE, with_map

ROOT = Path(__file__).parents[2]


def test_the_file_map_is_of_now() -> None:
    page = PAGE.read_text()
    assert page == with_map(page), "run `python -m tools.file_map`"


def test_every_module_says_what_it_is() -> None:
    from tools.file_map import sentence

    modules = [p for top in ("mono_gen", "tools", "tests") for p in (ROOT / top).rglob("*.py")]
    assert not [str(path) for path in modules if path.stat().st_size and not sentence(path).endswith(".")]


def test_the_files_that_recipes_name_are_there() -> None:
    recipes = PAGE.read_text().partition("## Recipes")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:mono_gen|tests|specs|tools)/[\w./]*)`", recipes)
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]
