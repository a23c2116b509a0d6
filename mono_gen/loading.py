"""Files to trees: the specs of a run and what they import, each read once, imports first, cycles refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mono_gen.diagnostics.model import Diagnostic, SpecError
from mono_gen.syntax import nodes
from mono_gen.syntax.parse import parse
from mono_gen.syntax.read import read_source
from mono_gen.syntax.source import Source

LIBRARY = Path(__file__).parent / "library"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A parsed file: `imports` are the import items with the files that they name, those that could be found.

    is_library: whether it comes from the packaged library.
    """

    path: Path
    source: Source
    tree: nodes.Tree
    imports: tuple[tuple[nodes.Import, Path], ...]
    is_library: bool


@dataclass(slots=True)
class _Loader:
    """A run: files by resolved path, in the order in which their imports are complete."""

    done: dict[Path, Loaded] = field(default_factory=dict)
    active: list[Path] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)
    failed: set[Path] = field(default_factory=set)


def load(paths: Sequence[Path]) -> tuple[tuple[Loaded, ...], tuple[Diagnostic, ...]]:
    """Return the files of a run, imported ones before those that import them, and what is wrong with their syntax."""
    loader = _Loader()
    for path in paths:
        _load(path, path.as_posix(), loader)
    return tuple(loader.done.values()), tuple(loader.found)


def _load(path: Path, name: str, loader: _Loader) -> None:
    """Read a file and what it imports."""
    key = path.resolve()
    if key in loader.done or key in loader.failed:
        return
    try:
        source = read_source(path, name)
    except SpecError as error:
        loader.found.extend(error.diagnostics)
        loader.failed.add(key)
        return
    tree, problems = parse(source)
    loader.found.extend(problems)
    loader.active.append(key)
    imports: list[tuple[nodes.Import, Path]] = []
    for item in tree.items:
        if isinstance(item, nodes.Import):
            target = _find(item, path, loader)
            if target is not None:
                imports.append((item, target.resolve()))
    loader.active.pop()
    loader.done[key] = Loaded(key, source, tree, tuple(imports), key.parent == LIBRARY.resolve())


def _find(item: nodes.Import, importer: Path, loader: _Loader) -> Path | None:
    """Return the file that an import names, loaded; report one that is not there or closes a cycle."""
    relative = Path(item.path)
    if relative.is_absolute() or ".." in relative.parts or relative.suffix != ".layout":
        loader.found.append(
            Diagnostic(
                "bad-import",
                item.span,
                f"`{item.path}` is not the name of a `.layout` file",
                label="a name beside this file or in the library",
                help='write `import "name.layout"`',
            )
        )
        return None
    for folder in (importer.parent, LIBRARY):
        target = folder / relative
        if target.is_file():
            key = target.resolve()
            if key in loader.active:
                chain = [p.name for p in loader.active[loader.active.index(key) :]] + [key.name]
                loader.found.append(
                    Diagnostic(
                        "import-cycle",
                        item.span,
                        f"imports go round in a circle: {' -> '.join(chain)}",
                        label="comes back here",
                        help="move what both need to a third file",
                    )
                )
                return None
            name = target.as_posix() if folder != LIBRARY else f"mono_gen/library/{relative.as_posix()}"
            _load(target, name, loader)
            return target if key in loader.done else None
    known = sorted(p.name for p in LIBRARY.glob("*.layout"))
    loader.found.append(
        Diagnostic(
            "import-not-found",
            item.span,
            f"`{item.path}` stands neither beside this file nor in the library",
            label="not found",
            help=f"the library has {', '.join(known)}",
        )
    )
    return None
