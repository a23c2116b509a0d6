"""The blind check of a file's tensors: on a sample, layouts are judged only where it is a part of their storage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mono_gen.checkpoint.shards import read_shard
from mono_gen.inspection import blind
from mono_gen.loading import LIBRARY
from mono_gen.model import LayoutModel
from mono_gen.pipeline import plan_specs
from tests.reference import layouts as reference

ROWS, K = 256, 2112
NAMES = ("shuffle_16x16", "shuffle_32x16", "preshuffle_b_k_major", "shuffle_16x16_gate_up", "interleave_gate_up_rows")


@pytest.fixture(scope="module")
def library() -> tuple[LayoutModel, ...]:
    plans, _ = plan_specs([LIBRARY / "aiter.layout"], {})
    return tuple(layout.model for plan in plans for layout in plan.layouts)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with one MXFP8 weight in several orders, every block with one large code."""
    seeded = np.random.default_rng(7)
    codes = seeded.integers(0, 0x40, (ROWS, K), dtype=np.uint8)
    places = seeded.integers(0, 32, (ROWS, K // 32, 1))
    np.put_along_axis(codes.reshape(ROWS, K // 32, 32), places, 0x7C, axis=2)
    tensors = {name: reference.pack(name, codes).reshape(ROWS, K) for name in NAMES}
    tensors["row_major"] = codes
    held = {name: torch.from_numpy(t.copy()).view(torch.float8_e4m3fn) for name, t in tensors.items()}
    scales = {f"{name}_scale": torch.full((ROWS, K // 32), 120, dtype=torch.uint8) for name in tensors}
    path = tmp_path_factory.mktemp("blind") / "weights.safetensors"
    save_file({**held, **scales}, path)
    return path


def found(path: Path, name: str, layouts: tuple[LayoutModel, ...]) -> blind.Blind:
    file = read_shard(path)
    entry = file.entries[name]
    result = blind.blind_check(file, entry, blind.scale_beside(entry, file.entries, {}), layouts)
    assert result is not None
    return result


@pytest.mark.parametrize("name", ["row_major", *NAMES])
def test_the_whole_of_a_weight(path: Path, name: str, library: tuple[LayoutModel, ...]) -> None:
    said = found(path, name, library)
    assert said.read.startswith("all 256 rows") and said.is_telling
    assert name not in said.excluded
    moves_blocks_whole = name in ("row_major", "interleave_gate_up_rows")
    assert said.plain.excluded != moves_blocks_whole
    assert moves_blocks_whole or name in said.possible
    keeps_pieces = name in ("shuffle_16x16", "shuffle_16x16_gate_up", "preshuffle_b_k_major")
    assert "shuffle_16x16" in said.excluded or keeps_pieces


@pytest.mark.parametrize("name", ["row_major", *NAMES])
def test_a_part_of_a_weight_excludes_no_layout_that_it_is_not_a_part_of(
    path: Path, name: str, library: tuple[LayoutModel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blind, "SAMPLE_BYTES", 64 * K)
    said = found(path, name, library)
    assert said.read.startswith("rows 0 to 63 of 256 as stored")
    assert name not in said.excluded
    judged = {*said.possible, *said.excluded}
    assert {"shuffle_16x16", "shuffle_32x16"} <= judged
    assert not judged & {"preshuffle_b_k_major", "shuffle_16x16_gate_up", "interleave_gate_up_rows"}
    if name.startswith("shuffle_16x16") or name == "shuffle_32x16":
        assert said.plain.excluded


def test_few_blocks_tell_nothing(tmp_path: Path, library: tuple[LayoutModel, ...]) -> None:
    codes = torch.full((32, 64), 0x7C, dtype=torch.uint8).view(torch.float8_e4m3fn)
    save_file({"w": codes, "w_scale": torch.full((32, 2), 120, dtype=torch.uint8)}, tmp_path / "w.safetensors")
    said = found(tmp_path / "w.safetensors", "w", library)
    assert not said.is_telling
    assert str(said) == "too few blocks to tell"


def test_which_scale_goes_with_a_weight(tmp_path: Path) -> None:
    w = torch.zeros(32, 64, dtype=torch.uint8).view(torch.float8_e4m3fn)
    tensors = {name: w.clone() for name in ("a.weight", "b.weight", "c.weight", "w_qkv", "d.weight")}
    tensors |= {"a.weight_scale": torch.zeros(32, 2, dtype=torch.uint8), "b.weight_scale_inv": torch.zeros(32, 1)}
    tensors |= {"c.weight_scale": torch.zeros(64), "s_qkv": torch.zeros(32), "d.weight_scale": torch.zeros(())}
    save_file(tensors, tmp_path / "w.safetensors")
    entries = read_shard(tmp_path / "w.safetensors").entries
    fields = {"w_qkv": "12", "s_qkv": "12", "a.weight": ""}
    beside = {name: blind.scale_beside(entries[name], entries, fields) for name in tensors if name in entries}
    assert {name: one.name for name, one in beside.items() if one is not None and name[0] != "s"} == {
        "a.weight": "a.weight_scale",
        "b.weight": "b.weight_scale_inv",
        "w_qkv": "s_qkv",
    }
