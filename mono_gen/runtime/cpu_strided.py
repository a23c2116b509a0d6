"""Strided copies on a CPU as torch makes them best: axes slowest first in the target, narrow ones one place at a time.

torch's inner loops run along the last axes of the target. Where these are a few bytes, each of them goes by itself,
with a longer axis in the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from mono_gen.frozen import frozen

SHORT = 64
"""Elements along a target's last two axes: with fewer torch spends its time between its loops."""

_NARROW = 8  # bytes that the innermost elements of a target make together at most, to be moved one by one
_FEW = 4  # elements along the target's last axis that are better moved one by one


@frozen
class Dim:
    """An axis of a move, with its strides on both sides in elements."""

    size: int
    target: int
    source: int


def joined(target: torch.Tensor, source: torch.Tensor) -> tuple[Dim, ...]:
    """Return the axes, slowest first in the target; those of size 1 dropped, neighbours on both sides joined."""
    every = [Dim(*numbers) for numbers in zip(target.shape, target.stride(), source.stride(), strict=True)]
    found: list[Dim] = []
    for dim in sorted((dim for dim in every if dim.size > 1), key=lambda dim: -dim.target):
        slower = found[-1] if found else None
        if slower and slower.target == dim.size * dim.target and slower.source == dim.size * dim.source:
            found[-1] = Dim(slower.size * dim.size, dim.target, dim.source)
        else:
            found.append(dim)
    return tuple(found)


def copy_units(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; copy element by element, axes slowest first in the target."""
    few = _few(target.shape, target.itemsize)
    for to, of in zip(_each(target, few), _each(source, few), strict=True):
        to.copy_(of)


def _few(sizes: Sequence[int], itemsize: int) -> range:
    """Return the last axes of a target whose elements had better go one by one, with a longer axis in torch's loop."""
    last = len(sizes)
    if last > 1 and (sizes[-1] <= _FEW or math.prod(sizes[-2:]) < SHORT):
        while last > 1 and math.prod(sizes[last - 1 :]) <= _NARROW // itemsize:
            last -= 1
    return range(last, len(sizes))


def _each(t: torch.Tensor, axes: Sequence[int]) -> list[torch.Tensor]:
    """Return a view for every place along some axes, row-major, without these axes."""
    views = []
    for place in product(*(range(t.shape[axis]) for axis in axes)):
        chosen: list[Any] = [slice(None)] * t.dim()
        for axis, i in zip(axes, place, strict=True):
            chosen[axis] = i
        views.append(t[tuple(chosen)])
    return views
