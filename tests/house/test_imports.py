"""One direction of imports: text -> tree -> model -> plan -> files, and the runtime apart."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mono_gen"

# Each unit, in the order of the pipeline, with the earlier units and the libraries that it may import. A module belongs
# to the longest name here that begins its own; one that belongs to none fails: a new stage is entered by hand.
UNITS: dict[str, set[str]] = {
    "frozen": {"typing_extensions"},  # for type checkers alone
    "syntax.source": set(),
    "diagnostics.model": {"syntax.source"},
    "diagnostics": {"syntax.source", "diagnostics.model"},
    "syntax": {"lark", "syntax.source", "diagnostics.model", "diagnostics"},
    "algebra": set(),
    "runtime": {"torch", "algebra"},  # pure integers: a layout's id at the extents of a tensor
    "runtime.triton_kernels": {"torch", "triton"},
    "integrations": {"torch", "runtime"},
    "terms": set(),
    "formats": set(),
    "archs": {"formats"},
    "operands": {"algebra"},
    "kernels": {"torch", "runtime", "integrations", "operands"},
    "model": {"algebra", "terms", "formats", "archs"},
    "resolve": {
        "syntax",
        "syntax.source",
        "diagnostics.model",
        "diagnostics",
        "algebra",
        "terms",
        "formats",
        "archs",
        "operands",
        "model",
    },
    "plan": {"algebra", "terms", "formats", "archs", "model"},
    "loading": {"syntax", "syntax.source", "diagnostics.model", "diagnostics"},
    "outputs": set(),
    "emit": {"jinja2", "algebra", "terms", "formats", "archs", "model", "plan", "outputs"},
    "pipeline": {
        "syntax",
        "syntax.source",
        "diagnostics.model",
        "diagnostics",
        "model",
        "resolve",
        "loading",
        "plan",
        "outputs",
        "emit",
    },
    "explore": {"resolve", "algebra", "terms", "formats", "archs", "model", "plan"},
    "infer": {
        "torch",
        "syntax",
        "syntax.source",
        "diagnostics.model",
        "diagnostics",
        "algebra",
        "terms",
        "formats",
        "model",
        "resolve",
        "loading",
    },
    "compare": {"algebra", "model", "plan"},
    "write": {"outputs"},
    "checkpoint": {"torch", "runtime", "formats", "model", "plan", "emit", "pipeline", "write"},
    "inspection": {"torch", "runtime", "algebra", "formats", "model", "plan", "checkpoint"},
    "cli": {
        "typer",
        "rich",
        "syntax",
        "syntax.source",
        "diagnostics.model",
        "diagnostics",
        "outputs",
        "loading",
        "model",
        "resolve",
        "plan",
        "pipeline",
        "explore",
        "infer",
        "inspection",
        "compare",
        "write",
        "checkpoint",
    },
    "__main__": {"cli"},
}

EVERYWHERE = {"frozen"}  # value classes

# Libraries that a unit may import inside functions alone: whoever never calls these needs them not.
WHEN_CALLED: dict[str, set[str]] = {
    "runtime": {"safetensors", "triton", "runtime.triton_kernels"},
    "integrations": {"vllm"},
}


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Return (line, module) of every import in a file, those in functions and under TYPE_CHECKING included."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                inside = (PACKAGE.parent / module.replace(".", "/")).is_dir() and module.startswith("mono_gen")
                for name in names:
                    below = PACKAGE.parent / module.replace(".", "/") / name.name
                    is_module = inside and (below.is_dir() or below.with_suffix(".py").is_file())
                    yield node.lineno, f"{module}.{name.name}" if is_module else module
            case ast.ImportFrom():
                yield node.lineno, "a relative import"


def unit_of(module: str) -> str:
    """Return the unit that a module of the package belongs to: '' for the package itself."""
    name = module.removeprefix("mono_gen").removeprefix(".")
    while name and name not in UNITS:
        name = name.rpartition(".")[0]
    return name


def lines_in_functions(path: Path) -> set[int]:
    """Return the lines of a file that run only when a function is called."""
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    return {line for f in functions for line in range(f.lineno, (f.end_lineno or f.lineno) + 1)}


def complaints(path: Path) -> list[str]:
    """Return the imports of a module that its unit may not have."""
    unit = unit_of(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    if not unit and path != PACKAGE / "__init__.py":
        return [f"{path.relative_to(ROOT)}: belongs to no unit of tests/house/test_imports.py"]
    allowed = {unit, *UNITS.get(unit, set()), *EVERYWHERE}
    inside = lines_in_functions(path)
    found = []
    for line, module in imports_of(path):
        top = module.partition(".")[0]
        target = unit_of(module) if top == "mono_gen" else top
        late = line in inside and target in WHEN_CALLED.get(unit, set())
        if top not in sys.stdlib_module_names and target not in allowed and not late:
            found.append(f"{path.relative_to(ROOT)}:{line}: '{unit}' may not import '{module}'")
    return found


def test_the_table_has_one_direction() -> None:
    seen: set[str] = set()
    for unit, allowed in UNITS.items():
        assert not (allowed & UNITS.keys()) - seen, f"'{unit}' imports a later unit"
        seen.add(unit)


def test_each_unit_imports_only_earlier_ones() -> None:
    found = [line for path in sorted(PACKAGE.rglob("*.py")) for line in complaints(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("syntax", "from mono_gen.resolve import resolve"),
        ("resolve", "import mono_gen.emit.python"),
        ("emit", "from mono_gen import resolve"),
        ("algebra", "def f():\n    from mono_gen.syntax.nodes import Int"),
        ("plan", "import numpy"),
        ("runtime", "from mono_gen.model import SpecModel"),
        ("runtime", "import numpy"),
        ("runtime", "import triton"),
        ("runtime", "import safetensors"),
        ("runtime", "def f():\n    import vllm"),
        ("integrations", "import vllm"),
        ("algebra", "def f():\n    import safetensors"),
        ("algebra", "from mono_gen.runtime.layouts import Storage"),
        ("emit", "import torch"),
        ("resolve", "from . import names"),
    ],
)
def test_a_wrong_import_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unit: str, line: str) -> None:
    path = tmp_path / "mono_gen" / unit / "new.py"
    path.parent.mkdir(parents=True)
    for name in UNITS:
        (tmp_path / "mono_gen" / name.partition(".")[0]).mkdir(exist_ok=True)
    path.write_text(line)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / "mono_gen")
    assert len(complaints(path)) == 1


def test_importing_the_runtime_brings_torch_and_nothing_that_a_loader_does_not_need() -> None:
    script = (
        "import sys, torch; before = set(sys.modules); import mono_gen.runtime; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - set(sys.stdlib_module_names) <= {"mono_gen", "torch"}, done.stdout


def test_generated_modules_import_torch_and_the_runtime_alone() -> None:
    modules = sorted((ROOT / "generated").glob("*.py"))
    assert modules
    for path in modules:
        imported = {module for _, module in imports_of(path)}
        assert imported <= {"__future__", "dataclasses", "typing", "torch", "mono_gen.runtime"}, path.name
