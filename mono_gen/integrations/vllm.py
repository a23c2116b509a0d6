"""vLLM's `models/minimax_m3/amd/mono/weights.py`, by the same names, on top of the generated loader.

    from mono_gen.integrations.vllm import MonoUnsupported, SparseMoeLayer, mxfp8_a_tiles

Every check is the generated loader's; this module gives its results vLLM's names and shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import torch

from mono_gen import runtime
from mono_gen.integrations.generated import load_generated
from mono_gen.runtime import MonoUnsupported, Problem

__all__ = ["IndexHeads", "MonoUnsupported", "SparseMoeLayer", "mxfp8_a_tiles"]

_spec = load_generated("minimax_m3")
_SHARED = ("sh_w13", "sh_s13", "sh_w2", "sh_s2")


class IndexHeads(Protocol):
    """The index q heads in a rank's fused projection: `count` (1, or TP in rank order), `own` the rank's."""

    count: int
    own: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseMoeLayer:
    """Everything the kernels read for one sparse-attention MoE layer; `sh_*` are flat, and None when fused."""

    layer_id: int
    attn: Any
    g_in: torch.Tensor
    w_qkv: torch.Tensor
    s_qkv: torch.Tensor
    g_q: torch.Tensor
    g_k: torch.Tensor
    g_iq: torch.Tensor
    g_ik: torch.Tensor
    cos_sin: torch.Tensor
    index_cache: torch.Tensor
    k_scale: torch.Tensor
    v_scale: torch.Tensor
    w_o: torch.Tensor
    s_o: torch.Tensor
    g_post: torch.Tensor
    gate: torch.Tensor
    bias: torch.Tensor
    w13: torch.Tensor
    s13: torch.Tensor
    w2: torch.Tensor
    s2: torch.Tensor
    sh_w13: torch.Tensor | None
    sh_s13: torch.Tensor | None
    sh_w2: torch.Tensor | None
    sh_s2: torch.Tensor | None
    sh_args: torch.Tensor | None
    struct: Any
    """The generated struct: ids, `k1_args`, `recheck` and `refresh` go through it."""

    @staticmethod
    def from_layer(layer: Any, layer_id: int, heads: IndexHeads) -> SparseMoeLayer:
        """Return the layer's tensors, checked; with `heads.count` of TP the projection of every rank's index q head.

        Raises: MonoUnsupported, with every problem of the layer.
        """
        struct = _load(layer, layer_id, heads)
        tensors = {f.name: getattr(struct, f.name) for f in fields(SparseMoeLayer) if hasattr(struct, f.name)}
        flat = {name: t.view(-1) for name in _SHARED if (t := tensors[name]) is not None}
        return SparseMoeLayer(
            **{**tensors, **flat, "sh_args": struct.sh_args()}, layer_id=layer_id, attn=layer.self_attn, struct=struct
        )

    @property
    def shared_fp8(self) -> bool:
        """Return whether the shared expert is separate, in MXFP8."""
        return self.sh_args is not None

    def shared_bytes(self) -> int:
        """Return the bytes of `sh_w13 sh_s13 sh_w2 sh_s2` together; 0 when the shared expert is fused."""
        return runtime.nbytes(*(getattr(self, name) for name in _SHARED))


def _load(layer: Any, layer_id: int, heads: IndexHeads) -> Any:
    """Return the generated struct that the heads ask for."""
    wide = _spec.CpSparseMoeLayer.segments["w_qkv"]["index_q"]
    own = _spec.SparseMoeLayer.segments["w_qkv"]["index_q"]
    ranks = (wide[1] - wide[0]) // (own[1] - own[0])
    if heads.count not in (1, ranks) or not 0 <= heads.own < heads.count:
        expected = f"count 1 or {ranks}, and own below it"
        raise _refused(layer_id, "heads", expected, f"count {heads.count}, own {heads.own}")
    try:
        if heads.count == 1:
            return _spec.SparseMoeLayer.from_layer(layer)
        group = _group(layer_id, heads)
        return _spec.CpSparseMoeLayer.from_layer(layer, group)
    except MonoUnsupported as refusal:
        raise MonoUnsupported(f"layer {layer_id}: {refusal.subject}", refusal.problems) from refusal


def _group(layer_id: int, heads: IndexHeads) -> Any:
    """Return the tensor-parallel group: the heads' own, vLLM's, or torch's default one."""
    group = getattr(heads, "group", None)
    if group is None:
        try:
            from vllm.distributed import get_tp_group  # type: ignore[import-not-found]

            group = get_tp_group().device_group
        except ImportError:
            initialised = torch.distributed.is_available() and torch.distributed.is_initialized()
            group = torch.distributed.group.WORLD if initialised else None
    if group is None:
        found = "no process group: torch.distributed is not initialised"
        raise _refused(layer_id, "heads", f"a group of {heads.count} ranks", found)
    rank = torch.distributed.get_rank(group)
    if rank != heads.own:
        raise _refused(layer_id, "heads", f"own = {rank}, this rank's place in the group", f"own = {heads.own}")
    return group


def _refused(layer_id: int, what: str, expected: str, found: str) -> MonoUnsupported:
    return MonoUnsupported(f"layer {layer_id}", (Problem("w_qkv", what, expected, found),))


def mxfp8_a_tiles(linear: Any, rows: int, cols: int, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an MXFP8 linear's weight in MFMA A tiles and its scales in e8m0 tiles, both flat.

    Shapes: linear.weight [rows, cols] float8_e4m3fn, linear.weight_scale [rows, cols / 32] e8m0 or uint8, row-major.
    Raises: MonoUnsupported, with every problem of the linear.
    """
    load = runtime.Load(name, _spec.__name__.rpartition(".")[2] + ".layout")
    weight = load.source(
        f"{name}.weight", (linear, "linear.weight"), dtypes=(torch.float8_e4m3fn,), shape=(rows, cols), bits=8
    )
    scale = load.source(
        f"{name}.weight_scale",
        (linear, "linear.weight_scale"),
        dtypes=(torch.float8_e8m0fnu, torch.uint8),
        shape=(rows, cols // 32),
        bits=8,
    )
    load.attest_absent(f"{name}.weight", (linear, "linear.weight.is_shuffled"))
    load.check()
    with load.step(name):
        tiles, scales = _spec.pack_mxfp8_a_tiles(weight), _spec.pack_e8m0_tiles(scale)
    load.check()
    return tiles.view(-1), scales.view(-1)
