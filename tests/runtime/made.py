"""Small generated modules for the tests of what a loaded struct lives with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.pipeline import generate
from mono_gen.runtime import MonoUnsupported, Problem
from tests.conftest import load_generated

FN, E8M0, FP4, U8 = torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2, torch.uint8

SMALL = """
spec small
arch gfx950
import "aiter.layout"

layout small_page(tok, d) {
    split d = D b:16B
    store D tok b
}

layout small_halves(row, k) {
    pad row to 16, k to 64 fill 0x5
    split row = R r:16
    split k = K b:64
    store R K r b
}

struct Small(layer) {
    dim E
    dim POS
    g : bf16[64] { view layer.g }
    table : bf16[POS, 16] { tile row_major  view layer.table }
    cache : fp8_e4m3fn[POS, 16, 32] { tile small_page  view layer.cache  attest small_page when layer.cache.is_paged }
    w, s : mxfp4[E, 32, 256] {
        tile shuffle_16x16
        scale e8m0_shuffle
        view layer.w, layer.s
        attest shuffle_16x16 when layer.w.is_shuffled
    }
    odd : e8m0[E, 40, 5] { tile e8m0_shuffle  view layer.odd  attest e8m0_shuffle when layer.odd.is_shuffled }
    parts : uint8[60, 8] {
        segments row = a:25 b:35 pad each
        tile small_halves
        view layer.parts
        attest small_halves when layer.parts.is_tiled
    }
    pairs : fp4_e2m1[20, 96] { tile small_halves  view layer.pairs  attest small_halves when layer.pairs.is_tiled }
    q, qs : ptpc_fp8[32, 64] {
        tile shuffle_16x16
        convert mxfp8 row_major layer.q, layer.qs via bf16
        attest not layer.q.is_shuffled
    }
    args k1(scratch) { g table w s q qs scratch }
    args k2 { odd cache }
}

struct Shuffled(layer) {
    w : uint8[32, 64] { tile shuffle_16x16  view layer.w  attest shuffle_16x16 when layer.w.is_shuffled }
}
"""


def made(folder: Path, text: str, name: str) -> ModuleType:
    """Return the module that is generated from a text, which stands under the spec's name."""
    spec = folder / f"{name}.layout"
    spec.write_text(text)
    result = generate([spec], {})
    for file in result.files:
        (folder / file.path).write_text(file.text)
    return load_generated(folder / f"{name}.py")


def refused(call: Callable[..., Any], *args: Any, **named: Any) -> tuple[Problem, ...]:
    """Return the problems for which a call is refused."""
    with pytest.raises(MonoUnsupported) as refusal:
        call(*args, **named)
    return refusal.value.problems


def whats(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    """Return field and property of each problem."""
    return [(p.field, p.what) for p in problems]


def ramp(*shape: int, dtype: torch.dtype = U8, below: int = 97) -> torch.Tensor:
    """Return position-coded bytes under `below`, of one-byte elements."""
    size = 1
    for n in shape:
        size *= n
    return (torch.arange(size) * 11 % 241 % below).to(U8).view(shape).view(dtype)


def layer(**tensors: Any) -> Any:
    """Return a layer of these attributes."""
    return SimpleNamespace(**tensors)


def flagged(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor that its producer marks as shuffled."""
    t.is_shuffled = True  # type: ignore[attr-defined]
    return t


def numbers(*shape: int) -> torch.Tensor:
    """Return finite fp8 values, position-coded."""
    return ramp(*shape, dtype=FN, below=120)


def small_layer(module: ModuleType, *, flags: bool, pos: int = 3, experts: int = 2, plus: int = 0) -> Any:
    """Return a layer for `Small`, its tensors packed by the module; another `plus` gives other values everywhere."""
    half = torch.arange(64).add(plus).to(torch.bfloat16)
    logical = ramp(60, 8, below=91 - plus)
    padded = runtime.pad_segments("parts", logical, axis=0, segments=((25, 32), (35, 48)), fill=5)
    made_of = {
        "g": half,
        "table": half.repeat(pos, 1)[:, :16].contiguous(),
        "cache": module.pack_small_page(ramp(pos, 16, 32, below=97 - plus).view(FN)),
        "w": module.pack_shuffle_16x16(ramp(experts, 32, 128, below=97 - plus)),
        "s": module.pack_e8m0_shuffle(ramp(experts, 32, 8, below=97 - plus)),
        "odd": module.pack_e8m0_shuffle(ramp(experts, 40, 5, below=97 - plus).view(E8M0)),
        "parts": module.pack_small_halves(padded),
        "pairs": module.pack_small_halves(ramp(20, 48, below=97 - plus).view(FP4)),
        "q": numbers(32, 64),
        "qs": (120 + ramp(32, 2, below=9 - plus)).view(E8M0),
    }
    if flags:
        for t in made_of.values():
            t.is_shuffled = t.is_paged = t.is_tiled = True  # type: ignore[attr-defined]
        made_of["q"].is_shuffled = False  # type: ignore[attr-defined]
    return layer(**made_of)
