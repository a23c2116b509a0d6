"""The Python of the pages runs as it stands, in one process a page, and prints what the pages say it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.fences import PAGES, ROOT, Fence, fences, outcome, spec_name

MARK = "\0"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [f for f in fences(page) if f.language == "python" and "from" not in f.options]
    for fence in {id(f.above): f.above for f in blocks if f.above is not None}.values():
        _generate(fence)
    script = tmp_path / page.name.replace(".md", ".py")
    script.write_text(_script(blocks))
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    command = [sys.executable, script.name]
    environment = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"a line number of {page.name}:\n{ran.stderr}"
    printed = ran.stdout.split(MARK)[:-1]
    assert len(printed) == len(blocks)
    for fence, text in zip(blocks, printed, strict=True):
        assert text == _said(page, fence), f"{fence} prints:\n{text}"


def _generate(fence: Fence) -> None:
    """Write the files of a spec into `generated/` of the working directory."""
    folder = Path("generated")
    folder.mkdir(exist_ok=True)
    for suffix, text in outcome(fence).files.items():
        (folder / f"{spec_name(fence)}{suffix}").write_text(text)


def _script(blocks: list[Fence]) -> str:
    """Return the blocks as one script, each on the lines that it has in the page, so that tracebacks point there."""
    lines: list[str] = []
    for fence in blocks:
        lines += [""] * (fence.line - 1 - len(lines))
        lines += fence.text.splitlines()
        lines.append(f"print({MARK!r}, end='')")  # in place of the line that closes the block
    return "\n".join(lines) + "\n"


def _said(page: Path, fence: Fence) -> str:
    """Return what a block prints according to its page: the `text from=print` block that is next to it, or nothing."""
    blocks = fences(page)
    place = next(n for n, other in enumerate(blocks) if other.line == fence.line)
    following = blocks[place + 1] if place + 1 < len(blocks) else None
    return following.text if following is not None and following.options.get("from") == "print" else ""
