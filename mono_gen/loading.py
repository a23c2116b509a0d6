"""Files to trees: the specs of a run and what they import, each read once, imports first, cycles refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mono_gen.diagnostics.model import Diagnostic, SpecError
from mono_gen.syntax import nodes
from mono_gen.syntax.parse import parse
from mono_gen.syntax.read import read_source
from mono_gen.syntax.source import Source

LIBRARY = Path(__file__).parent / "library"
MAX_DEPTH = 50


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

    def error(self, code: str, item: nodes.Import, message: str, label: str, help: str) -> None:
        """Add an error about an import."""
        self.found.append(Diagnostic(code, item.span, message, label, help=help))


def load(paths: Sequence[Path]) -> tuple[tuple[Loaded, ...], tuple[Diagnostic, ...]]:
    """Return the files of a run, imported ones before those that import them, and what is wrong with their syntax."""
    loader = _Loader()
    for path in paths:
        _load(path, path.as_posix(), loader)
    return tuple(loader.done.values()), tuple(loader.found)


def library_layouts() -> dict[str, str]:
    """Return the layouts of the packaged library by name, each with the file that an import of it names."""
    return {
        name: path.name
        for path in sorted(LIBRARY.glob("*.layout"))
        for name in re.findall(r"^layout (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


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
        loader.error(
            "bad-import",
            item,
            f"`{item.path}` is not the name of a `.layout` file beside this one or in the library",
            "not such a name",
            'write `import "name.layout"`',
        )
        return None
    for folder in (importer.parent, LIBRARY):
        target = folder / relative
        if _is_file(target):
            name = f"mono_gen/library/{relative.as_posix()}" if folder == LIBRARY else target.as_posix()
            return _import(item, target, name, loader)
    known = ", ".join(sorted(p.name for p in LIBRARY.glob("*.layout")))
    loader.error(
        "import-not-found",
        item,
        f"`{item.path}` stands neither beside this file nor in the library",
        "not found",
        f"the library has {known}",
    )
    return None


def _is_file(path: Path) -> bool:
    """Return whether there is a file; no, for a name that the system refuses."""
    try:
        return path.is_file()
    except OSError:
        return False


def _import(item: nodes.Import, target: Path, name: str, loader: _Loader) -> Path | None:
    """Return the file once it is loaded; report an import that comes back to itself, or stands too deep."""
    key = target.resolve()
    if key in loader.active:
        chain = [p.name for p in loader.active[loader.active.index(key) :]] + [key.name]
        loader.error(
            "import-cycle",
            item,
            f"imports go round in a circle: {' -> '.join(chain)}",
            "comes back here",
            "leave this import out" if len(chain) == 2 else "move what both need to a third file",
        )
        return None
    if len(loader.active) > MAX_DEPTH:
        loader.error(
            "import-cycle",
            item,
            f"this import is {len(loader.active)} files deep, and at most {MAX_DEPTH} are read",
            "one too many",
            "import the file directly",
        )
        return None
    _load(target, name, loader)
    return target if key in loader.done else None
