"""The host build against the float64 reference: every stage at reduced sizes, two tiles an axis; one at full size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen.kernels import Kernels, load
from tests.end_to_end.light_layer import light_layer, specimens
from tests.kernels import runs, small
from tests.kernels.conftest import Layer
from tests.kernels.small import Sizes, heavy_tailed, sources, weights
from tests.reference import stages as ref

Layers = Callable[[bool], Layer]

WHOLE = [(stage, is_fused) for stage in runs.STAGES for is_fused in (True, False)]
CASES = [(stage, is_fused) for stage, is_fused in WHOLE if is_fused == (stage != "shared") or stage == "moe"]


@pytest.mark.parametrize(("stage", "is_fused"), CASES)
@pytest.mark.parametrize("s", [1, 2, 5, 16])
def test_stage(host: Kernels, layers: Layers, stage: str, is_fused: bool, s: int) -> None:
    layer = layers(is_fused)
    errors = runs.STAGES[stage](host, layer.loaded, layer.weights, s, seed=100 * s)
    assert max(errors.values()) <= runs.BOUND, errors


def test_near_ties_are_few(host: Kernels, layers: Layers, record_property: Callable[[str, object], None]) -> None:
    layer, ties = layers(True), []
    for seed in range(4):
        runs.router(host, layer.loaded, layer.weights, 16, seed, ties)
    record_property("count: tokens of the router left out for near ties", sum(ties))
    assert sum(ties) <= 2


@pytest.mark.parametrize(("stage", "is_fused"), CASES)
def test_the_dot_path_gives_the_same(
    folder: Path, kernel_cache: None, layers: Layers, stage: str, is_fused: bool
) -> None:
    """Waves of 32 that multiply and add, as where there are no matrix cores."""
    dot = load("host", header=folder / "minimax_m3.hpp", defines=("MONO_HOST_WAVE32",))
    layer = layers(is_fused)
    errors = runs.STAGES[stage](dot, layer.loaded, layer.weights, 5, seed=7)
    assert max(errors.values()) <= runs.BOUND, errors


def test_chained_stages_and_the_order_of_lanes(host: Kernels, layers: Layers) -> None:
    """A step of 3 tokens, bit for bit the same whichever lane or wave runs first: no barrier is missing."""
    layer = layers(True)
    steps = []
    for seed in (0, 1, 2):
        host.set_seed(seed)
        steps.append(_step(host, layer.loaded, 3))
    host.set_seed(0)
    for name, first in steps[0].items():
        assert all(torch.equal(first.view(torch.uint8), other[name].view(torch.uint8)) for other in steps[1:]), name
    assert all(bool(torch.isfinite(t.double()).all()) for t in steps[0].values())


def _step(k: Kernels, layer: Any, s: int) -> dict[str, torch.Tensor]:
    """Return what a step of the layer makes, the attention left out: its output stands for it."""
    h, q, key, _, index_q, index_k = k.qkv(layer, heavy_tailed((s, 2048), 1), heavy_tailed((s, 2048), 2))
    heads = k.head(layer, q, key, index_q, index_k, torch.arange(s))
    a = k.o_proj(layer, heads[0], h)
    xn, ids, weights = k.router(layer, a, runs.ROUTE_SCALE)
    out = k.moe(layer, xn, ids, weights, runs.LIMIT)
    return {"h": h, "q": heads[0], "a": a, "xn": xn, "ids": ids, "weights": weights, "out": out}


def test_an_expert_named_twice_counts_twice(host: Kernels, layers: Layers) -> None:
    layer = layers(True)
    xn = heavy_tailed((2, 2048), 5)
    ids = torch.tensor([[3, 3, 9, 3], [9, 1, 1, 0]], dtype=torch.int32)
    weights = torch.tensor([[0.5, 0.25, 1.0, 0.125], [0.3, 0.2, 0.1, 0.0]])
    out = host.moe(layer.loaded, xn, ids, weights, runs.LIMIT)
    assert ref.error(out, ref.moe(layer.weights, xn, ids, weights, runs.LIMIT)) <= runs.BOUND


def test_an_id_that_names_no_expert_makes_its_token_nan(host: Kernels, layers: Layers) -> None:
    layer = layers(True)
    xn = heavy_tailed((3, 2048), 6)
    ids = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 24], [-1, 1, 2, 3]], dtype=torch.int32)
    out = host.moe(layer.loaded, xn, ids, torch.ones(3, 4), runs.LIMIT)
    assert out.isnan().all(dim=1).tolist() == [False, True, True]
    assert not out[0].isnan().any()


def test_a_position_that_the_cache_does_not_hold_makes_its_token_nan(host: Kernels, layers: Layers) -> None:
    layer = layers(True).loaded
    rows = [torch.ones(2, width, dtype=torch.bfloat16) for width in (1024, 256, 128, 128)]
    q, *_ = host.head(layer, *rows, torch.tensor([95, 96]))
    assert not q[0].isnan().any()
    assert q[1].unflatten(0, (-1, 128))[:, :64].isnan().all()


def test_a_row_of_zeros_and_a_row_with_a_nan(host: Kernels, layers: Layers) -> None:
    """Zeros have a scale of 1, not 0 / 0; a NaN reaches every output of its token, and of no other."""
    layer = layers(True).loaded
    ar = torch.zeros(3, 2048, dtype=torch.bfloat16)
    ar[1] = heavy_tailed((1, 2048), 3)[0]
    ar[2, 7] = float("nan")
    _, q, *_ = host.qkv(layer, ar, torch.zeros_like(ar))
    assert (q[0] == 0).all()
    assert bool(q[1].isfinite().all())
    assert q[2].isnan().all()


def test_a_projection_with_the_index_heads_of_every_rank(
    folder: Path, module: ModuleType, layers: Layers, kernel_cache: None, tmp_path: Path
) -> None:
    """CpSparseMoeLayer: four heads of index_q, packed here by a spec that has four of its own."""
    narrow, sizes = layers(True), Sizes(iq_heads=4)
    wide, src = small.loaded_module(small.generated(sizes, tmp_path), "wide_minimax_m3"), sources(sizes, seed=12)
    packed = wide.SparseMoeLayer.from_layer(small.decoder_layer(src, True, wide))
    held = {f.name: getattr(narrow.loaded, f.name) for f in fields(narrow.loaded) if f.init}
    layer = module.CpSparseMoeLayer(**{**held, "w_qkv": packed.w_qkv, "s_qkv": packed.s_qkv})
    of_wide = weights(src, is_fused=True)
    w = replace(narrow.weights, segments=of_wide.segments, w_qkv=of_wide.w_qkv)
    wide_host = load("host", header=folder / "minimax_m3.hpp", struct="CpSparseMoeLayer")
    for stage in ("qkv", "head"):
        errors = runs.STAGES[stage](wide_host, layer, w, 5, seed=3)
        assert max(errors.values()) <= runs.BOUND, (stage, errors)


@pytest.mark.parametrize("s", [1, 16])
def test_qkv_at_full_size(minimax_module: ModuleType, kernel_cache: None, s: int) -> None:
    """w_qkv of 2560 x 6144, through the real header and loader; the other fields hold zeros."""
    full = Sizes(hidden=6144, q_heads=16, kv_heads=1, iq_heads=1, routed=0, inter=32)
    src = sources(full, seed=5)
    tensors = specimens(experts=129)
    for name in ("sh_w13", "sh_s13", "sh_w2", "sh_s2"):
        del tensors[name]
    weight, scale = src.linears["qkv"]
    tensors["w_qkv"] = torch.from_numpy(weight).view(torch.float8_e4m3fn)
    tensors["s_qkv"] = torch.from_numpy(scale).view(torch.float8_e8m0fnu)
    tensors["g_in"] = src.vectors["g_in"].clone()
    layer = minimax_module.SparseMoeLayer.from_layer(light_layer(tensors))
    errors = runs.qkv(load("host"), layer, weights(src, is_fused=True), s, seed=s)
    assert max(errors.values()) <= runs.BOUND, errors
