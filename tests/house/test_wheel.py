"""What is installed: every package, the generated modules, and the drop-in that loads them away from the checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "mono_gen", "generated")


def test_every_package_is_listed() -> None:
    listed = (ROOT / "pyproject.toml").read_text().partition("[tool.setuptools]\n")[2].partition("]\n\n")[0]
    said = re.findall(r'^    "([\w.]+)",$', listed, re.MULTILINE)
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "mono_gen").rglob("__init__.py")}
    assert set(said) == found | {"mono_gen.generated"} and said == sorted(said)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built from a copy: the checkout keeps no build folder."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, source / part)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir"]
    done = subprocess.run([*command, folder, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("mono_gen-*.whl")
    return found


def test_the_wheel_holds_what_the_checkout_generates(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted((ROOT / "generated").iterdir()):
            if path.is_file():
                assert archive.read(f"mono_gen/generated/{path.name}") == path.read_bytes(), path.name
        names = archive.namelist()
    assert "mono_gen/py.typed" in names and "mono_gen/library/aiter.layout" in names
    assert not [name for name in names if name.split("/")[0] in ("tests", "tools", "generated", "specs")]


def test_the_drop_in_loads_from_an_installed_wheel(wheel: Path) -> None:
    """Away from the checkout, and with nothing of it on the path."""
    installed = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    script = (
        "from mono_gen.integrations import vllm; import mono_gen; import sys; "
        "module = sys.modules['mono_gen.generated.minimax_m3']; "
        "print(mono_gen.__file__, module.__file__, vllm.SparseMoeLayer.from_layer.__name__)"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(installed)!r}); {script}"]
    done = subprocess.run(command, cwd=wheel.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    package, module, name = done.stdout.split()
    assert package == str(installed / "mono_gen" / "__init__.py")
    assert module == str(installed / "mono_gen" / "generated" / "minimax_m3.py") and name == "from_layer"
