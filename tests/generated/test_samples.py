"""The few sample points of a layout are enough: every wrong order, stride, size and digit shows at one of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from mono_gen.algebra.layout import Digit
from mono_gen.algebra.template import bind
from mono_gen.frozen import replace
from mono_gen.plan.model import SpecPlan

Points = NDArray[np.int64]


def place(digits: tuple[Digit, ...], at: Points) -> Points:
    """Return the element offset of each coordinate, a column of `at`, by the definition."""
    return sum((at[d.axis] // d.weight % d.size * d.stride for d in digits), np.zeros(at.shape[1], np.int64))


def in_order(digits: list[Digit]) -> tuple[Digit, ...]:
    """Return digits stored in this order, slowest first."""
    strides = np.cumprod([1, *(d.size for d in digits[:0:-1])])[::-1]
    return tuple(replace(d, stride=int(stride)) for d, stride in zip(digits, strides, strict=True))


def wrong(digits: tuple[Digit, ...]) -> Iterator[tuple[str, tuple[Digit, ...]]]:
    """Yield mutants of a map: two digits exchanged, one moved, a number of one doubled or halved."""
    assert in_order(list(digits)) == digits, "no pitch"
    for i, j in combinations(range(len(digits)), 2):
        order = list(digits)
        order[i], order[j] = order[j], order[i]
        yield f"{digits[i].name} and {digits[j].name} exchanged", in_order(order)
    for i, digit in enumerate(digits):
        rest = [*digits[:i], *digits[i + 1 :]]
        for j in range(len(digits)):
            yield f"{digit.name} moved to {j}", in_order([*rest[:j], digit, *rest[j:]])
        for what in ("weight", "size", "stride"):
            number = getattr(digit, what)
            for other in (number * 2, number // 2):
                if other:
                    changed = replace(digit, **{what: other})
                    yield f"{what} {other} of {digit.name}", (*digits[:i], changed, *digits[i + 1 :])


@pytest.mark.parametrize("name", ["aiter", "minimax_m3"])
def test_every_mutant_shows_at_a_sample(name: str, spec_plans: dict[str, SpecPlan]) -> None:
    survivors, mutants = [], 0
    for layout in spec_plans[name].layouts:
        first = layout.samples[0]
        bound = bind(layout.model.template, first.extents, first.bits)
        everywhere = np.indices(bound.extents, dtype=np.int64).reshape(len(bound.extents), -1)
        samples = np.array([s.coordinates for s in layout.samples], dtype=np.int64).T
        truth, shown = place(bound.digits, everywhere), place(bound.digits, samples)
        assert [s.byte for s in layout.samples] == (shown * first.bits // 8).tolist()
        for what, digits in wrong(bound.digits):
            if not np.array_equal(place(digits, everywhere), truth):
                mutants += 1
                survivors += [f"{layout.model.name}: {what}"] if np.array_equal(place(digits, samples), shown) else []
    assert not survivors, "\n".join(survivors)
    assert mutants > 250
