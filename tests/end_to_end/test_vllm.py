"""The drop-in for vLLM's weights module: its names, its results to the byte, and its refusals."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing

from mono_gen import runtime
from mono_gen.integrations import vllm
from mono_gen.integrations.vllm import MonoUnsupported, SparseMoeLayer, mxfp8_a_tiles
from tests.conftest import ROOT
from tests.end_to_end.light_layer import E4M3, E8M0, PATHS, at, drop, light_layer, specimens
from tests.reference.layouts import pack
from tests.reference.values import mxfp8_to_ptpc_fp8
from tools.demo.sources import Linear, e8m0, fp8
from tools.demo.stand_in import Part

WORLD, INDEX_Q, INDEX_K = 4, 2304, 2432
FLAT = ("sh_w13", "sh_s13", "sh_w2", "sh_s2")


@dataclass(frozen=True)
class Heads:
    """The index q heads of a fused projection."""

    count: int = 1
    own: int = 0


GATE_UP = Linear(fp8(1536, 6144, 30), e8m0(1536, 192, 31))
DOWN = Linear(fp8(6144, 768, 40), e8m0(6144, 24, 41))


def tensor(array: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(array.copy()).view(dtype)


def layer_of(rank: int, experts: int = 128) -> Any:
    """Return a layer with values in what is converted; of the 2560 rows, index q is the rank's own."""
    tensors = specimens(experts)
    qkv = qkv_of(rank)
    tensors["w_qkv"], tensors["s_qkv"] = tensor(qkv.weight, E4M3), tensor(qkv.scale, E8M0)
    tensors["sh_w13"], tensors["sh_s13"] = tensor(GATE_UP.weight, E4M3), tensor(GATE_UP.scale, torch.uint8)
    tensors["sh_w2"], tensors["sh_s2"] = tensor(DOWN.weight, E4M3), tensor(DOWN.scale, E8M0)
    return light_layer(tensors)


def qkv_of(rank: int) -> Linear:
    weight, scale = fp8(2560, 6144, 10), e8m0(2560, 192, 11)
    weight[INDEX_Q:INDEX_K], scale[INDEX_Q:INDEX_K] = fp8(128, 6144, 500 + rank), e8m0(128, 192, 600 + rank)
    return Linear(weight, scale)


def raw(t: torch.Tensor) -> bytes:
    found: bytes = t.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
    return found


@pytest.fixture(scope="module")
def layer() -> Any:
    return layer_of(0)


@pytest.fixture(scope="module")
def loaded(layer: Any) -> SparseMoeLayer:
    return SparseMoeLayer.from_layer(layer, 7, Heads())


def test_the_names_that_vllm_imports() -> None:
    assert {"MonoUnsupported", "SparseMoeLayer", "mxfp8_a_tiles"} <= set(vllm.__all__)
    assert MonoUnsupported is runtime.MonoUnsupported


def test_every_field_of_a_layer(layer: Any, loaded: SparseMoeLayer) -> None:
    assert loaded.layer_id == 7 and loaded.attn is layer.self_attn
    for name, path in PATHS.items():
        if name not in ("w_qkv", "s_qkv", "w_o", "s_o", "gate", *FLAT):
            assert getattr(loaded, name).data_ptr() == at(layer, path).data_ptr(), name
    qkv = qkv_of(0)
    codes, scales = mxfp8_to_ptpc_fp8(qkv.weight, qkv.scale)
    assert loaded.w_qkv.shape == (2560, 6144) and raw(loaded.w_qkv) == pack("shuffle_16x16", codes).tobytes()
    assert raw(loaded.s_qkv) == scales.tobytes()
    assert loaded.gate.dtype is torch.bfloat16 and loaded.gate.shape == (128, 6144)


def test_the_shared_expert_is_flat_and_to_the_byte(loaded: SparseMoeLayer) -> None:
    assert loaded.shared_fp8 is True
    tensors = [t for name in FLAT if (t := getattr(loaded, name)) is not None]
    assert [t.dim() for t in tensors] == [1] * 4
    wanted = (
        pack("mxfp8_a_tiles", GATE_UP.weight),
        pack("e8m0_tiles", GATE_UP.scale),
        pack("mxfp8_a_tiles", DOWN.weight),
        pack("e8m0_tiles", DOWN.scale),
    )
    assert [raw(t) for t in tensors] == [array.tobytes() for array in wanted]
    assert loaded.shared_bytes() == sum(t.nbytes for t in tensors) == 1536 * 6144 * 33 // 32 + 6144 * 768 * 33 // 32
    assert loaded.sh_args is not None and loaded.sh_args.tolist() == [t.data_ptr() for t in tensors]


def test_a_fused_shared_expert() -> None:
    loaded = SparseMoeLayer.from_layer(layer_of(0, 129), 3, Heads())
    assert loaded.shared_fp8 is False and loaded.shared_bytes() == 0
    assert [getattr(loaded, name) for name in (*FLAT, "sh_args")] == [None] * 5
    assert loaded.w13.shape == (129, 1536, 3072)


def test_what_goes_through_the_struct(loaded: SparseMoeLayer) -> None:
    assert runtime.recheck(loaded.struct) == "unverified"
    table = loaded.struct.k1_args(0x1000, 0x2000, 0x3000)
    assert table.tolist()[2] == loaded.w_qkv.data_ptr() and runtime.recheck_table(table)


def test_a_refusal_names_the_layer_and_the_field() -> None:
    layer = light_layer(specimens(128))
    drop(layer, PATHS["g_in"])
    at(layer, PATHS["w2"]).is_shuffled = False
    with pytest.raises(MonoUnsupported) as refusal:
        SparseMoeLayer.from_layer(layer, 41, Heads())
    assert [(p.field, p.what) for p in refusal.value.problems] == [("g_in", "attribute"), ("w2", "attest")]
    assert str(refusal.value).startswith("layer 41: SparseMoeLayer (minimax_m3.layout)")


@pytest.mark.parametrize(("count", "own"), [(2, 0), (0, 0), (3, 1), (8, 0), (1, 1), (4, 4), (4, -1)])
def test_numbers_of_heads_that_no_projection_has(layer: Any, count: int, own: int) -> None:
    with pytest.raises(MonoUnsupported, match=r"layer 5: w_qkv: heads: expected count 1 or 4, and own below it"):
        SparseMoeLayer.from_layer(layer, 5, Heads(count, own))


def test_heads_of_every_rank_without_a_group(layer: Any) -> None:
    with pytest.raises(MonoUnsupported, match=r"layer 5: w_qkv: heads: expected a group of 4 ranks"):
        SparseMoeLayer.from_layer(layer, 5, Heads(4, 0))


# --- mxfp8_a_tiles ---


def linear(rows: int = 64, k: int = 512, *, uint8: bool = False) -> Any:
    """Return an MXFP8 linear."""
    weight = torch.nn.Parameter(tensor(fp8(rows, k, 9), E4M3), requires_grad=False)
    return Part(weight=weight, weight_scale=tensor(e8m0(rows, k // 32, 8), torch.uint8 if uint8 else E8M0))


@pytest.mark.parametrize("uint8", [True, False])
@pytest.mark.parametrize(("rows", "k"), [(64, 512), (96, 256), (1536, 768)])
def test_tiles_of_a_linear(rows: int, k: int, uint8: bool) -> None:
    mine = linear(rows, k, uint8=uint8)
    before = raw(mine.weight), raw(mine.weight_scale)
    tiles, scales = mxfp8_a_tiles(mine, rows, k, "layers.3.mlp.down_proj")
    assert tiles.shape == (rows * k,) and scales.shape == (rows * k // 32,)
    assert tiles.dtype is E4M3 and scales.dtype is mine.weight_scale.dtype
    assert raw(tiles) == pack("mxfp8_a_tiles", fp8(rows, k, 9)).tobytes()
    assert raw(scales) == pack("e8m0_tiles", e8m0(rows, k // 32, 8)).tobytes()
    assert (raw(mine.weight), raw(mine.weight_scale)) == before


def tiles_refused(mine: Any, rows: int = 64, k: int = 512) -> list[tuple[str, str]]:
    with pytest.raises(MonoUnsupported) as refusal:
        mxfp8_a_tiles(mine, rows, k, "down_proj")
    assert str(refusal.value).startswith("down_proj")
    return [(p.field, p.what) for p in refusal.value.problems]


def test_linears_that_have_no_tiles() -> None:
    assert tiles_refused(Part(weight=linear().weight)) == [("down_proj.weight_scale", "attribute")]
    assert tiles_refused(linear(), 128) == [("down_proj.weight", "shape"), ("down_proj.weight_scale", "shape")]
    assert tiles_refused(linear(48), 48) == [("down_proj", "pack_mxfp8_a_tiles: size")]
    assert tiles_refused(linear(64, 128), 64, 128) == [("down_proj", "pack_mxfp8_a_tiles: size")]
    shuffled = linear()
    shuffled.weight.is_shuffled = True
    assert tiles_refused(shuffled) == [("down_proj.weight", "attest")]
    bf16 = linear()
    bf16.weight_scale = torch.ones(64, 16, dtype=torch.bfloat16)
    assert tiles_refused(bf16) == [("down_proj.weight_scale", "dtype")]


def test_tiles_of_tiles_are_refused() -> None:
    mine = linear()
    tiles, scales = mxfp8_a_tiles(mine, 64, 512, "down_proj")
    again = Part(weight=tiles.view(64, 512), weight_scale=scales.view(64, 16))
    assert tiles_refused(again) == [("down_proj.weight", "layout"), ("down_proj.weight_scale", "layout")]


# --- four ranks ---


def _run(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    layer = layer_of(rank, 129)
    loaded = SparseMoeLayer.from_layer(layer, 7, Heads(world, rank))
    found: dict[str, Any] = {
        name: hashlib.sha256(raw(getattr(loaded, name))).hexdigest() for name in ("w_qkv", "s_qkv")
    }
    found["shape"] = list(loaded.w_qkv.shape)
    found["type"] = type(loaded.struct).__name__
    with pytest.raises(MonoUnsupported) as refusal:
        SparseMoeLayer.from_layer(layer, 7, Heads(world, (rank + 1) % world))
    found["own"] = [(p.what, p.expected, p.found) for p in refusal.value.problems]
    drop(layer, PATHS["g_in"]) if rank == 2 else None
    with pytest.raises(MonoUnsupported) as refusal:
        SparseMoeLayer.from_layer(layer, 9, Heads(world, rank))
    found["spoilt"] = str(refusal.value)
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what each of four gloo processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.set_forkserver_preload(["torch"])  # one import of torch for all ranks, and no threads to fork
    torch.multiprocessing.start_processes(_run, args=(WORLD, str(folder)), nprocs=WORLD, start_method="forkserver")
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORLD)]


def test_four_ranks_hold_every_index_q_head(ranks: list[dict[str, Any]]) -> None:
    mine = [mxfp8_to_ptpc_fp8(*rows) for rows in ((fp8(128, 6144, 500 + r), e8m0(128, 192, 600 + r)) for r in range(4))]
    codes, scales = mxfp8_to_ptpc_fp8(fp8(2560, 6144, 10), e8m0(2560, 192, 11))  # a row's values depend on it alone
    wide = np.concatenate((codes[:INDEX_Q], *(part[0] for part in mine), codes[INDEX_K:]))
    wide_scales = np.concatenate((scales[:INDEX_Q], *(part[1] for part in mine), scales[INDEX_K:]))
    for found in ranks:
        assert found["shape"] == [2944, 6144] and found["type"] == "CpSparseMoeLayer"
        assert found["w_qkv"] == hashlib.sha256(pack("shuffle_16x16", wide).tobytes()).hexdigest()
        assert found["s_qkv"] == hashlib.sha256(wide_scales.tobytes()).hexdigest()


def test_own_must_be_this_ranks_place(ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(ranks):
        wanted = ["heads", f"own = {rank}, this rank's place in the group", f"own = {(rank + 1) % WORLD}"]
        assert found["own"] == [wanted]


def test_a_rank_whose_layer_is_not_whole_is_named_with_the_layer(ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(ranks):
        assert found["spoilt"].startswith("layer 9: CpSparseMoeLayer")
        assert ("g_in: attribute" if rank == 2 else "rank 2: gather") in found["spoilt"]


class _Distributed(ModuleType):
    """A stand-in for vllm.distributed."""


def test_vllms_own_group_is_asked_first(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    group = object()
    stand_in = _Distributed("vllm.distributed")
    stand_in.get_tp_group = lambda: Part(device_group=group)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.distributed", stand_in)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group: asked.append(group) or 3)
    with pytest.raises(MonoUnsupported, match="own = 3"):
        SparseMoeLayer.from_layer(layer, 1, Heads(4, 1))
    assert asked == [group]
    other = object()
    heads = Part(count=4, own=1, group=other)
    with pytest.raises(MonoUnsupported, match="own = 3"):
        SparseMoeLayer.from_layer(layer, 1, heads)
    assert asked == [group, other], "a group that the heads bring goes before"


def test_the_drop_in_is_found_in_a_checkout() -> None:
    module = sys.modules["mono_gen.generated.minimax_m3"]
    assert module.__file__ is not None and Path(module.__file__) == ROOT / "generated" / "minimax_m3.py"


def test_a_module_that_is_not_generated_is_named() -> None:
    from mono_gen.integrations.generated import load_generated

    with pytest.raises(ImportError, match=r"mono_gen\.generated\.no_such is not installed.*run mono-gen generate"):
        load_generated("no_such")
