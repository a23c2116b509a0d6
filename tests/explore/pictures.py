"""An SVG picture read back: which byte and lane each place of a plane shows, worked out from where things stand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

SVG = "{http://www.w3.org/2000/svg}"
_BOX = re.compile(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z$")


@dataclass
class Panel:
    """A plane of a picture: places are (row, column); bytes are texts such as "16", or "8.1" for 4-bit elements."""

    left: int
    top: int
    width: int
    height: int
    bytes: dict[tuple[int, int], str] = field(default_factory=dict)
    lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    pads: set[tuple[int, int]] = field(default_factory=set)
    muted: set[tuple[int, int]] = field(default_factory=set)
    marked: set[tuple[int, int]] = field(default_factory=set)

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.left + self.width and self.top <= y <= self.top + self.height


def read(text: str, rows: int, columns: int, bits: int) -> list[Panel]:
    """Return the planes of a picture whose planes all have so many rows and columns.

    A number stands in the middle of its cell, and cells fill the plane from the left and from the top: so where
    numbers stand says how many elements each cell has, and a range that is written says it once more.
    """
    root = ET.fromstring(text)
    boxes = [_BOX.search(e.get("d", "")) for e in root.iter(f"{SVG}path") if e.get("class") == "o"]
    panels = [Panel(*map(int, box.groups()[:4])) for box in boxes if box]
    _read_lanes(root, panels, rows, columns)
    corners = {
        (int(x), int(y))
        for e in root.findall(f"{SVG}path")
        if e.get("class") == "q"
        for x, y in re.findall(r"M(\d+) (\d+)v7l-7-7z", e.get("d", ""))
    }
    for panel in panels:
        _read_numbers(root, panel, rows, columns, bits)
        panel.marked = {at for at in panel.bytes if _corner(panel, at, rows, columns) in corners}
    for rect in (e for e in root.iter(f"{SVG}rect") if e.get("class") == "h"):
        x, y, width, height = (int(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        for panel in (p for p in panels if p.holds(x, y)):
            panel.pads |= _places(panel, x, y, width, height, rows, columns)
    return panels


def _read_numbers(root: ET.Element, panel: Panel, rows: int, columns: int, bits: int) -> None:
    lines: dict[int, list[tuple[int, str, bool]]] = {}
    for line in (e for e in root.findall(f"{SVG}text") if e.get("class") in ("n", "n p")):
        y, is_muted = int(line.get("y", "")), line.get("class") == "n p"
        spans = [(int(span.get("x", "")), span.text or "", is_muted) for span in line]
        lines.setdefault(y, []).extend(span for span in spans if panel.holds(span[0], y))
    wide, tall = panel.width // columns, panel.height // rows
    row = 0
    for y in sorted(y for y, spans in lines.items() if spans):
        down = round(2 * (y - (8 if panel.lanes else 4) - panel.top - row * tall) / tall)
        column = 0
        for x, said, is_muted in sorted(lines[y]):
            across = round(2 * (x - panel.left - column * wide) / wide)
            first, count = elements(said, bits)
            places = [(row + i, column + j) for i in range(down) for j in range(across)]
            assert count in (1, len(places)), f"{said} in a cell of {len(places)}"
            panel.bytes |= {at: byte_text(first + n, bits) for n, at in enumerate(places)}
            panel.muted |= set(places) if is_muted else set()
            column += across
        assert column == columns
        row += down
    assert row == rows


def _corner(panel: Panel, at: tuple[int, int], rows: int, columns: int) -> tuple[int, int]:
    """Return the upper right corner of the cell whose number is that of a place, found by where it ends."""
    row, column = at
    first = elements(panel.bytes[at], 8)[0] if "." not in panel.bytes[at] else None
    while first is not None and panel.bytes.get((row, column + 1)) == str(int(panel.bytes[row, column]) + 1):
        column += 1
    return panel.left + (column + 1) * panel.width // columns, panel.top + row * panel.height // rows


def _read_lanes(root: ET.Element, panels: list[Panel], rows: int, columns: int) -> None:
    ids = {e.get("id"): e for e in root.iter() if e.get("id")}
    groups = [g for g in root.findall(f"{SVG}g") if "clip-path" in g.attrib]
    for group in groups:
        moved = re.fullmatch(r"translate\((\d+) (\d+)\)", group.get("transform", ""))
        assert moved is not None
        x, y = int(moved[1]), int(moved[2])
        panel = next(p for p in panels if (p.left, p.top) == (x, y))
        copies = [(0, 0)] + [(int(u.get("x", "")), int(u.get("y", ""))) for u in group.findall(f"{SVG}use")]
        drawn = next(g for g in ids.values() if g in list(group) and g.tag == f"{SVG}g")
        for line in drawn.findall(f"{SVG}text"):
            for span in line:
                for dx, dy in copies:
                    at = (int(line.get("y", "")) + dy) * rows // panel.height
                    column = (int(span.get("x", "")) + dx) * columns // panel.width
                    if at < rows and column < columns:
                        panel.lanes[at, column] = int(span.text or "")


def _places(panel: Panel, x: int, y: int, width: int, height: int, rows: int, columns: int) -> set[tuple[int, int]]:
    """Return the places whose middles lie in a rectangle."""
    wide, tall = panel.width // columns, panel.height // rows
    first_row, first_column = (y - panel.top + tall // 2) // tall, (x - panel.left + wide // 2) // wide
    down, across = round(height / tall), round(width / wide)
    return {(first_row + i, first_column + j) for i in range(down) for j in range(across)}


def elements(said: str, bits: int) -> tuple[int, int]:
    """Return (first element, how many) of bytes such as `16–31`, `8.0–15.1` or `5`."""
    first, _, last = said.partition("–")
    if bits == 4:
        begin, end = (int(b) * 2 + int(n) for b, n in (part.split(".") for part in (first, last or first)))
        return begin, end - begin + 1
    begin = int(first) * 8 // bits
    return begin, ((int(last) + 1) * 8 // bits - begin) if last else 1


def byte_text(element: int, bits: int) -> str:
    """Return the first byte of an element, with the nibble of 4-bit ones."""
    return f"{element // 2}.{element % 2}" if bits == 4 else str(element * bits // 8)
