"""`mono-gen diff`, run as a reviewer runs it: its own process, a git repository, and what can be wrong with both."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import pytest

from mono_gen.pipeline import generate

ROOT = Path(__file__).parents[2]
TILES = """\
spec tiny

layout t(row, k) {
    split row = R r:4
    split k   = K g:2 b:8
    store tile R K | lane g r | byte b
}
"""
MOVED = TILES.replace("lane g r", "lane r g")
RENAMED = TILES.replace("g:2", "h:2").replace("lane g", "lane h")
WRONG = TILES.replace("lane g r", "lane g")


def mono_gen(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    command = [sys.executable, "-m", "mono_gen", "diff", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def git(folder: Path, *arguments: str) -> None:
    settings = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.hooksPath=/dev/null",
    )
    subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, check=True)


def repository(folder: Path) -> Path:
    """Return a git repository with a spec in it, and an edit of the spec in its working tree."""
    for name, file, text in (("specs", "tiny.layout", TILES), ("notes", "a.txt", "a")):
        (folder / name).mkdir()
        (folder / name / file).write_text(text)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "specs" / "tiny.layout").write_text(MOVED)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository of the test's own."""
    return repository(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that tests share, for they change nothing."""
    return repository(tmp_path_factory.mktemp("repository"))


# --- revisions ---


@pytest.mark.parametrize("old", ["HEAD:", "HEAD:specs", "main:specs/tiny.layout", "HEAD:./specs", "HEAD:specs/"])
def test_a_revision_is_compared_with_the_working_tree(untouched: Path, old: str) -> None:
    ran = mono_gen(old, cwd=untouched)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    shown = "specs/tiny.layout" if "tiny" in old else "specs"
    assert lines[0] == f"{old.partition(':')[0]}:{shown} -> {shown}: BYTES, ABI"
    assert lines[1] == "BYTES   layout t (tiny.layout:3): digits g and r exchanged"
    assert len(lines) <= 10


def test_two_revisions_and_a_file(project: Path) -> None:
    git(project, "commit", "--quiet", "-a", "-m", "second")
    (project / "specs" / "tiny.layout").write_text(RENAMED)
    assert "HEAD~1:specs -> HEAD:specs: BYTES, ABI" in mono_gen("HEAD~1:", "HEAD:", cwd=project).stdout
    assert "NAME    layout t (tiny.layout:3): digit g -> h" in mono_gen("HEAD~1:", "specs", cwd=project).stdout
    ran = mono_gen("specs/tiny.layout", "HEAD:specs/tiny.layout", cwd=project)
    assert ran.returncode == 0
    assert ran.stdout.startswith("specs/tiny.layout -> HEAD:specs/tiny.layout: BYTES")


def test_no_difference_is_said_in_one_line(project: Path) -> None:
    (project / "specs" / "tiny.layout").write_text(f"# a comment\n{TILES}")
    ran = mono_gen("HEAD:", cwd=project)
    assert (ran.returncode, ran.stdout) == (0, "no difference: HEAD:specs and specs mean the same (1 spec)\n")


def test_from_a_folder_below_the_top(project: Path) -> None:
    below = project / "docs" / "notes"
    below.mkdir(parents=True)
    ran = mono_gen("HEAD:specs", cwd=below)
    assert ran.stdout.startswith("HEAD:specs -> ../../specs: BYTES"), ran.stderr
    assert mono_gen("HEAD:../../specs", cwd=below).stdout.startswith("HEAD:specs -> ../../specs: BYTES")
    ran = mono_gen("HEAD:", cwd=below)
    assert ran.returncode == 2
    assert "no 'docs/notes/specs' at HEAD" in ran.stderr
    assert "it has specs in specs" in ran.stderr


def test_imports_are_those_of_the_revision_and_then_of_the_library(project: Path) -> None:
    specs = project / "specs"
    (specs / "shared").mkdir()
    (specs / "shared" / "base.layout").write_text(TILES.replace("tiny", "base"))
    user = (
        'spec user\narch gfx950\nimport "shared/base.layout"\nimport "aiter.layout"\n'
        "struct S(layer) {\n w : fp8_e4m3fn[64, 64] { tile t convert fp8_e4m3fn row_major layer.w }\n"
        " v : fp8_e4m3fn[64, 64] { tile shuffle_16x16 convert fp8_e4m3fn row_major layer.v }\n}\n"
    )
    (specs / "user.layout").write_text(user)
    (specs / "tiny.layout").write_text(TILES)
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "second")
    (specs / "shared" / "base.layout").write_text(MOVED.replace("tiny", "base"))
    ran = mono_gen("HEAD:specs/user.layout", cwd=project)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "BYTES   layout t (base.layout:3): digits g and r exchanged" in ran.stdout
    assert "through layout t: S.w 75 % of 4,096 bytes" in ran.stdout
    assert "shuffle_16x16" not in ran.stdout
    (specs / "shared" / "base.layout").unlink()
    assert mono_gen("HEAD:specs/user.layout", "HEAD:specs", cwd=project).returncode == 0


def test_links_are_followed_inside_the_revision_alone(project: Path) -> None:
    (project / "other").mkdir()
    (project / "other" / "linked.layout").symlink_to("../specs/tiny.layout")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "second")
    assert mono_gen("HEAD:other", "HEAD:specs", cwd=project).stdout.startswith("no difference")
    (project / "other" / "linked.layout").unlink()
    (project / "other" / "linked.layout").symlink_to(ROOT / "specs" / "minimax_m3.layout")
    git(project, "commit", "--quiet", "-a", "-m", "third")
    ran = mono_gen("HEAD:other", "HEAD:specs", cwd=project)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'HEAD:other/linked.layout' is a link that leads to no file of this revision" in ran.stderr


def test_nothing_is_written_anywhere(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    before = {p: p.read_bytes() for p in project.rglob("*") if p.is_file()}
    ran = mono_gen("HEAD:", cwd=project, env={"TMPDIR": str(scratch)})
    assert ran.returncode == 0
    assert {p: p.read_bytes() for p in project.rglob("*") if p.is_file()} == before
    assert not list(scratch.iterdir())


# --- what can be wrong ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.layout", "specs"), "OLD: no such file or folder: 'nowhere.layout'"),
        (("HEAD", "specs"), "a revision has a colon: 'HEAD:' for its specs"),
        (("specs", "nowhere"), "NEW: no such file or folder: 'nowhere'"),
        (("nope:specs",), "no revision 'nope' in the repository"),
        (("--", "-x:specs"), "no revision '-x' in the repository"),
        (("HEAD:nowhere",), "no 'nowhere' at HEAD"),
        (("HEAD:specs/nope.layout",), "no 'specs/nope.layout' at HEAD"),
        (("HEAD:notes",), "no spec found: no .layout file in 'HEAD:notes'"),
        (("HEAD:notes/a.txt",), "'HEAD:notes/a.txt' is not a .layout file"),
        (("HEAD:../specs",), "the path leads out of the repository"),
        (("specs", "notes"), "NEW: no spec found: no .layout file in notes"),
        (("specs", "notes/a.txt"), "NEW: 'notes/a.txt' is not a .layout file"),
        (("specs",), "NEW is missing: 'specs' is in the working tree"),
        (
            ("HEAD:", "--fail-on", "bytes,size"),
            "--fail-on: no class 'size'; expected some of bytes, abi, checks, name, doc",
        ),
        (("HEAD:", "--fail-on", ""), "--fail-on: no class ''"),
        (("HEAD:", "--kernels", "nowhere"), "--kernels: no folder 'nowhere'"),
        (("HEAD:", "--format", "xml"), "--format"),
        ((), "OLD"),
    ],
)
def test_a_wrong_command_is_refused(untouched: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = mono_gen(*arguments, cwd=untouched)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in " ".join(re.sub(r"[│╭╮╰╯─]", " ", ran.stderr).split())
    assert "Traceback" not in ran.stderr


def test_outside_of_a_repository(tmp_path: Path) -> None:
    ran = mono_gen("HEAD:specs", cwd=tmp_path, env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'HEAD:specs': the current folder is in no git repository" in ran.stderr


def test_without_git(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    ran = mono_gen("HEAD:specs", cwd=project, env={"PATH": str(tmp_path_factory.mktemp("empty"))})
    assert ran.returncode == 2
    assert "git is not installed, or not in PATH" in ran.stderr


def test_a_wrong_spec_names_its_side(project: Path) -> None:
    (project / "specs" / "tiny.layout").write_text(WRONG)
    ran = mono_gen("HEAD:", cwd=project)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("NEW, specs: 1 error\nerror[digit-dropped]")
    assert "--> specs/tiny.layout:6" in ran.stderr
    git(project, "commit", "--quiet", "-a", "-m", "wrong")
    (project / "specs" / "tiny.layout").write_text(TILES)
    ran = mono_gen("HEAD:", cwd=project)
    assert ran.returncode == 1
    assert ran.stderr.startswith("OLD, HEAD:specs: 1 error\n")
    assert "--> HEAD:specs/tiny.layout:6" in ran.stderr
    assert "/tmp" not in ran.stderr


def test_both_sides_wrong_are_one_list_of_json(project: Path) -> None:
    (project / "specs" / "tiny.layout").write_text(WRONG)
    git(project, "commit", "--quiet", "-a", "-m", "wrong")
    ran = mono_gen("HEAD:specs/tiny.layout", "--format", "json", cwd=project)
    assert ran.returncode == 1
    assert [d["file"] for d in json.loads(ran.stdout)] == ["HEAD:specs/tiny.layout", "specs/tiny.layout"]
    assert ran.stderr == "OLD, HEAD:specs/tiny.layout: 1 error\nNEW, specs/tiny.layout: 1 error\n"


# --- formats, exit codes, kernels ---


@pytest.mark.parametrize(
    ("classes", "text", "code"),
    [
        ("bytes", MOVED, 4),
        ("bytes,abi", MOVED, 4),
        ("name, DOC", MOVED, 0),
        ("bytes,abi,checks", RENAMED, 0),
        ("name", RENAMED, 4),
        ("checks", TILES.replace("{\n    split row", "{\n    require k == 16\n    split row"), 4),
        ("doc", TILES.replace("layout", "## Said.\nlayout"), 4),
        ("bytes,abi,checks,name,doc", TILES, 0),
    ],
)
def test_fail_on(project: Path, classes: str, text: str, code: int) -> None:
    (project / "specs" / "tiny.layout").write_text(text)
    ran = mono_gen("HEAD:", "--fail-on", classes, cwd=project)
    assert (ran.returncode, ran.stderr) == (code, "")


def test_markdown_and_json(untouched: Path) -> None:
    ran = mono_gen("HEAD:", "--format", "markdown", cwd=untouched)
    assert ran.stdout.startswith("### Layouts: **BYTES**, **ABI**\n\n`HEAD:specs` → `specs`\n")
    data = json.loads(mono_gen("HEAD:", "--format", "json", "--fail-on", "abi", cwd=untouched).stdout)
    assert data["classes"] == ["bytes", "abi"]
    assert data["items"][0]["moves"][0]["moved_elements"] == 192


def test_kernels_of_the_repository_and_of_a_folder(project: Path) -> None:
    assert "kernels" not in mono_gen("HEAD:", cwd=project).stdout
    for folder in (project / "mono_gen" / "kernels", project / "mine"):
        folder.mkdir(parents=True)
        (folder / "a.hip").write_text("// tiles\nusing T = mono::tiny::t<64, 64, 8>;\n")
    assert "kernels mono_gen/kernels/a.hip:2 (t)" in mono_gen("HEAD:", cwd=project).stdout
    assert "kernels mine/a.hip:2 (t)" in mono_gen("HEAD:", "--kernels", "mine", cwd=project).stdout
    (project / "mine" / "a.hip").write_text("int t;\n")
    ran = mono_gen("HEAD:", "--kernels", "mine", cwd=project)
    assert "kernels none of 1 source in mine mentions a touched name" in ran.stdout


def test_colours_are_for_terminals_alone(untouched: Path) -> None:
    assert "\x1b" not in mono_gen("HEAD:", cwd=untouched).stdout
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "mono_gen", "diff", "HEAD:"]
    ran = subprocess.Popen(command, cwd=untouched, env=environment, stdout=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert ran.wait() == 0
    assert b"\x1b[1;31mBYTES\x1b[0m" in shown


# --- the real spec ---

REAL = ROOT / "specs" / "minimax_m3.layout"
LIMIT = 40
"""Lines that the generated files may gain where a digit moves."""


def digit_moved(text: str) -> str:
    """Return the spec with digit `half` of mxfp8_a_tiles moved from byte to tile, its `same as` lines with it."""
    edits = (
        ("store tile R K | lane g r | byte half b", "store tile R K half | lane g r | byte b"),
        (
            ".permute(0, 2, 4, 1, 3, 5)\n    same as lane 16*g + r, byte 16*half",
            ".permute(0, 2, 3, 4, 1, 5)\n    same as lane 16*g + r, byte 16*half",
        ),
        ("byte 16*half + b holds row 16*R + r, k 128*K", "byte b holds row 16*R + r, k 128*K"),
    )
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folders of the real spec and of the one with a digit moved."""
    folders = tmp_path / "old", tmp_path / "new"
    for folder in folders:
        shutil.copytree(ROOT / "specs", folder)
    text = re.sub(r"^    feeds .*\n", "", REAL.read_text(), flags=re.MULTILINE)  # a moved digit feeds nothing
    (folders[0] / REAL.name).write_text(text)
    (folders[1] / REAL.name).write_text(digit_moved(text))
    return folders


def test_a_moved_digit_is_said_in_ten_lines(moved: tuple[Path, Path]) -> None:
    ran = mono_gen(str(moved[0]), str(moved[1]), "--kernels", str(ROOT / "mono_gen"), cwd=ROOT)
    lines = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(lines) <= 10
    said = r"BYTES   layout mxfp8_a_tiles \(minimax_m3\.layout:\d+\): digit half moved from byte to tile"
    assert re.fullmatch(said, lines[1])
    assert any("byte 16 was row 0 k 64, now row 1 k 0" in line for line in lines)
    assert any("SparseMoeLayer.sh_w13 98.44 % of 9,437,184 bytes" in line for line in lines)


def test_a_moved_digit_is_a_small_diff_of_generated_files(moved: tuple[Path, Path]) -> None:
    before, after = (
        {f.path: f.text.splitlines() for f in generate([folder / REAL.name], {}).files} for folder in moved
    )
    assert before.keys() == after.keys()
    added = [
        line
        for name in before
        for line in unified_diff(before[name], after[name], lineterm="", n=0)
        if line.startswith("+") and not line.startswith("+++")
    ]
    listed = 2  # of MANIFEST: the digests of the module and of the header
    assert len(added) + listed <= LIMIT, "\n".join(added)
