"""Random layouts with their ground truth: numpy reshapes and transposes, no stride and no offset of the package."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.monomial import Size
from mono_gen.algebra.template import AxisTemplate, Factor, StoreGroup, Template, bind

ELEMENTS = 720  # coordinates at most, so that everything can be enumerated
WIDTHS = (4, 8, 16, 32)
Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """A template with extents at which it is legal; sizes are each digit's, in elements."""

    template: Template
    bits: int
    extents: tuple[int, ...]
    padded: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]  # by axis, slowest first

    @property
    def layout(self) -> Layout:
        """Return the bound layout."""
        return bind(self.template, self.extents, self.bits)

    @property
    def factors(self) -> tuple[str, ...]:
        """Return the digits, axis by axis, slowest first."""
        return tuple(f.name for axis in self.template.axes for f in axis.factors)


def storage(case: Case) -> Table:
    """Return, for each place of storage, the row-major index of the padded coordinate that lies there; -1 in gaps."""
    sizes = [n for axis in case.sizes for n in axis]
    order = [case.factors.index(name) for name in case.template.order]
    indices = np.arange(prod(sizes), dtype=np.int64).reshape(sizes).transpose(order)
    pitches = {name: pitch.at(case.bits) for name, pitch in case.template.pitches}
    block = indices[..., None]
    for position in reversed(range(len(order))):
        pitch = pitches.get(case.template.order[position], block.shape[-1])
        gap = [(0, 0)] * (block.ndim - 1) + [(0, pitch - block.shape[-1])]
        block = np.pad(block, gap, constant_values=-1)
        block = block.reshape(*block.shape[:-2], block.shape[-2] * block.shape[-1])
    return block


def offsets(case: Case) -> Table:
    """Return the element offset of each padded coordinate; the shape is the padded extents."""
    stored = storage(case)
    where = np.flatnonzero(stored >= 0)
    table = np.empty(prod(case.padded), dtype=np.int64)
    table[stored[where]] = where
    return table.reshape(case.padded)


def coordinates(extents: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all coordinates in row-major order."""
    return [tuple(int(i) for i in at) for at in np.ndindex(*extents)]


def as_size(elements: int, bits: int, in_bytes: bool) -> Size:
    """Return a number of elements as a size, in bytes where that is asked for and comes out whole."""
    if in_bytes and elements * bits % 8 == 0:
        return Size(elements * bits // 8, 1)
    return Size(elements)


@st.composite
def cases(
    draw: st.DrawFn, *, pitched: bool | None = None, grouped: bool = False, bits: tuple[int, ...] = WIDTHS
) -> Case:
    """Return a layout of one to three axes: splits anywhere, an unsized digit anywhere or nowhere, pads, pitches."""
    width = draw(st.sampled_from(bits))
    budget = ELEMENTS
    axes: list[AxisTemplate] = []
    sizes: list[tuple[int, ...]] = []
    extents: list[int] = []
    padded: list[int] = []
    for index in range(draw(st.integers(1, 3))):
        fixed = []
        for _ in range(draw(st.integers(0, 3))):
            fixed.append(draw(st.integers(1, min(4, max(1, budget)))))
            budget //= fixed[-1]
        multiple = draw(st.none() | st.integers(2, 12)) if budget > 3 else None
        sized = prod(fixed)
        step = lcm(sized, multiple or 1)
        if step // sized > budget:
            multiple, step = None, sized
        tiles = draw(st.integers(1, max(1, min(3, budget * sized // step))))
        has_unsized = not fixed or draw(st.booleans()) or step != sized
        if not has_unsized:
            tiles = 1
        storage_extent = step * tiles
        budget = max(1, budget * sized // storage_extent)
        place = draw(st.integers(0, len(fixed))) if has_unsized else None
        in_bytes = [draw(st.booleans()) for _ in fixed]
        factors = [Factor(f"d{index}{i}", as_size(n, width, in_bytes[i])) for i, n in enumerate(fixed)]
        values = list(fixed)
        if place is not None:
            name = f"u{index}" if fixed else f"x{index}"
            factors.insert(place, Factor(name, None))
            values.insert(place, storage_extent // sized)
        pad_to = as_size(multiple, width, draw(st.booleans())) if multiple is not None else None
        live = draw(st.integers(0, multiple - 1)) if multiple is not None else 0
        axes.append(AxisTemplate(f"x{index}", pad_to, tuple(factors)))
        sizes.append(tuple(values))
        padded.append(storage_extent)
        extents.append(storage_extent - live)
    names = [f.name for axis in axes for f in axis.factors]
    order = draw(st.permutations(names))
    by_name = dict(zip(names, (n for axis in sizes for n in axis), strict=True))
    pitches = draw(_pitches(order, by_name, width, pitched))
    store = draw(_groups(order)) if grouped else (StoreGroup("", tuple(order)),)
    has_pads = any(axis.pad_to is not None for axis in axes)
    fill = draw(st.none() | st.integers(0, 2 ** min(width, 8) - 1)) if has_pads else None
    return Case(Template(tuple(axes), store, fill, pitches), width, tuple(extents), tuple(padded), tuple(sizes))


@st.composite
def _pitches(
    draw: st.DrawFn, order: list[str], sizes: dict[str, int], bits: int, pitched: bool | None
) -> tuple[tuple[str, Size], ...]:
    """Return strides of up to two digits, as large as what lies inside them or larger."""
    wanted = draw(st.booleans()) if pitched is None else pitched
    chosen = draw(st.sets(st.sampled_from(order), min_size=1, max_size=2)) if wanted else set()
    found: list[tuple[str, Size]] = []
    inside = 1
    for name in reversed(order):
        stride = inside
        if name in chosen:
            stride += draw(st.integers(0, 5))
            found.append((name, as_size(stride, bits, draw(st.booleans()))))
        inside = stride * sizes[name]
    return tuple(found)


@st.composite
def _groups(draw: st.DrawFn, order: list[str]) -> tuple[StoreGroup, ...]:
    """Return the order in one to three named groups."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(order) - 1)), max_size=min(2, len(order) - 1))))
    parts = [tuple(order[a:b]) for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    labels = ("tile", "lane", "byte")[-len(parts) :]
    return tuple(StoreGroup(label, part) for label, part in zip(labels, parts, strict=True) if part)


def respelled(case: Case, draw: st.DrawFn) -> Case:
    """Return the same map with one digit split in two neighbours, where a size allows it, and all digits renamed."""
    rename = {name: f"z{i}" for i, name in enumerate(case.factors)}
    axes, sizes, order = [], [], [rename[name] for name in case.template.order]
    for axis, values in zip(case.template.axes, case.sizes, strict=True):
        factors: list[Factor] = []
        numbers: list[int] = []
        for factor, n in zip(axis.factors, values, strict=True):
            name = rename[factor.name]
            parts = [d for d in range(2, n + 1) if n % d == 0]
            pitched = factor.name in dict(case.template.pitches)
            if factor.size is not None and parts and not pitched and draw(st.booleans()):
                low = draw(st.sampled_from(parts))
                factors += [Factor(f"{name}h", Size(n // low)), Factor(f"{name}l", Size(low))]
                numbers += [n // low, low]
                at = order.index(name)
                order[at : at + 1] = [f"{name}h", f"{name}l"]
            else:
                factors.append(Factor(name, factor.size))
                numbers.append(n)
        axes.append(AxisTemplate(f"y{axis.name}", axis.pad_to, tuple(factors)))
        sizes.append(tuple(numbers))
    pitches = tuple((rename[name], pitch) for name, pitch in case.template.pitches)
    template = Template(tuple(axes), (StoreGroup("", tuple(order)),), case.template.fill, pitches)
    return Case(template, case.bits, case.extents, case.padded, tuple(sizes))


def reordered(case: Case, draw: st.DrawFn) -> Case:
    """Return the same digits without pitches, stored in another order or the same."""
    order = list(case.template.order)
    i, j = draw(st.tuples(*[st.integers(0, len(order) - 1)] * 2))
    order[i], order[j] = order[j], order[i]
    template = Template(case.template.axes, (StoreGroup("", tuple(order)),), case.template.fill, ())
    return Case(template, case.bits, case.extents, case.padded, case.sizes)


def resplit(case: Case, draw: st.DrawFn) -> Case:
    """Return a layout of the same extents whose axes are split at other places, stored in any order."""
    axes, sizes, names = [], [], []
    for index, (axis, extent) in enumerate(zip(case.template.axes, case.padded, strict=True)):
        inner = draw(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]))
        pair = (f"p{index}", f"q{index}")
        axes.append(AxisTemplate(axis.name, axis.pad_to, (Factor(pair[0], None), Factor(pair[1], Size(inner)))))
        sizes.append((extent // inner, inner))
        names.extend(pair)
    order = tuple(draw(st.permutations(names)))
    template = Template(tuple(axes), (StoreGroup("", order),), case.template.fill, ())
    return Case(template, case.bits, case.extents, case.padded, tuple(sizes))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Case, Case]:
    """Return two layouts of the same extents: equal by another spelling, or changed a little, or unrelated."""
    first = draw(cases())
    change = draw(st.sampled_from((respelled, reordered, resplit)))
    return first, change(first, draw)


def longest_unit(case: Case) -> int:
    """Return the most elements of the last axis that lie together in storage, at multiples of their number.

    Storage and source are both cut in such units: the number divides the last logical extent.
    """
    table, extent = offsets(case), case.extents[-1]
    rows = table.reshape(-1, case.padded[-1])[:, :extent]
    for unit in range(extent, 0, -1):
        if extent % unit:
            continue
        groups = rows.reshape(-1, unit)
        if np.all(groups == groups[:, :1] + np.arange(unit)) and np.all(groups[:, 0] % unit == 0):
            return unit
    raise AssertionError("single elements always lie together")


def layout_text(case: Case, name: str = "x") -> str:
    """Return the layout in the language."""
    axes = case.template.axes
    lines = [f"layout {name}({', '.join(axis.name for axis in axes)}) {{"]
    pads = [f"{axis.name} to {axis.pad_to}" for axis in axes if axis.pad_to is not None]
    if pads:
        fill = "undefined" if case.template.fill is None else f"{case.template.fill:#04x}"
        lines.append(f"    pad {', '.join(pads)} fill {fill}")
    for axis in axes:
        if [f.name for f in axis.factors] != [axis.name]:
            parts = [f.name if f.size is None else f"{f.name}:{f.size}" for f in axis.factors]
            lines.append(f"    split {axis.name} = {' '.join(parts)}")
    groups = [" ".join(filter(None, (g.label, *g.digits))) for g in case.template.store]
    lines.append(f"    store {' | '.join(groups)}")
    lines += [f"    pitch {digit} = {pitch}" for digit, pitch in case.template.pitches]
    return "\n".join([*lines, "}"])
