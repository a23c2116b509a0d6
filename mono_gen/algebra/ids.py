"""Ids: blake2b-64 of a canonical ASCII text that says what lies where, and nothing about names or comments."""

from __future__ import annotations

from hashlib import blake2b

from mono_gen.algebra.layout import Layout, canonical
from mono_gen.algebra.template import Template


def digest64(text: str) -> int:
    """Return blake2b-64 of an ASCII text, as an unsigned integer read big endian."""
    return int.from_bytes(blake2b(text.encode("ascii"), digest_size=8).digest(), "big")


def layout_text(layout: Layout, bits: int, runtime_axis: int | None = None) -> str:
    """Return the canonical text of a bound layout: width, digits a axis, live pads with their fill.

    runtime_axis: an axis whose extent is known only at load; it must be stored slowest, and is written `?`.
    """
    axes = []
    for axis, digits in enumerate(canonical(layout)):
        text = ",".join(f"{size}:{stride}" for size, stride in digits)
        axes.append(f"?:{layout.span // layout.padded[axis]}" if axis == runtime_axis else text)
    fill = "undefined" if layout.fill is None else f"{layout.fill:#x}"
    pads = [f"{axis}:{layout.extents[axis]}>{layout.padded[axis]}={fill}" for axis in layout.live_pads]
    gaps = f" span={layout.span}" if layout.has_gaps else ""
    return f"layout bits={bits} axes={';'.join(axes)} pads={','.join(pads)}{gaps}"


def template_text(template: Template) -> str:
    """Return the canonical text of a layout without extents: sizes as written, `?` for what is left, in store order."""
    axes = ["*".join("?" if f.size is None else str(f.size) for f in axis.factors) for axis in template.axes]
    where = {f.name: f"{i}.{j}" for i, axis in enumerate(template.axes) for j, f in enumerate(axis.factors)}
    pads = [f"{i}:{axis.pad_to}" for i, axis in enumerate(template.axes) if axis.pad_to is not None]
    fill = "undefined" if template.fill is None else f"{template.fill:#x}"
    pitches = [f"{where[name]}={size}" for name, size in template.pitches]
    store = ",".join(where[name] for name in template.order)
    tail = f" pads={','.join(pads)}={fill}" if pads else ""
    return f"template axes={';'.join(axes)} store={store}{tail} pitch={','.join(pitches)}"


def template_id(template: Template) -> int:
    """Return the id of a layout without extents."""
    return digest64(template_text(template))


def layout_id(layout: Layout, bits: int, runtime_axis: int | None = None) -> int:
    """Return the id of a bound layout."""
    return digest64(layout_text(layout, bits, runtime_axis))
