"""What moves between two layouts, enumerated by numpy from reshapes and transposes: no digit and no stride of ours."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mono_gen.algebra.template import AxisTemplate, Factor, StoreGroup, Template
from tests.laws.random_layouts import Case, as_size, cases, offsets, pairs, storage


@dataclass(frozen=True, slots=True)
class Truth:
    """Elements that have two places, the first such place in elements, and whether a pad holds another value."""

    moved: int
    first: int | None
    granule: int | None  # elements; None where the two storages cannot be laid side by side


def truth(old: Case, new: Case) -> Truth:
    """Return what moves between two layouts of the same logical extents, element by element."""
    inside = tuple(slice(n) for n in old.extents)
    before, after = offsets(old)[inside], offsets(new)[inside]
    apart = before != after
    first = int(np.minimum(before, after)[apart].min()) if apart.any() else None
    return Truth(int(apart.sum()), first, granule(old, new))


def granule(old: Case, new: Case) -> int | None:
    """Return the largest number of places that lie together on both sides, at multiples of that number."""
    stored = storage(old)
    if old.padded != new.padded or (stored < 0).any() or (storage(new) < 0).any():
        return None
    place = offsets(new).reshape(-1)[stored]
    return max(n for n in range(1, stored.size + 1) if stored.size % n == 0 and _together(place, n))


def _together(place: NDArray[np.int64], n: int) -> bool:
    runs = place.reshape(-1, n)
    return bool(np.all(runs == runs[:, :1] + np.arange(n)) and np.all(runs[:, 0] % n == 0))


@st.composite
def unrelated(draw: st.DrawFn) -> tuple[Case, Case]:
    """Return two layouts of the same logical extents with pads, splits and orders that have nothing in common."""
    first = draw(cases())
    axes, sizes, padded = [], [], []
    for index, extent in enumerate(first.extents):
        fixed = draw(st.lists(st.integers(1, 4), max_size=2))
        multiple = prod(fixed) * draw(st.integers(1, 3))
        stored = -(-extent // multiple) * multiple
        factors = [Factor(f"e{index}{i}", as_size(n, first.bits, False)) for i, n in enumerate(fixed)]
        values = list(fixed)
        place = draw(st.integers(0, len(fixed)))
        factors.insert(place, Factor(f"v{index}", None))
        values.insert(place, stored // prod(fixed))
        axes.append(AxisTemplate(f"x{index}", as_size(multiple, first.bits, False), tuple(factors)))
        sizes.append(tuple(values))
        padded.append(stored)
    names = [f.name for axis in axes for f in axis.factors]
    order = tuple(draw(st.permutations(names)))
    template = Template(tuple(axes), (StoreGroup("", order),), draw(st.sampled_from((None, 0, 1))), ())
    return first, Case(template, first.bits, first.extents, tuple(padded), tuple(sizes))


def two_layouts() -> st.SearchStrategy[tuple[Case, Case]]:
    """Return two layouts of one tensor: near each other, or unrelated."""
    return pairs() | unrelated()
