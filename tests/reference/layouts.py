"""The layouts by name: axes, pads, and the offset of every element, from the closed formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference import formulas as f

N = Any  # an int, or an int64 array
Offsets = NDArray[np.int64]
Formula = Callable[[tuple[N, ...], tuple[int, ...], int], N]


@dataclass(frozen=True, slots=True)
class Reference:
    """A layout: bits(coordinates, padded extents, element bits) is the bit offset of an element."""

    axes: tuple[str, ...]
    bits: Formula
    pad: tuple[tuple[str, int], ...] = ()  # axis and multiple, in elements
    pad_bytes: tuple[tuple[str, int], ...] = ()  # axis and multiple, in bytes
    fill: int | None = None


def _by_bytes(formula: Callable[[N, N, int], N]) -> Formula:
    """Return the bit offset of a formula over (row, byte of the row, bytes a row)."""

    def bits(at: tuple[N, ...], extents: tuple[int, ...], width: int) -> N:
        row, k = at
        return 8 * formula(row, k * width // 8, extents[1] * width // 8) + k * width % 8

    return bits


def _by_elements(formula: Callable[[tuple[N, ...], tuple[int, ...]], N]) -> Formula:
    """Return the bit offset of a formula that counts elements."""
    return lambda at, extents, width: width * formula(at, extents)


def _rows_first(formula: Callable[[N, N, int], N]) -> Formula:
    """Return the bit offset of a formula over (row, k, k extent), in elements."""
    return _by_elements(lambda at, extents: formula(at[0], at[1], extents[1]))


_ROW_K = ("row", "k")
_K_ROW = ("k", "row")
_CACHE = ("tok", "head", "d")

LIBRARY: dict[str, Reference] = {
    "shuffle_16x16": Reference(_ROW_K, _by_bytes(f.tile_16x16)),
    "shuffle_32x16": Reference(_ROW_K, _by_bytes(f.tile_32x16)),
    "shuffle_16x16_int4": Reference(_ROW_K, _rows_first(f.tile_16x32_elements)),
    "shuffle_16x16_pad_k128": Reference(_ROW_K, _by_bytes(f.tile_16x16), pad_bytes=(("k", 128),), fill=0x00),
    "shuffle_16x16_gate_up": Reference(
        _ROW_K,
        lambda at, extents, width: _by_bytes(f.tile_16x16)(
            (f.interleaved_16(at[0], extents[0]), at[1]), extents, width
        ),
    ),
    "shuffle_weight_NK_16x64": Reference(_ROW_K, _rows_first(lambda row, k, extent: f.tile_nk(row, k, extent, 64))),
    "shuffle_weight_NK_16x32": Reference(_ROW_K, _rows_first(lambda row, k, extent: f.tile_nk(row, k, extent, 32))),
    "shuffle_weight_gfx1250_3d": Reference(
        _K_ROW, _by_elements(lambda at, extents: f.tile_16x16(at[1], at[0], extents[0]))
    ),
    "shuffle_weight_f4": Reference(_ROW_K, _by_bytes(f.tile_16x16)),
    "shuffle_mxfp8fp4_b": Reference(_ROW_K, _by_bytes(f.tile_16x16)),
    "shuffle_mxfp8fp4_a": Reference(_ROW_K, _by_bytes(f.tile_2x128)),
    "preshuffle_b_k_major": Reference(
        _ROW_K,
        lambda at, extents, width: 8 * f.k_major_b(at[0], at[1] * width // 8, extents[0]) + at[1] * width % 8,
    ),
    "interleave_gate_up_rows": Reference(
        _ROW_K, _by_elements(lambda at, extents: f.interleaved_1(at[0], extents[0]) * extents[1] + at[1])
    ),
    "e8m0_tiles": Reference(_ROW_K, _rows_first(f.tile_e8m0)),
    "e8m0_shuffle": Reference(_ROW_K, _rows_first(f.tile_e8m0), pad=(("row", 256), ("k", 8)), fill=0x7F),
    "e8m0_shuffle_zero": Reference(_ROW_K, _rows_first(f.tile_e8m0), pad=(("row", 256), ("k", 8)), fill=0x00),
    "shuffle_scale_a16w4": Reference(_ROW_K, _rows_first(f.tile_e8m0), pad=(("k", 8),), fill=0x7F),
    "shuffle_scale_a16w4_gate_up": Reference(
        _ROW_K,
        _by_elements(lambda at, extents: f.tile_e8m0(f.interleaved_16(at[0], extents[0]), at[1], extents[1])),
        pad=(("k", 8),),
        fill=0x7F,
    ),
    "shuffle_scale_n32k4": Reference(_ROW_K, _rows_first(f.tile_32x4)),
    "shuffle_scale_n32k4_gugu": Reference(
        _ROW_K, _by_elements(lambda at, extents: f.tile_32x4(f.interleaved_1(at[0], extents[0]), at[1], extents[1]))
    ),
    "shuffle_scale_f4": Reference(_ROW_K, _rows_first(f.tile_32x4)),
    "shuffle_mxfp8fp4_scale": Reference(_ROW_K, _rows_first(f.tile_32x4), pad=(("row", 32),), fill=0x7F),
    "shuffle_scale_gemm_gfx1250": Reference(_ROW_K, _rows_first(f.tile_16x4)),
    "shuffle_scale_moe_gfx1250": Reference(
        _K_ROW, _by_elements(lambda at, extents: f.tile_32x8(at[1], at[0], extents[0]))
    ),
    "shuffle_scale_for_int4": Reference(
        ("group", "col"), _by_elements(lambda at, extents: f.group_pairs(at[0], at[1], extents[1]))
    ),
    "to_swizzled_layout": Reference(("k", "v"), _by_elements(lambda at, extents: f.k_fours(at[0], at[1], extents[1]))),
    "prepack_oihw_to_kmajor": Reference(
        _ROW_K, _by_elements(lambda at, extents: at[0] * extents[1] + at[1]), pad=(("k", 64),), fill=0x00
    ),
    "prepack_oihw_to_3x3": Reference(
        ("c", "tap"), _by_elements(lambda at, extents: at[1] * extents[0] + at[0]), pad=(("c", 64),), fill=0x00
    ),
    "prepack_nchw_to_cblocked": Reference(
        ("c", "h", "w"),
        _by_elements(lambda at, extents: f.channel_blocks(at[0], at[1], at[2], extents[1], extents[2])),
        pad=(("c", 64),),
        fill=0x00,
    ),
}
"""The layouts of the packaged `aiter.layout`."""

SPEC: dict[str, Reference] = {
    "mxfp8_a_tiles": Reference(_ROW_K, _rows_first(f.a_tiles_16x128)),
    "page16_k": Reference(
        ("tok", "d"),
        lambda at, extents, width: 8 * f.key_page(at[0], at[1] * width // 8, extents[0]) + at[1] * width % 8,
    ),
    "page16_v": Reference(("tok", "d"), _by_elements(lambda at, extents: at[1] * extents[0] + at[0])),
}
"""The layouts of the MiniMax-M3 spec's own."""

CACHES: dict[str, Reference] = {
    "key_cache": Reference(
        _CACHE,
        lambda at, extents, width: (
            8 * f.key_cache(at[0], at[1], at[2] * width // 8, extents[0], extents[2] * width // 8)
        ),
    ),
    "value_cache": Reference(
        _CACHE, _by_elements(lambda at, extents: f.value_cache(at[0], at[1], at[2], extents[0], extents[2]))
    ),
    "value_cache_asm": Reference(
        _CACHE,
        lambda at, extents, width: width * f.value_cache_asm(at[0], at[1], at[2], extents[0], extents[2], 128 // width),
    ),
    "asm_v_shuffle": Reference(
        ("d", "tok"),
        lambda at, extents, width: (
            width * f.value_cache_asm(at[1], 0, at[0], extents[1], extents[0], piece=128 // width)
        ),
    ),
    "mxfp8_out_scale": Reference(_ROW_K, _rows_first(f.mxfp8_out_scale)),
}
"""The layouts of tests/conformance/caches.layout."""

LAYOUTS: dict[str, Reference] = {**LIBRARY, **SPEC, **CACHES}


def padded(name: str, extents: tuple[int, ...], bits: int) -> tuple[int, ...]:
    """Return the padded extents, in elements."""
    layout = LAYOUTS[name]
    multiples = dict(layout.pad) | {axis: nbytes * 8 // bits for axis, nbytes in layout.pad_bytes}
    return tuple(
        -(-extent // multiples.get(axis, 1)) * multiples.get(axis, 1)
        for axis, extent in zip(layout.axes, extents, strict=True)
    )


def byte_offset(name: str, at: tuple[N, ...], extents: tuple[int, ...], bits: int) -> N:
    """Return the byte of the element at these coordinates; of a 4-bit element, the byte of its pair."""
    return LAYOUTS[name].bits(at, padded(name, extents, bits), bits) // 8


def nibble(name: str, at: tuple[N, ...], extents: tuple[int, ...], bits: int = 4) -> N:
    """Return 0 where a 4-bit element is the low nibble of its byte, 1 where it is the high one."""
    return LAYOUTS[name].bits(at, padded(name, extents, bits), bits) % 8 // 4


@cache
def unit_offsets(name: str, extents: tuple[int, ...], bits: int) -> Offsets:
    """Return the offset of every unit, in units: an element, or the byte of a pair of 4-bit ones along the last axis.

    Shape:  the extents; of 4-bit elements the last is halved.
    """
    step = 2 if bits == 4 else 1
    axes = [np.arange(0, n, step if i == len(extents) - 1 else 1, dtype=np.int64) for i, n in enumerate(extents)]
    grid = np.meshgrid(*axes, indexing="ij", sparse=True)
    shape = (*extents[:-1], extents[-1] // step)
    offsets = LAYOUTS[name].bits(tuple(grid), padded(name, extents, bits), bits)
    assert not np.any(offsets % max(bits, 8)), f"{name}: an element does not start on its own width"
    return np.ascontiguousarray(np.broadcast_to(offsets // max(bits, 8), shape))


def pack(name: str, units: NDArray[Any], bits: int | None = None) -> NDArray[Any]:
    """Return the storage of a row-major array of unsigned units, flat after the batch axes, pads included.

    `bits` is the width of an element where it is not that of a unit: 4, for uint8 units that hold pairs.
    """
    width = units.dtype.itemsize * 8 if bits is None else bits
    rank = len(LAYOUTS[name].axes)
    batch, own = units.shape[: units.ndim - rank], units.shape[units.ndim - rank :]
    extents = (*own[:-1], own[-1] * 2) if width == 4 else own
    size = int(np.prod(padded(name, extents, width))) * width // max(width, 8)
    storage = np.full((int(np.prod(batch)), size), LAYOUTS[name].fill or 0, dtype=units.dtype)
    storage[:, unit_offsets(name, extents, width).ravel()] = units.reshape(len(storage), -1)
    return storage.reshape(*batch, size)
