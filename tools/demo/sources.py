"""The checkpoint's numbers in logical order, before any shuffle: a value of its own at every place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.reference.data import mixed

Bytes = NDArray[np.uint8]

HIDDEN, HEAD_DIM, ROTARY_DIM, INTER, ROUTED = 6144, 128, 64, 768, 128
Q_HEADS, KV_HEADS, INDEX_Q_HEADS = 16, 1, 1
QKV_ROWS = (Q_HEADS + 2 * KV_HEADS + INDEX_Q_HEADS + 1) * HEAD_DIM
O_K = Q_HEADS * HEAD_DIM
POSITIONS, BLOCKS, BLOCK = 4096, 64, 128

_NAN_FP8 = (0x7F, 0xFF)
_FP4_STEP = 37  # odd, so that no two experts are the same bytes


def fp8(rows: int, k: int, seed: int) -> Bytes:
    """Return e4m3fn codes without NaN, (rows, k)."""
    return mixed(rows * k, seed, never=_NAN_FP8).reshape(rows, k)


def e8m0(rows: int, blocks: int, seed: int) -> Bytes:
    """Return e8m0 codes of 2^-9 to 2^3, (rows, blocks)."""
    return mixed(rows * blocks, seed, below=13, plus=118).reshape(rows, blocks)


def bf16(count: int, seed: int) -> NDArray[np.uint16]:
    """Return bits of bf16 values from 0.5 to 2."""
    bits: NDArray[np.uint16] = mixed(count, seed).astype(np.uint16) | np.uint16(0x3F00)
    return bits


def fp32(count: int, seed: int) -> NDArray[np.float32]:
    """Return fp32 values of either sign from 2^-7 to 2, all mantissa bits in use."""
    bits = mixed(4 * count, seed).view(np.uint32)
    values: NDArray[np.float32] = ((bits & np.uint32(0x83FFFFFF)) | np.uint32(0x3C000000)).view(np.float32)
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """An MXFP8 weight: e4m3fn (rows, k) and e8m0 (rows, k / 32)."""

    weight: Bytes
    scale: Bytes


@dataclass(frozen=True, slots=True, eq=False)
class Experts:
    """MXFP4 weights of all experts: packed fp4 (rows, k / 2) of expert 0, and what makes the others of it."""

    first: Bytes
    blocks: int
    seed: int

    def weight_shift(self, expert: int) -> int:
        """Return what expert e adds to each byte of expert 0, modulo 256."""
        return expert * _FP4_STEP % 256

    def scale(self, expert: int) -> Bytes:
        """Return one expert's scales."""
        return e8m0(len(self.first), self.blocks, self.seed + expert)


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """Everything that a layer holds, in logical order."""

    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear
    w13: Experts
    w2: Experts
    gate: NDArray[np.float32]
    bias: NDArray[np.float32]
    vectors: dict[str, NDArray[np.uint16]]  # by field name
    cos_sin: NDArray[np.uint16]
    index_cache: Bytes
    kv_scales: dict[str, NDArray[np.float32]]


def _linear(rows: int, k: int, seed: int) -> Linear:
    return Linear(fp8(rows, k, seed), e8m0(rows, k // 32, seed + 1))


def _experts(rows: int, k: int, seed: int) -> Experts:
    return Experts(mixed(rows * k // 2, seed).reshape(rows, k // 2), k // 32, seed + 1)


def build_sources() -> Sources:
    """Return the numbers of one layer; the same at every call."""
    lengths = {"g_in": HIDDEN, "g_post": HIDDEN, "g_q": HEAD_DIM, "g_k": HEAD_DIM, "g_iq": HEAD_DIM, "g_ik": HEAD_DIM}
    return Sources(
        qkv=_linear(QKV_ROWS, HIDDEN, 10),
        o=_linear(HIDDEN, O_K, 20),
        gate_up=_linear(2 * INTER, HIDDEN, 30),
        down=_linear(HIDDEN, INTER, 40),
        w13=_experts(2 * INTER, HIDDEN, 1000),
        w2=_experts(HIDDEN, INTER, 2000),
        gate=fp32(ROUTED * HIDDEN, 50).reshape(ROUTED, HIDDEN),
        bias=fp32(ROUTED, 51),
        vectors={name: bf16(length, 60 + i) for i, (name, length) in enumerate(lengths.items())},
        cos_sin=bf16(POSITIONS * ROTARY_DIM, 70).reshape(POSITIONS, ROTARY_DIM),
        index_cache=mixed(BLOCKS * BLOCK * HEAD_DIM, 71, never=_NAN_FP8).reshape(BLOCKS, BLOCK, HEAD_DIM),
        kv_scales={"k_scale": np.array([0.75], dtype=np.float32), "v_scale": np.array([1.25], dtype=np.float32)},
    )
