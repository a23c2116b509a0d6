"""Deletes each check in turn, in a scratch copy, and shows the test that fails for it: `python -m tools.delete_checks`.

A check that no test misses is a check that a later change may lose. Each one runs in a process of its own, forked from
one that has imported torch and pytest already: about a second a check.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.find_checks import Check, checks_of

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("mono_gen", "generated", "specs", "tests", "tools", "pyproject.toml", "README.md", "CONTRIBUTING.md")
MODULES = ("mono_gen/runtime", "mono_gen/resolve", "mono_gen/syntax")
BROAD = (
    "tests/field_reports",
    "tests/end_to_end/test_storage_checks.py",
    "tests/generated/test_python_synthetic.py",
)
"""What a check of the runtime that its module's own tests do not miss is tried on."""

OWN = {
    "runtime/tensors": ("test_tensors", "test_load", "test_tables", "test_moves", "test_numerics"),
    "runtime/dims": ("test_load",),
    "runtime/groups": ("test_load", "test_gather", "test_exchange"),
    "runtime/load": ("test_load",),
    "runtime/moves": ("test_moves", "test_numerics"),
    "runtime/content": ("test_content", "test_recheck", "test_ledger"),
    "runtime/ledger": ("test_ledger", "test_recorded"),
    "runtime/recorded": ("test_recorded", "test_ledger"),
    "runtime/layouts": ("test_layouts", "test_ledger", "test_recorded"),
    "runtime/recheck": ("test_recheck", "test_content"),
    "runtime/tables": ("test_tables", "test_recheck"),
    "runtime/exchange": ("test_exchange", "test_gather"),
    "runtime/gather": ("test_gather", "test_exchange"),
}
"""Test modules of tests/runtime by the module that they are about; others have the one of their own name."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests that a deleted check is tried on: paths, and the `-k` that chooses among them."""

    paths: tuple[str, ...]
    chosen: str = ""

    def arguments(self) -> list[str]:
        """Return what pytest is called with."""
        return [*self.paths, *(("-k", self.chosen) if self.chosen else ())]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a check: `by` the test that fails without it; empty where none does."""

    check: Check
    by: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 where every check that was deleted is missed by a test, 1 where one survived."""
    options = _options(arguments)
    wanted = re.compile(options.only)
    checks = [c for c in _all_checks(ROOT) if wanted.search(str(c))]
    if options.list:
        print("\n".join(map(str, checks)))
        return 0
    with tempfile.TemporaryDirectory(prefix="delete-checks-") as folder:
        verdicts = _run_all(checks, Path(folder), options.jobs, options.limit)
    survived = [v for v in verdicts if not v.by]
    print(f"\n{len(verdicts)} checks deleted, {len(verdicts) - len(survived)} missed by a test, {len(survived)} not")
    for verdict in survived:
        print(f"SURVIVED  {verdict.check}")
    return 1 if survived else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.delete_checks", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="checks whose `file:line  text` this matches")
    parser.add_argument("--list", action="store_true", help="print the checks and delete none")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="checks at a time (2)")
    parser.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds for the tests of a check (60)")
    return parser.parse_args(arguments)


def _all_checks(root: Path) -> Iterator[Check]:
    """Yield the checks of the package in the order of files and lines."""
    for folder in MODULES:
        paths = sorted((root / folder).glob("*.py"))
        texts = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
        yield from checks_of(texts)


def _stages(check: Check, root: Path) -> Iterator[Stage]:
    """Yield the tests to try, the likeliest first."""
    name = check.path.removeprefix("mono_gen/").removesuffix(".py")
    if name.startswith("runtime/"):
        own = OWN.get(name, (f"test_{Path(name).name}",))
        paths = [f"tests/runtime/{test}.py" for test in own]
        present = tuple(path for path in paths if (root / path).is_file())
        if present:
            yield Stage(present)
        yield Stage(BROAD)
        return
    cases = [path.parent.name for path in (root / "tests/cases").glob("*/error.txt") if check.code in path.read_text()]
    if check.code and cases:
        yield Stage(("tests/cases/test_cases.py",), " or ".join(sorted(cases)))
    yield Stage(("tests/syntax",) if name.startswith("syntax/") else ("tests/resolve",))
    yield Stage(("tests/cases",))


# --- running ---


@dataclass(slots=True)
class _Running:
    """A check that is deleted in a scratch copy while its tests run."""

    check: Check
    copy: Path
    original: str
    pid: int
    started: float


def _run_all(checks: Iterable[Check], folder: Path, jobs: int, limit: float) -> list[Verdict]:
    """Return a verdict a check; each line is printed as it comes."""
    _preload()
    copies = [_copied(folder / str(number)) for number in range(max(1, jobs))]
    waiting, running, verdicts = list(checks), list[_Running](), list[Verdict]()
    _hold_that_all_passes(waiting, copies[0])
    while waiting or running:
        while waiting and copies:
            running.append(_start(waiting.pop(0), copies.pop()))
        for one in list(running):
            verdict = _ended(one, limit)
            if verdict is not None:
                running.remove(one)
                copies.append(one.copy)
                verdicts.append(verdict)
                outcome = f"{verdict.seconds:5.1f} s  {verdict.by}" if verdict.by else "         SURVIVED"
                print(f"{verdict.check}\n    {outcome}", flush=True)
        time.sleep(0.02)
    return verdicts


def _preload() -> None:
    """Import once what every fork needs, and nothing of mono_gen, which each fork has from its own copy."""
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)


def _copied(folder: Path) -> Path:
    """Return a new copy of what the tests read."""
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _hold_that_all_passes(checks: Sequence[Check], copy: Path) -> None:
    """Leave with what fails while nothing is deleted: it would seem to miss every check."""
    stages = {stage: None for check in checks for stage in _stages(check, copy) if not stage.chosen}
    for stage in stages:
        pid = _forked([stage], copy)
        os.waitpid(pid, 0)
        failed = (copy / "verdict").read_text()
        if failed:
            raise SystemExit(f"{failed} fails though nothing is deleted; mend it first")


def _start(check: Check, copy: Path) -> _Running:
    """Return the run of a check's tests, the check deleted."""
    path = copy / check.path
    original = path.read_text()
    path.write_text(check.deleted(original))
    return _Running(check, copy, original, _forked(list(_stages(check, copy)), copy), time.monotonic())


def _forked(stages: Sequence[Stage], copy: Path) -> int:
    """Return the id of a process that runs tests in a copy and leaves the first that fails in the file `verdict`."""
    (copy / "verdict").write_text("nothing: the tests did not end")
    pid = os.fork()
    if pid == 0:
        os.setsid()
        try:
            _in_fork(stages, copy)
        finally:
            os._exit(0)
    return pid


def _in_fork(stages: Sequence[Stage], copy: Path) -> None:
    os.chdir(copy)
    sys.path[:0] = [str(copy)]
    os.environ["PYTHONPATH"] = str(copy)
    log = os.open(copy / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in [n for n in sys.modules if n.partition(".")[0] in ("mono_gen", "tests", "tools")]:
        del sys.modules[name]
    (copy / "verdict").write_text(next(filter(None, map(_first_failure, stages)), ""))


class _First:
    """A plugin that keeps the first test that fails."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: object) -> None:
        """Keep the name of a failed test."""
        if getattr(report, "failed", False):
            self.name = self.name or str(getattr(report, "nodeid", ""))

    pytest_collectreport = pytest_runtest_logreport


def _first_failure(stage: Stage) -> str:
    """Return the first test of a stage that fails, or empty."""
    import pytest

    first = _First()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", "pyproject.toml"]
    code = pytest.main([*options, *stage.arguments()], plugins=[first])
    if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    return first.name or f"pytest, which ends with {code}"


def _ended(one: _Running, limit: float) -> Verdict | None:
    """Return the verdict of a run that has ended or is over its limit, its copy as it was; None while it runs."""
    seconds = time.monotonic() - one.started
    pid, status = os.waitpid(one.pid, os.WNOHANG)
    if pid == 0 and seconds < limit:
        return None
    if pid == 0:
        os.killpg(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)
    by = (one.copy / "verdict").read_text() if pid else f"a limit of {limit:g} s"
    if pid and os.WIFSIGNALED(status):
        by = f"signal {os.WTERMSIG(status)}, of which the tests died"
    (one.copy / one.check.path).write_text(one.original)
    return Verdict(one.check, by, seconds)


if __name__ == "__main__":
    sys.exit(main())
