"""What all tests share: the generated modules, and the rule that a skip which nobody expected fails the run."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load_generated(path: Path) -> ModuleType:
    """Return the generated module at a path; a missing file fails the test, it does not skip it."""
    assert path.is_file(), f"{path} is missing: run `make generate`"
    spec = importlib.util.spec_from_file_location(f"generated_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True, scope="module")
def layouts_of_one_test_module() -> Iterator[None]:
    """Names of layouts that a test module's own specs enter are not found by other test modules."""
    yield
    layouts = sys.modules.get("mono_gen.runtime.layouts")
    known: dict[str, dict[str, Any]] = layouts._LAYOUTS if layouts is not None else {}
    for name, found in list(known.items()):
        known[name] = {spec: ref for spec, ref in found.items() if spec in ("aiter.layout", "minimax_m3.layout")}
        if not known[name]:
            del known[name]


@pytest.fixture(scope="session")
def aiter_module() -> ModuleType:
    """Return the generated library, generated/aiter.py."""
    return load_generated(ROOT / "generated" / "aiter.py")


@pytest.fixture(scope="session")
def minimax_module() -> ModuleType:
    """Return the generated spec, generated/minimax_m3.py."""
    return load_generated(ROOT / "generated" / "minimax_m3.py")


@pytest.fixture(scope="session")
def caches_module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return the module generated from tests/conformance/caches.layout."""
    out = tmp_path_factory.mktemp("caches")
    spec = ROOT / "tests" / "conformance" / "caches.layout"
    command = [sys.executable, "-m", "mono_gen", "generate", str(spec), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return load_generated(out / "caches.py")


# --- skips are counted: a test may skip only for what its marker names and this machine lacks ---


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


BROWSERS = ("chromium", "chromium-browser", "google-chrome")

NEEDS = {
    "gpu": (lambda: _gpus() >= 1, "needs a GPU that torch sees"),
    "two_gpus": (lambda: _gpus() >= 2, "needs two GPUs that torch sees"),
    "flydsl": (lambda: importlib.util.find_spec("flydsl") is not None, "needs FlyDSL"),
    "nvcc": (lambda: shutil.which("nvcc") is not None, "needs nvcc"),
    "browser": (lambda: any(map(shutil.which, BROWSERS)), "needs Chromium"),
}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Skip the marked tests that this machine cannot run, and note on each that its skip is expected."""
    for marker, (is_there, reason) in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not is_there():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))
                item.user_properties.append(("expected skip", marker))


def _skips(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return (markers of the expected skips, where and why of the others), a skip an entry."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    expected, unexpected = [], []
    for report in reporter.stats.get("skipped", ()) if reporter else ():
        marker = dict(getattr(report, "user_properties", ())).get("expected skip")
        if marker is not None:
            expected.append(marker)
        else:
            unexpected.append(f"{report.nodeid}: {report.longrepr[2] if isinstance(report.longrepr, tuple) else ''}")
    return expected, unexpected


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that skipped what it should have run. Under xdist the workers' reports all reach this process."""
    if exitstatus == 0 and not hasattr(session.config, "workerinput") and _skips(session.config)[1]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the count of the skips."""
    expected, unexpected = _skips(config)
    counts = ", ".join(f"{marker} {expected.count(marker)}" for marker in NEEDS)
    terminalreporter.section("skips")
    terminalreporter.line(f"{len(expected)} expected ({counts}), {len(unexpected)} unexpected")
    for skip in unexpected:
        terminalreporter.line(f"FAILED: unexpected skip of {skip}", red=True)
    for name, total in sorted(_counts(terminalreporter).items()):
        terminalreporter.line(f"{name}: {total}")
    for table, rows in sorted(_tables(terminalreporter).items()):
        terminalreporter.section(table)
        for row in rows:
            terminalreporter.line(row)


def _tables(reporter: Any) -> dict[str, list[str]]:
    """Return the rows that tests recorded as "table: ...", by table, in the order of the tests' names."""
    found: dict[str, list[str]] = {}
    reports = [r for outcome in ("passed", "failed") for r in reporter.stats.get(outcome, ()) if r.when == "call"]
    for report in sorted(reports, key=lambda r: str(r.nodeid)):
        for name, value in report.user_properties:
            if name.startswith("table: "):
                found.setdefault(name.removeprefix("table: "), []).extend(value.splitlines())
    return found


def _counts(reporter: Any) -> Counter[str]:
    """Return the sums of what tests recorded as "count: ..."; under xdist the reports bring them here."""
    found: Counter[str] = Counter()
    for report in reporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if report.when == "call" and name.startswith("count: "):
                found[name.removeprefix("count: ")] += value
    return found
