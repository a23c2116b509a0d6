"""Layouts by name, for callers: every generated module enters its own when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from mono_gen.algebra.ids import layout_id
from mono_gen.algebra.layout import Layout, from_view, row_major
from mono_gen.runtime.errors import refuse


@dataclass(frozen=True, slots=True)
class Storage:
    """How a layout stores a tensor of known extents: what pack, unpack and ids derive from.

    extents: logical, of the layout's axes, in elements.
    padded:  the extents of storage.
    view:    the factors of the padded extents, axis by axis, slowest first; `permute` orders them as stored.
    fill:    the bit pattern of pad elements; None for undefined ones, and where there are none.
    """

    extents: tuple[int, ...]
    padded: tuple[int, ...]
    view: tuple[int, ...]
    permute: tuple[int, ...]
    fill: int | None = None

    def bound(self) -> Layout:
        """Return the layout in the algebra's terms."""
        return from_view(self.extents, self.padded, self.view, self.permute, self.fill)


@dataclass(frozen=True, slots=True)
class LayoutRef:
    """A layout of a spec.

    id:      of the layout without extents.
    axes:    names, slowest first.
    storage: storage(subject, bits, *extents), which refuses extents that are not legal.
    """

    name: str
    spec: str
    id: int
    axes: tuple[str, ...]
    storage: Callable[..., Storage]
    unpack: Callable[[torch.Tensor, tuple[int, ...]], torch.Tensor]


_LAYOUTS: dict[str, dict[int, LayoutRef]] = {}


def register_layout(ref: LayoutRef) -> LayoutRef:
    """Return the layout, now found by its name."""
    _LAYOUTS.setdefault(ref.name, {})[ref.id] = ref
    return ref


def layout_named(name: str) -> LayoutRef:
    """Return the layout of a name that generated modules have entered.

    Raises: MonoUnsupported, where there is none, or where two specs mean different layouts by it.
    """
    found = _LAYOUTS.get(name, {})
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        known = ", ".join(sorted(_LAYOUTS)) or "none"
        raise refuse(name, "layout", f"a layout of a generated module that was imported: {known}", f"{name!r}")
    specs = ", ".join(ref.spec for ref in found.values())
    raise refuse(
        name, "layout", "one layout of that name", f"different ones in {specs}", "pass the module's own object"
    )


def row_major_id(extents: tuple[int, ...], bits: int) -> int:
    """Return the id of torch's own order at known extents."""
    return layout_id(row_major(extents), bits)
