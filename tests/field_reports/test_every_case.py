"""Every case of the field reports is a test named for it, or stands in the table of the impossible ones; never both."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.field_reports.impossible import IMPOSSIBLE

FOLDER = Path(__file__).parent
CASES = dict(line.split(" ", 1) for line in (FOLDER / "cases.txt").read_text().splitlines())
"""The title of each public fault by its id: 90 of them."""


def cases_tested() -> list[str]:
    """Return the ids in the names of the tests of this folder."""
    names = [
        node.name
        for path in FOLDER.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    ]
    found = [re.match(r"test_([a-p]\d+)_", name) for name in names]
    return [match[1].upper() for match in found if match]


def test_every_case_is_tested_or_impossible() -> None:
    assert len(CASES) == 90
    assert set(cases_tested()) | set(IMPOSSIBLE) == set(CASES)
    assert not set(cases_tested()) & set(IMPOSSIBLE)


def test_a_reason_is_a_sentence() -> None:
    assert all(len(reason) > 60 and reason.endswith(".") for reason in IMPOSSIBLE.values())
