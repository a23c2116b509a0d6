"""What a generated struct says of its fields and tensors, for checks, tables and tools."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.layouts import Storage


@frozen
class FieldInfo:
    """One field as readers see it.

    name:   the tensor's name, or "data, scale".
    format: how numbers are encoded.
    shape:  logical elements of the data, run-time dims by name.
    layout: the layout of the data, and of the scale where it has two axes or more.
    plan:   the steps from source to field.
    """

    name: str
    format: str
    shape: str
    layout: str
    plan: str


@frozen
class TensorInfo:
    """One tensor of a field as checks need it.

    element:   the element's format, such as e8m0.
    layout:    the layout's name, or row_major.
    layout_id: of the layout at these extents; of one step of a run-time row.
    field_id:  of the field.
    batch:     leading batch axes.
    fill:      what live pads hold; None where no pad is live, or where pads are undefined.
    pads:      per padded axis, counted with the batch axes, the ranges that are not pads, in elements.
    storage:   the layout's storage function, where pads are live.
    """

    name: str
    element: str
    bits: int
    layout: str
    layout_id: int
    field_id: int
    batch: int = 0
    fill: int | None = None
    pads: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()
    storage: Callable[..., Storage] | None = None

    def extents(self, t: torch.Tensor) -> tuple[int, ...]:
        """Return the logical extents of a tensor as stored, in elements, batch axes first."""
        found = [*t.shape[:-1], t.shape[-1] * (2 if self.bits == 4 else 1)]
        for axis, ranges in self.pads:
            found[axis] = sum(end - begin for begin, end in ranges)
        return tuple(found)

    def items(self, t: torch.Tensor) -> int:
        """Return the batch items in a tensor."""
        return prod(t.shape[: self.batch])
