"""What each field must hold, and where the kernels look for it: from the closed formulas of tests/reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.reference.layouts import pack, unit_offsets
from tests.reference.values import fp32_to_bf16, mxfp8_to_ptpc_fp8
from tools.demo import sources as s
from tools.demo.sources import Bytes

K1_ARGS = ("ar", "g_in", "w_qkv", "s_qkv", "g_q", "g_k", "g_iq", "g_ik", "cos_sin", "index_cache", "iq_out", "scratch")
SH_ARGS = ("sh_w13", "sh_s13", "sh_w2", "sh_s2")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field's elements lie: a layout over extents, in elements; `batch` items of `item_bytes` each."""

    layout: str | None  # None: row-major
    extents: tuple[int, ...]
    bits: int
    item_bytes: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first byte that differs."""

    byte: int
    expected: int | None
    found: int | None

    def __str__(self) -> str:
        """Return it in words."""
        return f"byte {self.byte}: expected {_hex(self.expected)}, found {_hex(self.found)}"


def _hex(byte: int | None) -> str:
    return "nothing" if byte is None else f"0x{byte:02x}"


def expected_fields(src: s.Sources, experts: int) -> dict[str, Iterator[Bytes]]:
    """Return each field's bytes, a chunk at a time; the order is the spec's."""
    w_qkv, s_qkv = mxfp8_to_ptpc_fp8(src.qkv.weight, src.qkv.scale)
    w_o, s_o = mxfp8_to_ptpc_fp8(src.o.weight, src.o.scale)
    fields: dict[str, Iterator[Bytes]] = {
        "g_in": _one(src.vectors["g_in"]),
        "w_qkv": _one(pack("shuffle_16x16", w_qkv)),
        "s_qkv": _one(s_qkv),
        **{name: _one(src.vectors[name]) for name in ("g_q", "g_k", "g_iq", "g_ik")},
        "cos_sin": _one(src.cos_sin),
        "index_cache": _one(src.index_cache),
        "k_scale": _one(src.kv_scales["k_scale"]),
        "v_scale": _one(src.kv_scales["v_scale"]),
        "w_o": _one(pack("shuffle_16x16", w_o)),
        "s_o": _one(s_o),
        "g_post": _one(src.vectors["g_post"]),
        "gate": _one(fp32_to_bf16(src.gate)),
        "bias": _one(src.bias),
        "w13": _expert_weights(src.w13, experts),
        "s13": _expert_scales(src.w13, experts),
        "w2": _expert_weights(src.w2, experts),
        "s2": _expert_scales(src.w2, experts),
    }
    if experts == s.ROUTED:
        for weight, scale, linear in (("sh_w13", "sh_s13", src.gate_up), ("sh_w2", "sh_s2", src.down)):
            fields[weight] = _one(pack("mxfp8_a_tiles", linear.weight))
            fields[scale] = _one(pack("e8m0_tiles", linear.scale))
    return fields


def _one(array: NDArray[Any]) -> Iterator[Bytes]:
    """Yield a whole array's bytes."""
    yield np.ascontiguousarray(array).view(np.uint8).ravel()


def _expert_weights(experts: s.Experts, count: int) -> Iterator[Bytes]:
    """Yield the packed fp4 of one expert after another."""
    first = pack("shuffle_16x16", experts.first, bits=4)
    for expert in range(count):
        yield first + np.uint8(experts.weight_shift(expert))


def _expert_scales(experts: s.Experts, count: int) -> Iterator[Bytes]:
    """Yield the scales of one expert after another."""
    for expert in range(count):
        yield pack("e8m0_shuffle", experts.scale(expert))


def first_mismatch(tensor: torch.Tensor, chunks: Iterator[Bytes]) -> Mismatch | None:
    """Return where a field differs from its expected bytes, or None when all are the same, the length too."""
    found = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    at = 0
    for chunk in chunks:
        part = found[at : at + len(chunk)]
        if len(part) < len(chunk):
            return Mismatch(at + len(part), int(chunk[len(part)]), None)
        if not np.array_equal(part, chunk):
            i = int(np.argmax(part != chunk))
            return Mismatch(at + i, int(chunk[i]), int(part[i]))
        at += len(chunk)
    return Mismatch(at, None, int(found[at])) if at < len(found) else None


def places(experts: int) -> dict[str, Place]:
    """Return where each field's elements lie."""
    up, rows = 2 * s.INTER, s.HIDDEN
    found = {
        **{name: Place(None, (s.HIDDEN,), 16) for name in ("g_in", "g_post")},
        **{name: Place(None, (s.HEAD_DIM,), 16) for name in ("g_q", "g_k", "g_iq", "g_ik")},
        **{name: Place(None, (1,), 32) for name in ("k_scale", "v_scale")},
        "w_qkv": Place("shuffle_16x16", (s.QKV_ROWS, s.HIDDEN), 8),
        "s_qkv": Place(None, (s.QKV_ROWS,), 32),
        "cos_sin": Place(None, (s.POSITIONS, s.ROTARY_DIM), 16),
        "index_cache": Place(None, (s.BLOCKS, s.BLOCK, s.HEAD_DIM), 8),
        "w_o": Place("shuffle_16x16", (s.HIDDEN, s.O_K), 8),
        "s_o": Place(None, (s.HIDDEN,), 32),
        "gate": Place(None, (s.ROUTED, s.HIDDEN), 16),
        "bias": Place(None, (s.ROUTED,), 32),
        "w13": Place("shuffle_16x16", (up, s.HIDDEN), 4, up * s.HIDDEN // 2, experts),
        "s13": Place("e8m0_shuffle", (up, s.HIDDEN // 32), 8, up * s.HIDDEN // 32, experts),
        "w2": Place("shuffle_16x16", (rows, s.INTER), 4, rows * s.INTER // 2, experts),
        "s2": Place("e8m0_shuffle", (rows, s.INTER // 32), 8, rows * s.INTER // 32, experts),
    }
    if experts == s.ROUTED:
        found |= {
            "sh_w13": Place("mxfp8_a_tiles", (up, s.HIDDEN), 8),
            "sh_s13": Place("e8m0_tiles", (up, s.HIDDEN // 32), 8),
            "sh_w2": Place("mxfp8_a_tiles", (rows, s.INTER), 8),
            "sh_s2": Place("e8m0_tiles", (rows, s.INTER // 32), 8),
        }
    return found


def wrong_offset(offset: Any, place: Place) -> str | None:
    """Return the first of some coordinates where a generated offset function is not the closed formula, in words.

    Coordinates: the corners, and 61 places spread over the field.
    """
    shape = (*((place.batch,) if place.batch else ()), *place.extents)
    size = int(np.prod(shape, dtype=np.int64))
    picks = {0, size - 1, *(int(i) for i in np.linspace(0, size - 1, 63) // 7 * 7)}
    for pick in sorted(picks):
        at = tuple(int(i) for i in np.unravel_index(pick, shape))
        wanted = _offset(place, at)
        found = offset(*at)
        if found != wanted:
            return f"offset{at}: expected {wanted}, found {found}"
    return None


def _offset(place: Place, at: tuple[int, ...]) -> Any:
    """Return the byte of an element, and of a 4-bit one (byte, nibble)."""
    if place.layout is None:
        return int(np.ravel_multi_index(at, place.extents)) * place.bits // 8
    base, own = (at[0] * place.item_bytes, at[1:]) if place.batch else (0, at)
    units = unit_offsets(place.layout, place.extents, place.bits)
    if place.bits == 4:
        return base + int(units[own[0], own[1] // 2]), own[1] % 2
    return base + int(units[own])
