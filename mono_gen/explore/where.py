"""Where an element lies, and what lies at a byte: every step between coordinates and bytes, with its numbers.

All numbers are the algebra's: `offset` and `coordinates_at` of the bound layout, and the strides of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mono_gen.algebra.layout import Digit, coordinates_at, offset
from mono_gen.explore.names import Found, Unfound
from mono_gen.frozen import frozen
from mono_gen.model import Segment, TensorModel
from mono_gen.resolve.report import near

MOST_ELEMENTS = 4096
"""Elements of one lane that are looked at one by one."""


@frozen
class DigitValue:
    """A digit at one place: coordinate // weight % size, without the `% size` for the slowest of its axis.

    axis: the index of the dim, batch dims counted.
    size: 0 for a run-time extent.
    """

    name: str
    axis: int
    size: int
    weight: int
    stride: int
    value: int
    is_slowest: bool


@frozen
class GroupValue:
    """Where a place lies in one group of the store order: the mixed-radix index of the group's digits."""

    label: str
    digits: tuple[DigitValue, ...]
    index: int
    size: int


@frozen
class Spot:
    """A place in a tensor: of an element, or of a pad.

    at:      logical coordinates, batch first. Of a pad behind an axis the coordinates go on past the extents; None
             on an axis whose segments are padded each, between them, and on every axis in the gap of a pitch.
    stored:  the same in storage, where `pad each` has moved segments; None in a gap.
    item:    bytes in front of the batch item.
    element: the offset inside the item, in elements.
    byte:    the first byte of the element, in the whole tensor; the byte of its pair, where `nibble` is not None.
    """

    at: tuple[int | None, ...]
    stored: tuple[int, ...] | None
    is_pad: bool
    segment: Segment | None
    digits: tuple[DigitValue, ...]
    groups: tuple[GroupValue, ...]
    item: int
    element: int
    byte: int
    nibble: int | None

    def group(self, label: str) -> GroupValue | None:
        """Return the group of a label, None where the store order does not name it."""
        return next((g for g in self.groups if g.label == label), None)


def locate(found: Found, at: tuple[int, ...]) -> Spot:
    """Return the place of an element, or of a pad behind an axis.

    Requires: coordinates that `checked` let pass.
    """
    model = found.tensor.model
    stored, segment = _stored(model, at)
    batch, inner = stored[: model.batch], stored[model.batch :]
    if model.runtime_row:
        element = inner[0] * model.bound.span + offset(model.bound, (0, *inner[1:]))
    else:
        element = offset(model.bound, inner)
    item = sum(c * s for c, s in zip(batch, found.tensor.strides, strict=True))
    return _spot(model, at, stored, segment, item, element)


def at_byte(found: Found, byte: int) -> tuple[Spot, ...]:
    """Return what lies at a byte: one place, or the two of a pair of 4-bit elements, the low nibble's first.

    Raises: Unfound, for a byte past the end.
    Law:    at_byte(locate(c).byte) has c
    """
    model = found.tensor.model
    end = most_bytes(found)
    if not 0 <= byte < (byte + 1 if end is None else end):
        raise Unfound(f"byte {byte} is not there: {model.name} has {_bytes_text(found)}")
    batch: list[int] = []
    rest = byte
    for stride in found.tensor.strides:
        value, rest = divmod(rest, stride)
        batch.append(value)
    first = rest * 8 // model.element.bits
    return tuple(_at(found, tuple(batch), first + i) for i in range(max(1, 8 // model.element.bits)))


def lane_spots(found: Found, batch: tuple[int, ...], lane: int, tile: tuple[int, ...]) -> tuple[Spot, ...]:
    """Return the places that a lane holds in one tile, in the order of its bytes; the first MOST_ELEMENTS of them.

    Requires: `lane` and `tile` that `checked_lane` let pass.
    """
    bound, template = found.tensor.model.bound, found.tensor.model.layout
    assert template is not None, "a layout that names lanes"
    digits = {digit.name: digit for digit in bound.digits}
    groups = {group.label: [digits[name] for name in group.digits] for group in template.template.store}
    base = sum(d.stride * value for d, value in zip(groups.get("tile", []), tile, strict=True))
    base += _position(groups["lane"], lane)
    inside = groups.get("byte", [])
    count = min(prod(d.size for d in inside), MOST_ELEMENTS)
    return tuple(_at(found, batch, base + _position(inside, index)) for index in range(count))


def checked(found: Found, given: Mapping[str, int]) -> tuple[int, ...]:
    """Return the coordinates in the order of the dims.

    Raises: Unfound, with every axis that is not there, missing, or out of range.
    """
    model = found.tensor.model
    problems = [_no_axis(found, name) for name in given if name not in model.axes]
    missing = [name for name in model.axes if name not in given]
    if missing:
        problems.append(f"{' and '.join(f'`{name}`' for name in missing)} missing: {_axes_text(found)}")
    for index, name in enumerate(model.axes):
        if name in given:
            problems += _range_problems(found, index, given[name])
    if problems:
        raise Unfound("\n".join(problems))
    return tuple(given[name] for name in model.axes)


def checked_lane(found: Found, lane: int, tile: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the tile's digits, all 0 where none are given.

    Raises: Unfound, where the layout names no lanes, and for a lane or tile that it does not have.
    """
    model = found.tensor.model
    groups = {g.label: g.digits for g in model.layout.template.store} if model.layout is not None else {}
    if "lane" not in groups:
        raise Unfound(f"--lane: {model.name} is {model.layout_name}, whose store order names no lanes")
    sizes = {digit.name: digit.size for digit in model.bound.digits}
    lanes = prod(sizes[name] for name in groups["lane"])
    if not 0 <= lane < lanes:
        wave = found.spec.model.arch.wave if found.spec.model.arch is not None else 0
        more = f"; a wave of {wave} takes {wave // lanes} tiles: this is lane {lane % lanes} of a later one"
        raise Unfound(
            f"--lane {lane}: the lane group `{' '.join(groups['lane'])}` of {model.layout_name} has {lanes} lanes, "
            f"0 to {lanes - 1}{more if 0 < lane < wave else ''}"
        )
    names = groups.get("tile", ())
    if tile is None:
        return tuple(0 for _ in names)
    if len(tile) != len(names):
        wanted = f"{len(names)} numbers: --tile {','.join(names)}" if names else "none: its store order names no tiles"
        raise Unfound(f"--tile {','.join(map(str, tile))}: {model.layout_name} takes {wanted}")
    wrong = [
        f"--tile: {name} is {value}, and {model.name} has {sizes[name]}, 0 to {sizes[name] - 1}"
        for name, value in zip(names, tile, strict=True)
        if not 0 <= value < sizes[name]
    ]
    if wrong:
        raise Unfound("\n".join(wrong))
    return tile


def most_bytes(found: Found) -> int | None:
    """Return the tensor's bytes, with the largest value of a run-time dim; None where that may be anything."""
    dim = found.tensor.model.runtime_dim
    if dim is None:
        return found.tensor.total_bytes
    values = found.dims.get(dim)
    return max(values) * found.tensor.total_bytes if values else None


def extent_text(found: Found, index: int) -> str:
    """Return a dim's extent as a reader should see it: `2560`, `1600, padded to 1792`, `E in {128, 129}`."""
    model = found.tensor.model
    extent = model.extents[index]
    if isinstance(extent, str):
        values = found.dims.get(extent)
        return f"{extent} in {{{', '.join(map(str, values))}}}" if values else f"{extent}, any length"
    stored = model.bound.padded[index - model.batch] if index >= model.batch else extent
    return f"{extent}, padded to {stored}" if stored != extent else str(extent)


# --- places ---


def _at(found: Found, batch: tuple[int, ...], element: int) -> Spot:
    """Return the place at an element offset of a batch item; past the item's end it is that of a run-time row."""
    model = found.tensor.model
    row, position = divmod(element, model.bound.span) if model.runtime_row else (0, element)
    inner = coordinates_at(model.bound, position)
    item = sum(c * s for c, s in zip(batch, found.tensor.strides, strict=True))
    if inner is None:
        return _spot(model, (*batch, *(None for _ in model.inner)), None, None, item, element)
    stored = (*batch, row, *inner[1:]) if model.runtime_row else (*batch, *inner)
    at, segment = _logical(model, stored)
    return _spot(model, at, stored, segment, item, element)


def _spot(
    model: TensorModel,
    at: tuple[int | None, ...],
    stored: tuple[int, ...] | None,
    segment: Segment | None,
    item: int,
    element: int,
) -> Spot:
    """Return a place with its digits, groups and bytes."""
    bits = model.element.bits
    digits = tuple(_digit(model, digit, stored) for digit in _digits(model)) if stored is not None else ()
    byte, rest = divmod(element * bits, 8)
    nibble = rest // bits if bits < 8 else None
    groups = _groups(model, digits)
    return Spot(at, stored, _is_pad(model, at), segment, digits, groups, item, element, item + byte, nibble)


def _digits(model: TensorModel) -> tuple[Digit, ...]:
    """Return the layout's digits in store order; a run-time row is one of no size, a span apart."""
    if not model.runtime_row:
        return model.bound.digits
    row = Digit(model.axes[0], 0, 0, 1, model.bound.span)
    return (row, *(d for d in model.bound.digits if d.axis != 0))


def _digit(model: TensorModel, digit: Digit, stored: tuple[int, ...]) -> DigitValue:
    """Return a digit's value at storage coordinates."""
    axis = model.batch + digit.axis
    value = stored[axis] // digit.weight
    slowest = not digit.size or digit.weight * digit.size >= model.bound.padded[digit.axis]
    value = value if slowest else value % digit.size
    return DigitValue(digit.name, axis, digit.size, digit.weight, digit.stride, value, slowest)


def _groups(model: TensorModel, digits: tuple[DigitValue, ...]) -> tuple[GroupValue, ...]:
    """Return the groups that the store order names."""
    if model.layout is None or not digits:
        return ()
    by_name = {digit.name: digit for digit in digits}
    result = []
    for group in model.layout.template.store:
        if group.label:
            mine = tuple(by_name[name] for name in group.digits)
            index = 0
            for digit in mine:
                index = index * digit.size + digit.value
            result.append(GroupValue(group.label, mine, index, prod(d.size for d in mine)))
    return tuple(result)


def _position(digits: list[Digit], index: int) -> int:
    """Return the offset of a mixed-radix index of digits, in elements."""
    position = 0
    for digit in reversed(digits):
        index, value = divmod(index, digit.size)
        position += value * digit.stride
    return position


# --- logical and stored ---


def _is_pad(model: TensorModel, at: tuple[int | None, ...]) -> bool:
    """Return whether logical coordinates are of no element."""
    return any(
        c is None or (isinstance(n, int) and index >= model.batch and c >= n)
        for index, (c, n) in enumerate(zip(at, model.extents, strict=True))
    )


def _stored(model: TensorModel, at: tuple[int, ...]) -> tuple[tuple[int, ...], Segment | None]:
    """Return the storage coordinates of logical ones, and the segment that they lie in."""
    axis = model.segment_axis
    segment = next((s for s in model.segments if s.begin <= at[axis] < s.end), None)
    if segment is None or not model.pad_each:
        return at, segment
    moved = at[axis] - segment.begin + segment.padded_begin
    return tuple(moved if i == axis else c for i, c in enumerate(at)), segment


def _logical(model: TensorModel, stored: tuple[int, ...]) -> tuple[tuple[int | None, ...], Segment | None]:
    """Return the logical coordinates of storage ones, and the segment that they lie in."""
    axis = model.segment_axis
    if not model.pad_each:
        return stored, next((s for s in model.segments if s.begin <= stored[axis] < s.end), None)
    segment = next(s for s in model.segments if s.padded_begin <= stored[axis] < s.padded_end)
    own = stored[axis] - segment.padded_begin + segment.begin
    at = tuple((own if own < segment.end else None) if i == axis else c for i, c in enumerate(stored))
    return at, segment


# --- what is said of coordinates that are not there ---


def _no_axis(found: Found, name: str) -> str:
    """Return the message for an axis that the tensor does not have."""
    model, form = found.tensor.model, found.field.model.format
    close = near(name, model.axes)
    message = f"there is no axis `{name}`: {_axes_text(found)}"
    message += f"; {close}" if close.startswith("did") else ""
    data = found.field.tensors[0].model
    if found.index and form.block and name == data.axes[-1]:
        message += f" (a scale serves {form.block} {name}: {model.axes[-1]} = {name} / {form.block})"
    return message


def _range_problems(found: Found, index: int, value: int) -> list[str]:
    """Return what is wrong with a coordinate's value: nothing, or one message."""
    model = found.tensor.model
    name, extent = model.axes[index], model.extents[index]
    end: int | None
    if isinstance(extent, str):
        values = found.dims.get(extent)
        end = max(values) if values else None
    elif index < model.batch or (model.pad_each and index == model.segment_axis):
        end = extent
    else:
        end = model.bound.padded[index - model.batch]
    if value >= 0 and (end is None or value < end):
        return []
    last = f", 0 to {end - 1}" if end is not None else ""
    return [f"{name} {value} is not there: {name} of {model.name} is {extent_text(found, index)}{last}"]


def _axes_text(found: Found) -> str:
    """Return `w_qkv has the axes row (2560), k (6144)`."""
    model = found.tensor.model
    return f"{model.name} has the axes " + ", ".join(
        f"{name} ({extent_text(found, i)})" for i, name in enumerate(model.axes)
    )


def _bytes_text(found: Found) -> str:
    """Return how many bytes a tensor has, and the last of them."""
    end, dim = most_bytes(found), found.tensor.model.runtime_dim
    if dim is None or end is None:
        return f"{end} bytes, 0 to {(end or 0) - 1}" if end is not None else "bytes from 0 on"
    return f"{found.tensor.total_bytes} bytes for each {dim}, at most {end}: 0 to {end - 1}"
