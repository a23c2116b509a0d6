"""What the pages point at is there, and the README's tables are those of the tree."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance.rows import COVERED, NOT_COVERED
from tests.docs.fences import PAGES, README, ROOT
from tests.fuzz.test_mutated_specs import MUTANTS

NAMED = re.compile(r"`((?:mono_gen|tests|tools|specs|generated)/[\w./*]*)`")


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(head: str) -> list[str]:
    """Return the rows of the README's table with this head."""
    table = README.read_text().partition(f"{head}\n")[2]
    lines = table.splitlines()[1:]
    end = next(n for n, line in enumerate(lines) if not line.startswith("|"))
    return lines[:end]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", prose(page))
    assert targets
    for target in targets:
        file, _, anchor = target.partition("#")
        other = (page.parent / file) if file else page
        assert other.is_file(), target
        assert not anchor or anchor in anchors(other), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_pages_name_are_there(page: Path) -> None:
    named = NAMED.findall(prose(page))
    assert named
    made = {"specs/attention.layout", "generated/attention.py", "generated/attention.hpp"}  # of the README's own spec
    made |= {"specs/tutorial.layout"}  # of the tutorial
    assert not [name for name in named if name not in made and not (ROOT / name).exists()]


def test_every_folder_of_the_package_has_its_row() -> None:
    there = {f"mono_gen/{p.name}/" for p in (ROOT / "mono_gen").iterdir() if p.is_dir() and p.name != "__pycache__"}
    listed = {NAMED.findall(row)[0] for row in rows("| where | what |") if row.startswith("| `mono_gen/")}
    assert listed - {"mono_gen/write.py"} == there


def test_the_demo_table_is_that_of_the_struct(minimax_module: ModuleType) -> None:
    wanted = [
        f"| {f.name} | {f.format} | {f.shape} | {f.layout} | {f.plan} |" for f in minimax_module.SparseMoeLayer.fields
    ]
    assert rows("| field | format | shape | layout | plan |") == wanted


def test_the_numbers_of_the_witnesses_are_true() -> None:
    witnesses = dict(row.strip("| ").split(" | ", 1) for row in rows("| witness | says | where |"))
    assert witnesses["aiter"].startswith(f"{len(COVERED)} of {len(COVERED) + len(NOT_COVERED)} digests")
    assert f"the other {len(NOT_COVERED)} pack values into nibbles" in witnesses["aiter"]
    assert all(reason.startswith("nibble digits") for reason in NOT_COVERED.values())
    assert witnesses["broken specs"].startswith(f"{MUTANTS:,} of them")


def test_every_folder_of_tests_is_a_witness() -> None:
    there = {f"tests/{p.name}/" for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name != "__pycache__"}
    listed = {name for row in rows("| witness | says | where |") for name in NAMED.findall(row)}
    assert there - listed == {"tests/house/", "tests/resolve/", "tests/syntax/"}
