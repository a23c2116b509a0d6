"""Runs every case: a folder `tests/cases/<symptom>/`.

spec.layout     the spec; files beside it can be imported
make_spec.py    instead, where it would be too large to commit: SPEC is its bytes
args.txt        `--set` values, a line each: `spec.N=3`
error.txt       what the command must say, in full, where the spec is wrong
warnings.txt    what it must say, where the spec is right all the same
expected/       the files that must come out of spec.layout, where it is right

`UPDATE_CASES=1 pytest tests/cases` writes error.txt, warnings.txt and expected/ anew: read the diff.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from mono_gen.cli.arguments import parse_overrides
from mono_gen.diagnostics import SpecError
from mono_gen.diagnostics.codes import CODES
from mono_gen.diagnostics.render import render
from mono_gen.pipeline import generate

CASES = Path(__file__).parent
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir() and path.name != "__pycache__")
OUTCOMES = ("error.txt", "warnings.txt", "expected")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_case(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*OUTCOMES))
    if (folder / "make_spec.py").exists():
        (tmp_path / "spec.layout").write_bytes(runpy.run_path(str(folder / "make_spec.py"))["SPEC"])
    arguments = folder / "args.txt"
    monkeypatch.chdir(tmp_path)
    found = outcome(parse_overrides(arguments.read_text().split() if arguments.exists() else ()))
    if os.environ.get("UPDATE_CASES"):
        replace_outcome(folder, found)
    assert recorded_outcome(folder) == found


def outcome(overrides: Mapping[str, int]) -> dict[str, str]:
    """Return the files that a case must hold, by their paths in its folder."""
    try:
        made = generate([Path("spec.layout")], overrides)
    except SpecError as error:
        return {"error.txt": render(error.diagnostics, "full", False).rstrip() + "\n"}
    found = {f"expected/{file.path}": file.text for file in made.files if file.spec == "spec.layout"}
    if made.warnings:
        found["warnings.txt"] = render(made.warnings, "full", False).rstrip() + "\n"
    return found


def recorded_outcome(folder: Path) -> dict[str, str]:
    """Return the outcome that a case's folder holds."""
    paths = [path for name in OUTCOMES for path in (folder / name, *folder.glob(f"{name}/*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in paths}


def replace_outcome(folder: Path, found: Mapping[str, str]) -> None:
    """Make a case's folder hold this outcome."""
    for path in recorded_outcome(folder):
        (folder / path).unlink()
    for name, text in found.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text.encode())
    if (folder / "expected").is_dir() and not any((folder / "expected").iterdir()):
        (folder / "expected").rmdir()


def test_the_codes_explained_are_the_codes_that_cases_show() -> None:
    texts = [path.read_text() for name in ("error.txt", "warnings.txt") for path in CASES.glob(f"*/{name}")]
    shown = {code for text in texts for code in re.findall(r"^(?:error|warning)\[([a-z0-9-]+)\]", text, re.MULTILINE)}
    assert sorted(CODES) == sorted(shown)
