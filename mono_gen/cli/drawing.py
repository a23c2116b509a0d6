"""`draw`: a layout or a tensor as a picture, or as a table on the terminal; two of them beside each other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mono_gen.cli import report
from mono_gen.cli.report import CommandError
from mono_gen.cli.specs import plans_of
from mono_gen.diagnostics import SpecError
from mono_gen.explore.names import Unfound
from mono_gen.explore.plane import Plane, make_plane
from mono_gen.explore.subjects import (
    MOST_ROWS,
    Drawable,
    DrawError,
    Subject,
    find,
    legal_extents,
    of_layout,
    of_tensor,
    tile_extents,
)
from mono_gen.model import LayoutModel, TensorModel

SUFFIX = ".svg"
BITS = 8


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `draw`; `out` None is a table on the terminal, `-` the SVG on the standard output."""

    spec: str
    names: tuple[str, ...]
    out: str | None
    rows: int | None
    columns: int | None
    at: tuple[int, ...]
    shape: tuple[int, ...]
    bits: int | None
    settings: tuple[str, ...]


def numbers(text: str | None, option: str) -> tuple[int, ...]:
    """Return the integers of `16,64`; () without a text.

    Raises: CommandError.
    """
    parts = text.split(",") if text is not None else []
    if not all(part.strip().isdecimal() and part.strip().isascii() and len(part) <= 18 for part in parts):
        raise CommandError(f"{option} {text}: expected numbers such as 16,64")
    return tuple(int(part) for part in parts)


def draw(request: Request) -> int:
    """Return the exit code, after drawing.

    Raises: CommandError.
    """
    _check(request)
    try:
        plans = plans_of(request.spec, request.settings)
        planes = _planes(request, [find(name, plans) for name in request.names])
    except SpecError as error:
        report.diagnostics(error.diagnostics, "full")
        return report.SPEC_WRONG
    except (Unfound, DrawError) as error:
        raise CommandError(str(error)) from error
    if request.out is None:
        _print_table(planes)
        return report.FINE
    from mono_gen.explore.draw import draw as drawn

    text = drawn(planes)
    if request.out == "-":
        report.out(text)
        return report.FINE
    from mono_gen.write import replace_file

    data = text.encode()
    replace_file(Path(request.out), data)
    report.out(f"wrote {request.out}: {' and '.join(request.names)}, {len(data):,} bytes\n")
    return report.FINE


def _check(request: Request) -> None:
    """Raise CommandError for what cannot be drawn whatever the spec holds."""
    if len(request.names) > 2:
        raise CommandError(f"one layout or two beside each other, not {len(request.names)}")
    if request.out is None or request.out == "-":
        return
    path = Path(request.out)
    if path.suffix != SUFFIX:
        raise CommandError(
            f"--out {request.out}: pictures are {SUFFIX} files; name one, or `-` for the standard output"
        )
    if path.is_dir():
        raise CommandError(f"--out {request.out}: that is a folder")
    if not path.parent.is_dir():
        raise CommandError(f"--out {request.out}: there is no folder '{path.parent}'")


def _planes(request: Request, found: Sequence[Drawable]) -> list[Plane]:
    """Return what is drawn: a plane a name, all of one size."""
    subjects, window = _subjects(request, found)
    first = subjects[0]
    rows, columns = request.rows or window[0], request.columns or window[1]
    if len(subjects) == 1:
        return [make_plane(first, request.at, rows, columns)]
    if rows is None or columns is None:
        shapes = [make_plane(subject, _at(request, first, subject)).shape for subject in subjects]
        rows, columns = rows or max(n for n, _ in shapes), columns or max(n for _, n in shapes)
    names = first.axes[-2:]
    return [
        make_plane(
            subject,
            _at(request, first, subject),
            rows,
            columns,
            (names[0], names[1]) if len(names) == 2 and set(first.axes) == set(subject.axes) else None,
        )
        for subject in subjects
    ]


def _at(request: Request, first: Subject, subject: Subject) -> tuple[int, ...]:
    """Return where to begin in a subject, given in the order of the first one's axes."""
    if set(first.axes) != set(subject.axes) or len(request.at) != len(first.axes):
        return request.at
    by_name = dict(zip(first.axes, request.at, strict=True))
    return tuple(by_name[axis] for axis in subject.axes)


def _subjects(request: Request, found: Sequence[Drawable]) -> tuple[list[Subject], tuple[int | None, int | None]]:
    """Return the subjects, and the rows and columns to show where these follow from them."""
    tensors = [thing for thing in found if isinstance(thing, TensorModel)]
    if tensors:
        for option, given in (("--shape", request.shape), ("--bits", request.bits)):
            if given:
                raise CommandError(f"{option} is for layouts alone: {tensors[0].name} has its own")
        first = of_tensor(tensors[0], _rows(request))
        return [_beside(thing, first, request) for thing in found], (None, None)
    return _layouts(request, [thing for thing in found if not isinstance(thing, TensorModel)])


def _beside(thing: Drawable, tensor: Subject, request: Request) -> Subject:
    """Return a tensor, or a layout with the extents and the width of the tensor beside it."""
    if isinstance(thing, TensorModel):
        return of_tensor(thing, _rows(request))
    return _bound(thing, tensor.bits, tensor.bound.extents, tensor.axes)


def _rows(request: Request) -> int:
    """Return the rows of a tensor whose rows are counted only at load: those that are shown, and those before."""
    return (request.rows or MOST_ROWS) + (request.at[0] if request.at else 0)


def _layouts(
    request: Request, layouts: Sequence[LayoutModel | None]
) -> tuple[list[Subject], tuple[int | None, int | None]]:
    """Return layouts at the shape that was given, or at a small one that they take, of which one tile is shown."""
    bits = BITS if request.bits is None else request.bits
    real = [layout for layout in layouts if layout is not None]
    axes = real[0].axes if real else ("row", "k")
    if len({len(layout.axes) for layout in real}) > 1:
        said = " and ".join(f"{layout.name} has the axes {', '.join(layout.axes)}" for layout in real)
        raise CommandError(f"{said}: not to be compared")
    if request.shape:
        return [_bound(layout, bits, request.shape, axes) for layout in layouts], (None, None)
    alike = [layout for layout in real if layout.axes == axes]
    tiles = [tile_extents(layout, bits) for layout in alike] or [tile_extents(None, bits)]
    tile = tuple(max(sizes) for sizes in zip(*tiles, strict=True))
    asked = (request.rows or tile[-2], request.columns or tile[-1]) if len(tile) > 1 else (request.columns or tile[0],)
    begin = request.at if len(request.at) == len(tile) else (0,) * len(tile)
    least = tuple(n + at for n, at in zip((*tile[:-2], *asked), begin, strict=True))
    extents = legal_extents(alike, bits, least)
    shown = tile if len(tile) > 1 else (1, *tile)
    return [_bound(layout, bits, extents, axes) for layout in layouts], (shown[-2], shown[-1])


def _bound(layout: LayoutModel | None, bits: int, extents: tuple[int, ...], axes: tuple[str, ...]) -> Subject:
    """Return a layout at extents that are given in the order of these axes."""
    if layout is not None and set(layout.axes) == set(axes):
        by_name = dict(zip(axes, extents, strict=False))
        extents = tuple(by_name[axis] for axis in layout.axes) if len(by_name) == len(layout.axes) else extents
    return of_layout(layout, bits, extents, axes)


def _print_table(planes: Sequence[Plane]) -> None:
    """Print planes as text, as wide as the terminal."""
    from mono_gen.explore.table import table

    text = table(planes, shutil.get_terminal_size((120, 24)).columns, report.has_colours(sys.stdout))
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    report.out(text if encoding.lower().startswith("utf") else text.replace("–", "-"))
