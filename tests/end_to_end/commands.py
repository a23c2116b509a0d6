"""Many commands in one process of the real program: starting Python and importing costs more than most commands do."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

_SCRIPT = """
import contextlib, io, json, os, sys
from pathlib import Path
from mono_gen.cli import main

asked = json.loads(Path(sys.argv[1]).read_text())
told = []
for one in asked:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["mono-gen", *one["arguments"]]
    if one["user"] is not None:
        os.seteuid(one["user"])
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main()
            except SystemExit as end:
                code = end.code or 0
    finally:
        if one["user"] is not None:
            os.seteuid(0)
    told.append([code, out.getvalue(), err.getvalue()])
Path(asked[0]["answers"]).write_text(json.dumps(told))
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    def data(self) -> dict[str, Any]:
        """Return what a command with `--json` printed."""
        assert self.code == 0, f"{self.arguments}: {self.err}"
        found: dict[str, Any] = json.loads(self.out)
        return found


def as_anybody() -> None:
    """Let a process keep to permissions where root starts it, too: without DAC_OVERRIDE and DAC_READ_SEARCH."""
    drop = 24  # PR_CAPBSET_DROP; who is not root has neither, and may not ask
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


def run_all(commands: Sequence[Sequence[str]], cwd: Path, scratch: Path, user: int | None = None) -> list[Ran]:
    """Return what each command did, run one after another in one process; `user` is who the last of them runs as."""
    answers = scratch / "answers.json"
    asked = [
        {"arguments": list(words), "answers": str(answers), "user": user if i == len(commands) - 1 else None}
        for i, words in enumerate(commands)
    ]
    (scratch / "asked.json").write_text(json.dumps(asked))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", _SCRIPT, str(scratch / "asked.json")]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [Ran(tuple(words), *told) for words, told in zip(commands, json.loads(answers.read_text()), strict=True)]
