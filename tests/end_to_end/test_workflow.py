"""What goes with the commands: help with examples, suggestions for what is misspelt, completion, hooks."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mono_gen.cli.app import app

ROOT = Path(__file__).parents[2]
GROUP: Any = typer.main.get_command(app)
COMMANDS = sorted(GROUP.commands)
RUNNER = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def mono_gen(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    command = [sys.executable, "-m", "mono_gen", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def example(name: str) -> list[str]:
    """Return the words after `mono-gen` in the example of a command's help."""
    epilog = GROUP.commands[name].epilog or ""
    found = re.fullmatch(r"Example: .*?mono-gen ([^)\"]+)[)\"]*.*", epilog)
    assert found is not None, f"{name} has no example: {epilog!r}"
    return shlex.split(found[1])


# --- help ---


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_says_what_it_does_and_shows_an_example(name: str) -> None:
    shown = RUNNER.invoke(app, [name, "--help"], prog_name="mono-gen")
    assert shown.exit_code == 0, shown.output
    assert GROUP.commands[name].epilog in " ".join(shown.output.split())
    assert (GROUP.commands[name].help or "").partition("\n")[0] in " ".join(shown.output.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_example_is_one_of_its_command(name: str) -> None:
    first, *arguments = example(name)
    assert first == name
    GROUP.commands[name].make_context(name, arguments)  # raises for an option or an argument that is none


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_in_the_list_with_a_sentence(name: str) -> None:
    shown = RUNNER.invoke(app, ["--help"], prog_name="mono-gen").output
    assert re.search(rf"^\W*{name}\s+\S.*\w", shown, re.MULTILINE), shown


# --- what is misspelt ---


@pytest.mark.parametrize("name", COMMANDS)
def test_a_misspelt_command_has_a_suggestion(name: str) -> None:
    wrong = name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name[:-1]
    shown = RUNNER.invoke(app, [wrong], prog_name="mono-gen")
    assert shown.exit_code == 2
    assert name in shown.output.partition("Did you mean")[2], shown.output


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["check", "--outt", "x"], "--out"),
        (["check", "--format", "githb"], "'github'"),
        (["draw", "aiter", "shuffle_16x16", "--row", "3"], "--rows"),
        (["explain", "digit-droped"], "did you mean digit-dropped"),
        (["check", "minimax_m3"], "did you mean 'specs/minimax_m3.layout'?"),
        (["check", "spec"], "did you mean 'specs'?"),
        (["fmt", "specs/minimax.layout"], "did you mean 'specs/minimax_m3.layout'?"),
        (["generate", "--set", "minimax_m3.TPP=2"], "did you mean `TP`?"),
        (["generate", "--set", "minimax.TP=2"], "did you mean `minimax_m3`?"),
        (["draw", "aitr", "shuffle_16x16"], "did you mean `aiter`?"),
        (["draw", "minimax_m3", "w_qvk"], "did you mean `w_qkv`"),
        (["where", "minimax_m3", "w_qvk", "--row", "3"], "did you mean `w_qkv`"),
        (["where", "minimax_m3", "w_qkv", "--rwo", "3", "--k", "1"], "did you mean `row`"),
    ],
)
def test_a_misspelt_name_has_a_suggestion(
    arguments: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specs").symlink_to(ROOT / "specs")
    monkeypatch.chdir(tmp_path)
    shown = RUNNER.invoke(app, arguments, prog_name="mono-gen")
    assert shown.exit_code == 2
    assert hint in shown.output
    assert not (tmp_path / "generated").exists()


# --- completion ---


def completed(words: str, cwd: Path = ROOT, shell: str = "bash") -> list[str]:
    """Return what a shell is offered for the last word; a blank at the end begins a new one."""
    count = str(len(words.split()) - (not words.endswith(" ")))
    asked = {"_MONO_GEN_COMPLETE": f"complete_{shell}", "COMP_WORDS": words, "COMP_CWORD": count}
    ran = mono_gen(cwd=cwd, **asked, _TYPER_COMPLETE_ARGS=words)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_completion_of_commands_and_options() -> None:
    assert completed("mono-gen gen") == ["generate"]
    assert completed("mono-gen check --fo") == ["--format"]
    assert completed("mono-gen check --format g") == ["github"]


def test_completion_of_names() -> None:
    assert completed("mono-gen explain digit-d") == ["digit-dropped"]
    assert completed("mono-gen draw mini") == ["minimax_m3"]
    assert completed("mono-gen draw minimax_m3 w") == ["w13", "w2", "w_o", "w_qkv"]
    assert completed("mono-gen draw minimax_m3 w13 mxfp8") == ["mxfp8_a_tiles"]
    assert completed("mono-gen draw minimax_m3 CpSparseMoeLayer.w1") == ["CpSparseMoeLayer.w13"]
    assert completed("mono-gen where minimax_m3 s1") == ["s13"]
    assert completed("mono-gen generate --set mini") == ["minimax_m3.TP="]


def test_completion_where_there_is_nothing_to_complete(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "wrong.layout").write_text("spec wrong\nlayout x(row, k) { store row }\n")
    for words in ("draw wrong ", "draw nope w", "where wrong w", "generate --set wr", "explain zz", "draw a/b"):
        assert completed(f"mono-gen {words}", tmp_path) == []


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _mono_gen_completion mono-gen"),
        ("zsh", "compdef _mono_gen_completion mono-gen"),
        ("fish", "complete --command mono-gen"),
    ],
)
def test_the_script_for_each_shell_is_shown(shell: str, line: str) -> None:
    ran = mono_gen("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert line in ran.stdout


def test_completion_is_installed_for_bash(tmp_path: Path) -> None:
    ran = mono_gen("--install-completion", "bash", HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (ran.returncode, ran.stderr) == (0, "")
    (script,) = tmp_path.rglob("mono-gen.sh")
    assert str(script) in (tmp_path / ".bashrc").read_text()
    syntax = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (syntax.returncode, syntax.stderr) == (0, "")


# --- hooks ---


def test_the_hooks_run(tmp_path: Path) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entries = re.findall(r"^  entry: mono-gen (.*)$", text, re.MULTILINE)
    assert re.findall(r"^- id: (.*)$", text, re.MULTILINE) == ["mono-gen-fmt", "mono-gen-check"]
    for name in ("specs", "generated"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    fmt, check = (entry.split() for entry in entries)
    spec = tmp_path / "specs" / "minimax_m3.layout"
    formatted = spec.read_text()
    spec.write_text(formatted.replace("    split row", "  split row"))
    assert mono_gen(*fmt, "specs/minimax_m3.layout", cwd=tmp_path).returncode == 0
    assert spec.read_text() == formatted
    assert mono_gen(*check, cwd=tmp_path).returncode == 0
