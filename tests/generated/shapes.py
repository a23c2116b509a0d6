"""Shapes for layout tests: two tiles an axis or more, not square, pads live."""

from __future__ import annotations

from itertools import product
from math import lcm

from mono_gen.model import LayoutModel
from mono_gen.plan.layouts import is_legal


def telling_extents(model: LayoutModel, bits: int, *, whole_bytes: bool = True) -> tuple[int, ...] | None:
    """Return the smallest legal extents with two pads or tiles an axis at least, as much of each pad live as may be.

    whole_bytes: the last axis of 4-bit elements is even, as torch has it. None where there are none.
    """
    axes = model.template.axes
    steps = [lcm(axis.sized.at(bits), axis.pad_to.at(bits) if axis.pad_to else 1) for axis in axes]
    counts = [(1,) if axis.is_fixed else range(2, 10) for axis in axes]
    for tiles in sorted(product(*counts), key=lambda t: (sum(t), t)):
        stored = tuple(step * n for step, n in zip(steps, tiles, strict=True))
        if len(set(stored)) == 1 and len(stored) > 1:
            continue
        live = [range(axis.pad_to.at(bits) - 1 if axis.pad_to else 0, -1, -1) for axis in axes]
        for missing in product(*(list(r)[:3] for r in live)):
            extents = tuple(n - m for n, m in zip(stored, missing, strict=True))
            if (bits > 4 or not whole_bytes or extents[-1] % 2 == 0) and is_legal(model, extents, bits):
                return extents
    return None
