"""The library's equal of a layout that was found: the same map and pads, at the widths that were run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd, lcm

from mono_gen.algebra.layout import Layout, is_equal
from mono_gen.algebra.monomial import NotWhole
from mono_gen.algebra.template import NotDivisible, bind
from mono_gen.infer.verify import bound
from mono_gen.loading import LIBRARY, load
from mono_gen.model import LayoutModel
from mono_gen.resolve.report import Report
from mono_gen.resolve.specs import resolve_spec

_TILES = (2, 3, 5)
_TRIED = 300
"""Extents at which the legal sizes of two layouts with conditions of their own are compared, on each axis."""


@dataclass(frozen=True, slots=True)
class Equal:
    """A layout of the library with the same map; `differences` are in fill and legal sizes."""

    file: str
    name: str
    differences: tuple[str, ...]
    is_padded_otherwise: bool


def equals(model: LayoutModel, widths: Sequence[int]) -> tuple[Equal, ...]:
    """Return the library's layouts that put every element where this one does, those without a difference first."""
    found = [
        Equal(file, other.name, _differences(model, other, widths), _pads(model, widths[0]) != _pads(other, widths[0]))
        for file, other in _library()
        if _is_same_map(model, other, widths)
    ]
    return tuple(sorted(found, key=lambda e: (len(e.differences), e.is_padded_otherwise, e.name != model.name)))


@cache
def _library() -> tuple[tuple[str, LayoutModel], ...]:
    """Return the layouts of the packaged library, each with its file's name."""
    found: list[tuple[str, LayoutModel]] = []
    for path in sorted(LIBRARY.glob("*.layout")):
        loaded, problems = load((path,))
        resolved = resolve_spec(loaded[-1].tree, (), {}, Report(list(problems))).model
        if resolved is None:
            raise AssertionError(f"{path.name} of the library does not resolve")
        found += [(path.name, layout) for layout in resolved.layouts]
    return tuple(found)


def _is_same_map(one: LayoutModel, other: LayoutModel, widths: Sequence[int]) -> bool:
    """Return whether two layouts have one map at every width where nothing is padded: at tiles of several numbers."""
    if len(one.axes) != len(other.axes) or not set(widths) <= set(other.widths):
        return False
    for width in widths:
        units = []
        for mine, theirs in zip(one.template.axes, other.template.axes, strict=True):
            pads = [a.pad_to.at(width) for a in (mine, theirs) if a.pad_to is not None]
            units.append(lcm(mine.sized.at(width), theirs.sized.at(width), *pads))
        for turn in range(len(_TILES)):
            extents = tuple(
                unit * (1 if a.is_fixed or b.is_fixed else _TILES[(i + turn) % len(_TILES)])
                for i, (unit, a, b) in enumerate(zip(units, one.template.axes, other.template.axes, strict=True))
            )
            left, right = _bound(one, extents, width), _bound(other, extents, width)
            if left is None or right is None or not is_equal(left, right):
                return False
    return True


def _bound(model: LayoutModel, extents: tuple[int, ...], width: int) -> Layout | None:
    try:
        return bind(model.template, extents, width)
    except (NotDivisible, NotWhole):
        return None


def _differences(one: LayoutModel, other: LayoutModel, widths: Sequence[int]) -> tuple[str, ...]:
    """Return what an importer of `other` gets that differs from `one`."""
    found = []
    pads = [{width: _pads(m, width) for width in widths} for m in (one, other)]
    if pads[0] != pads[1]:
        mine, theirs = (_pads_text(one, p[widths[0]]) for p in pads)
        found.append(f"it pads {theirs}, and this one {mine}")
    elif one.template.has_pads and one.template.fill != other.template.fill:
        fills = ["undefined" if m.template.fill is None else f"0x{m.template.fill:02X}" for m in (one, other)]
        found.append(f"its pads are {fills[1]}, and here {fills[0]}")
    for width in widths:
        at = f" of {width} bits" if len(widths) > 1 else ""
        for axis, name in enumerate(one.axes):
            if pads[0][width][axis] != pads[1][width][axis]:
                continue
            a, b = (_legal(m, width, axis, _reach(one, other, width, axis)) for m in (one, other))
            if a != b:
                said = "takes only" if set(b) < set(a) else "takes" if set(a) < set(b) else "takes other sizes:"
                found.append(f"it {said} {name} {_listed(b)}{at}, here {_listed(a)}")
    return tuple(found)


def _pads(model: LayoutModel, width: int) -> tuple[int | None, ...]:
    """Return the multiple that each axis is padded to."""
    return tuple(None if axis.pad_to is None else axis.pad_to.at(width) for axis in model.template.axes)


def _pads_text(model: LayoutModel, pads: tuple[int | None, ...]) -> str:
    """Return what is padded in words, the axes named as in `model`."""
    return ", ".join(f"{name} to {pad}" for name, pad in zip(model.axes, pads, strict=True) if pad) or "nothing"


def _reach(one: LayoutModel, other: LayoutModel, width: int, axis: int) -> range:
    """Return the extents at which legal sizes are compared: all that the digits or a pad of either may allow."""
    axes = [m.template.axes[axis] for m in (one, other)]
    sized = [a.sized.at(width) for a in axes]
    step = gcd(*(n if a.pad_to is None else 1 for n, a in zip(sized, axes, strict=True)))
    return range(step, max(_TRIED * step if one.rules or other.rules else 0, 4 * lcm(*sized)) + 1, step)


def _legal(model: LayoutModel, width: int, axis: int, tried: range) -> list[int]:
    """Return the legal extents of an axis, the others at some legal extents."""
    start = _some_legal(model, width)
    if start is None:
        return []
    return [n for n in tried if bound(model, (*start[:axis], n, *start[axis + 1 :]), width) is not None]


def _some_legal(model: LayoutModel, width: int) -> tuple[int, ...] | None:
    """Return extents that the layout takes: the same multiple of its digits on each axis, or what `==` asks for."""
    for tiles in (1, 2, 4, 8, 16, 32, 64, 128):
        extents = [a.sized.at(width) * (1 if a.is_fixed else tiles) for a in model.template.axes]
        for axis in range(len(extents)):
            if bound(model, tuple(extents), width) is not None:
                return tuple(extents)
            for n in range(1, 65):
                tried = (*extents[:axis], n, *extents[axis + 1 :])
                if bound(model, tried, width) is not None:
                    return tried
    return None


def _listed(extents: list[int]) -> str:
    """Return legal extents in words: `multiples of 32`, or the first few."""
    if not extents:
        return "no size that was tried"
    first = extents[0]
    if extents == [first * n for n in range(1, len(extents) + 1)]:
        return f"multiples of {first}" if first > 1 else "of any size"
    return ", ".join(map(str, extents[:4])) + (", ..." if len(extents) > 4 else "")
