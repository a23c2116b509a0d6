"""Layouts by name, for callers: every generated module enters its own when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch

from mono_gen.algebra.ids import layout_id
from mono_gen.algebra.layout import Layout, from_view, row_major
from mono_gen.frozen import frozen
from mono_gen.runtime.errors import refuse


@frozen
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

    def id_at(self, bits: int) -> int:
        """Return the id of the layout at these extents, for elements of `bits` bits."""
        return _layout_id(self, bits)


@lru_cache(maxsize=1024)
def _layout_id(storage: Storage, bits: int) -> int:
    return layout_id(storage.bound(), bits)


@frozen
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


_LAYOUTS: dict[str, dict[str, LayoutRef]] = {}
"""By name and spec: a module that is imported again takes the place of what it entered before."""


def register_layout(
    name: str,
    spec: str,
    id: int,
    axes: tuple[str, ...],
    storage: Callable[..., Storage],
    unpack: Callable[[torch.Tensor, tuple[int, ...]], torch.Tensor],
) -> LayoutRef:
    """Return the layout, now found by its name."""
    ref = LayoutRef(name, spec, id, axes, storage, unpack)
    _LAYOUTS.setdefault(name, {})[spec] = ref
    return ref


def layout_named(name: str) -> LayoutRef:
    """Return the layout of a name that generated modules have entered.

    Raises: MonoUnsupported, where there is none, or where two specs mean different layouts by it.
    """
    found = layouts_named(name)
    if len(found) == 1:
        return found[0]
    if not found:
        known = ", ".join(sorted(_LAYOUTS)) or "none"
        raise refuse(name, "layout", f"a layout of a generated module that was imported: {known}", f"{name!r}")
    specs = ", ".join(ref.spec for ref in found)
    raise refuse(
        name, "layout", "one layout of that name", f"different ones in {specs}", "pass the module's own object"
    )


def layouts_named(name: str) -> tuple[LayoutRef, ...]:
    """Return the different layouts that generated modules have entered by a name."""
    return tuple({ref.id: ref for ref in _LAYOUTS.get(name, {}).values()}.values())


def known_layouts() -> tuple[LayoutRef, ...]:
    """Return every layout that generated modules have entered."""
    return tuple(ref for name in _LAYOUTS for ref in layouts_named(name))


def row_major_id(extents: tuple[int, ...], bits: int) -> int:
    """Return the id of torch's own order at known extents."""
    return layout_id(row_major(extents), bits)
