"""Two axes of a layout as a plane of cells, for pictures and tables: runs of elements whose bytes follow one another.

Offset and lane are sums over the axes, so a plane keeps one list an axis, and a cell is a row run by a column run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mono_gen.algebra.fold import FoldGroup, fold
from mono_gen.algebra.layout import Digit
from mono_gen.explore.subjects import MOST_COLUMNS, MOST_ELEMENTS, MOST_ROWS, DrawError, Subject
from mono_gen.frozen import frozen, replace


@frozen
class Side:
    """The part of one axis that a plane shows, a value a coordinate in each list.

    axis:     index of the subject's axis; None for the only row of a layout with one axis.
    logical:  the logical coordinate, None in a pad.
    offsets:  what the coordinate adds to the element offset; `lanes`: to the lane.
    tiles:    values of the tile digits, such as "R 1"; empty where no digit of the axis is one.
    segments: the segment's name, empty outside all.
    runs:     (first, count) of coordinates that one cell spans.
    """

    name: str
    axis: int | None
    logical: tuple[int | None, ...]
    offsets: tuple[int, ...]
    lanes: tuple[int, ...]
    tiles: tuple[str, ...]
    segments: tuple[str, ...]
    runs: tuple[tuple[int, int], ...]


@frozen
class Cell:
    """Elements whose bytes lie one after another: `rows` by `columns` of them, one of the two being 1.

    row, column: counted in the plane. first, last: offsets, in elements. lane: None where the store names no lanes.
    """

    row: int
    column: int
    rows: int
    columns: int
    first: int
    last: int
    lane: int | None
    is_pad: bool


@frozen
class Plane:
    """What is shown of a subject: `base` is the offset, in elements, that the axes outside the plane give."""

    subject: Subject
    rows: Side
    columns: Side
    base: int
    groups: tuple[FoldGroup, ...]

    @property
    def lanes(self) -> FoldGroup | None:
        """Return the lane group, None where the store names none."""
        return next((g for g in self.groups if g.label == "lane" and g.digits), None)

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows and columns."""
        return len(self.rows.offsets), len(self.columns.offsets)

    def offset(self, row: int, column: int) -> int:
        """Return the element offset at a place of the plane."""
        return self.base + self.rows.offsets[row] + self.columns.offsets[column]

    def is_pad(self, row: int, column: int) -> bool:
        """Return whether storage has an element there that the tensor has not."""
        return self.rows.logical[row] is None or self.columns.logical[column] is None

    def cells(self) -> Iterator[Cell]:
        """Yield the cells, row by row."""
        has_lanes = self.lanes is not None
        for row, rows in self.rows.runs:
            for column, columns in self.columns.runs:
                lane = self.rows.lanes[row] + self.columns.lanes[column] if has_lanes else None
                first = self.offset(row, column)
                last = first + rows * columns - 1
                yield Cell(row, column, rows, columns, first, last, lane, self.is_pad(row, column))


def byte_text(element: int, bits: int) -> str:
    """Return the byte of an element offset: its first, or byte.nibble for 4-bit elements."""
    return f"{element // 2}.{element % 2}" if bits == 4 else str(element * bits // 8)


def range_text(cell: Cell, bits: int) -> str:
    """Return the bytes of a cell, `16–31`; of one element, its first."""
    if cell.first == cell.last:
        return byte_text(cell.first, bits)
    last = byte_text(cell.last, bits) if bits == 4 else str((cell.last + 1) * bits // 8 - 1)
    return f"{byte_text(cell.first, bits)}–{last}"


def run_text(side: Side, run: tuple[int, int]) -> str:
    """Return the coordinates of a run, `16–31`, or that it is a pad."""
    first, last = side.logical[run[0]], side.logical[run[0] + run[1] - 1]
    if first is None:
        return "pad"
    return str(first) if run[1] == 1 else f"{first}–{last}"


def make_plane(
    subject: Subject,
    at: tuple[int, ...] = (),
    rows: int | None = None,
    columns: int | None = None,
    names: tuple[str, str] | None = None,
) -> Plane:
    """Return the plane of a subject's last two axes, or of those named, from a logical coordinate on.

    at:    a coordinate an axis; () is 0 everywhere.
    rows, columns: how many to show, None for one tile, or all that is left where that is little.
    Raises: DrawError.
    """
    start = at or (0,) * len(subject.axes)
    _check_start(subject, start)
    axes = [subject.axes.index(n) for n in names] if names else list(range(len(subject.axes)))[-2:]
    stored = [subject.stored(i, n) for i, n in enumerate(start)]
    groups = fold(subject.template, subject.bound)
    shown = _extent(subject, axes, stored, rows, columns)
    sides = [_side(subject, i, stored[i], n, groups) for i, n in zip(axes, shown[-len(axes) :], strict=True)]
    if len(sides) == 1:
        sides.insert(0, Side("", None, (0,), (0,), (0,), ("",), ("",), ((0, 1),)))
    base = sum(stored[d.axis] // d.weight % d.size * d.stride for d in subject.bound.digits if d.axis not in axes)
    return Plane(subject, *_one_way(*sides), base, groups)


def _check_start(subject: Subject, start: tuple[int, ...]) -> None:
    if len(start) != len(subject.axes):
        raise DrawError(f"--at wants a number for each of {', '.join(subject.axes)}: {len(subject.axes)} numbers")
    for name, value, extent in zip(subject.axes, start, subject.bound.extents, strict=True):
        if not 0 <= value < extent:
            raise DrawError(f"--at: {name} {value} is outside the tensor, whose {name} is {extent}")


def _extent(
    subject: Subject,
    axes: Sequence[int],
    stored: Sequence[int],
    rows: int | None,
    columns: int | None,
) -> tuple[int, int]:
    """Return the rows and columns to show: what is asked for, or the whole tiles of a small tensor, or one tile."""
    left, tile, whole = [1], [1], [1]
    for i in axes:
        size = _tile(subject, i)
        left.append(subject.bound.padded[i] - stored[i])
        tile.append(min(size, left[-1]))
        last = subject.stored(i, subject.bound.extents[i] - 1)
        whole.append(min(-(-(last + 1) // size) * size - stored[i], left[-1]))
    left, tile, whole = left[-2:], tile[-2:], whole[-2:]
    is_small = whole[0] <= 2 * MOST_ROWS and whole[1] <= MOST_COLUMNS and whole[0] * whole[1] <= MOST_ELEMENTS
    most = whole if is_small else [min(tile[0], MOST_ROWS), min(tile[1], MOST_COLUMNS)]
    asked = [most[0] if rows is None else rows, most[1] if columns is None else columns]
    shown = [min(a, n) for a, n in zip(asked, left, strict=True)]
    if shown[0] * shown[1] > MOST_ELEMENTS:
        raise DrawError(
            f"{shown[0]} x {shown[1]} elements are too many for a picture, which has {MOST_ELEMENTS:,} at most "
            f"({MOST_ROWS} x {MOST_COLUMNS}): say how many with --rows and --cols, and where to begin with --at"
        )
    return shown[0], shown[1]


def _tile(subject: Subject, axis: int) -> int:
    """Return how many coordinates of an axis one tile spans: the digits outside the tile group.

    Without groups: those inside the slowest digit. The whole axis, where that is next to nothing.
    """
    mine = sorted((d for d in subject.bound.digits if d.axis == axis), key=lambda d: -d.weight)
    outer = {name for group in subject.template.store if group.label == "tile" for name in group.digits}
    grouped = any(group.label for group in subject.template.store)
    inner = [d for d in mine if d.name not in outer] if grouped else mine[1:]
    size = 1
    for digit in inner:
        size *= digit.size
    return size if size >= 4 or (len(mine) > 1 and size > 1) else subject.bound.padded[axis]


def _side(subject: Subject, axis: int, begin: int, count: int, groups: Sequence[FoldGroup]) -> Side:
    """Return a side of a plane: `count` coordinates of storage from `begin` on."""
    digits = [d for d in subject.bound.digits if d.axis == axis]
    lane = next((g for g in groups if g.label == "lane"), None)
    tile = next((g for g in groups if g.label == "tile"), None)
    coordinates = range(begin, begin + count)
    logical = tuple(subject.logical(axis, at) for at in coordinates)
    offsets = tuple(sum(_value(d, at) * d.stride for d in digits) for at in coordinates)
    lanes = tuple(_index(lane, axis, at) for at in coordinates)
    mine = [d for d in tile.digits if d.axis == axis and d.size > 1] if tile is not None else []
    tiles = tuple(", ".join(f"{d.name} {_value(d, at)}" for d in mine) for at in coordinates)
    segments = tuple(_segment(subject, axis, at) for at in logical)
    joined = [
        offsets[i] == offsets[i - 1] + 1
        and (lanes[i], tiles[i], segments[i], logical[i] is None)
        == (lanes[i - 1], tiles[i - 1], segments[i - 1], logical[i - 1] is None)
        for i in range(1, count)
    ]
    return Side(subject.axes[axis], axis, logical, offsets, lanes, tiles, segments, _runs(joined))


def _runs(joined: Sequence[bool]) -> tuple[tuple[int, int], ...]:
    """Return (first, count) of the runs, given whether each coordinate after the first goes on with the one before."""
    starts = [0, *(i + 1 for i, goes_on in enumerate(joined) if not goes_on)]
    return tuple((a, b - a) for a, b in zip(starts, [*starts[1:], len(joined) + 1], strict=True))


def _one_way(rows: Side, columns: Side) -> tuple[Side, Side]:
    """Return the sides with runs along one axis alone: the columns, where they have any."""
    if len(columns.runs) < len(columns.offsets):
        return replace(rows, runs=_singles(rows)), columns
    return rows, replace(columns, runs=_singles(columns))


def _singles(side: Side) -> tuple[tuple[int, int], ...]:
    return tuple((i, 1) for i in range(len(side.offsets)))


def _value(digit: Digit, at: int) -> int:
    return at // digit.weight % digit.size


def _index(group: FoldGroup | None, axis: int, at: int) -> int:
    """Return what a coordinate adds to the mixed-radix index of a group."""
    total, weight = 0, 1
    for digit in reversed(group.digits if group is not None else ()):
        total += _value(digit, at) * weight if digit.axis == axis else 0
        weight *= digit.size
    return total


def _segment(subject: Subject, axis: int, logical: int | None) -> str:
    """Return the name of the segment that a coordinate lies in, empty where there is none."""
    if logical is None or axis != subject.segment_axis:
        return ""
    return next((s.name for s in subject.segments if s.begin <= logical < s.end), "")
