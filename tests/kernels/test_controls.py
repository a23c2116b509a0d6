"""Negative controls: what the kernels give for weights in another order of the same size, and on another instruction.

Each must miss the bound by ten times at least: a control that passes would mean that the evidence sees nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mono_gen.kernels import Kernels, load
from mono_gen.operands import ROWS, OperandMap, OperandRow, maps_header
from tests.kernels import runs
from tests.kernels.conftest import Layer

Layers = Callable[[bool], Layer]
Spoil = Callable[[torch.Tensor], torch.Tensor]


def digits(sizes: tuple[int, ...], order: tuple[int, ...]) -> Spoil:
    """Return what takes the bytes of an item apart into digits and stores them in another order; -1: what is left."""

    def spoil(t: torch.Tensor) -> torch.Tensor:
        raw = t.view(torch.uint8)
        items = raw.flatten(0, -3) if raw.dim() > 2 else raw[None]
        return torch.stack([i.reshape(sizes).permute(order).reshape(i.shape) for i in items]).view(raw.shape)

    return spoil


def rolled(t: torch.Tensor) -> torch.Tensor:
    """Return the elements one place on."""
    return t.flatten().roll(1).view(t.shape)


def halves_exchanged(t: torch.Tensor) -> torch.Tensor:
    """Return gate and up exchanged: in storage, too, each is one half of an item."""
    raw = t.view(torch.uint8)
    rows = raw.shape[-2]
    return torch.cat((raw[..., rows // 2 :, :], raw[..., : rows // 2, :]), dim=-2)


def nibbles_exchanged(t: torch.Tensor) -> torch.Tensor:
    """Return the high nibble first."""
    raw = t.view(torch.uint8)
    return raw << 4 | raw >> 4


# Sizes are those of tests/kernels/small.py: HIDDEN 2048, INTER 512, O_K 1024. A tile of weights is R, K, g, r, b.
SPOILT: dict[str, tuple[str, bool, str, Spoil]] = {
    "w_qkv tile order": ("qkv", True, "w_qkv", digits((112, 64, 512), (1, 0, 2))),
    "w_qkv row-major": ("qkv", True, "w_qkv", digits((112, 128, 16, 16), (0, 2, 1, 3))),
    "w_qkv r and b": ("qkv", True, "w_qkv", digits((-1, 16, 16), (0, 2, 1))),
    "w_qkv g and the tile": ("qkv", True, "w_qkv", digits((112, 64, 2, 256), (0, 2, 1, 3))),
    "s_qkv rolled": ("qkv", True, "s_qkv", rolled),
    "g_in rolled": ("qkv", True, "g_in", rolled),
    "g_q rolled": ("head", True, "g_q", rolled),
    "g_ik rolled": ("head", True, "g_ik", rolled),
    "cos_sin exchanged": ("head", True, "cos_sin", lambda t: torch.cat((t[:, 32:], t[:, :32]), dim=1)),
    "w_o tile order": ("o_proj", True, "w_o", digits((128, 32, 512), (1, 0, 2))),
    "w_o r and b": ("o_proj", True, "w_o", digits((-1, 16, 16), (0, 2, 1))),
    "s_o rolled": ("o_proj", True, "s_o", rolled),
    "g_post rolled": ("router", True, "g_post", rolled),
    "gate transposed": ("router", True, "gate", lambda t: t.T.contiguous().view(t.shape)),
    "bias rolled": ("router", True, "bias", rolled),
    "w13 tile order": ("moe", True, "w13", digits((64, 32, 512), (1, 0, 2))),
    "w13 row-major": ("moe", True, "w13", digits((64, 64, 16, 16), (0, 2, 1, 3))),
    "w13 gate and up": ("moe", True, "w13", halves_exchanged),
    "w13 nibbles": ("moe", True, "w13", nibbles_exchanged),
    "s13 row-major": ("moe", True, "s13", digits((32, 8, 4, 16, 2, 2), (0, 5, 3, 1, 4, 2))),
    "s13 kh and rh": ("moe", True, "s13", digits((-1, 2, 2), (0, 2, 1))),
    "s13 gate and up": ("moe", True, "s13", halves_exchanged),
    "w2 tile order": ("moe", True, "w2", digits((128, 8, 512), (1, 0, 2))),
    "w2 r and b": ("moe", True, "w2", digits((-1, 16, 16), (0, 2, 1))),
    "s2 row-major": ("moe", True, "s2", digits((64, 2, 4, 16, 2, 2), (0, 5, 3, 1, 4, 2))),
    "s2 kh and rh": ("moe", True, "s2", digits((-1, 2, 2), (0, 2, 1))),
    "sh_w13 shuffle_16x16": ("shared", False, "sh_w13", digits((-1, 4, 16, 2, 16), (0, 3, 1, 2, 4))),
    "sh_w13 half and g": ("shared", False, "sh_w13", digits((-1, 4, 16, 2, 16), (0, 3, 2, 1, 4))),
    "sh_w13 gate and up": ("shared", False, "sh_w13", halves_exchanged),
    "sh_s13 row-major": ("shared", False, "sh_s13", digits((32, 8, 4, 16, 2, 2), (0, 5, 3, 1, 4, 2))),
    "sh_w2 tile order": ("shared", False, "sh_w2", digits((128, 4, 2048), (1, 0, 2))),
    "sh_s2 kh and rh": ("shared", False, "sh_s2", digits((-1, 2, 2), (0, 2, 1))),
}


@pytest.mark.parametrize("name", SPOILT)
def test_weights_in_another_order_miss(host: Kernels, layers: Layers, name: str) -> None:
    stage, is_fused, field, spoil = SPOILT[name]
    layer = layers(is_fused)
    right = getattr(layer.loaded, field)
    wrong = spoil(right).contiguous().view(right.dtype)
    assert wrong.shape == right.shape and wrong.untyped_storage().nbytes() == right.numel() * right.itemsize
    spoilt = replace(layer.loaded, **{field: wrong})
    errors = runs.STAGES[stage](host, spoilt, layer.weights, 2, seed=3)
    assert max(errors.values()) >= runs.MISSED, errors


@pytest.mark.parametrize("field", ["s13", "s2", "sh_s13", "sh_s2"])
def test_scales_of_another_block_miss(host: Kernels, layers: Layers, field: str) -> None:
    """The sources' scales differ from block to block: those of the next block are not these."""
    layer = layers(field not in ("sh_s13", "sh_s2"))
    right = getattr(layer.loaded, field)
    spoilt = replace(layer.loaded, **{field: right.view(torch.uint8).flatten().roll(64).view(right.shape)})
    errors = runs.STAGES["shared" if field.startswith("sh_") else "moe"](host, spoilt, layer.weights, 2, seed=3)
    assert max(errors.values()) >= runs.MISSED, errors


# --- another instruction ---

SCALED, DENSE = "mfma_scale_f32_16x16x128_f8f6f4", "mfma_f32_16x16x32_fp8_fp8"


def changed(instruction: str, elements: str | None, **changes: OperandMap) -> str:
    """Return the maps header in which rows of an instruction have other maps."""

    def of(row: OperandRow) -> OperandRow:
        is_meant = row.instruction == instruction and elements in (None, row.elements)
        return replace(row, **changes) if is_meant else row

    return maps_header(tuple(of(row) for row in ROWS))


ROW = "row = r:16"
MAPS = {
    # The dissenting atom: k contiguous in a lane. It cancels between A and B, but the scales do not follow.
    "fp8 k contiguous": (
        "shared",
        False,
        changed(SCALED, "fp8", data=OperandMap((ROW, "k = g:4 b:32"), "lane g r | element b", "")),
    ),
    "fp4 as fp8 has it": (
        "moe",
        True,
        changed(SCALED, "fp4", data=OperandMap((ROW, "k = half:2 g:4 b:16"), "lane g r | element half b", "")),
    ),
    "scales of other blocks": (
        "moe",
        True,
        changed(SCALED, None, scale=OperandMap((ROW, "block = h:2 g:2"), "lane g h r", "")),
    ),
    "scales of other rows": (
        "shared",
        False,
        changed(SCALED, None, scale=OperandMap((ROW, "block = g:4"), "lane r g", "")),
    ),
    "accumulator transposed": (
        "qkv",
        True,
        changed(DENSE, None, accumulator=OperandMap(("row = j:16", "col = g:4 e:4"), "lane g j | element e", "")),
    ),
    "rows by lane / 4": (
        "qkv",
        True,
        changed(DENSE, None, data=OperandMap((ROW, "k = g:4 e:8"), "lane r g | element e", "")),
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_another_instruction_misses(folder: Path, kernel_cache: None, layers: Layers, name: str) -> None:
    stage, is_fused, maps = MAPS[name]
    header = folder / "minimax_m3.hpp"
    wrong = load("host", header=header, defines=("MONO_WRONG_MAPS",), maps=maps)
    layer = layers(is_fused)
    errors = runs.STAGES[stage](wrong, layer.loaded, layer.weights, 2, seed=3)
    assert max(errors.values()) >= runs.MISSED, errors


@pytest.mark.parametrize("name", MAPS)
def test_kernels_do_not_compile_for_another_instruction(folder: Path, kernel_cache: None, name: str) -> None:
    """What the products take for granted is asserted of the table: the control needs MONO_WRONG_MAPS to be built."""
    from mono_gen.runtime import MonoUnsupported

    with pytest.raises(MonoUnsupported) as refused:
        load("host", header=folder / "minimax_m3.hpp", maps=MAPS[name][2])
    assert "static assertion failed" in str(refused.value.__cause__)
