"""The offset functions of the generated module are valid under `triton.jit`, and give what plain Python gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]

KERNELS = """
import triton
import triton.language as tl

import generated_by_mono_gen as g

tiles = triton.jit(g.offset_mxfp8_a_tiles)
scales = triton.jit(g.offset_e8m0_shuffle)
shuffle = triton.jit(g.offset_shuffle_16x16)
w13 = triton.jit(g.SparseMoeLayer.offset_w13)
s13 = triton.jit(g.SparseMoeLayer.offset_s13)


@triton.jit
def layouts(out, rows: tl.constexpr, cols: tl.constexpr, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    row, k = i // cols, i % cols
    byte, nibble = shuffle(row, k, (rows, cols), 4)
    tl.store(out + i, tiles(row, k, (rows, cols), 8))
    tl.store(out + rows * cols + i, scales(row, k, (rows, cols), 8))
    tl.store(out + 2 * rows * cols + i, byte * 2 + nibble)


@triton.jit
def fields(out, expert, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    row, k = i // 6144, i % 6144
    byte, nibble = w13(expert, row, k)
    tl.store(out + i, byte * 2 + nibble)
    tl.store(out + 1536 * 6144 + i, s13(expert, row, k // 32))
"""


def _module(name: str, path: Path) -> ModuleType:
    import sys

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def traced(tmp_path: Path) -> tuple[Any, Any]:
    generated = _module("generated_by_mono_gen", ROOT / "generated" / "minimax_m3.py")
    (tmp_path / "kernels.py").write_text(KERNELS)
    return generated, _module("kernels_over_generated", tmp_path / "kernels.py")


@pytest.mark.gpu
def test_layout_offsets_trace(traced: tuple[Any, Any]) -> None:
    generated, kernels = traced
    rows, cols = 64, 512
    out = torch.zeros(3 * rows * cols, dtype=torch.int64, device="cuda")
    kernels.layouts[(rows * cols // 1024,)](out, rows, cols, 1024)
    found = out.view(3, rows, cols).cpu()
    row, k = torch.arange(rows)[:, None], torch.arange(cols)[None, :]
    byte, nibble = generated.offset_shuffle_16x16(row, k, (rows, cols), 4)
    assert torch.equal(found[0], generated.offset_mxfp8_a_tiles(row, k, (rows, cols), 8))
    assert torch.equal(found[1], generated.offset_e8m0_shuffle(row, k, (rows, cols), 8))
    assert torch.equal(found[2], byte * 2 + nibble)


@pytest.mark.gpu
def test_field_offsets_trace(traced: tuple[Any, Any]) -> None:
    generated, kernels = traced
    out = torch.zeros(2, 1536, 6144, dtype=torch.int64, device="cuda")
    kernels.fields[(1536 * 6144 // 1024,)](out, 3, 1024)
    row, k = torch.arange(1536)[:, None], torch.arange(6144)[None, :]
    byte, nibble = generated.SparseMoeLayer.offset_w13(3, row, k)
    assert torch.equal(out[0].cpu(), byte * 2 + nibble)
    assert torch.equal(out[1].cpu(), generated.SparseMoeLayer.offset_s13(3, row, k // 32))
