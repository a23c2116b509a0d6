"""The whole pipeline, in one direction: text -> tree -> model -> plan -> files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mono_gen.diagnostics.model import Diagnostic, Label, SpecError
from mono_gen.emit.hip import emit_hip
from mono_gen.emit.python import emit_python
from mono_gen.loading import Loaded, library_layouts, load
from mono_gen.outputs import OutputFile
from mono_gen.plan.build import build_plan
from mono_gen.plan.model import SpecPlan
from mono_gen.resolve.report import Report, near
from mono_gen.resolve.specs import Resolved, resolve_spec
from mono_gen.syntax import nodes


class OverrideError(Exception):
    """A `--set` that names no spec of the run, no param of it, or a const."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a run makes, and what it warns of."""

    files: tuple[OutputFile, ...]
    warnings: tuple[Diagnostic, ...]


def generate(paths: Sequence[Path], overrides: Mapping[str, int]) -> Generated:
    """Return the files of the specs and of what they import.

    overrides: `SPEC.NAME` to value.
    Raises: SpecError with every diagnostic of the run; OverrideError.
    """
    plans, warnings = plan_specs(paths, overrides)
    files = tuple(f for plan in plans for f in (*emit_python(plan), *emit_hip(plan)))
    return Generated(files, warnings)


def plan_specs(
    paths: Sequence[Path], overrides: Mapping[str, int]
) -> tuple[tuple[SpecPlan, ...], tuple[Diagnostic, ...]]:
    """Return the plan of each spec, imported ones before those that import them, and the warnings.

    Raises: SpecError, OverrideError.
    """
    loaded, problems = load(paths)
    report = Report(list(problems))
    resolved = _resolve(loaded, overrides, report)
    _check_spec_names(loaded, report)
    if report.has_errors:
        raise SpecError(tuple(report.found))
    _check_overrides(loaded, overrides)
    plans = []
    for file in loaded:
        model = resolved[file.path].model
        if model is None:
            raise AssertionError(f"{file.source.name} has no model and no error")
        mine = _own_overrides(model.name, overrides)
        written = tuple(f"{model.name}.{name}={value}" for name, value in sorted(mine.items()))
        plans.append(build_plan(model, _digest(file, loaded, overrides), written))
    return tuple(plans), tuple(report.found)


def _resolve(loaded: tuple[Loaded, ...], overrides: Mapping[str, int], report: Report) -> dict[Path, Resolved]:
    """Return each file's model, imports first."""
    resolved: dict[Path, Resolved] = {}
    library = library_layouts()
    for file in loaded:
        imports = tuple((item, resolved[path].exports) for item, path in file.imports)
        mine = _own_overrides(_spec_name(file.tree), overrides)
        resolved[file.path] = resolve_spec(file.tree, imports, mine, report, library)
    return resolved


def _spec_name(tree: nodes.Tree) -> str:
    """Return the name of a tree's spec, empty where it has none."""
    return next((item.name.text for item in tree.items if isinstance(item, nodes.Spec)), "")


def _own_overrides(spec: str, overrides: Mapping[str, int]) -> dict[str, int]:
    """Return the overrides of one spec, by param."""
    return {name.partition(".")[2]: value for name, value in overrides.items() if name.partition(".")[0] == spec}


def _check_overrides(loaded: tuple[Loaded, ...], overrides: Mapping[str, int]) -> None:
    """Raise OverrideError for a `--set` that would change nothing, or a const."""
    trees = {_spec_name(file.tree): file.tree for file in loaded}
    for name in overrides:
        spec, _, param = name.partition(".")
        if spec not in trees:
            raise OverrideError(f"--set {name}: there is no spec `{spec}` in this run; {near(spec, trees)}")
        items = trees[spec].items
        params = [item.name.text for item in items if isinstance(item, nodes.Param)]
        if any(isinstance(item, nodes.Const) and item.name.text == param for item in items):
            raise OverrideError(f"--set {name}: `{param}` is a const; only a param may be overridden")
        if param not in params:
            raise OverrideError(f"--set {name}: spec `{spec}` has no param `{param}`; {near(param, params)}")


def _check_spec_names(loaded: tuple[Loaded, ...], report: Report) -> None:
    """Report two files of a run whose specs have one name: their outputs would have one, too."""
    seen: dict[str, nodes.Name] = {}
    for file in loaded:
        head = next((item for item in file.tree.items if isinstance(item, nodes.Spec)), None)
        if head is None:
            continue
        first = seen.setdefault(head.name.text.lower(), head.name)
        if first is not head.name:
            report.error(
                "duplicate-spec",
                head.name.span,
                f"spec `{head.name.text}` is named like another spec of this run",
                label="the second one",
                also=(Label(first.span, "first here"),),
                help="generated files and namespaces take the name: rename one",
            )


def _digest(file: Loaded, loaded: tuple[Loaded, ...], overrides: Mapping[str, int]) -> str:
    """Return the digest of a spec, all that it imports, and the overrides of these."""
    by_path = {f.path: f for f in loaded}
    waiting, texts = [file.path], {}
    while waiting:
        path = waiting.pop()
        if path not in texts:
            texts[path] = by_path[path].source.text
            waiting.extend(target for _, target in by_path[path].imports)
    specs = {_spec_name(by_path[path].tree) for path in texts}
    state = blake2b(digest_size=8)
    for text in sorted(texts.values()):
        state.update(f"{len(text)}\n{text}".encode())
    for name, value in sorted(overrides.items()):
        if name.partition(".")[0] in specs:
            state.update(f"{name}={value}\n".encode())
    return state.hexdigest()
