"""The blind check: which orders the bytes of a quantized weight cannot be in. Never proof of the one that they are in.

A quantizer scales the largest value of a block (or row) into the top of the code range. Read through the right layout,
every nonzero block holds a code of large magnitude; read through a wrong one, codes of different blocks mix, and some
block holds none. One such block excludes a layout. What it cannot see: orders within a block, segments exchanged, rows
permuted together with their scales, fp4 moved in whole blocks, and the order of scales where no block is at its clamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p

import torch

from mono_gen.runtime.errors import refuse
from mono_gen.runtime.layouts import LayoutRef, layout_named

MXFP8_LARGE = 0x76
"""Least magnitude of the largest code of a block: 224 of 448, where the scale is rounded up to a power of two."""

MXFP8_LARGE_ROUNDED_DOWN = 0x78
"""The same where the producer rounds the scale down (OCP): 256 of 448."""

PTPC_LARGE = 0x7E
"""The largest code of a row under a scale of amax / 448: 448 itself."""

E8M0_CLAMPED = (0, 1, 254)
"""Scale bytes at which a quantizer was clamped: such a block may hold small codes alone."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What the bytes say of one candidate.

    excluded:    whether a block (or row) has no large code: the bytes are not in this layout.
    violations:  blocks without a large code.
    blocks:      blocks that could have shown one: nonzero, the scale not at its clamp.
    pass_chance: the chance that a wrong layout, which mixes codes at random, would pass all the same; 1 says nothing.
    """

    layout: str
    excluded: bool
    violations: int
    blocks: int
    pass_chance: float

    def __str__(self) -> str:
        if self.excluded:
            return f"not {self.layout}: {self.violations} of {self.blocks} blocks hold no large code"
        chance = f"a wrong layout would pass with chance {self.pass_chance:.1e}"
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

    Shapes: tensor [..., row, k] float8_e4m3fn in storage order; scale [..., row, k / 32] e8m0 for MXFP8, None for
            ptpc_fp8, whose rows are the blocks.
    Raises: MonoUnsupported, where the tensor is not fp8 or a candidate is not legal at its shape.
    """
    if tensor.dtype not in (torch.float8_e4m3fn, torch.float8_e4m3fnuz):
        raise refuse("guess_layout", "dtype", "float8_e4m3fn: fp4 blocks show too little", str(tensor.dtype))
    scales = None
    if scale is not None:
        scales = _unpacked(scale, scale_layout, tuple(scale.shape)).view(torch.uint8)
        if scales.shape[-1] * 32 != tensor.shape[-1] or scales.shape[:-1] != tensor.shape[:-1]:
            expected = f"torch {(*tensor.shape[:-1], tensor.shape[-1] // 32)}"
            raise refuse("guess_layout", "scale shape", expected, f"torch {tuple(scales.shape)}")
    large = MXFP8_LARGE_ROUNDED_DOWN if rounds_scale_down else MXFP8_LARGE
    return tuple(
        _guess(tensor, candidate, scales, large if scales is not None else PTPC_LARGE) for candidate in candidates
    )


def _unpacked(t: torch.Tensor, layout: LayoutRef | str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor read through a layout."""
    if layout == "row_major":
        return t
    ref = layout_named(layout) if isinstance(layout, str) else layout
    return ref.unpack(t, shape)


def _guess(t: torch.Tensor, candidate: LayoutRef | str, scales: torch.Tensor | None, large: int) -> Guess:
    """Return what the codes say of one candidate."""
    codes = _unpacked(t, candidate, tuple(t.shape)).view(torch.uint8) & 0x7F
    width = 32 if scales is not None else codes.shape[-1]
    top = codes.reshape(*codes.shape[:-1], -1, width).amax(-1)
    readable = top > 0
    if scales is not None:
        for clamp in E8M0_CLAMPED:
            readable &= scales != clamp
    violations, blocks = int((readable & (top < large)).sum()), int(readable.sum())
    share = float((codes >= large).float().mean())
    name = candidate if isinstance(candidate, str) else candidate.name
    return Guess(name, violations > 0, violations, blocks, _chance(share, width, blocks))


def _chance(share: float, width: int, blocks: int) -> float:
    """Return the chance that each of `blocks` random blocks of `width` codes holds a large one."""
    if share >= 1:
        return 1.0
    empty = exp(width * log1p(-share))
    return exp(blocks * log1p(-empty)) if empty < 1 else float(blocks == 0)
