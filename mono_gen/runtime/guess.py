"""The blind check: which orders the bytes of a quantized weight cannot be in. Never proof of the one that they are in.

A quantizer scales the largest value of a block (or row) into the top of the code range. Read through the right layout,
every nonzero block holds a code of large magnitude; read through a wrong one, codes of different blocks mix, and some
block holds none. One such block excludes a layout.

What it cannot see, for then no block loses its large code:
- another order of the 32 codes within a block (for ptpc_fp8: of the codes within a row);
- rows permuted, gate and up exchanged, experts exchanged;
- whole blocks moved: 32-byte pieces of fp8, or shuffle_32x16 read as mxfp8_a_tiles, which keeps blocks whole;
- the order of the scales, where no block is at its clamp;
- fp4, whose blocks have too few codes to tell: it is refused;
- a producer that scales by something else than the largest value of the block: it excludes everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log1p

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.errors import MonoUnsupported, refuse
from mono_gen.runtime.layouts import LayoutRef, known_layouts, layout_named
from mono_gen.runtime.moves import extents, unpack
from mono_gen.runtime.tensors import dtype_name

MXFP8_LARGE = 0x76
"""Least magnitude of the largest code of a block: 224 of 448, where the scale is rounded up to a power of two."""

MXFP8_LARGE_ROUNDED_DOWN = 0x78
"""The same where the producer rounds the scale down (OCP): 256 of 448."""

PTPC_LARGE = {torch.float8_e4m3fn: 0x7E, torch.float8_e4m3fnuz: 0x7F}
"""The largest code of a row under a scale of amax / 448, or / 240 in the fnuz dialect: that number itself."""

PIECE = 16
"""Codes that known layouts keep together: 16 bytes."""

E8M0_CLAMPED = (0, 1, 254)
"""Scale bytes at which a quantizer was clamped: such a block may hold small codes alone."""


@frozen
class Guess:
    """What the bytes say of one candidate.

    excluded:    whether a block (or row) has no large code: the bytes are not in this layout.
    violations:  blocks without a large code.
    blocks:      blocks that could have shown one: nonzero, the scale not at its clamp.
    pass_chance: the chance that a layout which mixes pieces of 16 codes of these blocks at random would pass all the
                 same; 1 says nothing. Layouts of the kinds that cannot be seen pass always.
    """

    layout: str
    excluded: bool
    violations: int
    blocks: int
    pass_chance: float

    def __str__(self) -> str:
        if self.excluded:
            return f"not {self.layout}: {self.violations} of {self.blocks} blocks hold no large code"
        chance = f"one that mixes blocks would pass with chance {self.pass_chance:.1e}"
        return f"may be {self.layout}: {self.blocks} blocks read, {chance}"


def guess_layout(
    tensor: torch.Tensor,
    candidates: Sequence[LayoutRef | str],
    *,
    scale: torch.Tensor | None = None,
    scale_layout: LayoutRef | str = "row_major",
    rounds_scale_down: bool = False,
) -> tuple[Guess, ...]:
    """Return, per candidate layout of fp8 data, whether its bytes exclude it. A pass is never proof.

    Shapes: tensor [..., row, k] float8 in storage order; scale [..., row, k / 32] e8m0 or uint8 for MXFP8, None for
            ptpc_fp8, whose rows are the blocks.
    Raises: MonoUnsupported, where the tensor is not fp8 or a candidate is not legal at its shape.
    Law:    tests/runtime/test_guess.py
    """
    if tensor.dtype not in PTPC_LARGE or (scale is not None and tensor.dtype is not torch.float8_e4m3fn):
        expected = "float8_e4m3fn, or a dialect of it for ptpc_fp8: fp4 blocks show too little"
        raise refuse("guess_layout", "dtype", expected, dtype_name(tensor.dtype))
    large, scales = PTPC_LARGE[tensor.dtype], None
    if scale is not None:
        large = MXFP8_LARGE_ROUNDED_DOWN if rounds_scale_down else MXFP8_LARGE
        if tensor.shape[-1] % 32:
            raise refuse("guess_layout", "size", "k % 32 == 0 under e8m0 scales", f"k = {tensor.shape[-1]}")
        wanted = (*tensor.shape[:-1], tensor.shape[-1] // 32)
        if scale.dtype not in (torch.float8_e8m0fnu, torch.uint8) or tuple(scale.shape) != wanted:
            found = f"{dtype_name(scale.dtype)} {tuple(scale.shape)}"
            raise refuse("guess_layout", "scale", f"float8_e8m0fnu or uint8 {wanted}", found)
        scales = _unpacked(scale, scale_layout, wanted).view(torch.uint8)
    return tuple(_guess(tensor, candidate, scales, large) for candidate in candidates)


def _unpacked(t: torch.Tensor, layout: LayoutRef | str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor read through a layout, whatever the ledger says of it."""
    if layout == "row_major":
        return t
    ref = layout_named(layout) if isinstance(layout, str) else layout
    stored = extents("guess_layout", t, ref.axes)
    storage = ref.storage("guess_layout", 8 * t.element_size(), *stored)
    return unpack("guess_layout", t, shape, padded=storage.padded, view=storage.view, permute=storage.permute)


def _guess(t: torch.Tensor, candidate: LayoutRef | str, scales: torch.Tensor | None, large: int) -> Guess:
    """Return what the codes say of one candidate."""
    codes = _unpacked(t, candidate, tuple(t.shape)).view(torch.uint8) & 0x7F
    width = 32 if scales is not None else codes.shape[-1]
    blocks = codes.reshape(*codes.shape[:-1], -1, width)
    top = blocks.amax(-1)
    readable = top > 0
    if scales is not None:
        for clamp in E8M0_CLAMPED:
            readable &= scales != clamp
    violations, count = int((readable & (top < large)).sum()), int(readable.sum())
    name = candidate if isinstance(candidate, str) else candidate.name
    return Guess(name, violations > 0, violations, count, _chance(blocks[readable], large))


def _chance(blocks: torch.Tensor, large: int) -> float:
    """Return the chance that pieces of blocks [count, width], dealt at random, leave a large code in each block."""
    count, width = blocks.shape
    if not count:
        return 1.0
    size = PIECE if width % PIECE == 0 else 1
    without = float((blocks.reshape(-1, size).amax(-1) < large).float().mean())
    empty = without ** (width // size)
    return exp(count * log1p(-empty)) if empty < 1 else 0.0


def bytes_look_like(data: torch.Tensor, scale: torch.Tensor | None) -> str:
    """Return what the bytes of an fp8 weight say of row_major and of every layout that is known; empty for others.

    Used in refusals, which wait for the device anyway; of experts the first is read.
    """
    if data.dtype not in PTPC_LARGE or data.dim() < 2:
        return ""
    first = (0,) * (data.dim() - 2)
    blocks = scale[first] if scale is not None and scale.dtype.itemsize == 1 and scale.dim() == data.dim() else None
    if not _fits(data[first], blocks):
        return ""
    (plain,) = guess_layout(data[first], ("row_major",), scale=blocks)
    possible = [str(g) for g in _others(data[first], blocks) if not g.excluded] if plain.excluded else []
    if plain.excluded and not possible:
        return ""  # nothing that is known fits: the values were not quantized as the check supposes
    return f"the bytes: {'; '.join((str(plain), *possible))}"


def _fits(data: torch.Tensor, scale: torch.Tensor | None) -> bool:
    """Return whether a matrix and its scales are what `guess_layout` takes."""
    rows, k = data.shape
    return scale is None or (data.dtype is torch.float8_e4m3fn and k % 32 == 0 and scale.shape == (rows, k // 32))


def _others(data: torch.Tensor, scale: torch.Tensor | None) -> Iterator[Guess]:
    """Yield what the bytes say of every known layout that is legal at this shape; of equal ones, of the first."""
    seen = set()
    for ref in known_layouts():
        try:
            place = ref.storage(ref.name, 8, *extents(ref.name, data, ref.axes)).id_at(8)
            if place not in seen:
                yield from guess_layout(data, (ref,), scale=scale)
        except MonoUnsupported:
            continue  # not legal at this shape, so not the one
        seen.add(place)
