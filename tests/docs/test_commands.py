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
from tests.docs.test_snippets import is_excerpt

BLOCKS = [fence for page in PAGES for fence in fences(page)]
SHELL = [fence for fence in BLOCKS if fence.language == "sh"]
YAML = [fence for fence in BLOCKS if fence.language == "yaml"]
CPP = [fence for fence in BLOCKS if fence.language == "cpp" and "from" not in fence.options]
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")


@pytest.mark.parametrize("fence", CPP, ids=str)
def test_cpp_compiles(fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fence.sound is not None, f"{fence}: no layout block stands above"
    monkeypatch.chdir(tmp_path)
    Path(f"{spec_name(fence.sound)}.hpp").write_text(outcome(fence.sound).files[".hpp"])
    Path("kernel.cpp").write_text(fence.text)
    ran = subprocess.run(["g++", *FLAGS, "kernel.cpp"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the repository's specs and generated files, which is the current one."""
    for name in ("specs", "generated"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("fence", SHELL, ids=str)
def test_commands_run(fence: Fence, clone: Path) -> None:
    """Each command runs, prints what the page says, and writes what is committed, where that is."""
    _bring_blocks_above(fence)
    printed = ""
    for line in fence.text.splitlines():
        printed = check_line(line, clone)
    following = BLOCKS[BLOCKS.index(fence) + 1 :][:1]
    for text in (block for block in following if block.options.get("from") == "sh"):
        assert is_excerpt(text.text, printed), printed
    for picture in (ROOT / "specs").glob("*.svg"):
        assert (clone / "specs" / picture.name).read_bytes() == picture.read_bytes(), f"{picture} is not as drawn"


def _bring_blocks_above(fence: Fence) -> None:
    """Put the spec above a block where pages say that it is saved, and the C++ above it with the header it includes."""
    if fence.sound is not None:
        name = spec_name(fence.sound)
        Path(f"specs/{name}.layout").write_text(fence.sound.text)
        kernels = [block for block in CPP if block.page == fence.page and block.line < fence.line]
        for kernel in kernels[-1:]:
            Path("kernel.cpp").write_text(kernel.text)
            Path(f"generated/{name}.hpp").write_text(outcome(fence.sound).files[".hpp"])


@pytest.mark.parametrize("fence", YAML, ids=str)
def test_workflows_run_commands_that_are_there(fence: Fence, clone: Path) -> None:
    runs = re.findall(r"^ *- run: (.*)$", fence.text, re.MULTILINE)
    hooks = re.findall(r"^ *- id: (.*)$", fence.text, re.MULTILINE)
    assert runs or hooks
    assert set(hooks) <= set(re.findall(r"^- id: (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE))
    for line in runs:
        check_line(line, clone)


def check_line(line: str, folder: Path) -> str:
    """Run a line of a shell, or the mono-gen inside of it, as far as this machine can; return what it prints."""
    command = line.replace(".venv/bin/", "").replace("python -m pip", "pip")
    inner = re.search(r"\$\((mono-gen [^)]*)\)", command)
    printed = check_command(shlex.split(inner[1] if inner else command, comments=True), folder)
    if inner and command.startswith("g++"):
        check_command(shlex.split(command.replace(inner[0], printed.strip())), folder)
    return printed


def check_command(words: list[str], folder: Path) -> str:
    """Fail where the command could not be meant: mono-gen's and g++ are run in the folder, others are looked up."""
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
            return ran.stdout
        case ["g++", *_]:
            ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
        case ["sed", script, source, ">", target]:
            ran = subprocess.run(["sed", script, source], cwd=folder, capture_output=True, text=True, check=True)
            assert ran.stdout != (folder / source).read_text()
            (folder / target).write_text(ran.stdout)
        case ["python3", "-m", "venv", ".venv"]:
            pass
        case ["pip", "install", "--constraint", constraints, "--editable", what]:
            assert (ROOT / constraints).is_file()
            extras = re.findall(r"^(\w+) = \[$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
            assert set(re.findall(r"\w+", what)) <= set(extras)
        case _:
            raise AssertionError(f"no test reads `{shlex.join(words)}`")
    return ""
