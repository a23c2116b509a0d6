"""Refusals hold under `python -O`: no check is an assert. And importing the runtime costs little beyond torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ["test_errors.py", "test_load.py", "test_tensors.py", "test_moves.py", "test_numerics.py", "test_tables.py"]


def test_everything_holds_under_python_o() -> None:
    """pytest rewrites the asserts of the test modules into tests that -O does not strip; the package's it would."""
    files = [str(Path(__file__).parent / name) for name in FILES]
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    canary = "import pytest\n\ndef test_canary():\n    assert __debug__\n"
    assert "passed" in done.stdout
    assert canary_fails(canary)


def canary_fails(text: str) -> bool:
    """Return whether pytest under -O still fails a test whose assert is false there."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_canary.py").write_text(text)
        command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", folder, "--rootdir", folder]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 1


def test_the_runtime_imports_nothing_but_torch_and_the_standard_library() -> None:
    """Modules that are new after `import torch` are ours or Python's."""
    script = (
        "import sys, torch; before = set(sys.modules); import mono_gen.runtime; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    new = set(done.stdout.split())
    assert new - set(sys.stdlib_module_names) == {"mono_gen"}


def test_no_table_is_made_at_import() -> None:
    script = (
        "import mono_gen.runtime.numerics, mono_gen.runtime.products as p; print(p.product_table.cache_info().currsize)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
