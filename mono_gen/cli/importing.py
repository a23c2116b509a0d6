"""`import`: the layout of an existing torch function, found by running it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mono_gen.cli import report
from mono_gen.write import replace_file

if TYPE_CHECKING:
    from mono_gen.infer.imported import Imported

MAX_AXES = 8
MAX_EXTENT = 1 << 30
MAX_ELEMENTS = 1 << 31

_SHAPE = re.compile(r"\A\d{1,10}(?:[,x]\d{1,10})*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `import`."""

    function: str
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...]
    arguments: tuple[str, ...]
    name: str
    axes: str
    out: Path | None
    force: bool


def import_function(request: Request) -> int:
    """Return the exit code, after the layout was printed or written; what was found out is said beside it.

    Raises: CommandError, for whatever keeps the function from being found or run.
    """
    shapes = _shapes(request.shapes)
    _check_out(request.out, request.force)

    from mono_gen.infer.dtypes import find_dtype
    from mono_gen.infer.errors import CannotRun, NotALayout
    from mono_gen.infer.imported import Names, check_names, import_layout
    from mono_gen.infer.target import find_target, parse_arguments

    axes = tuple(axis.strip() for axis in request.axes.split(",")) if request.axes else ()
    names = Names(_spec_name(request.out), request.name, axes)
    try:
        check_names(names)
        dtypes = list(dict.fromkeys(find_dtype(name) for name in request.dtypes))
        target = find_target(request.function, parse_arguments(request.arguments), len(shapes[0]))
        found = import_layout(target, dtypes, shapes, names)
    except NotALayout as error:
        report.err(f"not a layout: {error}\n")
        return report.SPEC_WRONG
    except CannotRun as error:
        raise report.CommandError(str(error)) from error
    _put(found, request)
    return report.FINE


def _shapes(texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of `--shape`.

    Raises: CommandError.
    """
    shapes = []
    for text in texts:
        plain = text.replace(" ", "").strip("()[],")
        if not _SHAPE.match(plain):
            raise report.CommandError(f"--shape {text!r}: expected extents such as 64,128")
        shape = tuple(int(n) for n in re.split("[,x]", plain))
        elements = 1
        for extent in shape:
            if not 1 <= extent <= MAX_EXTENT:
                raise report.CommandError(f"--shape {text}: an extent of {extent}; expected 1 to {MAX_EXTENT}")
            elements *= extent
        if len(shape) > MAX_AXES or elements > MAX_ELEMENTS:
            raise report.CommandError(
                f"--shape {text}: {len(shape)} axes and {elements} elements; at most {MAX_AXES} and {MAX_ELEMENTS}"
            )
        shapes.append(shape)
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        raise report.CommandError(
            f"the shapes {', '.join(texts)} have {' and '.join(map(str, sorted(ranks)))} axes: a layout has one number "
            "of them; import one rank at a time"
        )
    return tuple(dict.fromkeys(shapes))


def _check_out(out: Path | None, force: bool) -> None:
    """Refuse a place that cannot take the file, before minutes are spent on finding what to write."""
    if out is None:
        return
    if out.suffix != ".layout":
        raise report.CommandError(f"'{out}' does not end in .layout: specs are found by that")
    if out.is_dir():
        raise report.CommandError(f"'{out}' is a folder")
    if not out.parent.is_dir():
        raise report.CommandError(f"there is no folder '{out.parent}'")
    if (out.exists() or out.is_symlink()) and not force:
        raise report.CommandError(f"'{out}' is there already; give another name, or --force to replace it")


def _spec_name(out: Path | None) -> str:
    """Return the name of the spec where the file gives it."""
    if out is None:
        return ""
    from mono_gen.infer.names import free_name

    return free_name(out.stem, "imported")


def _put(found: Imported, request: Request) -> None:
    """Write the text where it is wanted, and say beside it what was found.

    Raises: CommandError, where the file cannot be written.
    """
    if request.out is None:
        report.out(found.text)
        report.err(_said(found))
        return
    try:
        if not request.force and request.out.exists():  # made while the function ran
            raise report.CommandError(f"'{request.out}' is there already, and was not when this began")
        replace_file(request.out, found.text.encode())
    except OSError as error:
        raise report.CommandError(f"cannot write '{request.out}': {error.strerror}") from error
    report.out(f"wrote {request.out}\n")
    report.err(_said(found))


def _said(found: Imported) -> str:
    """Return what a user should know of the layout, a line each."""
    lines = [
        f"layout {found.name}: found at {_shapes_text(found.found_at)}",
        f"checked at {_shapes_text(found.checked_at)}: every element and pad of each, in {found.runs} runs in all"
        if found.checked_at
        else "not checked at another shape: the function takes no other that was tried",
    ]
    if found.is_identity:
        lines.append("this is row_major, torch's own order: a field needs no layout of its own for it")
    else:
        lines += _equal_lines(found)
    lines += [f"note: {note}" for note in found.notes]
    return "".join(f"{line}\n" for line in lines)


def _equal_lines(found: Imported) -> list[str]:
    """Return which layouts of the library are this one."""
    same = [equal for equal in found.equals if not equal.differences]
    if same:
        file = same[0].file
        names = " and ".join(equal.name for equal in same if equal.file == file)
        return [f'the same as {names} of {file}: `import "{file}"` instead']
    return [
        f"the order of {equal.name} of {equal.file}, but {'; '.join(equal.differences)}" for equal in found.equals[:3]
    ]


def _shapes_text(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(" x ".join(map(str, shape)) for shape in shapes)
