"""One decode step of the loaded layer: the kernels' host build, stage by stage, against the float64 reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from mono_gen.kernels import Kernels
from tests.reference import stages as ref
from tools.demo import sources as s

BOUND = 1e-3  # of |out - reference| / |reference|, a stage
LIMIT, ROUTE_SCALE = 7.0, 2.5
NEAR_TIE = 1e-5

HEADS = {"q": "g_q", "k": "g_k", "index_q": "g_iq", "index_k": "g_ik"}


@dataclass(frozen=True, slots=True)
class StageRow:
    """What one stage gave: its outputs' worst error, and how long its launches took."""

    stage: str
    outputs: str
    error: float
    seconds: float


def reference_weights(src: s.Sources, segments: dict[str, tuple[int, int]], fused: bool) -> ref.Weights:
    """Return the layer's weights in logical order, dequantized from the sources."""

    def bf16(name: str) -> torch.Tensor:
        return _bf16(src.vectors[name])

    def expert(experts: s.Experts, e: int) -> torch.Tensor:
        return ref.mxfp4(experts.first + np.uint8(experts.weight_shift(e)), experts.scale(e))

    shared = None if fused else tuple(ref.mxfp8(linear.weight, linear.scale) for linear in (src.gate_up, src.down))
    return ref.Weights(
        segments=segments,
        g_in=bf16("g_in"),
        g_post=bf16("g_post"),
        heads={kind: bf16(name) for kind, name in HEADS.items()},
        cos_sin=_bf16(src.cos_sin),
        w_qkv=ref.ptpc_of_mxfp8(src.qkv.weight, src.qkv.scale),
        w_o=ref.ptpc_of_mxfp8(src.o.weight, src.o.scale),
        gate=torch.from_numpy(src.gate).bfloat16().double(),
        bias=torch.from_numpy(src.bias).double(),
        w13=partial(expert, src.w13),
        w2=partial(expert, src.w2),
        is_fused=fused,
        shared=shared,  # type: ignore[arg-type]
    )


def _bf16(bits: Any) -> torch.Tensor:
    return torch.from_numpy(bits.copy()).view(torch.bfloat16).double()


def run_step(kernels: Kernels, layer: Any, w: ref.Weights, tokens: int) -> Iterator[StageRow]:
    """Yield a row a stage, chained: each takes what the one before it gave, and so does its reference.

    The attention between `head` and `o_proj` is not of this layer's kernels: fresh values stand for its output.
    """
    ar, res, attn = (_activations(tokens, width, seed) for width, seed in ((s.HIDDEN, 1), (s.HIDDEN, 2), (s.O_K, 3)))
    rows, seconds = _timed(partial(kernels.qkv, layer, ar, res))
    yield _row("qkv", "h q k v index_q index_k", rows, ref.qkv(w, ar, res), seconds)
    h, named = rows[0], dict(zip(w.segments, rows[1:], strict=True))

    positions = torch.arange(tokens) * 997 + 5
    heads, seconds = _timed(partial(kernels.head, layer, *(named[kind] for kind in HEADS), positions))
    yield _row("head", " ".join(HEADS), heads, [ref.head(w, kind, named[kind], positions) for kind in HEADS], seconds)

    a, seconds = _timed(partial(kernels.o_proj, layer, attn, h))
    yield _row("o_proj", "a", (a,), (ref.o_proj(w, attn, h),), seconds)

    (xn, ids, weights), seconds = _timed(partial(kernels.router, layer, a, ROUTE_SCALE))
    expected, wanted, values, margin = ref.router(w, a, ROUTE_SCALE)
    clear = margin > NEAR_TIE  # of the others, which expert is fourth is not the kernels' to say
    routed = torch.where(clear[:, None], ids, wanted).double()
    outputs = f"xn ids weights, {int((~clear).sum())} near ties"
    yield _row("router", outputs, (xn, routed, weights[clear]), (expected, wanted.double(), values[clear]), seconds)

    out, seconds = _timed(partial(kernels.moe, layer, xn, ids, weights, LIMIT))
    experts = f"out, of {ids.unique().numel() + w.is_fused} experts"
    yield _row("moe", experts, (out,), (ref.moe(w, xn, ids, weights, LIMIT),), seconds)

    if not w.is_fused:
        out, seconds = _timed(partial(kernels.shared, layer, xn, LIMIT))
        yield _row("shared", "out", (out,), (ref.shared(w, xn, LIMIT),), seconds)


def _timed(stage: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a stage gives, and the seconds that it took."""
    start = time.perf_counter()
    return stage(), time.perf_counter() - start


def _row(stage: str, outputs: str, found: Any, expected: Any, seconds: float) -> StageRow:
    """Return a stage's row, of its worst output."""
    return StageRow(stage, outputs, max(ref.error(f, e) for f, e in zip(found, expected, strict=True)), seconds)


def _activations(tokens: int, width: int, seed: int) -> torch.Tensor:
    """Return bf16 values with outliers."""
    rng = torch.Generator().manual_seed(seed)
    return (torch.randn(tokens, width, generator=rng) * torch.randn(tokens, width, generator=rng).exp()).bfloat16()
