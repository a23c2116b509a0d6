"""A MiniMax-M3 checkpoint of reduced sizes: its real names in several files, an index, and files beside them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.reference.data import mixed

ROOT = Path(__file__).parents[2]
HIDDEN, HEAD_DIM, Q_HEADS, KV_HEADS, INTER, EXPERTS = 256, 32, 16, 4, 1024, 6
SIZES = {
    "HIDDEN     = 6144": f"HIDDEN     = {HIDDEN}",
    "HEAD_DIM   = 128": f"HEAD_DIM   = {HEAD_DIM}",
    "64 / TP": f"{Q_HEADS} / TP",
    "ROUTED     = 128": f"ROUTED     = {EXPERTS}",
    "3072 / TP": f"{INTER} / TP",
}
"""What of specs/minimax_m3.layout is smaller here."""

DENSE, SPARSE = (0,), (1, 2)
PREFIX = "language_model.model.layers"


def write_spec(folder: Path) -> Path:
    """Return the reduced spec, with the map of the real one beside it."""
    text = (ROOT / "specs" / "minimax_m3.layout").read_text()
    for real, small in SIZES.items():
        assert text.count(real) == 1, real
        text = text.replace(real, small)
    (folder / "minimax_m3.layout").write_text(text)
    (folder / "minimax_m3.map").write_bytes((ROOT / "specs" / "minimax_m3.map").read_bytes())
    return folder / "minimax_m3.layout"


def _bytes(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    count = int(torch.tensor(shape).prod())
    return torch.from_numpy(mixed(count, seed)).view(shape)


def fp8(rows: int, k: int, seed: int) -> torch.Tensor:
    """Return e4m3fn values without NaN."""
    return torch.from_numpy(mixed(rows * k, seed, never=(0x7F, 0xFF))).view(rows, k).view(torch.float8_e4m3fn)


def e8m0(rows: int, blocks: int, seed: int) -> torch.Tensor:
    """Return scales of 2^-9 to 2^3, as uint8."""
    return torch.from_numpy(mixed(rows * blocks, seed, below=13, plus=118)).view(rows, blocks)


def bf16(count: int, seed: int) -> torch.Tensor:
    """Return bf16 values from 0.5 to 2."""
    return (_bytes((count,), seed).to(torch.int16) | 0x3F00).view(torch.bfloat16)


def fp32(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return fp32 values whose mantissas are all in use."""
    bits = _bytes((*shape, 4), seed).view(torch.int32).view(shape)
    return ((bits & -0x7C000001) | 0x3C000000).view(torch.float32)


def layer_tensors(layer: int, experts: int = EXPERTS) -> dict[str, torch.Tensor]:
    """Return the tensors of a sparse-attention MoE layer, by their names below the layer."""
    seed = 1000 * layer
    made: dict[str, torch.Tensor] = {
        "input_layernorm.weight": bf16(HIDDEN, seed + 1),
        "post_attention_layernorm.weight": bf16(HIDDEN, seed + 2),
        "block_sparse_moe.gate.weight": fp32((experts, HIDDEN), seed + 3),
        "block_sparse_moe.e_score_correction_bias": fp32((experts,), seed + 4),
    }
    for number, name in enumerate(("q_norm", "k_norm", "index_q_norm", "index_k_norm")):
        made[f"self_attn.{name}.weight"] = bf16(HEAD_DIM, seed + 5 + number)
    linears = {
        "self_attn.q_proj": (Q_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.index_q_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.index_k_proj": (HEAD_DIM, HIDDEN),
        "self_attn.o_proj": (HIDDEN, Q_HEADS * HEAD_DIM),
        "block_sparse_moe.shared_experts.gate_proj": (INTER, HIDDEN),
        "block_sparse_moe.shared_experts.up_proj": (INTER, HIDDEN),
        "block_sparse_moe.shared_experts.down_proj": (HIDDEN, INTER),
    }
    for number, (name, (rows, k)) in enumerate(linears.items()):
        made[f"{name}.weight"] = fp8(rows, k, seed + 20 + 2 * number)
        made[f"{name}.weight_scale_inv"] = e8m0(rows, k // 32, seed + 21 + 2 * number)
    for expert in range(experts):
        for number, (rows, k) in enumerate(((INTER, HIDDEN), (HIDDEN, INTER), (INTER, HIDDEN)), 1):
            at = seed + 100 + 8 * expert + 2 * number
            made[f"block_sparse_moe.experts.{expert}.w{number}.weight"] = _bytes((rows, k // 2), at)
            made[f"block_sparse_moe.experts.{expert}.w{number}.weight_scale"] = e8m0(rows, k // 32, at + 1)
    return made


def all_tensors() -> dict[str, torch.Tensor]:
    """Return every tensor of the checkpoint by its whole name: a dense layer, two sparse ones, and what is around."""
    made = {
        "language_model.model.embed_tokens.weight": bf16(300 * HIDDEN, 9).view(300, HIDDEN),
        "language_model.model.norm.weight": bf16(HIDDEN, 8),
        f"{PREFIX}.0.mlp.down_proj.weight": fp8(HIDDEN, 512, 7),
        f"{PREFIX}.0.self_attn.q_proj.weight": fp8(128, HIDDEN, 6),
        "vision_tower.patch.bias": torch.tensor([1, 2, 3], dtype=torch.uint8),
    }
    for layer in SPARSE:
        made |= {f"{PREFIX}.{layer}.{name}": t for name, t in layer_tensors(layer).items()}
    return made


def write_checkpoint(folder: Path, tensors: dict[str, torch.Tensor] | None = None, files: int = 4) -> Path:
    """Return a folder with the tensors dealt out over files of the real form: the last one has no layer's tensors."""
    folder.mkdir(parents=True)
    tensors = all_tensors() if tensors is None else tensors
    inside = [name for name in tensors if ".layers." in name]
    outside = [name for name in tensors if ".layers." not in name]
    each = -(-len(inside) // (files - 1))
    dealt = [*(inside[n * each : (n + 1) * each] for n in range(files - 1)), outside]
    weight_map = {}
    for number, names in enumerate(dealt, 1):
        file = f"model-{number:05}-of-{files:05}.safetensors"
        save_file({name: tensors[name] for name in names}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    total = sum(t.nbytes for t in tensors.values())
    index = {"metadata": {"total_size": total, "made_by": "a test"}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "minimax_m3"}')
    return folder
