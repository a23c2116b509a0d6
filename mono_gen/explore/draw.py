"""A picture of one layout or two: a self-contained SVG file, for light, dark and paper."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.explore import svg
from mono_gen.explore.captions import compare, lines, pad_text, title
from mono_gen.explore.panel import (
    BOTTOM,
    LEFT,
    MOST_COLOURED,
    RIGHT,
    STEPS,
    TOP,
    coloured_cells,
    draw_panel,
    lanes_and_hues,
    measure,
    opacity,
)
from mono_gen.explore.plane import Plane

MARGIN = 24
MOST_WIDE = 1800  # of two planes beside each other, in pixels; wider ones stand one below the other
_CHARACTER = 7  # the width of a character of running text, rounded up
_ITEM = 22  # the height of a line of the legend


def draw(planes: Sequence[Plane]) -> str:
    """Return the SVG text of one plane or two.

    Law:  tests/explore/test_draw.py: every number against closed formulas.
    """
    grids = measure(planes)
    difference = compare(*planes) if len(planes) == 2 else None
    name = " and ".join(title(plane) for plane in planes)
    beside = sum(grid.width + LEFT + RIGHT for grid in grids) + 2 * MARGIN <= MOST_WIDE
    x, y, right = MARGIN, MARGIN, 0
    body, bottom = [], 0
    for index, (plane, grid) in enumerate(zip(planes, grids, strict=True)):
        said = lines(plane)
        body.append(svg.text(x, y + 16, title(plane), "t"))
        body += [svg.text(x, y + 38 + 18 * n, line, "s") for n, line in enumerate(said)]
        head = 38 + 18 * len(said) + TOP
        other = difference if index == 1 else None
        body.append(draw_panel(plane, grid, x + LEFT, y + head, f"p{index}", other))
        wide = max(LEFT + grid.width + RIGHT, max(map(len, said)) * _CHARACTER)
        right, bottom = max(right, x + wide), max(bottom, y + head + grid.height + BOTTOM)
        x, y = (x + wide + MARGIN, y) if beside else (x, bottom + MARGIN)
    if difference is not None:
        body.append(svg.text(MARGIN, bottom + 8, f"{difference.text[0].upper()}{difference.text[1:]}.", "b"))
        bottom += 24
    legend, bottom = _legend(planes, MARGIN, bottom + 8, right, difference is not None and bool(difference.places))
    told = [line for plane in planes for line in lines(plane)]
    told += [difference.text] if difference is not None else []
    return svg.document(right + MARGIN, bottom + MARGIN - 8, name, f"{'; '.join(told)}.", "".join(body) + legend)


def _legend(planes: Sequence[Plane], x: int, y: int, right: int, differs: bool) -> tuple[str, int]:
    """Return the legend, item after item, and where it ends."""
    parts, at = [], x
    for sign, width, words in _items(planes, differs):
        needed = width + 8 + len(words) * _CHARACTER + 20
        if at > x and at + needed > right:
            at, y = x, y + _ITEM
        parts.append(f'<g transform="translate({at} {y})">{sign}{svg.text(width + 8, 13, words, "s")}</g>\n')
        at += needed
    return "".join(parts), y + _ITEM


def _items(planes: Sequence[Plane], differs: bool) -> list[tuple[str, int, str]]:
    """Return (sign, its width, what it means) of all that the planes show."""
    items: list[tuple[str, int, str]] = []
    if any(plane.lanes is not None and coloured_cells(plane) for plane in planes):
        sign = svg.rect(0, 0, 34, 18, "g") + svg.spans(8, [(17, "lane")], "l") + svg.spans(16, [(17, "byte")], "l")
        items.append((sign, 34, "each cell"))
    for plane in planes:
        items += [item for item in _colours(plane) if item not in items]
    pads = next(filter(None, map(pad_text, planes)), "")
    if pads:
        items.append((svg.rect(0, 0, 34, 18, "h") + svg.rect(0, 0, 34, 18, "g"), 34, pads))
    if any(len(set(side.tiles)) > 1 for plane in planes for side in (plane.rows, plane.columns)):
        items.append((svg.path("M0 9h34", "o"), 34, "border of a tile"))
    if any(len(set(side.segments)) > 1 for plane in planes for side in (plane.rows, plane.columns)):
        items.append((svg.path("M0 9h34", "k"), 34, "border of a segment"))
    if differs:
        sign = svg.rect(0, 0, 34, 18, "g") + svg.path("M34 0v7l-7-7z", "q")
        items.append((sign, 34, f"other bytes than in {title(planes[0])}"))
    return items


def _colours(plane: Plane) -> list[tuple[str, int, str]]:
    """Return what the colours of a plane mean."""
    if not coloured_cells(plane):
        return [(svg.rect(0, 0, 34, 18, "g"), 34, f"no colours and lanes: over {MOST_COLOURED:,} cells differ")]
    if plane.lanes is None:
        return [(_scale(0), 64, "by place in storage, first to last")]
    size, hues = lanes_and_hues(plane)
    width = -(-size // hues)
    lasts = [min(size, (hue + 1) * width) - 1 for hue in range(hues)]
    return [(_scale(i), 64, f"lanes {i * width} to {n}" if width > 1 else f"lane {n}") for i, n in enumerate(lasts)]


def _scale(hue: int) -> str:
    """Return the shades of a hue, faint to strong."""
    steps = range(0, STEPS, 2)
    return "".join(svg.filled(svg.box(n * 4, 0, 8, 18), hue, opacity(n)) for n in steps)
