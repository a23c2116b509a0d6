"""The stages of the layer's decode step in float64 torch: what the kernels must give, to a relative error of 1e-3.

Weights come in as the checkpoint has them and are dequantized by the definitions of their formats; where the spec
changes values, by those definitions too. Activations are rounded where the stages round them, and nowhere else: h to
bf16, fp8 of a token and MXFP8 of 32 elements before a product, xn and mid to bf16, each output to bf16. Imports nothing
of mono_gen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tests.reference.values import e8m0_value, fp8_values, mxfp8_to_ptpc_fp8

FP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
FP8_VALUES = torch.from_numpy(fp8_values())
ALPHA = 1.702
TOP_K = 4

Bytes = NDArray[np.uint8]
Expert = Callable[[int], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Weights:
    """A layer's weights in logical order, float64; an expert's are made when they are asked for.

    segments: the rows of w_qkv by name.
    w13, w2:  of an expert, [2 INTER, HIDDEN] and [HIDDEN, INTER]; `shared` is both of the separate shared one.
    """

    segments: dict[str, tuple[int, int]]
    g_in: torch.Tensor
    g_post: torch.Tensor
    heads: dict[str, torch.Tensor]  # q, k, index_q, index_k
    cos_sin: torch.Tensor
    w_qkv: torch.Tensor
    w_o: torch.Tensor
    gate: torch.Tensor
    bias: torch.Tensor
    w13: Expert
    w2: Expert
    is_fused: bool
    shared: tuple[torch.Tensor, torch.Tensor] | None


# --- formats ---


def ptpc_of_mxfp8(weight: Bytes, scale: Bytes) -> torch.Tensor:
    """Return the values that the spec makes of MXFP8 rows: to bf16, then fp8 over one scale a row."""
    codes, scales = mxfp8_to_ptpc_fp8(weight, scale)
    return FP8_VALUES[torch.from_numpy(codes).long()] * torch.from_numpy(scales).double()[:, None]


def mxfp8(weight: Bytes, scale: Bytes) -> torch.Tensor:
    """Return fp8 codes [rows, k] over e8m0 codes [rows, k / 32]."""
    scales = torch.from_numpy(e8m0_value(scale)).repeat_interleave(32, dim=1)
    return FP8_VALUES[torch.from_numpy(weight).long()] * scales


def mxfp4(weight: Bytes, scale: Bytes) -> torch.Tensor:
    """Return fp4 pairs [rows, k / 2], low nibble first, over e8m0 codes [rows, k / 32]."""
    pairs = torch.from_numpy(weight).long()
    values = torch.stack((FP4_VALUES[pairs & 15], FP4_VALUES[pairs >> 4]), dim=-1).flatten(1)
    return values * torch.from_numpy(e8m0_value(scale)).repeat_interleave(32, dim=1)


def token_fp8(x: torch.Tensor) -> torch.Tensor:
    """Return x rounded to fp8 over one scale a row: the largest magnitude times fp32(1 / 448), 1 for a row of 0."""
    largest = x.abs().amax(dim=-1, keepdim=True).float()
    scale = torch.where(largest == 0, torch.ones_like(largest), largest * torch.tensor(1 / 448, dtype=torch.float32))
    return (x.float() / scale).to(torch.float8_e4m3fn).double() * scale.double()


def block_fp8(x: torch.Tensor) -> torch.Tensor:
    """Return x rounded to MXFP8: 32 elements over the smallest of 2^-126 .. 2^127 that keeps them in fp8."""
    blocks = x.unflatten(-1, (-1, 32))
    mantissa, exponent = torch.frexp(blocks.abs().amax(dim=-1, keepdim=True) / 448)
    exponent = torch.where(mantissa == 0.5, exponent - 1, exponent).clamp(-126, 127)
    scale = torch.ldexp(torch.ones_like(mantissa), exponent)
    return ((blocks / scale).float().to(torch.float8_e4m3fn).double() * scale).flatten(-2)


def bf16(x: torch.Tensor) -> torch.Tensor:
    """Return x rounded to bf16, as float64."""
    return x.to(torch.bfloat16).double()


def gemma_norm(x: torch.Tensor, g: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x over its root mean square, times g + 1."""
    return x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * (g + 1)


# --- stages ---


def qkv(w: Weights, ar: torch.Tensor, res: torch.Tensor, eps: float = 1e-6) -> tuple[torch.Tensor, ...]:
    """Return (h, q, k, v, index_q, index_k)."""
    acc = ar.double() + res.double()
    rows = token_fp8(gemma_norm(acc, w.g_in, eps)) @ w.w_qkv.T
    return (bf16(acc), *(bf16(rows[:, begin:end]) for begin, end in w.segments.values()))


def head(w: Weights, kind: str, x: torch.Tensor, positions: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return one kind's heads after their norm and the rotation of the first dims: d and d + half turn together."""
    g = w.heads[kind]
    heads = gemma_norm(x.double().unflatten(-1, (-1, g.numel())), g, eps)
    half = w.cos_sin.shape[1] // 2
    cos, sin = w.cos_sin[positions][:, None, :half], w.cos_sin[positions][:, None, half:]
    first, second = heads[..., :half].clone(), heads[..., half : 2 * half].clone()
    heads[..., :half] = first * cos - second * sin
    heads[..., half : 2 * half] = second * cos + first * sin
    return bf16(heads.flatten(-2))


def o_proj(w: Weights, attn: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return a."""
    return bf16(token_fp8(attn.double()) @ w.w_o.T + residual.double())


def router(
    w: Weights, a: torch.Tensor, route_scale: float, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (xn, ids, weights, margin): how far the last expert's key lies above the first that is left out."""
    xn = bf16(gemma_norm(a.double(), w.g_post, eps))
    score = torch.sigmoid(xn @ w.gate.T)
    keys, order = torch.sort(score + w.bias, dim=-1, descending=True, stable=True)
    ids = order[:, :TOP_K]
    chosen = score.gather(1, ids)
    margin = (keys[:, :TOP_K] - keys[:, 1 : TOP_K + 1]).amin(dim=-1)
    return xn, ids, chosen / chosen.sum(dim=-1, keepdim=True) * route_scale, margin


def swiglu(gate: torch.Tensor, up: torch.Tensor, limit: float) -> torch.Tensor:
    """Return g sigmoid(1.702 g) (u + 1) of gate clamped from above and up clamped on both sides."""
    g, u = gate.clamp(max=limit), up.clamp(-limit, limit)
    return g * torch.sigmoid(ALPHA * g) * (u + 1)


def expert(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor, limit: float) -> torch.Tensor:
    """Return one expert of rows that are MXFP8 already; mid is rounded to bf16, then to MXFP8."""
    gate, up = (x @ w13.T).chunk(2, dim=-1)
    return block_fp8(bf16(swiglu(gate, up, limit))) @ w2.T


def moe(w: Weights, xn: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, limit: float) -> torch.Tensor:
    """Return the weighted sum of the experts, the fused shared one with weight 1."""
    x = block_fp8(xn.double())
    out = torch.zeros_like(x)
    for e in sorted(set(ids.flatten().tolist())):
        token, slot = (ids == e).nonzero(as_tuple=True)
        out.index_add_(0, token, expert(x[token], w.w13(e), w.w2(e), limit) * weights.double()[token, slot, None])
    if w.is_fused:
        shared = w.gate.shape[0]
        out += expert(x, w.w13(shared), w.w2(shared), limit)
    return bf16(out)


def shared(w: Weights, xn: torch.Tensor, limit: float) -> torch.Tensor:
    """Return the separate shared expert."""
    if w.shared is None:
        raise ValueError("the shared expert is fused")
    return bf16(expert(block_fp8(xn.double()), *w.shared, limit))


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return |found - expected| over |expected|; infinite where `found` has a NaN."""
    difference = (found.double() - expected).norm() / expected.norm()
    return float(difference) if bool(torch.isfinite(difference)) else float("inf")
