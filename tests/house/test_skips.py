"""A skip that no marker explains fails the run, with and without workers; one that the machine explains does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = {
    "none": "",
    "marked": "import pytest\n@pytest.mark.lacking\ndef test_marked(): raise AssertionError",
    "bare": "import pytest\ndef test_bare(): pytest.skip('no reason that counts')",
    "module": "import pytest\npytest.importorskip('no_such_module_at_all')",
}


@pytest.mark.parametrize(
    ("skip", "workers", "code"),
    [("none", 0, 0), ("marked", 0, 0), ("marked", 1, 0), ("bare", 0, 1), ("bare", 1, 1), ("module", 1, 1)],
)
def test_unexpected_skips_fail(tmp_path: Path, skip: str, code: int, workers: int) -> None:
    lacking = 'NEEDS["lacking"] = (lambda: False, "never there")\n'
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text() + lacking)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = lacking: of what no machine has\n")
    (tmp_path / "test_it.py").write_text(TESTS[skip])
    (tmp_path / "test_other.py").write_text("def test_also_runs(): pass")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(workers), str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout
    assert f"{int(skip == 'marked')} expected" in ran.stdout
    assert f"{code} unexpected" in ran.stdout
