"""The layer at reduced sizes: the spec with smaller constants, its header and loader, and random sources for it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray

from mono_gen.pipeline import generate
from mono_gen.write import write
from tests.reference.stages import Weights, mxfp4, mxfp8, ptpc_of_mxfp8
from tools.demo.stand_in import Part, WeightParameter

ROOT = Path(__file__).parents[2]
POSITIONS = 96

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The constants of the spec that are reduced; each axis has two tiles or more, and all differ."""

    hidden: int = 2048
    q_heads: int = 8
    kv_heads: int = 2
    iq_heads: int = 1
    routed: int = 24
    inter: int = 512

    @property
    def qkv_rows(self) -> int:
        """Return the rows of the fused projection."""
        return (self.q_heads + 2 * self.kv_heads + self.iq_heads + 1) * 128

    def text(self) -> str:
        """Return the real spec with these constants."""
        text = (ROOT / "specs" / "minimax_m3.layout").read_text()
        names = ("HIDDEN", "Q_HEADS", "KV_HEADS", "IQ_HEADS", "ROUTED", "INTER")
        values = (self.hidden, self.q_heads, self.kv_heads, self.iq_heads, self.routed, self.inter)
        for name, value in zip(names, values, strict=True):
            text, count = re.subn(rf"(?m)^(const {name} *= ).*$", rf"\g<1>{value}", text)
            if count != 1:
                raise AssertionError(f"the spec has no const {name}")
        return text


def generated(sizes: Sizes, folder: Path) -> Path:
    """Return the folder of what the reduced spec makes."""
    return written(sizes.text(), folder)


def written(text: str, folder: Path) -> Path:
    """Return the folder of what a text of the spec makes."""
    specs, out = folder / "specs", folder / "generated"
    specs.mkdir(parents=True)
    (specs / "minimax_m3.layout").write_text(text)
    write(generate([specs / "minimax_m3.layout"], {}).files, out)
    return out


def loaded_module(folder: Path, name: str) -> ModuleType:
    """Return the generated module, under a name of its own."""
    spec = spec_from_file_location(name, folder / "minimax_m3.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Sources:
    """A checkpoint's numbers: codes of fp8 and fp4, e8m0 scales that differ from block to block, bf16 vectors."""

    sizes: Sizes
    vectors: dict[str, torch.Tensor]
    linears: dict[str, tuple[Bytes, Bytes]]  # qkv, o, gate_up, down: MXFP8
    experts: dict[str, tuple[Bytes, Bytes]]  # w13, w2: MXFP4, an expert a row; one more than the routed
    gate: torch.Tensor
    bias: torch.Tensor
    cos_sin: torch.Tensor


def sources(sizes: Sizes, seed: int) -> Sources:
    """Return random sources whose products have the sizes of a trained layer's."""
    rng = np.random.default_rng(seed)
    torch_rng = torch.Generator().manual_seed(seed)

    def fp8(rows: int, k: int) -> tuple[Bytes, Bytes]:
        # Codes up to 0x5F, 30 in magnitude, of either sign; a scale of its own a block.
        codes = rng.integers(0, 0x60, (rows, k), np.uint8) | rng.integers(0, 2, (rows, k), np.uint8) << np.uint8(7)
        return codes, rng.integers(114, 121, (rows, k // 32), np.uint8)

    def fp4(rows: int, k: int) -> tuple[Bytes, Bytes]:
        codes = rng.integers(0, 256, (sizes.routed + 1, rows, k // 2), np.uint8)
        return codes, rng.integers(117, 124, (sizes.routed + 1, rows, k // 32), np.uint8)

    def vector(n: int) -> torch.Tensor:
        return (0.3 * torch.randn(n, generator=torch_rng)).bfloat16()

    angles = torch.rand(POSITIONS, 32, generator=torch_rng) * 6.3
    return Sources(
        sizes=sizes,
        vectors={
            **{name: vector(sizes.hidden) for name in ("g_in", "g_post")},
            **{name: vector(128) for name in ("g_q", "g_k", "g_iq", "g_ik")},
        },
        linears={
            "qkv": fp8(sizes.qkv_rows, sizes.hidden),
            "o": fp8(sizes.hidden, 128 * sizes.q_heads),
            "gate_up": fp8(2 * sizes.inter, sizes.hidden),
            "down": fp8(sizes.hidden, sizes.inter),
        },
        experts={"w13": fp4(2 * sizes.inter, sizes.hidden), "w2": fp4(sizes.hidden, sizes.inter)},
        gate=torch.randn(sizes.routed, sizes.hidden, generator=torch_rng) / sizes.hidden**0.5,
        bias=0.1 * torch.randn(sizes.routed, generator=torch_rng),
        cos_sin=torch.cat((angles.cos(), angles.sin()), dim=1).bfloat16(),
    )


def weights(src: Sources, is_fused: bool) -> Weights:
    """Return the sources as the reference reads them."""
    sizes = src.sizes
    widths = {"q": sizes.q_heads, "k": sizes.kv_heads, "v": sizes.kv_heads, "index_q": sizes.iq_heads, "index_k": 1}
    segments, begin = {}, 0
    for name, heads in widths.items():
        segments[name] = (begin, begin + 128 * heads)
        begin += 128 * heads

    def expert(name: str, e: int) -> torch.Tensor:
        codes, scales = src.experts[name]
        return mxfp4(codes[e], scales[e])

    return Weights(
        segments=segments,
        g_in=src.vectors["g_in"].double(),
        g_post=src.vectors["g_post"].double(),
        heads={kind: src.vectors[name].double() for kind, name in HEADS.items()},
        cos_sin=src.cos_sin.double(),
        w_qkv=ptpc_of_mxfp8(*src.linears["qkv"]),
        w_o=ptpc_of_mxfp8(*src.linears["o"]),
        gate=src.gate.bfloat16().double(),
        bias=src.bias.double(),
        w13=partial(expert, "w13"),
        w2=partial(expert, "w2"),
        is_fused=is_fused,
        shared=None if is_fused else (mxfp8(*src.linears["gate_up"]), mxfp8(*src.linears["down"])),
    )


HEADS = {"q": "g_q", "k": "g_k", "index_q": "g_iq", "index_k": "g_ik"}


def decoder_layer(src: Sources, is_fused: bool, module: ModuleType) -> Part:
    """Return what vLLM hands over: row-major MXFP8 linears, experts packed as the kernels read them, flags set."""
    sizes = src.sizes
    count = sizes.routed + is_fused

    def linear(name: str) -> Part:
        weight, scale = (torch.from_numpy(part.copy()) for part in src.linears[name])
        return Part(weight=WeightParameter(weight.view(torch.float8_e4m3fn)), weight_scale=WeightParameter(scale))

    def norm(name: str) -> Part:
        return Part(weight=WeightParameter(src.vectors[name].clone()))

    def table(name: str) -> tuple[WeightParameter, WeightParameter]:
        codes, scales = (torch.from_numpy(part[:count].copy()) for part in src.experts[name])
        weight = WeightParameter(module.pack_shuffle_16x16(codes.view(torch.float4_e2m1fn_x2)))
        weight.is_shuffled = True  # type: ignore[attr-defined]
        return weight, WeightParameter(module.pack_e8m0_shuffle(scales))

    (w13, s13), (w2, s2) = table("w13"), table("w2")
    experts = Part(
        top_k=4, moe_config=Part(use_ep=False), w13_weight=w13, w13_weight_scale=s13, w2_weight=w2, w2_weight_scale=s2
    )
    moe = Part(experts=experts, gate=Part(weight=src.gate.clone()), e_score_correction_bias=src.bias.clone())
    if not is_fused:
        moe.shared_experts = Part(gate_up_proj=linear("gate_up"), down_proj=linear("down"))
    attention = Part(
        num_heads=sizes.q_heads,
        num_kv_heads=sizes.kv_heads,
        head_dim=128,
        rotary_emb=Part(rotary_dim=64, cos_sin_cache=src.cos_sin.clone()),
        qkv_proj=linear("qkv"),
        o_proj=linear("o"),
        q_norm=norm("g_q"),
        k_norm=norm("g_k"),
        index_q_norm=norm("g_iq"),
        index_k_norm=norm("g_ik"),
        indexer=Part(index_cache=Part(kv_cache=torch.zeros(3, 128, 128, dtype=torch.float8_e4m3fn))),
        _k_scale=torch.ones(1),
        _v_scale=torch.ones(1),
    )
    return Part(
        is_moe_layer=True,
        self_attn=attention,
        block_sparse_moe=moe,
        input_layernorm=norm("g_in"),
        post_attention_layernorm=norm("g_post"),
    )


def heavy_tailed(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return bf16 activations with outliers: a normal value times e to another one."""
    rng = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=rng) * torch.randn(shape, generator=rng).exp()).bfloat16()
