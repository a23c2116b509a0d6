"""Each stage run on outputs that were poisoned first, and how far what it gave is from the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mono_gen.kernels import Kernels
from tests.kernels.small import POSITIONS, Sizes, heavy_tailed
from tests.reference import stages as ref

BOUND = 1e-3  # of |out - ref| / |ref|, a stage
MISSED = 1e-2  # what a control must be off by
LIMIT = 7.0
ROUTE_SCALE = 2.5

Errors = dict[str, float]


def poisoned(layer: Any, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return a tensor of NaN, or of -1, on the layer's device: what a stage does not write shows."""
    itemsize = torch.empty((), dtype=dtype).itemsize
    filled = torch.full((*shape[:-1], shape[-1] * itemsize), 0xFF, dtype=torch.uint8, device=layer.g_in.device)
    return filled.view(dtype)


def there(layer: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return tensors on the layer's device; the reference stays on the CPU."""
    return tuple(t.to(layer.g_in.device) for t in tensors)


def qkv(k: Kernels, layer: Any, w: ref.Weights, s: int, seed: int) -> Errors:
    """Return the errors of h and of each segment."""
    hidden = layer.g_in.shape[0]
    ar, res = heavy_tailed((s, hidden), seed), heavy_tailed((s, hidden), seed + 1)
    out = (poisoned(layer, s, hidden), *(poisoned(layer, s, end - begin) for begin, end in w.segments.values()))
    got = k.qkv(layer, *there(layer, ar, res), out=out)
    assert all(a is b for a, b in zip(got, out, strict=True))
    names = ("h", *w.segments)
    return {n: ref.error(g.cpu(), e) for n, g, e in zip(names, got, ref.qkv(w, ar, res), strict=True)}


def head(k: Kernels, layer: Any, w: ref.Weights, s: int, seed: int) -> Errors:
    """Return the error of each kind of head, at positions that differ."""
    rows = {
        kind: heavy_tailed((s, w.segments[kind][1] - w.segments[kind][0]), seed + i) for i, kind in enumerate(w.heads)
    }
    positions = (torch.arange(s) * 37 + seed) % POSITIONS
    out = tuple(poisoned(layer, *t.shape) for t in rows.values())
    got = k.head(layer, *there(layer, *rows.values(), positions), out=out)
    return {
        kind: ref.error(g.cpu(), ref.head(w, kind, rows[kind], positions)) for kind, g in zip(rows, got, strict=True)
    }


def o_proj(k: Kernels, layer: Any, w: ref.Weights, s: int, seed: int) -> Errors:
    """Return the error of a."""
    attn, residual = heavy_tailed((s, layer.w_o.shape[1]), seed), heavy_tailed((s, layer.w_o.shape[0]), seed + 1)
    got = k.o_proj(layer, *there(layer, attn, residual), out=poisoned(layer, *residual.shape))
    return {"a": ref.error(got.cpu(), ref.o_proj(w, attn, residual))}


def router(k: Kernels, layer: Any, w: ref.Weights, s: int, seed: int, ties: list[int] | None = None) -> Errors:
    """Return the errors of xn and of the weights, and the share of tokens routed elsewhere; near ties are left out.

    ties: takes the number of tokens left out.
    """
    a = heavy_tailed((s, layer.g_post.shape[0]), seed)
    ints, floats = (poisoned(layer, s, 4, dtype=dtype) for dtype in (torch.int32, torch.float32))
    out = (poisoned(layer, *a.shape), ints, floats)
    xn, ids, weights = (t.cpu() for t in k.router(layer, *there(layer, a), ROUTE_SCALE, out=out))
    expected, wanted, values, margin = ref.router(w, a, ROUTE_SCALE)
    clear = margin > 1e-5
    if ties is not None:
        ties.append(int((~clear).sum()))
    return {
        "xn": ref.error(xn, expected),
        "ids": float((ids[clear] != wanted[clear]).double().mean()),
        "weights": ref.error(weights[clear], values[clear]),
    }


def moe(k: Kernels, layer: Any, w: ref.Weights, s: int, seed: int) -> Errors:
    """Return the error of the experts' sum, of routes that share experts between tokens."""
    xn = heavy_tailed((s, layer.g_post.shape[0]), seed)
    rng = torch.Generator().manual_seed(seed)
    routed = layer.gate.shape[0]
    ids = torch.stack([torch.randperm(routed, generator=rng)[:4] for _ in range(s)]).int()
    weights = torch.rand((s, 4), generator=rng) + 0.1
    out = k.moe(layer, *there(layer, xn, ids, weights), LIMIT, out=poisoned(layer, *xn.shape))
    return {"out": ref.error(out.cpu(), ref.moe(w, xn, ids, weights, LIMIT))}


def shared(k: Kernels, layer: Any, w: ref.Weights, s: int, seed: int) -> Errors:
    """Return the error of the separate shared expert."""
    xn = heavy_tailed((s, layer.g_post.shape[0]), seed)
    out = k.shared(layer, *there(layer, xn), LIMIT, out=poisoned(layer, *xn.shape))
    return {"out": ref.error(out.cpu(), ref.shared(w, xn, LIMIT))}


STAGES: dict[str, Callable[..., Errors]] = {
    "qkv": qkv,
    "head": head,
    "o_proj": o_proj,
    "router": router,
    "moe": moe,
    "shared": shared,
}

__all__ = ["BOUND", "LIMIT", "MISSED", "ROUTE_SCALE", "STAGES", "Errors", "Sizes", "poisoned", "router"]
