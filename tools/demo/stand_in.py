"""A decoder layer with vLLM's attribute names and the real sizes, as a process holds it once weights are loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tools.demo import sources as s


class WeightParameter(torch.nn.Parameter):
    """A parameter as vLLM's loaders make them: a subclass that carries its weight loader."""

    def __new__(cls, data: torch.Tensor) -> WeightParameter:
        """Return the tensor as a parameter without gradient."""
        parameter: WeightParameter = super().__new__(cls, data, requires_grad=False)
        parameter.weight_loader = _load_whole
        return parameter

    weight_loader: Any


def _load_whole(parameter: torch.Tensor, loaded: torch.Tensor) -> None:
    """Copy a whole loaded tensor into its parameter."""
    parameter.copy_(loaded)


class Part(torch.nn.Module):
    """A module with the given attributes."""

    def __init__(self, **attributes: Any) -> None:
        """Set the attributes: parameters are registered, the rest is plain."""
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


def build_layer(src: s.Sources, *, fused: bool) -> Part:
    """Return a layer whose shared expert is fused (129 experts) or separate (128, and two MXFP8 linears).

    The fused layer has its experts at `experts.routed_experts`, the separate one at `experts` itself: vLLM has both.
    """
    experts = _experts(src, s.ROUTED + fused)
    moe = Part(
        experts=Part(routed_experts=experts) if fused else experts,
        gate=Part(weight=WeightParameter(torch.from_numpy(src.gate.copy()))),
        e_score_correction_bias=WeightParameter(torch.from_numpy(src.bias.copy())),
    )
    if not fused:
        moe.shared_experts = Part(
            gate_up_proj=_linear(src.gate_up, torch.uint8), down_proj=_linear(src.down, torch.uint8)
        )
    return Part(
        is_moe_layer=True,
        self_attn=_attention(src),
        block_sparse_moe=moe,
        input_layernorm=_norm(src, "g_in"),
        post_attention_layernorm=_norm(src, "g_post"),
    )


def _attention(src: s.Sources) -> Part:
    """Return the attention: MXFP8 projections, norms, rotary table, index cache and cache scales."""
    index_cache = torch.from_numpy(src.index_cache.copy()).view(torch.float8_e4m3fn)
    return Part(
        num_heads=s.Q_HEADS,
        num_kv_heads=s.KV_HEADS,
        head_dim=s.HEAD_DIM,
        rotary_emb=Part(rotary_dim=s.ROTARY_DIM, cos_sin_cache=_bf16(src.cos_sin)),
        qkv_proj=_linear(src.qkv, torch.float8_e8m0fnu),
        o_proj=_linear(src.o, torch.uint8),
        q_norm=_norm(src, "g_q"),
        k_norm=_norm(src, "g_k"),
        index_q_norm=_norm(src, "g_iq"),
        index_k_norm=_norm(src, "g_ik"),
        indexer=Part(index_cache=Part(kv_cache=index_cache)),
        _k_scale=torch.from_numpy(src.kv_scales["k_scale"].copy()),
        _v_scale=torch.from_numpy(src.kv_scales["v_scale"].copy()),
    )


def _bf16(bits: NDArray[np.uint16]) -> torch.Tensor:
    """Return bf16 bits as a tensor of its own."""
    return torch.from_numpy(bits.copy()).view(torch.bfloat16)


def _norm(src: s.Sources, field: str) -> Part:
    """Return a norm with its weight."""
    return Part(weight=WeightParameter(_bf16(src.vectors[field])))


def _linear(linear: s.Linear, scale_dtype: torch.dtype) -> Part:
    """Return an MXFP8 linear in row-major order: nothing has shuffled it."""
    weight = torch.from_numpy(linear.weight.copy()).view(torch.float8_e4m3fn)
    scale = torch.from_numpy(linear.scale.copy()).view(scale_dtype)
    return Part(weight=WeightParameter(weight), weight_scale=WeightParameter(scale))


def _experts(src: s.Sources, count: int) -> Part:
    """Return MXFP4 experts as aiter leaves them after its shuffles, marked as it marks them."""
    w13, s13 = stack_experts(src.w13, count)
    w2, s2 = stack_experts(src.w2, count)
    return Part(
        top_k=4,
        moe_config=Part(use_ep=False),
        w13_weight=w13,
        w13_weight_scale=s13,
        w2_weight=w2,
        w2_weight_scale=s2,
    )


def stack_experts(experts: s.Experts, count: int) -> tuple[WeightParameter, WeightParameter]:
    """Return (weights, scales) of all experts, each shuffled as aiter states it: a view and a permute.

    Expert e is expert 0 plus a constant, and a permutation keeps that, so one permutation serves all.
    """
    rows, row_bytes = experts.first.shape
    first = torch.from_numpy(experts.first).view(rows // 16, 16, row_bytes // 16, 16).permute(0, 2, 1, 3)
    first = first.reshape(rows, row_bytes)
    weights = torch.empty(count, rows, row_bytes, dtype=torch.uint8)
    scales = torch.empty(count, rows, experts.blocks, dtype=torch.uint8)
    for expert in range(count):
        torch.add(first, experts.weight_shift(expert), out=weights[expert])
        scale = torch.from_numpy(experts.scale(expert)).view(rows // 32, 2, 16, experts.blocks // 8, 2, 4)
        scales[expert] = scale.permute(0, 3, 5, 2, 4, 1).reshape(rows, experts.blocks)
    weight = WeightParameter(weights.view(torch.float4_e2m1fn_x2))
    weight.is_shuffled = True  # type: ignore[attr-defined]
    return weight, WeightParameter(scales)
