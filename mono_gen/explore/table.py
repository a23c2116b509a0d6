"""Planes as text for a terminal: a line a row of cells, each with its bytes and its lane."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.explore.captions import Difference, compare, lines, pad_text, title
from mono_gen.explore.panel import hue_and_step
from mono_gen.explore.plane import Cell, Plane, Side, range_text, run_text

_HUES = (34, 33, 32, 35, 36, 31, 94, 92)  # as in pictures: blue, yellow, green, magenta, ...


def table(planes: Sequence[Plane], columns: int, colour: bool) -> str:
    """Return one plane or two as text, in lines of at most so many columns where that can be."""
    difference = compare(*planes) if len(planes) == 2 else None
    parts = [_one(plane, columns, colour, difference if plane is planes[-1] else None) for plane in planes]
    if difference is not None:
        parts.append(f"{difference.text[0].upper()}{difference.text[1:]}.\n")
    return "\n".join(parts)


def _one(plane: Plane, columns: int, colour: bool, difference: Difference | None) -> str:
    """Return one plane: what it is, the signs that it uses, its cells in as many parts as the width asks for."""
    signs = ["L5: lane 5"] if plane.lanes is not None else []
    pads = pad_text(plane)
    signs += [f"(5): {pads}"] if pads else []
    signs += ["*: other bytes than above"] if difference is not None and difference.places else []
    head = [title(plane), *(f"  {line}" for line in lines(plane))]
    head += [f"  {';  '.join(signs)}"] if signs else []
    cells = list(plane.cells())
    across = len(plane.columns.runs)
    rows = [cells[i : i + across] for i in range(0, len(cells), across)]
    words = [[_word(plane, cell, difference) for cell in row] for row in rows]
    lanes = [[_lane(cell) for cell in row] for row in rows]
    left = _left(plane)
    parts = ["\n".join(head)]
    for begin, end in _parts(words, lanes, columns - max(map(len, left)) - 2):
        grid = [
            [(word, lane, cell) for word, lane, cell in zip(w[begin:end], n[begin:end], row[begin:end], strict=True)]
            for w, n, row in zip(words, lanes, rows, strict=True)
        ]
        parts.append(_lines(plane, grid, left, begin, colour))
    return "\n\n".join(parts) + "\n"


def _left(plane: Plane) -> list[str]:
    """Return what stands before each line: the corner, then the rows' coordinates."""
    corner = f"{plane.rows.name} \\ {plane.columns.name}" if plane.rows.axis is not None else plane.columns.name
    names = [run_text(plane.rows, run) if plane.rows.axis is not None else "" for run in plane.rows.runs]
    names = [f"{_segment(plane.rows, run)}{name}" for run, name in zip(plane.rows.runs, names, strict=True)]
    width = max(map(len, [corner, *names]))
    return [name.rjust(width) for name in [corner, *names]]


def _segment(side: Side, run: tuple[int, int]) -> str:
    return f"{side.segments[run[0]]} " if side.segments[run[0]] else ""


def _parts(words: list[list[str]], lanes: list[list[str]], room: int) -> list[tuple[int, int]]:
    """Return (begin, end) of the columns that fit beside each other, one at least."""
    widths = [
        max(len(row[i]) + len(lane[i]) + 6 for row, lane in zip(words, lanes, strict=True))
        for i in range(len(words[0]))
    ]
    parts, begin, used = [], 0, 0
    for i, width in enumerate(widths):
        if i > begin and used + width > room:
            parts.append((begin, i))
            begin, used = i, 0
        used += width
    return [*parts, (begin, len(widths))]


def _lines(plane: Plane, grid: list[list[tuple[str, str, Cell]]], left: list[str], begin: int, colour: bool) -> str:
    """Return some columns as lines, with a bar between tiles and a rule between tiles or segments of rows."""
    runs = plane.columns.runs[begin : begin + len(grid[0])]
    heads = [f"{_segment(plane.columns, run)}{run_text(plane.columns, run)}" for run in runs]
    numbers = [max(len(row[i][0]) for row in grid) for i in range(len(runs))]
    lanes = [max(len(row[i][1]) for row in grid) for i in range(len(runs))]
    widths = [max(len(h), n + m + (1 if m else 0)) for h, n, m in zip(heads, numbers, lanes, strict=True)]
    bars = [i > 0 and _changes(plane.columns, runs[i][0]) for i in range(len(runs))]
    between = ["  |  " if bar else "   " for bar in bars]
    head = "".join(f"{gap}{name:<{width}}" for gap, name, width in zip(between, heads, widths, strict=True))
    written = [f"{left[0]}{head}".rstrip()]
    for index, row in enumerate(grid):
        if index and _changes(plane.rows, plane.rows.runs[index][0]):
            written.append(f"{' ' * len(left[0])}   {'-' * (sum(map(len, between)) + sum(widths) - 3)}")
        line = ""
        for i, (word, lane, cell) in enumerate(row):
            padded = f"{word:>{numbers[i]}}"
            said = f"{padded} {_painted(plane, cell, lane, colour)}{' ' * (lanes[i] - len(lane))}" if lane else padded
            plain = numbers[i] + (lanes[i] + 1 if lane else 0)
            line += f"{between[i]}{said}{' ' * (widths[i] - plain)}"
        written.append(f"{left[index + 1]}{line}".rstrip())
    return "\n".join(written)


def _changes(side: Side, at: int) -> bool:
    """Return whether a tile or a segment begins at a coordinate."""
    return (side.tiles[at], side.segments[at]) != (side.tiles[at - 1], side.segments[at - 1])


def _word(plane: Plane, cell: Cell, difference: Difference | None) -> str:
    """Return a cell's bytes, in brackets for a pad, with a star where the other plane has them elsewhere."""
    text = range_text(cell, plane.subject.bits)
    if difference is not None and difference.touches(cell):
        text = f"*{text}"
    return f"({text})" if cell.is_pad else text


def _lane(cell: Cell) -> str:
    return "" if cell.lane is None else f"L{cell.lane}"


def _painted(plane: Plane, cell: Cell, text: str, colour: bool) -> str:
    """Return a lane in the colour that pictures give it."""
    if not colour or cell.lane is None:
        return text
    return f"\x1b[{_HUES[hue_and_step(plane, cell.lane)[0]]}m{text}\x1b[0m"
