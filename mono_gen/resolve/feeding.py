"""What a layout's lanes hold beside what an operand takes: the proof that the two are one, or where they differ.

The coordinates of an element are what its lane and what its place in the lane contribute, added up, in a store order as
in an instruction's map: the two are one map where they agree on the lanes of a wave and on the places of one lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from mono_gen.algebra.fold import fold
from mono_gen.algebra.layout import Digit
from mono_gen.algebra.template import Template, bind
from mono_gen.frozen import frozen, replace
from mono_gen.model import LayoutModel
from mono_gen.operands import LANES, OperandMap
from mono_gen.resolve.generic import PRIMES, generic_extents, legal_multiples
from mono_gen.terms import holds

LANE_BYTES = 2048
"""Bytes at most that a lane can hold: 512 registers of 4."""

WAVES = 64
"""Waves at most that are tried to show one that does not hold a tile."""


@frozen
class Taken:
    """What an operand takes of one element type.

    bits: width of an element; scales are bytes.
    held: the map; for a scale, of any one byte of a lane's dword.
    """

    elements: str
    bits: int
    held: OperandMap
    is_scale: bool
    confirmed: str


@frozen
class _Lanes:
    """A layout at one width and at given extents, as a wave reads it: digits of lanes and tiles, and of a lane's bytes.

    axes: the indices of the operand's row and of its k among the layout's axes.
    """

    outer: tuple[Digit, ...]
    inner: tuple[Digit, ...]
    axes: tuple[int, int]

    @property
    def held(self) -> int:
        """Return how many elements a lane has in a row."""
        return prod(d.size for d in self.inner)

    @property
    def count(self) -> int:
        """Return how many lanes the whole tensor has."""
        return prod(d.size for d in self.outer)

    def at(self, lane: int, element: int) -> tuple[int, int]:
        """Return (row, k) of the element that a lane, of the tensor's, has at a place."""
        found = [0, 0]
        for position, digits in ((lane, self.outer), (element, self.inner)):
            for digit in reversed(digits):
                position, value = divmod(position, digit.size)
                found[self.axes.index(digit.axis)] += value * digit.weight
        return found[0], found[1]


@frozen
class _Difference:
    """The first place at which a wave's lanes and a map differ: what each has there, and how many of all places agree.

    takes: as coordinates of the tensor, not of the tile.
    """

    wave: int
    lane: int
    element: int
    has: tuple[int, int] | None
    takes: tuple[int, int]
    agreed: float


@frozen
class Fault:
    """Why a layout does not feed an operand with one element type.

    is_order: whether elements lie in another order than the instruction's.
    agreed:   larger the nearer the layout comes.
    """

    taken: Taken
    why: str
    effect: str = ""
    help: str = ""
    is_order: bool = False
    agreed: float = 0.0


def fault_of(taken: Taken, model: LayoutModel) -> Fault | None:
    """Return why the layout does not feed the operand with these elements; None is the proof that it does."""
    bits = taken.bits
    if bits not in model.widths:
        return Fault(taken, f"the layout is not legal for elements of {bits} bits", agreed=-1)
    multiples = legal_multiples(model, bits)
    lanes = _lanes(model, generic_extents(model.template, multiples), bits)
    if lanes.held * bits > LANE_BYTES * 8:
        return Fault(taken, f"a lane has {lanes.held} elements in a row, more than fit its registers")
    inner = {digit.name for digit in lanes.inner}
    if any(name in inner for name, _ in model.template.pitches):
        return Fault(taken, "a pitch parts the bytes of a lane", help="pitch a digit outside the byte group")
    unit = taken.held.elements
    if taken.is_scale and lanes.held > 2 and lanes.held % 4:
        return Fault(taken, f"a lane has {lanes.held} scales in a row: its dwords would reach into the next lane's")
    help = _feeding_store(taken, model, lanes)
    difference = _first_difference(lanes, taken)
    if difference is not None:
        why = _told(difference, taken, model, multiples)
        return Fault(taken, why, help=help, is_order=True, agreed=difference.agreed)
    if not taken.is_scale and lanes.held % unit:
        agreed = min(lanes.held / unit, 0.9)
        return Fault(taken, _behind(taken, model, multiples), help=help, is_order=True, agreed=agreed)
    return _uneven(lanes, taken, model, multiples)


def _lanes(model: LayoutModel, extents: tuple[int, ...], bits: int) -> _Lanes:
    """Return the layout as a wave reads it. The operand's k is the axis `k`, or else the last one.

    Pitches part tiles and lanes in memory, and move nothing from one lane to another.
    """
    template = Template(model.template.axes, model.template.store, model.template.fill, ())
    groups = {group.label: group.digits for group in fold(template, bind(template, extents, bits))}
    k = model.axes.index("k") if "k" in model.axes else 1
    return _Lanes((*groups.get("tile", ()), *groups.get("lane", ())), groups.get("byte", ()), (1 - k, k))


def _first_difference(lanes: _Lanes, taken: Taken, wave: int = 0) -> _Difference | None:
    """Return the first place, lane by lane, at which a wave does not hold what the instruction takes.

    A wave's tile begins at its first element; each byte of a lane's scales has a tile of its own, beginning there. The
    places of a lane are looked at in the first wave: they are the same in all.
    """
    unit = taken.held.elements
    first = lanes.at(wave * LANES, 0)
    held = [taken.held.held(0, e) for e in range(unit)]
    places = [(0, e) for e in range(1 if taken.is_scale or wave else lanes.held)] + [
        (lane, 0) for lane in range(1, LANES)
    ]
    differing: _Difference | None = None
    agreed = 0
    for lane, element in places:
        row, k = held[element % unit] if lane == 0 else taken.held.held(lane, 0)
        takes = (first[0] + row, first[1] + k + element // unit * taken.held.extents[1])
        has = lanes.at(wave * LANES + lane, element) if wave * LANES + lane < lanes.count else None
        agreed += has == takes
        if has != takes and differing is None:
            differing = _Difference(wave, lane, element, has, takes, 0)
    return None if differing is None else replace(differing, agreed=agreed / len(places))


def _uneven(lanes: _Lanes, taken: Taken, model: LayoutModel, multiples: tuple[int, ...]) -> Fault | None:
    """Return the fault of a layout whose first wave holds a tile, and another wave, at legal extents, does not."""
    left = LANES
    for digit in reversed(lanes.outer):
        if digit.size % left == 0:
            return None
        if left % digit.size:
            return _uneven_at(digit, left, taken, model, multiples)
        left //= digit.size
    return None


def _uneven_at(digit: Digit, steps: int, taken: Taken, model: LayoutModel, multiples: tuple[int, ...]) -> Fault:
    """Return the fault of a digit of which a wave takes some steps, and whose size need not be a multiple of them."""
    template = model.template
    axis = template.axes[digit.axis]
    is_sized = any(f.name == digit.name and f.size is not None for f in axis.factors)
    number = f"which has {digit.size}" if is_sized else f"whose size need not be a multiple of {steps}"
    why, effect = f"{LANES} lanes are {steps} steps of `{digit.name}`, {number}", ""
    extents = tuple(
        n if axis.is_fixed or i == digit.axis else 2 * n
        for i, (axis, n) in enumerate(zip(template.axes, multiples, strict=True))
    )
    small = _lanes(model, extents, taken.bits)
    values = {"bits": taken.bits, **dict(zip(model.axes, extents, strict=True))}
    is_legal = all(holds(rule.condition, values) for rule in model.rules)
    for wave in range(min(WAVES, -(-small.count // LANES)) if is_legal else 0):
        difference = _first_difference(small, taken, wave)
        if difference is not None:
            effect = f"at {_sizes(model, extents)}, which is legal, {_differs(difference, taken, model)}"
            break
    if is_sized:
        return Fault(taken, why, effect, f"give `{digit.name}` another size", agreed=1)
    needed = multiples[digit.axis] * (steps // gcd(steps, digit.size))
    help = f"`pad {axis.name} to {needed}`" if axis.pad_to is not None else f"`require {axis.name} % {needed} == 0`"
    return Fault(taken, why, effect, help, agreed=1)


# --- in words ---


def _told(difference: _Difference, taken: Taken, model: LayoutModel, multiples: tuple[int, ...]) -> str:
    """Return the difference in words, at small extents where coordinates depend on them."""
    if max(difference.has or (0,)) < min(PRIMES):
        return _differs(difference, taken, model)
    for tiles in range(2, 8):
        extents = _small_extents(model, multiples, tiles)
        small = _first_difference(_lanes(model, extents, taken.bits), taken)
        if small is not None:
            return f"at {_sizes(model, extents)}, {_differs(small, taken, model)}"
    return "lanes are further apart than the instruction's"


def _behind(taken: Taken, model: LayoutModel, multiples: tuple[int, ...]) -> str:
    """Return what lies behind a lane's elements, where they are no whole number of operands."""
    lanes = _lanes(model, _small_extents(model, multiples, 2), taken.bits)
    unit = taken.held.elements
    row, k = taken.held.held(0, lanes.held % unit)
    takes = _coordinates((row, k + lanes.held // unit * taken.held.extents[1]), taken, model)
    has = _coordinates(lanes.at(1, 0), taken, model) if lanes.count > 1 else "nothing"
    return (
        f"lane 0 has {lanes.held} elements in a row, and the instruction takes {unit}: behind them, in byte "
        f"{lanes.held * taken.bits // 8}, lies {has}, and the instruction takes {takes}"
    )


def _small_extents(model: LayoutModel, multiples: tuple[int, ...], tiles: int) -> tuple[int, ...]:
    axes = zip(model.template.axes, multiples, strict=True)
    return tuple(n if axis.is_fixed else n * tiles for axis, n in axes)


def _differs(difference: _Difference, taken: Taken, model: LayoutModel) -> str:
    """Return `lane 1 has (row 0, k 16) in byte 0, and the instruction takes (row 1, k 0)`."""
    bit = difference.element * taken.bits
    where = f"byte {bit // 8}" + ("" if taken.bits >= 8 else f", {'high' if bit % 8 else 'low'} nibble")
    has = f"{_coordinates(difference.has, taken, model)} in {where}" if difference.has is not None else "nothing"
    of = f" of wave {difference.wave}" if difference.wave else ""
    takes = _coordinates(difference.takes, taken, model)
    return f"lane {difference.lane}{of} has {has}, and the instruction takes {takes}"


def _coordinates(at: tuple[int, int], taken: Taken, model: LayoutModel) -> str:
    """Return (row, k) under the names of the layout's axes; the k of a scale counts blocks."""
    k = model.axes.index("k") if "k" in model.axes else 1
    return f"({model.axes[1 - k]} {at[0]}, {'block' if taken.is_scale else model.axes[k]} {at[1]})"


def _sizes(model: LayoutModel, extents: tuple[int, ...]) -> str:
    return ", ".join(f"{axis} = {n}" for axis, n in zip(model.axes, extents, strict=True))


def _feeding_store(taken: Taken, model: LayoutModel, lanes: _Lanes) -> str:
    """Return a store order of the layout's own digits that feeds the operand, or else splits and an order that do."""
    held: dict[bool, list[str]] = {True: [], False: []}
    for digit in taken.held.layout.digits:
        inside = list(_digits_of(digit, lanes))
        if prod(d.size for d in inside) != digit.size:
            return _own_splits(taken, model)
        held[digit.name in taken.held.lane_digits].extend(d.name for d in inside)
    if taken.is_scale:
        held[False].extend(d.name for d in lanes.inner if d.name not in held[True])
    tile = [d for d in model.template.order if d not in (*held[True], *held[False])]
    groups = (("tile", tile), ("lane", held[True]), ("byte", held[False]))
    order = " | ".join(" ".join((label, *digits)) for label, digits in groups if digits)
    return f"`store {order}` would feed it"


def _digits_of(digit: Digit, lanes: _Lanes) -> Iterator[Digit]:
    """Yield the layout's digits that one digit of a map is made of, slowest first."""
    end = digit.weight * digit.size
    for mine in sorted((*lanes.outer, *lanes.inner), key=lambda d: -d.weight):
        if mine.axis == lanes.axes[digit.axis] and mine.size > 1 and digit.weight <= mine.weight < end:
            yield mine


def _own_splits(taken: Taken, model: LayoutModel) -> str:
    """Return the splits and the store order that the map itself is."""
    k = model.axes.index("k") if "k" in model.axes else 1
    rows, columns = (split.split(" = ")[1] for split in taken.held.splits)
    order = taken.held.order.replace("| element", "| byte")
    return (
        f"`split {model.axes[1 - k]} = R {rows}`, `split {model.axes[k]} = K {columns}`, "
        f"`store tile R K | {order}` would feed it"
    )
