"""The commands that the pages show exist, and the C++ that they show compiles against the generated header."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.fences import PAGES, ROOT, Fence, fences, outcome, spec_name

BLOCKS = [fence for page in PAGES for fence in fences(page)]
SHELL = [fence for fence in BLOCKS if fence.language == "sh"]
CPP = [fence for fence in BLOCKS if fence.language == "cpp" and "from" not in fence.options]
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")


@pytest.mark.parametrize("fence", CPP, ids=str)
def test_cpp_compiles(fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fence.above is not None, f"{fence}: no layout block stands above"
    monkeypatch.chdir(tmp_path)
    Path(f"{spec_name(fence.above)}.hpp").write_text(outcome(fence.above).files[".hpp"])
    Path("kernel.cpp").write_text(fence.text)
    ran = subprocess.run(["g++", *FLAGS, "kernel.cpp"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with the repository's specs and generated files."""
    for name in ("specs", "generated"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("fence", SHELL, ids=str)
def test_commands_exist(fence: Fence, clone: Path) -> None:
    for line in fence.text.splitlines():
        command = line.replace(".venv/bin/", "").replace("python -m pip", "pip")
        inner = re.search(r"\$\((mono-gen [^)]*)\)", command)
        check_command(shlex.split(inner[1] if inner else command), clone)


def check_command(words: list[str], folder: Path) -> None:
    """Fail where the command could not be meant: mono-gen's are run in the folder, others are looked up."""
    match words:
        case ["make", *targets]:
            made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert targets
            assert set(targets) <= set(made)
        case ["mono-gen", *arguments]:
            command = [sys.executable, "-m", "mono_gen", *arguments]
            environment = {"PYTHONPATH": str(ROOT)}
            ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        case ["python3", "-m", "venv", ".venv"]:
            pass
        case ["pip", "install", "--constraint", constraints, "--editable", what]:
            assert (ROOT / constraints).is_file()
            extras = re.findall(r"^(\w+) = \[$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
            assert set(re.findall(r"\w+", what)) <= set(extras)
        case _:
            raise AssertionError(f"no test reads `{shlex.join(words)}`")
