"""The stages on a real GPU, built by nvcc or hipcc, against the float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mono_gen.kernels import Kernels, load
from mono_gen.runtime import MonoUnsupported
from tests.kernels import runs
from tests.kernels.conftest import Layer
from tests.kernels.small import heavy_tailed
from tests.kernels.test_stages import CASES

Layers = Callable[[bool], Layer]

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu(folder: Path, kernel_cache: None) -> Kernels:
    """Return the build for the GPU at hand."""
    return load("hip" if torch.version.hip else "cuda", header=folder / "minimax_m3.hpp")


@pytest.fixture(scope="module")
def on_gpu(layers: Layers) -> Callable[[bool], Any]:
    """Return the layer on the GPU."""
    made: dict[bool, Any] = {}

    def layer(is_fused: bool) -> Any:
        if is_fused not in made:
            loaded = layers(is_fused).loaded
            held = {f.name: getattr(loaded, f.name) for f in fields(loaded)}
            moved = {name: t.cuda() for name, t in held.items() if isinstance(t, torch.Tensor)}
            made[is_fused] = replace(loaded, **moved)
        return made[is_fused]

    return layer


@pytest.mark.parametrize(("stage", "is_fused"), CASES)
@pytest.mark.parametrize("s", [1, 2, 5, 8, 9, 16])
def test_stage(gpu: Kernels, layers: Layers, on_gpu: Any, stage: str, is_fused: bool, s: int) -> None:
    errors = runs.STAGES[stage](gpu, on_gpu(is_fused), layers(is_fused).weights, s, seed=100 * s)
    assert max(errors.values()) <= runs.BOUND, errors


@pytest.mark.parametrize(("stage", "is_fused"), CASES)
def test_the_dot_path(
    folder: Path, kernel_cache: None, layers: Layers, on_gpu: Any, stage: str, is_fused: bool
) -> None:
    """The portable path, for GPUs before sm_90."""
    if torch.version.hip:
        pytest.skip("AMD has matrix cores throughout")
    dot = load("cuda", header=folder / "minimax_m3.hpp", defines=("MONO_DOT",))
    errors = runs.STAGES[stage](dot, on_gpu(is_fused), layers(is_fused).weights, 5, seed=7)
    assert max(errors.values()) <= runs.BOUND, errors


@pytest.mark.parametrize("field", ["s13", "s2", "sh_s13", "sh_s2"])
@pytest.mark.parametrize("code", [0, 20, 140, 200])
def test_scales_of_any_size(gpu: Kernels, layers: Layers, on_gpu: Any, field: str, code: int) -> None:
    """Scales beyond what a factor of bf16 holds in one step, against the host, which models MFMA."""
    is_fused = field in ("s13", "s2")
    loaded, here = on_gpu(is_fused), layers(is_fused).loaded
    scale = getattr(here, field).view(torch.uint8).clone()
    scale.view(-1)[::7] = code
    right = replace(here, **{field: scale.view(getattr(here, field).dtype)})
    wide = replace(loaded, **{field: scale.cuda().view(getattr(here, field).dtype)})
    xn = heavy_tailed((3, 2048), 4)
    ids = torch.tensor([[0, 5, 9, 2], [1, 5, 3, 2], [7, 8, 9, 10]], dtype=torch.int32)
    weights = torch.full((3, 4), 0.5)
    host = load("host", header=Path(gpu.header))
    if is_fused:
        a = gpu.moe(wide, xn.cuda(), ids.cuda(), weights.cuda(), runs.LIMIT).cpu()
        b = host.moe(right, xn, ids, weights, runs.LIMIT)
    else:
        a, b = gpu.shared(wide, xn.cuda(), runs.LIMIT).cpu(), host.shared(right, xn, runs.LIMIT)
    assert (a.isfinite() == b.isfinite()).all()
    fine = b.isfinite()
    assert (a[fine].double() - b[fine].double()).norm() <= runs.BOUND * b[fine].double().norm()


def test_a_step_in_a_graph_on_another_stream(gpu: Kernels, on_gpu: Any) -> None:
    """Captured once and replayed on new inputs in the same memory: the same as launched one by one."""
    layer = on_gpu(True)
    ar, res = (torch.zeros(3, 2048, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    positions = torch.arange(3, device="cuda")

    def step() -> tuple[torch.Tensor, ...]:
        h, q, k, _, index_q, index_k = gpu.qkv(layer, ar, res)
        q = gpu.head(layer, q, k, index_q, index_k, positions)[0]
        a = gpu.o_proj(layer, q, h)
        xn, ids, weights = gpu.router(layer, a, runs.ROUTE_SCALE)
        return a, ids, gpu.moe(layer, xn, ids, weights, runs.LIMIT)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = step()
        ar.copy_(heavy_tailed((3, 2048), 1))
        res.copy_(heavy_tailed((3, 2048), 2))
        graph.replay()
        again = [t.clone() for t in captured]
        launched = step()
    stream.synchronize()
    for a, b in zip(again, launched, strict=True):
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    assert bool(launched[2].isfinite().all())


def test_devices_are_told_apart(gpu: Kernels, layers: Layers, on_gpu: Any) -> None:
    ar = torch.zeros(1, 2048, dtype=torch.bfloat16)
    for layer, res in ((layers(True).loaded, ar), (on_gpu(True), ar)):
        with pytest.raises(MonoUnsupported) as refused:
            gpu.qkv(layer, ar, res)
        assert {p.what for p in refused.value.problems} == {"device"}
