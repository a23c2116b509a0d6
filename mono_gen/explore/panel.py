"""One plane as SVG: its cells coloured by lane and numbered by byte, its axes, tiles, segments and pads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mono_gen.explore import svg
from mono_gen.explore.captions import Difference, range_of
from mono_gen.explore.plane import Cell, Plane, Side, byte_text, range_text, run_text
from mono_gen.frozen import frozen

MOST_COLOURED = 1024
"""Cells that differ in colour; more of them stay plain, so that a file stays small."""

MOST_TITLES = 1024
"""Cells that say all about themselves under a pointer."""

LEFT, TOP, RIGHT, BOTTOM = 76, 48, 34, 32
"""Room beside the cells for ticks, tiles and segments."""

STEPS = 16
FAINT, STRONG = 14, 58  # opacity in percent: text stays legible on it in light and dark
_DIGIT, _SMALL_DIGIT = 7, 6  # widths of characters, rounded up


@frozen
class Grid:
    """Sizes in pixels: of an element along each axis, and of the whole plane."""

    element_width: int
    element_height: int
    width: int
    height: int


def measure(planes: Sequence[Plane]) -> tuple[Grid, ...]:
    """Return a grid a plane; all have elements of one size, so that the eye can compare them."""
    wide = max(_element_width(plane) for plane in planes)
    tall = max(_element_height(plane) for plane in planes)
    return tuple(Grid(wide, tall, wide * plane.shape[1], tall * plane.shape[0]) for plane in planes)


def hue_and_step(plane: Plane, lane: int) -> tuple[int, int]:
    """Return the hue of a lane, and its place in the hue's range of STEPS, faint to strong."""
    size, hues = lanes_and_hues(plane)
    width = -(-size // hues)
    return min(lane // width, hues - 1), lane % width * (STEPS - 1) // max(1, width - 1)


def lanes_and_hues(plane: Plane) -> tuple[int, int]:
    """Return the number of lanes and of hues: one a value of the slowest lane digit where these are few."""
    group = plane.lanes
    if group is None:
        return STEPS, 1
    slowest = group.digits[0].size
    few = 2 <= slowest <= len(svg.HUES)
    return group.size, slowest if few and group.size > slowest else min(4, group.size)


def opacity(step: int) -> int:
    """Return the opacity of a step in percent."""
    return FAINT + (STRONG - FAINT) * step // (STEPS - 1)


def draw_panel(plane: Plane, grid: Grid, x: int, y: int, key: str, difference: Difference | None = None) -> str:
    """Return a plane whose first cell has its corner at (x, y). key: of ids inside the file."""
    parts = [_coloured(plane, grid, x, y, key)]
    parts += [_pads(plane, grid, x, y), _lines(plane, grid, x, y)]
    parts += [_numbers(plane, grid, x, y), _marks(plane, grid, x, y, difference)]
    parts += [_ticks(plane, grid, x, y), _tiles(plane, grid, x, y), _segments(plane, grid, x, y)]
    parts += [_titles(plane, grid, x, y)]
    return "".join(parts)


def _element_width(plane: Plane) -> int:
    """Return the pixels of an element so that every cell has room for its numbers."""
    bits, longest = plane.subject.bits, max(plane.columns.runs, key=lambda run: run[1])[1]
    need = max(len(range_text(cell, bits)) for cell in plane.cells() if cell.columns == longest) * _DIGIT + 8
    size = max(4, -(-need // longest))
    shortest = min(count for _, count in plane.columns.runs)
    least = max(len(byte_text(cell.first, bits)) for cell in plane.cells()) * _DIGIT + 6
    return max(size, -(-least // shortest), 26 if longest == 1 else 0)


def _element_height(plane: Plane) -> int:
    """Return the pixels of an element: a line for the byte and one for the lane, or less in tall cells."""
    tallest = max(count for _, count in plane.rows.runs)
    whole = 26 if plane.lanes is not None else 20
    return whole if tallest == 1 else max(14, -(-whole // min(count for _, count in plane.rows.runs)))


def _box(cell: Cell, grid: Grid) -> tuple[int, int, int, int]:
    """Return x, y, width and height of a cell inside its plane."""
    wide, tall = grid.element_width, grid.element_height
    return cell.column * wide, cell.row * tall, cell.columns * wide, cell.rows * tall


# --- colours and lanes: drawn for one period, and used again for the rest ---


def _coloured(plane: Plane, grid: Grid, x: int, y: int, key: str) -> str:
    """Return the fills and the lane numbers, clipped to the plane."""
    (rows, columns), cells = _block(plane), coloured_cells(plane)
    if not cells:
        return ""
    inside = _fills(plane, cells, grid) + (_lane_numbers(cells, grid) if plane.lanes is not None else "")
    step_x, step_y = columns * grid.element_width, rows * grid.element_height
    copies = [(i, j) for j in range(0, grid.height, step_y) for i in range(0, grid.width, step_x)]
    used = "".join(f'<use href="#{key}" x="{i}" y="{j}"/>' for i, j in copies[1:])
    return (
        f'<clipPath id="{key}c"><path d="{svg.box(0, 0, grid.width, grid.height)}"/></clipPath>\n'
        f'<g transform="translate({x} {y})" clip-path="url(#{key}c)"><g id="{key}">\n{inside}</g>{used}</g>\n'
    )


def coloured_cells(plane: Plane) -> list[Cell]:
    """Return the cells that are coloured once and then copied; none where there are too many."""
    rows, columns = _block(plane)
    cells = [cell for cell in plane.cells() if cell.row < rows and cell.column < columns]
    return cells if len(cells) <= MOST_COLOURED else []


def _block(plane: Plane) -> tuple[int, int]:
    """Return the rows and columns that are drawn once: a period, or several where copies would outnumber its cells."""
    if plane.lanes is None:
        return plane.shape
    rows, columns = _period(plane.rows), _period(plane.columns)
    tall, wide = plane.shape
    while columns < wide and rows * columns < (tall // rows) * (wide // columns):
        columns *= 2
    while rows < tall and rows * columns < (tall // rows) * (wide // columns):
        rows *= 2
    return min(rows, tall), min(columns, wide)


def _period(side: Side) -> int:
    """Return after how many coordinates lanes and runs repeat; all of them, where they do not."""
    spans = dict(side.runs)
    seen = [(lane, spans.get(i)) for i, lane in enumerate(side.lanes)]
    count = len(seen)
    return next((n for n in range(1, count) if all(seen[i] == seen[i - n] for i in range(n, count))), count)


def _fills(plane: Plane, cells: Sequence[Cell], grid: Grid) -> str:
    """Return a path a colour: of the lane, or where there are no lanes of the place in storage."""
    first = min(cell.first for cell in cells)
    span = max(cell.last for cell in cells) + 1 - first
    paths: dict[tuple[int, int], str] = {}
    for cell in cells:
        lane = (cell.first - first) * STEPS // span if cell.lane is None else cell.lane
        colour = hue_and_step(plane, lane)
        paths[colour] = paths.get(colour, "") + svg.box(*_box(cell, grid))
    return "".join(svg.filled(data, hue, opacity(step)) for (hue, step), data in sorted(paths.items()))


def _lane_numbers(cells: Sequence[Cell], grid: Grid) -> str:
    """Return the lane of each cell, above its middle."""
    lines = []
    for _, row in groupby(cells, key=lambda cell: cell.row):
        words, base = [], 0
        for cell in row:
            left, top, width, height = _box(cell, grid)
            words.append((left + width // 2, str(cell.lane)))
            base = top + height // 2 - 3
        lines.append(svg.spans(base, words, "l"))
    return "".join(lines)


# --- what stands on the cells ---


def _numbers(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return the bytes of each cell: all of them where there is room, otherwise the first."""
    bits = plane.subject.bits
    lines = []
    for _, row in groupby(plane.cells(), key=lambda cell: cell.row):
        words: dict[str, list[tuple[int, str]]] = {"n": [], "n p": []}
        base = 0
        for cell in row:
            left, top, width, height = _box(cell, grid)
            base = y + top + height // 2 + (8 if plane.lanes is not None else 4)
            whole = range_text(cell, bits)
            shown = whole if len(whole) * _DIGIT <= width else byte_text(cell.first, bits)
            words["n p" if cell.is_pad else "n"].append((x + left + width // 2, shown))
        lines += [svg.spans(base, found, kind) for kind, found in words.items()]
    return "".join(lines)


def _pads(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return the pads, hatched: whole columns, then what is left of whole rows."""
    parts = []
    wide, tall = grid.element_width, grid.element_height
    rows = _stretches([at is None for at in plane.rows.logical])
    columns = _stretches([at is None for at in plane.columns.logical])
    for first, count, is_pad in rows:
        for start, number, is_pad_too in columns:
            if is_pad or is_pad_too:
                place = (x + start * wide, y + first * tall, number * wide, count * tall)
                parts += [svg.rect(*place, "v"), svg.rect(*place, "h")]
    return "".join(parts)


def _stretches(values: Sequence[object]) -> list[tuple[int, int, bool]]:
    """Return (first, count, value) of neighbours that are equal."""
    found, start = [], 0
    for value, same in groupby(values):
        count = len(list(same))
        found.append((start, count, bool(value)))
        start += count
    return found


def _marks(plane: Plane, grid: Grid, x: int, y: int, difference: Difference | None) -> str:
    """Return a corner on each cell that holds an element which the other plane puts elsewhere."""
    data = ""
    for cell in plane.cells() if difference is not None else ():
        if difference is not None and difference.touches(cell):
            left, top, width, _ = _box(cell, grid)
            data += f"M{x + left + width} {y + top}v7l-7-7z"
    return svg.path(data, "q")


def _lines(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return the lines between cells, and stronger ones between tiles."""
    wide, tall = grid.element_width, grid.element_height
    thin = "".join(f"M{x + first * wide} {y}v{grid.height}" for first, _ in plane.columns.runs[1:])
    thin += "".join(f"M{x} {y + first * tall}h{grid.width}" for first, _ in plane.rows.runs[1:])
    strong = "".join(f"M{x + i * wide} {y}v{grid.height}" for i in _changes(plane.columns.tiles))
    strong += "".join(f"M{x} {y + i * tall}h{grid.width}" for i in _changes(plane.rows.tiles))
    return svg.path(thin, "g") + svg.path(strong + svg.box(x, y, grid.width, grid.height), "o")


def _changes(values: Sequence[str]) -> list[int]:
    """Return where a value differs from the one before."""
    return [i for i in range(1, len(values)) if values[i] != values[i - 1]]


# --- what stands beside the cells ---


def _ticks(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return the names of the axes, the coordinates of each cell (fewer where they would touch), a notch an element."""
    wide, tall = grid.element_width, grid.element_height
    parts = [svg.text(x - 8, y - 26, f"{plane.columns.name} →", "b e")]
    parts += [svg.text(x - 8, y - 8, f"{plane.rows.name} ↓", "b e")] if plane.rows.axis is not None else []
    words, free = [], 0
    for run in plane.columns.runs:
        label, middle = run_text(plane.columns, run), x + (2 * run[0] + run[1]) * wide // 2
        half = len(label) * _SMALL_DIGIT // 2
        if middle - half >= free:
            words.append((middle, label))
            free = middle + half + 4
    parts.append(svg.spans(y - 8, words, "a m"))
    for run in plane.rows.runs if plane.rows.axis is not None else ():
        parts.append(svg.text(x - 8, y + (2 * run[0] + run[1]) * tall // 2 + 4, run_text(plane.rows, run), "a e"))
    parts.append(svg.path("".join(f"M{x + i * wide} {y - 4}v4" for i in _inside(plane.columns)), "d"))
    parts.append(svg.path("".join(f"M{x - 4} {y + i * tall}h4" for i in _inside(plane.rows)), "d"))
    return "".join(parts)


def _inside(side: Side) -> range:
    """Return the borders between elements, where a cell has more than one."""
    count = len(side.offsets)
    return range(1, count) if len(side.runs) < count else range(0)


def _tiles(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return the values of the tile digits: above the columns, left of the rows."""
    parts = []
    for first, count, name in _named(plane.columns.tiles):
        begin, end = x + first * grid.element_width, x + (first + count) * grid.element_width
        parts.append(svg.path(f"M{begin + 1} {y - 22}v-5H{end - 1}v5", "d"))
        label = _fitting(name, end - begin)
        parts += [svg.text((begin + end) // 2, y - 32, label, "s m")] if label else []
    for first, count, name in _named(plane.rows.tiles):
        begin, end = y + first * grid.element_height, y + (first + count) * grid.element_height
        parts.append(svg.path(f"M{x - 44} {begin + 1}h-5V{end - 1}h5", "d"))
        label = _fitting(name, end - begin)
        parts += [svg.text(x - 55, (begin + end) // 2, label, "s m", -90)] if label else []
    return "".join(parts)


def _fitting(name: str, room: int) -> str:
    """Return the name of a tile, without the word or not at all where there is no room."""
    return next((label for label in (f"tile {name}", name) if len(label) * _DIGIT <= room), "")


def _segments(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return the borders of segments, thick, across the cells, and the names beside them."""
    parts = []
    wide, tall = grid.element_width, grid.element_height
    right, below = x + grid.width, y + grid.height
    borders = "".join(f"M{x - 4} {y + i * tall}H{right + 18}" for i in _changes(plane.rows.segments))
    borders += "".join(f"M{x + i * wide} {y - 4}V{below + 18}" for i in _changes(plane.columns.segments))
    parts.append(svg.path(borders, "k"))
    for first, count, name in _named(plane.rows.segments):
        begin, end = y + first * tall, y + (first + count) * tall
        parts.append(svg.path(f"M{right + 5} {begin + 3}h6V{end - 3}h-6", "o"))
        parts.append(svg.text(right + 25, (begin + end) // 2, name, "b m", -90))
    for first, count, name in _named(plane.columns.segments):
        begin, end = x + first * wide, x + (first + count) * wide
        parts.append(svg.path(f"M{begin + 3} {below + 5}v6H{end - 3}v-6", "o"))
        parts.append(svg.text((begin + end) // 2, below + 25, name, "b m"))
    return "".join(parts)


def _named(values: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return (first, count, name) of the stretches that have a name."""
    found, start = [], 0
    for name, same in groupby(values):
        count = len(list(same))
        if name:
            found.append((start, count, name))
        start += count
    return found


def _titles(plane: Plane, grid: Grid, x: int, y: int) -> str:
    """Return what a pointer over a cell shows, where the cells are not too many."""
    cells = list(plane.cells())
    if len(cells) > MOST_TITLES:
        return ""
    parts = []
    for cell in cells:
        left, top, width, height = _box(cell, grid)
        at = range_of(plane, cell.row, cell.column, cell.rows, cell.columns)
        lane = f", lane {cell.lane}" if cell.lane is not None else ""
        names = [s for s in (plane.rows.segments[cell.row], plane.columns.segments[cell.column]) if s]
        said = f"{at}: byte {range_text(cell, plane.subject.bits)}{lane}{''.join(f', {name}' for name in names)}"
        parts.append(svg.rect(x + left, y + top, width, height, "x", said))
    return "".join(parts)
