"""The chain between coordinates and a byte as text: a line a step, with the numbers put in."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.explore.names import Found
from mono_gen.explore.origins import Origin, covered_by, covered_range, lets_of, origins_of, rank_of, scale_of
from mono_gen.explore.runs import at_text, run_text, runs_of
from mono_gen.explore.where import DigitValue, Spot, extent_text
from mono_gen.model import TensorModel

Row = tuple[str, str]
"""A step's name, empty where the line goes on, and what it says."""

NIBBLES = ("low", "high")
MOST_RUNS = 64
"""Lines of runs that are shown."""


def heading(found: Found) -> str:
    """Return what the tensor is, on one line."""
    model, form = found.tensor.model, found.field.model.format
    extents = " x ".join(n if isinstance(n, str) else extent_text(found, i) for i, n in enumerate(model.extents))
    part = "" if form.scale is None else f", {'the scale' if found.index else 'the data'} of {form.name}"
    return f"{found.name}: {model.element.name}{part}; {extents}; {model.layout_name} ({found.field.model.place})"


def coordinates_chain(found: Found, spot: Spot) -> list[Row]:
    """Return the steps from coordinates to a byte, then what goes with the element."""
    rows: list[Row] = [("coordinates", _coordinates(found, spot))]
    rows += _segment_rows(found, spot)
    rows += _continued("digits", _digit_lines(spot))
    total = _sum(spot)
    rows.append(("element", f"{total}{f' = {spot.element}' if total != str(spot.element) else ''}{_store(found)}"))
    rows.append(("byte", _byte_text(found, spot)))
    rows += _group_rows(found, spot)
    rows += _continued("back", list(dict.fromkeys((_divisions(spot), _recombined(found, spot)))))
    return rows + _companions(found, spot)


def byte_chain(found: Found, spot: Spot, byte: int) -> list[Row]:
    """Return the steps from a byte to coordinates, then what goes with the element."""
    rows: list[Row] = [("byte", _byte_back_text(found, spot, byte))]
    if spot.stored is None:
        return [*rows, ("gap", "a pitch leaves this byte out: no element lies here, and it is undefined")]
    rows += _continued("digits", _divisions(spot).split(", "))
    rows.append(("storage", _recombined(found, spot)))
    rows += _segment_rows(found, spot)
    rows.append(("coordinates", _coordinates(found, spot)))
    rows += _group_rows(found, spot)
    rows += _continued("back", [f"{_sum(spot)} = element {spot.element}", _byte_text(found, spot)])
    return rows + _companions(found, spot)


def lane_rows(found: Found, spots: Sequence[Spot], total: int) -> list[Row]:
    """Return what a lane holds, a line a run, by its bytes.

    total: the elements that it holds, of which `spots` are the first.
    """
    model = found.tensor.model
    bits = model.element.bits
    rows, position = [], 0
    runs = runs_of(spots)
    for run in runs[:MOST_RUNS]:
        begin, end = position * bits // 8, ((position + run.count) * bits + 7) // 8 - 1
        rows.append(
            (
                _span(begin, end),
                f"{run_text(model, run)}   at byte {_span(run.first.byte, run.last.byte + max(bits // 8, 1) - 1)}",
            )
        )
        position += run.count
    if position < total:
        rows.append(("...", f"and {total - position} elements more"))
    return rows


def table(rows: Sequence[Row], indent: str = "  ") -> str:
    """Return rows in two columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return "".join(f"{indent}{name:{width}}  {text}".rstrip() + "\n" for name, text in rows)


# --- the steps ---


def _coordinates(found: Found, spot: Spot) -> str:
    """Return the coordinates with their extents, and what makes them a pad."""
    model = found.tensor.model
    if spot.is_pad:
        fill = model.bound.fill
        value = "undefined: pack writes 0x00, and checks ignore it" if fill is None else f"filled with {fill:#04x}"
        return f"{at_text(model, spot)} of storage: a pad, no element ({_extents_text(found)}); {value}"
    parts = []
    for index, (name, c) in enumerate(zip(model.axes, spot.at, strict=True)):
        parts.append(f"{name} {c} of {extent_text(found, index)}{_only_where(found, index, c)}")
    return ", ".join(parts)


def _extents_text(found: Found) -> str:
    """Return `row: 1600, padded to 1792`, the padded axes alone."""
    model = found.tensor.model
    return "; ".join(
        f"{name} is {extent_text(found, i)}" for i, name in enumerate(model.axes) if "padded" in extent_text(found, i)
    )


def _only_where(found: Found, index: int, coordinate: int | None) -> str:
    """Return for which values of a run-time dim a coordinate is there, where that is not for all."""
    extent = found.tensor.model.extents[index]
    values = found.dims.get(extent) if isinstance(extent, str) else None
    if not values or coordinate is None or coordinate < min(values):
        return ""
    return f" (there where {extent} is {' or '.join(str(v) for v in values if v > coordinate)})"


def _segment_rows(found: Found, spot: Spot) -> list[Row]:
    """Return the segment that a place lies in, and where storage has moved it."""
    model, segment = found.tensor.model, spot.segment
    if segment is None or spot.stored is None:
        return []
    name, stored = model.axes[model.segment_axis], spot.stored[model.segment_axis]
    at = spot.at[model.segment_axis]
    own = "a pad behind it" if at is None else f"{name} {at} - {segment.begin} = {at - segment.begin} of it"
    text = f"{segment.name}, {name} {segment.begin}..{segment.end - 1}: {own}"
    if model.pad_each:
        room = f"{segment.padded_begin}..{segment.padded_end - 1}"
        text += f"; stored at {name} {room}, padded by itself: {name} {stored} of storage"
    return [("segment", text)]


def _digit_lines(spot: Spot) -> list[str]:
    """Return `r = 35 % 16 = 3  (of 16)` a digit, the sizes below each other."""
    assert spot.stored is not None, "a gap has no digits"
    lines = []
    for digit in spot.digits:
        text = str(spot.stored[digit.axis])
        text += f" / {digit.weight}" if digit.weight > 1 else ""
        text += f" % {digit.size}" if not digit.is_slowest else ""
        lines.append(f"{digit.name} = {text}" if text.isdigit() else f"{digit.name} = {text} = {digit.value}")
    width = max(map(len, lines), default=0)
    sizes = (f"of {digit.size}" if digit.size else "" for digit in spot.digits)
    return [f"{line:{width}}  {size}".rstrip() for line, size in zip(lines, sizes, strict=True)]


def second_rows(found: Found, spot: Spot) -> list[Row]:
    """Return what is said of the other 4-bit element of a byte."""
    digits = ", ".join(f"{digit.name} {digit.value}" for digit in spot.digits if digit.size != 1)
    return [("high nibble", f"element {spot.element}: {digits}: {at_text(found.tensor.model, spot)}")]


def _sum(spot: Spot) -> str:
    """Return the element offset as a sum over the digits, in store order."""
    parts = [f"{d.value}*{d.stride}" if d.stride != 1 else str(d.value) for d in spot.digits if d.size != 1]
    return " + ".join(parts) or "0"


def _store(found: Found) -> str:
    """Return the store order as the spec has it, beside the sum."""
    layout = found.tensor.model.layout
    if layout is None:
        return ""
    groups = (" ".join(((g.label,) if g.label else ()) + g.digits) for g in layout.template.store)
    return f"   ({layout.store_place}: store {' | '.join(groups)})"


def _byte_text(found: Found, spot: Spot) -> str:
    """Return the byte of an element: batch strides, then the element in bytes."""
    model = found.tensor.model
    bits = model.element.bits
    parts = [
        f"{name} {c} * {stride}"
        for name, c, stride in zip(model.axes, spot.stored or (), found.tensor.strides, strict=False)
    ]
    if bits < 8:
        per = 8 // bits
        parts.append(f"{spot.element} / {per}")
    else:
        parts.append(str(spot.element) if bits == 8 else f"{spot.element} * {bits // 8}")
    text = " + ".join(parts)
    text = f"{'1 byte an element: ' if bits == 8 and len(parts) == 1 else ''}{text} = byte {spot.byte}"
    if spot.nibble is not None:
        text += f", the {NIBBLES[spot.nibble]} nibble: {spot.element} % {8 // bits} = {spot.nibble}"
    elif bits > 8:
        text += f", to {spot.byte + bits // 8 - 1}"
    return text


def _byte_back_text(found: Found, spot: Spot, byte: int) -> str:
    """Return the element at a byte: its batch item, its offset there."""
    model, bits = found.tensor.model, found.tensor.model.element.bits
    text = str(byte)
    if model.batch and spot.stored is not None:
        items = ", ".join(f"{name} {c}" for name, c in zip(model.axes, spot.stored[: model.batch], strict=False))
        text = f"{byte} - {spot.item} ({items}) = {byte - spot.item}"
    inside = byte - spot.item
    if bits < 8:
        assert spot.nibble is not None, "a part of a byte"
        return f"{text}: elements {inside * 8 // bits} to {inside * 8 // bits + 8 // bits - 1}; " + (
            f"the {NIBBLES[spot.nibble]} nibble is element {spot.element}"
        )
    if bits == 8:
        return f"{text}: element {spot.element}"
    width = bits // 8
    return f"{text}: {inside} / {width} = element {spot.element}, byte {inside % width} of its {width}"


def _divisions(spot: Spot) -> str:
    """Return how an element offset falls apart into digits: the stride of each in turn."""
    rest, parts = spot.element, []
    for digit in spot.digits:  # in store order, so that strides fall
        if digit.size == 1:
            continue
        if digit.stride == 1:
            parts.append(f"{digit.name} = {rest}")
        else:
            parts.append(
                f"{digit.name} = {rest} / {digit.stride} = {digit.value} rest {rest - digit.value * digit.stride}"
            )
        rest -= digit.value * digit.stride
    return ", ".join(parts) or "the only element"


def _recombined(found: Found, spot: Spot) -> str:
    """Return the storage coordinates that the digits make."""
    model, parts = found.tensor.model, []
    assert spot.stored is not None, "a gap has no digits"
    for axis in range(model.batch, len(model.axes)):
        mine = sorted((d for d in spot.digits if d.axis == axis and d.size != 1), key=lambda d: -d.weight)
        total = " + ".join(f"{d.value}*{d.weight}" if d.weight != 1 else str(d.value) for d in mine) or "0"
        value = spot.stored[axis]
        parts.append(f"{model.axes[axis]} = {total}" + (f" = {value}" if total != str(value) else ""))
    return ", ".join(parts)


def _group_rows(found: Found, spot: Spot) -> list[Row]:
    """Return tile, lane and the byte in the lane, as far as the store order names them."""
    bits = found.tensor.model.element.bits
    rows: list[Row] = []
    tile, lane, inside = (spot.group(label) for label in ("tile", "lane", "byte"))
    if tile is not None:
        begin = spot.item + sum(d.value * d.stride for d in tile.digits) * bits // 8
        where = ", ".join(f"{d.name} {d.value}" for d in tile.digits)
        rows.append(("tile", f"{where}: tile {tile.index} of {tile.size}, from byte {begin}"))
    if lane is not None:
        rows.append(("lane", f"{_mixed(lane.digits)} = lane {lane.index} of {lane.size}"))
        count = inside.size if inside is not None else 1
        if count * bits % 8 == 0:
            rows.append(("register", register_text(inside.index if inside is not None else 0, count, bits)))
    return rows


def register_text(index: int, count: int, bits: int) -> str:
    """Return where an element lies in the bytes that a lane holds: byte, dword, byte select."""
    byte, nbytes = index * bits // 8, count * bits // 8
    nibble = f" ({NIBBLES[index % 2]} nibble)" if bits == 4 else ""
    dword = f": dword {byte // 4}, byte select {byte % 4}" if nbytes >= 4 else ""
    return f"byte {byte}{nibble} of the lane's {nbytes}{dword}"


def _mixed(digits: Sequence[DigitValue]) -> str:
    """Return a mixed-radix index: `g 2*16 + r 3`."""
    parts, weight = [], 1
    for digit in reversed(digits):
        parts.append(f"{digit.name} {digit.value}" + (f"*{weight}" if weight != 1 else ""))
        weight *= digit.size
    return " + ".join(reversed(parts))


# --- what goes with an element ---


def _companions(found: Found, spot: Spot) -> list[Row]:
    """Return the scale, the data that a scale serves, and the sources."""
    rows: list[Row] = []
    scale = scale_of(found, spot)
    if scale is not None:
        other = found.other(1)
        model, block = other.tensor.model, found.field.model.format.block
        last = found.tensor.model.axes[-1]
        why = f"   ({last} {spot.at[-1]} / {block})" if block else "   (one a row)"
        rows.append(("scale", f"{model.name}[{at_text(model, scale)}]: byte {scale.byte}{why}"))
        rows += [("", f"{name} of the scale: {text}") for name, text in _group_rows(other, scale) if name != "tile"]
    if found.index and not spot.is_pad:
        rows.append(("serves", _served(found, spot)))
    rank = rank_of(found, spot)
    if rank is not None and rank.rank is not None:
        whose = f"rank {rank.rank} of the {rank.world} of `{rank.group}` brings it"
        rows.append(("gather", f"segment {rank.segment}: {whose}, its own row {rank.row}"))
    elif rank is not None:
        rows.append(("gather", f"segment {rank.segment}: a rank of `{rank.group}`; which, its size says at load"))
    return rows + _source_rows(found, origins_of(found, spot))


def _served(found: Found, spot: Spot) -> str:
    """Return the data that a scale serves, and its bytes."""
    data = found.other(0)
    model = data.tensor.model
    first, last = covered_range(found, spot)
    at = ", ".join(f"{n} {c}" for n, c in zip(model.axes[:-1], spot.at, strict=False))
    text = f"{model.name}[{at}, {model.axes[-1]} {first}..{last}]"
    if last - first >= MOST_RUNS * 16:
        return text
    spots = covered_by(found, spot)
    ranges: list[tuple[int, int]] = []
    for begin, end in sorted({(s.byte, s.byte + max(model.element.bits // 8, 1)) for s in spots}):
        if ranges and ranges[-1][1] == begin:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((begin, end))
    return f"{text}: byte {', '.join(_span(begin, end - 1) for begin, end in ranges[:8])}" + (
        f" and {len(ranges) - 8} ranges more" if len(ranges) > 8 else ""
    )


def _source_rows(found: Found, origins: Sequence[Origin]) -> list[Row]:
    """Return a line a source, then how its values become the field's, and what its path means."""
    rows: list[str] = []
    for origin in origins:
        index = "[?]" if origin.index is None else f"[{', '.join(_index_text(i) for i in origin.index)}]"
        place = f", byte {origin.byte}" if origin.byte is not None else ""
        what = "a view: the same byte" if origin.is_view else f"{origin.format} {origin.order}{place}"
        why = " (the index depends on what is known at load)" if origin.index is None else ""
        rows.append(f"{origin.path}{index}, {what}{why}")
        if _is_pair(found.tensor.model, origin):
            rows.append("indices count elements; torch counts pairs on the last dim of a 4-bit tensor")
    lets = dict.fromkeys(text for origin in origins for text in lets_of(found, origin.path))
    if lets:
        rows.append(f"with {', '.join(lets)}")
    steps = found.field.steps
    if rows and steps != ("view",):
        rows.append(f"then {'; '.join(steps)}")
    return _continued("source", rows)


def _is_pair(model: TensorModel, origin: Origin) -> bool:
    """Return whether an index of a source counts elements where torch counts pairs."""
    return model.element.bits == 4 and origin.index is not None


def _index_text(index: int | tuple[int, int]) -> str:
    """Return a torch index: a number, or `0:6144` for a whole axis."""
    return str(index) if isinstance(index, int) else f"{index[0]}:{index[1] + 1}"


def _span(begin: int, end: int) -> str:
    """Return `16`, or `16..31`."""
    return str(begin) if begin == end else f"{begin}..{end}"


def _continued(name: str, lines: Sequence[str]) -> list[Row]:
    """Return lines as rows, the first with the name."""
    return [(name if i == 0 else "", line) for i, line in enumerate(lines)]
