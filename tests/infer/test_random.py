"""Functions made at random, of any digits in any order, padded or not: import finds the view and permute in them."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import pytest
import torch

from mono_gen.algebra.layout import from_view, is_equal
from mono_gen.infer.imported import Names, import_layout
from mono_gen.infer.target import Target
from mono_gen.infer.verify import bound, resolve_text

DTYPES = (torch.uint8, torch.bfloat16, torch.float32)


class Made:
    """A function of a random rank, with random digits: one of each axis without a size, at a random place."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        rank = rng.choice((1, 2, 2, 2, 3))
        self.sizes: list[list[int | None]] = []
        for _ in range(rank):
            mine: list[int | None] = [rng.choice((2, 3, 4, 5, 8, 16)) for _ in range(rng.choice((0, 0, 1, 2, 3)))]
            mine.insert(rng.randrange(len(mine) + 1), None)
            self.sizes.append(mine)
        self.order = rng.sample(range(sum(map(len, self.sizes))), sum(map(len, self.sizes)))
        self.pads = [rng.choice((0, 0, rng.choice((1, 2, 3)) * self.sized(a))) for a in range(rank)]
        self.fill = rng.choice((0, 1, 0x7F))
        self.dtype = rng.choice(DTYPES)
        self.shape = tuple(self.sized(a) * rng.choice((1, 2, 4)) for a in range(rank))

    def sized(self, axis: int) -> int:
        return prod(n for n in self.sizes[axis] if n is not None)

    def padded(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-(-n // pad) * pad if pad else n for n, pad in zip(extents, self.pads, strict=True))

    def view(self, padded: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            n if n is not None else extent // self.sized(axis)
            for axis, extent in enumerate(padded)
            for n in self.sizes[axis]
        )

    def __call__(self, x: Any) -> Any:
        unit = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.element_size()]
        padded = torch.full(self.padded(tuple(x.shape)), self.fill, dtype=unit)
        padded[tuple(slice(n) for n in x.shape)] = x.view(unit)
        return padded.view(self.view(tuple(padded.shape))).permute(self.order).contiguous()


@pytest.mark.parametrize("seed", range(16))
def test_the_order_that_a_random_function_was_made_of_is_found(seed: int) -> None:
    made = Made(seed)
    found = import_layout(Target("made", "made", "made", made), [made.dtype], [made.shape], Names())
    model = resolve_text(found.text)
    extents = tuple(made.sized(a) * n - (1 if made.pads[a] else 0) for a, n in enumerate((5, 4, 3)[: len(made.shape)]))
    expected = from_view(extents, made.padded(extents), made.view(made.padded(extents)), tuple(made.order), made.fill)
    batch = len(extents) - len(model.axes)
    layout = bound(model, extents[batch:], made.dtype.itemsize * 8)
    assert layout is not None and layout.padded == expected.padded[batch:]
    if batch == 0:
        assert is_equal(layout, expected)
    else:
        inner = from_view(
            extents[batch:],
            expected.padded[batch:],
            made.view(expected.padded)[batch:],
            tuple(i - batch for i in made.order[batch:]),
        )
        assert made.order[:batch] == list(range(batch)) and is_equal(layout, inner)
    assert layout.fill == (made.fill if model.template.has_pads else None)
