"""Functions to import, written from the catalogue's formulas, not from vendors' code; and some that are no layout."""

from __future__ import annotations

import torch
from torch.nn import functional

calls = 0


def tile_16x16(x: torch.Tensor) -> torch.Tensor:
    """A1: tiles of 16 rows by 16 bytes; like its model it asks for 32 elements of k."""
    *batch, rows, k = x.shape
    if rows % 16 or k % 32:
        raise ValueError(f"{rows} x {k} is not in whole tiles")
    piece = max(1, 16 // x.element_size())
    tiles = _as_bytes_if_fp4(x).reshape(-1, rows // 16, 16, k // piece, piece)
    return tiles.permute(0, 1, 3, 2, 4).reshape(*batch, rows, k).view(x.dtype)


def gate_up(x: torch.Tensor) -> torch.Tensor:
    """A6: 16-row groups gate 0, up 0, gate 1, up 1, ..., each in 16 x 16 tiles."""
    experts, rows, k = x.shape
    parts = x.view(experts, 2, rows // 32, 16, k // 16, 16)
    return parts.permute(0, 2, 1, 4, 3, 5).reshape(x.shape)


def tile_nk(x: torch.Tensor, inst_k: int) -> torch.Tensor:
    """A7: pieces of inst_k / 4 elements, 16 rows of each."""
    rows, k = x.shape
    return x.view(rows // 16, 16, k // inst_k, 4, inst_k // 4).permute(0, 2, 3, 1, 4).reshape(x.shape)


def k_major_source(x: torch.Tensor) -> torch.Tensor:
    """A8: a source [K, N], stored as 16 x 16 tiles of its transpose, returned as a transposed view."""
    k, n = x.shape
    tiles = x.t().reshape(n // 16, 16, k // 32, 2, 16).permute(0, 2, 3, 1, 4).reshape(n // 16, k * 16)
    return tiles.t()


def k_outermost(x: torch.Tensor) -> torch.Tensor:
    """A27: the same pieces with the 32-byte k blocks outermost."""
    rows, k = x.shape
    return x.view(rows // 16, 16, k // 32, 2, 16).permute(2, 0, 3, 1, 4).contiguous()


def tile_16x16_of_many(x: torch.Tensor) -> torch.Tensor:
    """A1 with a condition that only large k meet."""
    if x.shape[1] % 2048:
        raise ValueError("k % 2048")
    return tile_16x16(x)


def a_tiles(x: torch.Tensor) -> torch.Tensor:
    """S15: tiles of 16 rows by 128 k, a lane holding two pieces that lie 64 k apart."""
    rows, k = x.shape
    if rows % 32 or k % 256:
        raise ValueError("rows % 32, cols % 256")
    return x.view(rows // 16, 16, k // 128, 2, 4, 16).permute(0, 2, 4, 1, 3, 5).reshape(-1)


def scale_tiles(x: torch.Tensor) -> torch.Tensor:
    """A11 without its pads: a tile of 32 rows by 8 blocks, a permutation of six digits."""
    rows, blocks = x.shape
    return x.view(rows // 32, 2, 16, blocks // 8, 2, 4).permute(0, 3, 5, 2, 4, 1).reshape(x.shape)


def scale_shuffle(x: torch.Tensor) -> torch.Tensor:
    """A11: rows padded to 256 and blocks to 8 with whatever torch.empty held."""
    rows, blocks = x.shape
    padded = torch.empty(-(-rows // 256) * 256, -(-blocks // 8) * 8, dtype=x.dtype)
    padded[:rows, :blocks] = x
    return scale_tiles(padded)


def scale_shuffle_ones(x: torch.Tensor) -> torch.Tensor:
    """A12: blocks padded with 0x7F, rows not padded."""
    return scale_tiles(functional.pad(x.view(torch.uint8), (0, -x.shape[1] % 8), value=0x7F))


def scale_half_defined(x: torch.Tensor) -> torch.Tensor:
    """Rows padded with whatever was there, blocks with 0x7F."""
    rows, blocks = x.shape
    padded = torch.empty(-(-rows // 32) * 32, -(-blocks // 8) * 8, dtype=torch.uint8)
    padded[:rows] = functional.pad(x.view(torch.uint8), (0, -blocks % 8), value=0x7F)
    return scale_tiles(padded)


def scale_rows_32(x: torch.Tensor) -> torch.Tensor:
    """A16: rows padded to 32 with 0x7F, tiles of 32 rows by 4 blocks."""
    padded = functional.pad(x, (0, 0, 0, -x.shape[0] % 32), value=0x7F)
    rows, blocks = padded.shape
    return padded.view(rows // 32, 32, blocks // 4, 4).permute(0, 2, 1, 3).reshape(padded.shape)


def gate_up_scales(x: torch.Tensor, experts: int) -> torch.Tensor:
    """A13 of experts that are folded into the rows."""
    rows, blocks = x.shape
    parts = x.view(experts, 2, rows // experts // 32, 16, blocks // 8, 2, 4)
    return parts.permute(0, 2, 4, 6, 3, 5, 1).reshape(x.shape)


def floors(x: torch.Tensor) -> torch.Tensor:
    """A1 of the whole tiles; what is left over is lost without a word, and garbage stands in its place."""
    rows, k = x.shape
    out = torch.empty_like(x)
    whole = x[: rows // 16 * 16]
    out[: len(whole)] = whole.view(rows // 16, 16, k // 16, 16).permute(0, 2, 1, 3).reshape(whole.shape)
    return out


def padded_k(x: torch.Tensor, multiple: int = 128) -> torch.Tensor:
    """A5: k padded with zeros, then 16 x 16 tiles."""
    return tile_16x16(functional.pad(x, (0, -x.shape[-1] % multiple)))


def group_pairs(x: torch.Tensor) -> torch.Tensor:
    """A19: two groups of one column in a dword."""
    experts, groups, columns = x.shape
    return x.view(experts, groups // 2, 2, columns).transpose(-1, -2).contiguous()


def taps(x: torch.Tensor) -> torch.Tensor:
    """A29: the nine taps of a 3 x 3 filter outermost, channels padded to 64."""
    _, channels, count = x.shape
    if count != 9:
        raise ValueError("nine taps")
    return functional.pad(x, (0, 0, 0, -channels % 64)).transpose(1, 2).contiguous()


def value_cache(x: torch.Tensor) -> torch.Tensor:
    """K2: tokens innermost: a transpose."""
    return x.transpose(-1, -2).contiguous()


def words_of_nibbles(x: torch.Tensor) -> torch.Tensor:
    """N11: the nibbles of a 32-bit word in the order 0 2 4 6 1 3 5 7, low ones first."""
    low, high = x & 15, x >> 4
    nibble = torch.stack((low, high), dim=-1).view(*x.shape[:-1], x.shape[-1] // 4, 4, 2).transpose(-1, -2)
    pairs = nibble.reshape(*x.shape[:-1], x.shape[-1] // 4, 4, 2)
    return (pairs[..., 0] | pairs[..., 1] << 4).reshape(x.shape)


def blocked_rows(x: torch.Tensor) -> torch.Tensor:
    """N3: tiles of 128 rows by 4 columns, padded with zeros."""
    padded = functional.pad(x, (0, -x.shape[1] % 4, 0, -x.shape[0] % 128))
    rows, columns = padded.shape
    return padded.view(rows // 128, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4).contiguous()


def aligned_columns(x: torch.Tensor) -> torch.Tensor:
    """N23: fp32 scales, rows fastest, their stride a multiple of 16 bytes, and nobody fills the rest."""
    rows, columns = x.shape
    out = torch.empty_strided((rows, columns), (1, -(-rows // 4) * 4), dtype=x.dtype)
    out.copy_(x)
    return out


def identity(x: torch.Tensor) -> torch.Tensor:
    """Torch's own order."""
    return x.clone()


# --- no layouts ---


def flips_a_bit(x: torch.Tensor) -> torch.Tensor:
    """Changes values: the sign of every byte."""
    return tile_16x16(x) ^ 0x88


def flips_one_byte(x: torch.Tensor) -> torch.Tensor:
    """Changes one value, far from the first."""
    out = tile_16x16(x)
    out.view(-1)[1234] ^= 1
    return out


def quantizes(x: torch.Tensor) -> torch.Tensor:
    """Changes values and their width."""
    return x.to(torch.float8_e4m3fn)


def sorts_rows(x: torch.Tensor) -> torch.Tensor:
    """An order that the data decide."""
    return x[torch.argsort(x[:, 0].to(torch.int64), stable=True)]


def xor_swizzle(x: torch.Tensor) -> torch.Tensor:
    """Class b: 16-byte pieces of a row exchanged by the row's number."""
    rows, k = x.shape
    pieces = x.view(rows, k // 16, 16)
    piece = torch.arange(k // 16)[None, :] ^ (torch.arange(rows)[:, None] % (k // 16))
    return torch.gather(pieces, 1, piece[..., None].expand(rows, k // 16, 16)).reshape(x.shape)


def two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Data and scale."""
    return x.clone(), x.clone()


def drops_last_row(x: torch.Tensor) -> torch.Tensor:
    """Loses elements."""
    return x[:-1].clone()


def loses_the_rest(x: torch.Tensor) -> torch.Tensor:
    """Loses elements, and leaves garbage in their place."""
    return torch.cat((floors(x[:-8]), torch.empty_like(x[:8])))[: len(x)]


def doubles(x: torch.Tensor) -> torch.Tensor:
    """Stores every element twice."""
    return torch.cat((x, x))


def in_place(x: torch.Tensor) -> None:
    """Returns nothing."""
    x.copy_(x.flip(0))


def reversed_rows(x: torch.Tensor) -> torch.Tensor:
    """A permutation that does not begin with the first element."""
    return x.flip(0)


def two_fills(x: torch.Tensor) -> torch.Tensor:
    """Rows padded with 1, columns with 2."""
    return functional.pad(functional.pad(x, (0, -x.shape[1] % 8), value=2), (0, 0, 0, -x.shape[0] % 8), value=1)


def fill_varies(x: torch.Tensor) -> torch.Tensor:
    """Rows padded to 8, with 1 or, of large tensors, with 2."""
    return functional.pad(x, (0, 0, 0, -x.shape[0] % 8), value=1 if x.shape[0] < 32 else 2)


def large_is_other(x: torch.Tensor) -> torch.Tensor:
    """Another order from 96 rows on."""
    return value_cache(x) if x.shape[0] >= 96 else x.clone()


def by_width(x: torch.Tensor) -> torch.Tensor:
    """Another order for small k: pieces of 4 up to 32, of 16 from there."""
    rows, k = x.shape
    piece = 16 if k >= 64 else 4
    return x.view(rows, k // piece, piece).transpose(0, 1).contiguous()


def mixed_widths(x: torch.Tensor) -> torch.Tensor:
    """Pieces of 16 elements of a byte, of 4 of two bytes: neither one number of elements nor of bytes."""
    rows, k = x.shape
    piece = 16 if x.element_size() == 1 else 4
    return x.view(rows, k // piece, piece).transpose(0, 1).contiguous()


def raises(x: torch.Tensor, why: str = "not today") -> torch.Tensor:
    """Raises."""
    raise RuntimeError(why)


def counts_calls(x: torch.Tensor) -> torch.Tensor:
    """Changes from call to call."""
    global calls
    calls += 1
    return x.roll(calls % 31, 0)


def _as_bytes_if_fp4(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8) if x.dtype == torch.float4_e2m1fn_x2 else x
