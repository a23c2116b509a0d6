"""`diff`: what lies between two states of the specs, files, folders or revisions of a git repository."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mono_gen.cli import report
from mono_gen.cli.arguments import DEFAULT_PATHS, find_specs
from mono_gen.cli.report import CommandError
from mono_gen.compare.model import CLASSES
from mono_gen.diagnostics import Diagnostic, SpecError
from mono_gen.diagnostics.snippet import clean
from mono_gen.frozen import replace
from mono_gen.syntax.source import Source, Span

if TYPE_CHECKING:
    from mono_gen.compare.model import Difference, Kernels
    from mono_gen.compare.revisions import Revision
    from mono_gen.plan.model import SpecPlan

CHANGED = 4
KERNELS = Path("mono_gen", "kernels")


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `diff`: `fail_on` are classes, `kernels` a folder or None for the one of the repository."""

    old: str
    new: str | None
    style: str
    fail_on: tuple[str, ...]
    kernels: Path | None

    @classmethod
    def of(cls, old: str, new: str | None, style: str, fail_on: str | None, kernels: Path | None) -> Request:
        """Return the request that the command line makes.

        Raises: CommandError.
        """
        if kernels is not None and not kernels.is_dir():
            raise CommandError(f"--kernels: no folder '{kernels}'")
        return cls(old, new, style, _classes(fail_on), kernels)


@dataclass(frozen=True, slots=True)
class _Side:
    """One side: its name in messages, its specs, and the folder that stands for a revision's, to be named so."""

    word: str
    shown: str
    paths: tuple[Path, ...]
    folder: Path | None = None
    revision: Revision | None = None


def diff(asked: Request) -> int:
    """Return the exit code, after printing what is different.

    Raises: CommandError.
    """
    from mono_gen.compare.revisions import RevisionError

    with tempfile.TemporaryDirectory(prefix="mono-gen-") as scratch:
        try:
            old, new = _sides(asked, Path(scratch).resolve())
        except RevisionError as error:
            raise CommandError(str(error)) from error
        plans = [_plans(side) for side in (old, new)]
    before, after = plans
    if isinstance(before, SpecError) or isinstance(after, SpecError):
        _report_wrong(((old, before), (new, after)), asked.style)
        return report.SPEC_WRONG
    found = _found(before, after, old, new, asked.kernels)
    report.out(_rendered(found, asked.style))
    return CHANGED if set(asked.fail_on) & set(found.classes) else report.FINE


def _classes(text: str | None) -> tuple[str, ...]:
    """Return the classes of `--fail-on`.

    Raises: CommandError.
    """
    if text is None:
        return ()
    words = tuple(word.strip().lower() for word in text.split(","))
    wrong = [word for word in words if word not in CLASSES]
    if wrong:
        raise CommandError(f"--fail-on: no class '{wrong[0]}'; expected some of {', '.join(CLASSES)}, with commas")
    return words


# --- the two sides ---


def _sides(asked: Request, scratch: Path) -> tuple[_Side, _Side]:
    """Return both sides, revisions read into the scratch folder.

    Raises: CommandError, RevisionError.
    """
    old = _side("OLD", asked.old, scratch / "old")
    if asked.new is not None:
        return old, _side("NEW", asked.new, scratch / "new")
    if old.revision is None:
        raise CommandError(
            f"NEW is missing: '{asked.old}' is in the working tree, and only a revision is compared with it alone, "
            f"such as `mono-gen diff HEAD:{asked.old}`"
        )
    path = Path(os.path.relpath(old.revision.root / old.revision.path))
    return old, _Side("NEW", path.as_posix(), _working("NEW", path))


def _side(word: str, text: str, scratch: Path) -> _Side:
    """Return the side that an argument means: what is there as a path is a path."""
    path = Path(text)
    if path.exists() or ":" not in text:
        if not path.exists():
            raise CommandError(
                f"{word}: no such file or folder: '{text}'; a revision has a colon: '{text}:' for its specs"
            )
        return _Side(word, path.as_posix(), _working(word, path))
    from mono_gen.compare.revisions import find_revision, read_revision

    revision = find_revision(text, DEFAULT_PATHS[0].as_posix())
    scratch.mkdir()
    found = read_revision(revision, scratch)
    return _Side(word, revision.shown, tuple(find_specs([found])), scratch, revision)


def _working(word: str, path: Path) -> tuple[Path, ...]:
    """Return the specs of a path in the working tree; what is wrong with it names the side."""
    try:
        return tuple(find_specs([path]))
    except CommandError as error:
        raise CommandError(f"{word}: {error}") from error


def _plans(side: _Side) -> tuple[SpecPlan, ...] | SpecError:
    """Return the plans of a side, or what is wrong with its specs."""
    from mono_gen.pipeline import plan_specs

    try:
        return plan_specs(side.paths, {})[0]
    except SpecError as error:
        return SpecError(tuple(_named(d, side) for d in error.diagnostics))


def _report_wrong(sides: Sequence[tuple[_Side, tuple[SpecPlan, ...] | SpecError]], style: str) -> None:
    """Print the diagnostics of each side under its name; as JSON they are one list, the names beside it."""
    told: list[Diagnostic] = []
    for side, wrong in sides:
        if not isinstance(wrong, SpecError):
            continue
        errors = report.count(sum(d.severity == "error" for d in wrong.diagnostics), "error")
        report.err(f"{side.word}, {clean(side.shown)}: {errors}\n")
        told += wrong.diagnostics
        if style != "json":
            report.diagnostics(wrong.diagnostics, "full")
    if style == "json":
        report.diagnostics(told, style)


def _named(diagnostic: Diagnostic, side: _Side) -> Diagnostic:
    """Return a diagnostic that names files of a revision as git does, not the scratch folder."""
    if side.folder is None or side.revision is None:
        return diagnostic
    top = side.revision.path if not side.revision.path.endswith(".layout") else side.revision.path.rpartition("/")[0]
    name = f"{side.revision.name}:{top}/" if top else f"{side.revision.name}:"
    prefix = f"{side.folder.as_posix()}/"

    def named(file: str) -> str:
        return f"{name}{file.removeprefix(prefix)}" if file.startswith(prefix) else file

    def moved(span: Span) -> Span:
        return Span(Source(named(span.source.name), span.source.text), span.start, span.end)

    return replace(
        diagnostic,
        span=moved(diagnostic.span) if diagnostic.span is not None else None,
        also=tuple(replace(label, span=moved(label.span)) for label in diagnostic.also),
        file=named(diagnostic.file),
    )


# --- comparing ---


def _found(
    before: tuple[SpecPlan, ...], after: tuple[SpecPlan, ...], old: _Side, new: _Side, folder: Path | None
) -> Difference:
    """Return all that is different, with the kernels that mention touched names."""
    from mono_gen.compare.model import Difference
    from mono_gen.compare.specs import compare_specs

    found = Difference(old.shown, new.shown, len(after), compare_specs(before, after))
    return replace(found, kernels=_kernels(found, new, folder))


def _kernels(found: Difference, new: _Side, folder: Path | None) -> Kernels | None:
    """Return the sources that mention touched names; None where there is no folder of kernels, or no name."""
    names = found.symbols.cpp
    if not names:
        return None
    if folder is None:
        root = _root(new.revision.root if new.revision is not None else new.paths[0].resolve().parent)
        folder = root / KERNELS
        if not folder.is_dir():
            return None
        folder = Path(os.path.relpath(folder))
    from mono_gen.compare.kernels import mentions

    return mentions(folder, folder.as_posix(), names)


def _root(folder: Path) -> Path:
    """Return the top of the repository that a folder is in; the folder above it where it is in none."""
    return next((f for f in (folder, *folder.parents) if (f / ".git").exists()), folder.parent)


def _rendered(found: Difference, style: str) -> str:
    """Return the difference in the wanted form."""
    if style == "json":
        from mono_gen.compare.data import render_json

        return f"{render_json(found)}\n"
    found = _printable(found)
    if style == "markdown":
        from mono_gen.compare.markdown import render_markdown

        return render_markdown(found)
    from mono_gen.compare.text import render_text

    return render_text(found, report.has_colours(sys.stdout))


def _printable(found: Difference) -> Difference:
    """Return a difference whose file names are safe on a terminal."""
    kernels = found.kernels
    if kernels is not None:
        mentions = tuple(replace(m, file=clean(m.file)) for m in kernels.mentions)
        kernels = replace(kernels, folder=clean(kernels.folder), mentions=mentions)
    return replace(found, old=clean(found.old), new=clean(found.new), kernels=kernels)
