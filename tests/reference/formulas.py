"""Where each layout puts a coordinate: one closed formula a layout, from the catalogue of public layouts.

Every formula takes coordinates (integers or int64 arrays) and padded extents. `k_bytes` is the byte inside a row and
`row_bytes` a row's length; the others count elements. `//` is integer division.
"""

from __future__ import annotations

from typing import Any

N = Any  # an int, or an int64 array


def tile_16x16(row: N, k_bytes: N, row_bytes: int) -> N:
    """Return the byte offset in 16-row by 16-byte tiles (catalogue A1; oracle "tile(16,16)")."""
    return (row // 16) * 16 * row_bytes + (k_bytes // 16) * 256 + (row % 16) * 16 + k_bytes % 16


def tile_32x16(row: N, k_bytes: N, row_bytes: int) -> N:
    """Return the byte offset in 32-row by 16-byte tiles (A2)."""
    return (row // 32) * 32 * row_bytes + (k_bytes // 16) * 512 + (row % 32) * 16 + k_bytes % 16


def tile_16x32_elements(row: N, k: N, k_extent: int) -> N:
    """Return the element offset in 16-row by 32-element tiles (A3, int4 values one an element)."""
    return (row // 16) * 16 * k_extent + (k // 32) * 512 + (row % 16) * 32 + k % 32


def interleaved_16(row: N, rows: int) -> N:
    """Return the row in gate/up 16-row groups: 32*(i//16) + 16*is_up + i%16, for row = is_up*rows/2 + i (A6, A13)."""
    i, is_up = row % (rows // 2), row // (rows // 2)
    return 32 * (i // 16) + 16 * is_up + i % 16


def interleaved_1(row: N, rows: int) -> N:
    """Return the row in the order gate 0, up 0, gate 1, up 1, ... (A15, A18)."""
    return 2 * (row % (rows // 2)) + row // (rows // 2)


def tile_nk(row: N, k: N, k_extent: int, inst_k: int) -> N:
    """Return the element offset of shuffle_weight_NK with 16 rows: pieces of inst_k/4 elements, row by row (A7)."""
    piece = inst_k // 4
    return (row // 16) * 16 * k_extent + (k // piece) * 16 * piece + (row % 16) * piece + k % piece


def tile_2x128(row: N, k_bytes: N, row_bytes: int) -> N:
    """Return the byte offset in 2-row by 128-byte tiles (A10)."""
    return (row // 2) * 2 * row_bytes + (k_bytes // 128) * 256 + (row % 2) * 128 + k_bytes % 128


def k_major_b(row: N, k_bytes: N, rows: int) -> N:
    """Return the byte offset of the k-major B preshuffle: 32-byte k blocks outermost (A27)."""
    return (k_bytes // 32) * 32 * rows + (row // 16) * 512 + (k_bytes % 32 // 16) * 256 + (row % 16) * 16 + k_bytes % 16


def tile_e8m0(row: N, block: N, blocks: int) -> N:
    """Return the byte offset in 32-row by 8-block e8m0 tiles (A11; oracle "e8m0 32x8 shuffle")."""
    return (
        (row // 32) * 32 * blocks
        + (block // 8) * 256
        + (block % 4) * 64
        + (row % 16) * 4
        + (block % 8 // 4) * 2
        + row % 32 // 16
    )


def tile_32x4(row: N, block: N, blocks: int) -> N:
    """Return the byte offset in 32-row by 4-block tiles (A14, A16)."""
    return (row // 32) * 32 * blocks + (block // 4) * 128 + (row % 32) * 4 + block % 4


def tile_16x4(row: N, block: N, blocks: int) -> N:
    """Return the byte offset in 16-row by 4-block tiles (A20)."""
    return (row // 16) * 16 * blocks + (block // 4) * 64 + (row % 16) * 4 + block % 4


def tile_32x8(row: N, block: N, blocks: int) -> N:
    """Return the byte offset in plain 32-row by 8-block tiles (the gfx1250 MoE scale)."""
    return (row // 32) * 32 * blocks + (block // 8) * 256 + (row % 32) * 8 + block % 8


def group_pairs(group: N, column: N, columns: int) -> N:
    """Return the element offset with two groups of one column together (A19)."""
    return ((group // 2) * columns + column) * 2 + group % 2


def k_fours(k: N, v: N, v_extent: int) -> N:
    """Return the element offset with four k of one v together (A28)."""
    return (k // 4) * 4 * v_extent + v * 4 + k % 4


def channel_blocks(c: N, h: N, w: N, h_extent: int, w_extent: int) -> N:
    """Return the element offset of [C/64, H, W, 64] (A29)."""
    return (c // 64) * 64 * h_extent * w_extent + (h * w_extent + w) * 64 + c % 64


def a_tiles_16x128(row: N, k: N, k_extent: int) -> N:
    """Return the byte offset in 16-row by 128-k tiles of fp8 A operands (S15; oracle "seed A tiles 16x128")."""
    return (
        (row // 16) * 16 * k_extent
        + (k // 128) * 2048
        + (k % 64 // 16) * 512
        + (row % 16) * 32
        + (k % 128 // 64) * 16
        + k % 16
    )


def key_page(token: N, d_bytes: N, tokens: int) -> N:
    """Return the byte offset in a page of keys: 16-byte pieces, token by token (S13)."""
    return (d_bytes // 16) * 16 * tokens + token * 16 + d_bytes % 16


def key_cache(token: N, head: N, d_bytes: N, tokens: int, head_bytes: int) -> N:
    """Return the byte offset in a block of the 5-D key cache, [heads, D/16 B, tokens, 16 B] (K1)."""
    return head * head_bytes * tokens + (d_bytes // 16) * 16 * tokens + token * 16 + d_bytes % 16


def value_cache(token: N, head: N, d: N, tokens: int, d_extent: int) -> N:
    """Return the element offset in a block of the value cache, [heads, D, tokens] (K2, S14)."""
    return (head * d_extent + d) * tokens + token


def value_cache_asm(token: N, head: N, d: N, tokens: int, d_extent: int, piece: int) -> N:
    """Return the element offset of the "asm" value cache, [heads, tokens/piece, D, piece]."""
    return head * d_extent * tokens + (token // piece) * d_extent * piece + d * piece + token % piece


def mxfp8_out_scale(row: N, block: N, blocks: int) -> N:
    """Return the byte offset of the gfx1250 MXFP8 output scale, [rows/64, blocks, 16, 4] with row = 64 R + 16 q + r."""
    return (row // 64) * 64 * blocks + block * 64 + (row % 16) * 4 + row % 64 // 16
