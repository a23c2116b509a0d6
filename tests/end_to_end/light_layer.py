"""A layer of the real shapes whose large tensors nobody has written: for refusals, which read no contents."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from tools.demo import sources as s
from tools.demo.stand_in import Part, WeightParameter

UP = 2 * s.INTER
PATHS = {
    "g_in": "input_layernorm.weight",
    "w_qkv": "self_attn.qkv_proj.weight",
    "s_qkv": "self_attn.qkv_proj.weight_scale",
    "g_q": "self_attn.q_norm.weight",
    "g_k": "self_attn.k_norm.weight",
    "g_iq": "self_attn.index_q_norm.weight",
    "g_ik": "self_attn.index_k_norm.weight",
    "cos_sin": "self_attn.rotary_emb.cos_sin_cache",
    "index_cache": "self_attn.indexer.index_cache.kv_cache",
    "k_scale": "self_attn._k_scale",
    "v_scale": "self_attn._v_scale",
    "w_o": "self_attn.o_proj.weight",
    "s_o": "self_attn.o_proj.weight_scale",
    "g_post": "post_attention_layernorm.weight",
    "gate": "block_sparse_moe.gate.weight",
    "bias": "block_sparse_moe.e_score_correction_bias",
    "w13": "block_sparse_moe.experts.w13_weight",
    "s13": "block_sparse_moe.experts.w13_weight_scale",
    "w2": "block_sparse_moe.experts.w2_weight",
    "s2": "block_sparse_moe.experts.w2_weight_scale",
    "sh_w13": "block_sparse_moe.shared_experts.gate_up_proj.weight",
    "sh_s13": "block_sparse_moe.shared_experts.gate_up_proj.weight_scale",
    "sh_w2": "block_sparse_moe.shared_experts.down_proj.weight",
    "sh_s2": "block_sparse_moe.shared_experts.down_proj.weight_scale",
}
"""Where each tensor of SparseMoeLayer comes from, by its name; the experts stand at `experts` itself."""

CONVERTED = ("w_qkv", "s_qkv", "w_o", "s_o", "gate", "sh_w13", "sh_s13", "sh_w2", "sh_s2")
"""The tensors that a converter reads; the others are views."""

E4M3, E8M0, FP4 = torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2


def specimens(experts: int) -> dict[str, torch.Tensor]:
    """Return a tensor of the right dtype and torch shape for each field: zeros, or what memory held for the experts."""
    rows, hidden = s.QKV_ROWS, s.HIDDEN
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        **dict.fromkeys(("g_in", "g_post"), ((hidden,), torch.bfloat16)),
        **dict.fromkeys(("g_q", "g_k", "g_iq", "g_ik"), ((s.HEAD_DIM,), torch.bfloat16)),
        **dict.fromkeys(("k_scale", "v_scale"), ((1,), torch.float32)),
        "w_qkv": ((rows, hidden), E4M3),
        "s_qkv": ((rows, hidden // 32), E8M0),
        "cos_sin": ((96, s.ROTARY_DIM), torch.bfloat16),
        "index_cache": ((5, s.BLOCK, s.HEAD_DIM), E4M3),
        "w_o": ((hidden, s.O_K), E4M3),
        "s_o": ((hidden, s.O_K // 32), torch.uint8),
        "gate": ((s.ROUTED, hidden), torch.float32),
        "bias": ((s.ROUTED,), torch.float32),
        "w13": ((experts, UP, hidden // 2), FP4),
        "s13": ((experts, UP, hidden // 32), torch.uint8),
        "w2": ((experts, hidden, s.INTER // 2), torch.uint8),
        "s2": ((experts, hidden, s.INTER // 32), E8M0),
        "sh_w13": ((UP, hidden), E4M3),
        "sh_s13": ((UP, hidden // 32), torch.uint8),
        "sh_w2": ((hidden, s.INTER), E4M3),
        "sh_s2": ((hidden, s.INTER // 32), E8M0),
    }
    return {name: _specimen(name, shape, dtype) for name, (shape, dtype) in shapes.items()}


def _specimen(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros, the same ones always where a converter only reads them; of experts, what memory held."""
    if name in ("w13", "s13", "w2", "s2"):
        return empty(shape, dtype)
    if name in CONVERTED:
        return zeros(shape, dtype)
    return zeros(shape, dtype).clone()


@cache
def zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros; torch makes none of float4 and e8m0 itself."""
    return torch.zeros((*shape[:-1], shape[-1] * dtype.itemsize), dtype=torch.uint8).view(dtype)


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return memory of a shape and dtype, 16-byte aligned, that nobody has written."""
    return torch.empty(shape, dtype=dtype)


def light_layer(tensors: dict[str, torch.Tensor]) -> Part:
    """Return a layer that holds these tensors, in parts of its own, ready to be spoiled."""
    layer = Part(
        is_moe_layer=True,
        input_layernorm=Part(),
        post_attention_layernorm=Part(),
        self_attn=Part(
            num_heads=s.Q_HEADS,
            num_kv_heads=s.KV_HEADS,
            head_dim=s.HEAD_DIM,
            rotary_emb=Part(rotary_dim=s.ROTARY_DIM),
            indexer=Part(index_cache=Part()),
            **{name: Part() for name in ("qkv_proj", "o_proj", "q_norm", "k_norm", "index_q_norm", "index_k_norm")},
        ),
        block_sparse_moe=Part(
            gate=Part(),
            experts=Part(top_k=4, moe_config=Part(use_ep=False)),
            shared_experts=Part(gate_up_proj=Part(), down_proj=Part()),
        ),
    )
    for name, t in tensors.items():
        put(layer, PATHS[name], WeightParameter(t) if name in ("w_qkv", "w13", "w2") else t.detach())  # no shared flags
    for name in ("w13", "w2"):
        at(layer, PATHS[name]).is_shuffled = True
    return layer


def at(layer: Any, path: str) -> Any:
    """Return the value at a dotted path."""
    for name in path.split("."):
        layer = getattr(layer, name)
    return layer


def put(layer: Any, path: str, value: Any) -> None:
    """Set the value at a dotted path, whatever stood there."""
    owner, _, name = path.rpartition(".")
    part = at(layer, owner) if owner else layer
    part._parameters.pop(name, None)
    part.__dict__.pop(name, None)
    if isinstance(value, torch.nn.Parameter):
        setattr(part, name, value)
    else:
        part.__dict__[name] = value


def drop(layer: Any, path: str) -> None:
    """Delete the value at a dotted path."""
    owner, _, name = path.rpartition(".")
    delattr(at(layer, owner) if owner else layer, name)
