"""What is said about a drawn plane, in pictures and on the terminal alike."""

from __future__ import annotations

from mono_gen.explore.plane import Cell, Plane, byte_text
from mono_gen.frozen import frozen


def title(plane: Plane) -> str:
    """Return what is drawn: `w13: shuffle_16x16`, or the layout's name."""
    subject = plane.subject
    return f"{subject.name}: {subject.layout}" if subject.name else subject.layout


def lines(plane: Plane) -> list[str]:
    """Return lines that say what is shown, what its numbers count, and the store order."""
    subject = plane.subject
    shape, stored = _shape(subject.bound.extents, subject.runtime), _shape(subject.bound.padded, subject.runtime)
    what = f"{subject.format}, {subject.bits} bits each" if subject.format else f"elements of {subject.bits} bits"
    first = f"{shape} {what}" + (f"; {stored} with pads" if stored != shape else "")
    if _shape(plane.shape) not in (stored, f"1 x {stored}") or _begin(plane):
        first += f"; shown: {_shape(plane.shape)}{_begin(plane)}"
    item = f" of one item ({', '.join(f'{axis} 0' for axis in subject.batch)})" if subject.batch else ""
    second = f"numbers: {'byte.nibble' if subject.bits == 4 else 'bytes'} from the start{item}"
    if plane.lanes is not None:
        second += f"; lane = {lane_text(plane)}"
    store = " | ".join(" ".join(filter(None, (g.label, *g.digits))) for g in subject.template.store)
    return [first, second, f"store {store}"]


def _shape(sizes: tuple[int, ...], first: str = "") -> str:
    """Return `16 x 64`, with a name instead of the first size where it has one."""
    return " x ".join([first] * bool(first) + [f"{n:,}" for n in sizes[bool(first) :]])


def lane_text(plane: Plane) -> str:
    """Return the lane in terms of its digits: `16*g + r`."""
    terms, weight = [], 1
    for digit in reversed(plane.lanes.digits if plane.lanes is not None else ()):
        terms.append(digit.name if weight == 1 else f"{weight}*{digit.name}")
        weight *= digit.size
    return " + ".join(reversed(terms))


def pad_text(plane: Plane) -> str:
    """Return what lies in the pads that are shown; empty where none is."""
    if not any(cell.is_pad for cell in plane.cells()):
        return ""
    fill = plane.subject.bound.fill
    return "pad, undefined" if fill is None else f"pad, filled with 0x{fill:02X}"


def range_of(plane: Plane, row: int, column: int, rows: int, columns: int) -> str:
    """Return the coordinates of a cell: `row 3, k 16 to 31`."""
    parts = []
    for side, begin, count in ((plane.rows, row, rows), (plane.columns, column, columns)):
        if side.axis is None:
            continue
        first, last = side.logical[begin], side.logical[begin + count - 1]
        if first is None or last is None:
            parts.append(f"{side.name} pad")
        else:
            parts.append(f"{side.name} {first}" if count == 1 else f"{side.name} {first} to {last}")
    return ", ".join(parts)


def _begin(plane: Plane) -> str:
    """Return where the plane begins, empty at the tensor's first element."""
    sides = (plane.rows, plane.columns)
    if all(side.axis is None or side.logical[0] == 0 for side in sides):
        return ""
    return f" from {range_of(plane, 0, 0, 1, 1)}"


@frozen
class Difference:
    """How two planes differ: the places in the second whose elements lie at other bits, of how many that both show."""

    places: frozenset[tuple[int, int]]
    compared: int
    text: str

    def touches(self, cell: Cell) -> bool:
        """Return whether any element of a cell of the second plane lies elsewhere than in the first."""
        rows = range(cell.row, cell.row + cell.rows)
        columns = range(cell.column, cell.column + cell.columns)
        return any((row, column) in self.places for row in rows for column in columns)


def compare(left: Plane, right: Plane) -> Difference:
    """Return where two planes put the same logical element at different places in memory."""
    others = {at: i for i, at in enumerate(right.rows.logical) if at is not None}
    columns = {at: i for i, at in enumerate(right.columns.logical) if at is not None}
    found, first, compared = set(), "", 0
    for i, row in enumerate(left.rows.logical):
        for j, column in enumerate(left.columns.logical):
            if row not in others or column not in columns:
                continue
            compared += 1
            here, there = left.offset(i, j), right.offset(others[row], columns[column])
            if here * left.subject.bits != there * right.subject.bits:
                found.add((others[row], columns[column]))
                first = first or (
                    f"; the first: {range_of(left, i, j, 1, 1)}, at byte {byte_text(here, left.subject.bits)} "
                    f"and at {byte_text(there, right.subject.bits)}"
                )
    if not found:
        text = f"each of the {compared:,} elements that both show lies at the same byte"
    else:
        text = f"{len(found):,} of {compared:,} elements lie at other bytes{first}"
    return Difference(frozenset(found), compared, text)
