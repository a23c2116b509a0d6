"""What a converted checkpoint holds: every byte against closed formulas, and what of it other readers accept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mono_gen import runtime
from mono_gen.checkpoint.convert import Summary, convert
from mono_gen.checkpoint.folder import open_checkpoint
from mono_gen.checkpoint.jobs import plan_work
from mono_gen.checkpoint.names import read_map
from mono_gen.checkpoint.pieces import Share
from mono_gen.checkpoint.problems import Refused
from mono_gen.checkpoint.target import find_target, require_map
from tests.checkpoint import made
from tests.reference.layouts import pack
from tests.reference.values import fp32_to_bf16, mxfp8_to_ptpc_fp8

WORLD = 4
Bytes = NDArray[np.uint8]


def run(
    folder: Path,
    spec: Path,
    out: Path,
    *,
    struct: str = "SparseMoeLayer",
    rank: int = 0,
    world: int = WORLD,
    layers: tuple[int, ...] | None = None,
    map_: Path | None = None,
    resume: bool = False,
) -> Summary:
    """Convert, as the command does."""
    target, names = find_target(spec, struct, {}), read_map(map_ or spec.with_suffix(".map"))
    require_map(target, names.path, names.lines)
    checkpoint, share = open_checkpoint(folder), Share(rank, world)
    work = plan_work(checkpoint, target, names, share, layers)
    return convert(checkpoint, target, work, share, "", out, resume, lambda _: None)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_spec(tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "in")


def raw(t: torch.Tensor) -> Bytes:
    found: Bytes = t.contiguous().view(torch.uint8).numpy()
    return found


def cut(t: torch.Tensor, axis: int, rank: int, world: int = WORLD) -> Bytes:
    """Return a rank's share of a tensor of one-byte elements."""
    length = t.shape[axis] // world
    index = [slice(None)] * t.dim()
    index[axis] = slice(rank * length, (rank + 1) * length)
    return np.ascontiguousarray(raw(t)[tuple(index)])


def expected(layer: int, rank: int, *, whole_index_q: bool = False) -> dict[str, Bytes]:
    """Return the bytes of every converted tensor of a layer on a rank, from numpy and the closed formulas alone."""
    t = made.layer_tensors(layer)
    heads = ("q", "k", "v", "index_q", "index_k")

    def rows(name: str) -> Bytes:
        parts = []
        for head in heads:
            one = t[f"self_attn.{head}_proj.{name}"]
            whole = head == "index_k" or (whole_index_q and head == "index_q")
            parts.append(raw(one) if whole else cut(one, 0, rank))
        return np.concatenate(parts)

    def experts(weights: tuple[str, ...], name: str, axis: int) -> list[Bytes]:
        there = (f"block_sparse_moe.experts.{e}" for e in range(made.EXPERTS))
        return [np.concatenate([cut(t[f"{e}.{w}.{name}"], axis, rank) for w in weights]) for e in there]

    w_qkv, s_qkv = mxfp8_to_ptpc_fp8(rows("weight"), rows("weight_scale_inv"))
    o = "self_attn.o_proj"
    w_o, s_o = mxfp8_to_ptpc_fp8(cut(t[f"{o}.weight"], 1, rank), cut(t[f"{o}.weight_scale_inv"], 1, rank))
    shared = "block_sparse_moe.shared_experts"

    def gate_up(name: str) -> Bytes:
        return np.concatenate([cut(t[f"{shared}.{n}_proj.{name}"], 0, rank) for n in ("gate", "up")])

    found: dict[str, list[NDArray[np.generic]]] = {
        "g_in": [raw(t["input_layernorm.weight"])],
        "g_post": [raw(t["post_attention_layernorm.weight"])],
        "g_q": [raw(t["self_attn.q_norm.weight"])],
        "g_k": [raw(t["self_attn.k_norm.weight"])],
        "g_iq": [raw(t["self_attn.index_q_norm.weight"])],
        "g_ik": [raw(t["self_attn.index_k_norm.weight"])],
        "w_qkv": [pack("shuffle_16x16", w_qkv)],
        "s_qkv": [s_qkv],
        "w_o": [pack("shuffle_16x16", w_o)],
        "s_o": [s_o],
        "gate": [fp32_to_bf16(t["block_sparse_moe.gate.weight"].numpy())],
        "bias": [raw(t["block_sparse_moe.e_score_correction_bias"])],
        "w13": [pack("shuffle_16x16", w, bits=4) for w in experts(("w1", "w3"), "weight", 0)],
        "s13": [pack("e8m0_shuffle", s) for s in experts(("w1", "w3"), "weight_scale", 0)],
        "w2": [pack("shuffle_16x16", w, bits=4) for w in experts(("w2",), "weight", 1)],
        "s2": [pack("e8m0_shuffle", s) for s in experts(("w2",), "weight_scale", 1)],
        "sh_w13": [pack("mxfp8_a_tiles", gate_up("weight"))],
        "sh_s13": [pack("e8m0_tiles", gate_up("weight_scale_inv"))],
        "sh_w2": [pack("mxfp8_a_tiles", cut(t[f"{shared}.down_proj.weight"], 1, rank))],
        "sh_s2": [pack("e8m0_tiles", cut(t[f"{shared}.down_proj.weight_scale_inv"], 1, rank))],
    }
    return {
        name: np.concatenate([np.ascontiguousarray(part).view(np.uint8).ravel() for part in parts])
        for name, parts in found.items()
    }


def contents(folder: Path) -> dict[str, torch.Tensor]:
    """Return all tensors of a folder, read by safetensors' own reader."""
    return {name: t for path in sorted(folder.glob("*.safetensors")) for name, t in load_file(path).items()}


@pytest.mark.parametrize("rank", [0, 3])
def test_every_byte_of_every_field_is_where_the_formulas_say(
    folder: Path, spec: Path, tmp_path: Path, rank: int
) -> None:
    done = run(folder, spec, tmp_path / "out", rank=rank)
    found = contents(tmp_path / "out")
    wanted = {
        f"{made.PREFIX}.{layer}.SparseMoeLayer.{name}": data
        for layer in made.SPARSE
        for name, data in expected(layer, rank).items()
    }
    kept = {
        name: t
        for name, t in made.all_tensors().items()
        if not name.startswith(tuple(f"{made.PREFIX}.{n}." for n in made.SPARSE))
    }
    assert set(found) == {*wanted, *kept}
    for name, data in wanted.items():
        assert np.array_equal(raw(found[name]).ravel(), data), name
    for name, t in kept.items():
        assert found[name].dtype is t.dtype and found[name].shape == t.shape
        assert np.array_equal(raw(found[name]), raw(t)), name
    assert (done.converted, done.copied, done.kept) == (len(wanted), len(kept), 0)


def test_a_gathered_segment_is_every_ranks_share(folder: Path, spec: Path, tmp_path: Path) -> None:
    run(folder, spec, tmp_path / "out", struct="CpSparseMoeLayer", rank=2)
    found = contents(tmp_path / "out")
    for layer in made.SPARSE:
        wanted = expected(layer, 2, whole_index_q=True)
        for name in ("w_qkv", "s_qkv", "w_o"):
            full = f"{made.PREFIX}.{layer}.CpSparseMoeLayer.{name}"
            assert np.array_equal(raw(found[full]).ravel(), wanted[name]), full


def test_load_accepts_the_files_and_the_ledger_knows_the_tensors(folder: Path, spec: Path, tmp_path: Path) -> None:
    run(folder, spec, tmp_path / "out")
    struct = find_target(spec, "SparseMoeLayer", {}).struct
    seen = 0
    for path in sorted((tmp_path / "out").glob("*.safetensors")):
        for name, t in runtime.load(path).items():
            prefix, _, field = name.rpartition(".SparseMoeLayer.")
            record = runtime.record_of(t)
            if not prefix:
                assert record is None
                continue
            seen += 1
            info = struct.tensors[field]
            assert record is not None and record.origin == "file"
            assert (record.layout, record.layout_id, record.field_id) == (info.layout, info.layout_id, info.field_id)
            assert record.batch == info.batch and record.extents == info.extents(t)
    assert seen == 20 * len(made.SPARSE)


def test_names_index_metadata_and_other_files_are_kept(folder: Path, spec: Path, tmp_path: Path) -> None:
    (folder / "README.md").write_text("a model")
    (folder / "pytorch_model.bin").write_bytes(b"other weights")
    (folder / ".hidden").write_text("")
    run(folder, spec, tmp_path / "out")
    there = {path.name for path in (tmp_path / "out").iterdir()}
    shards = {path.name for path in folder.glob("*.safetensors")}
    assert there == {*shards, "model.safetensors.index.json", "config.json", "README.md", "mono-gen.journal"}
    assert (tmp_path / "out" / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    places, total = {}, 0
    for name in shards:
        with safe_open(tmp_path / "out" / name, framework="pt") as file:
            assert file.metadata()["format"] == "pt"
            places |= dict.fromkeys(file.keys(), name)
            total += sum(file.get_tensor(tensor).nbytes for tensor in file.keys())  # noqa: SIM118
    assert index["weight_map"] == places
    assert index["metadata"] == {"total_size": total, "made_by": "a test"}


def test_a_file_without_any_of_the_tensors_stays_as_it_is(folder: Path, spec: Path, tmp_path: Path) -> None:
    run(folder, spec, tmp_path / "out")
    name = "model-00004-of-00004.safetensors"
    assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


def test_converted_tensors_begin_where_a_mapped_kernel_may_read(folder: Path, spec: Path, tmp_path: Path) -> None:
    run(folder, spec, tmp_path / "out")
    for shard in open_checkpoint(tmp_path / "out").shards.values():
        for entry in shard.entries.values():
            assert entry.begin % 16 == 0 or "SparseMoeLayer" not in entry.name


def test_other_layers_are_copied(folder: Path, spec: Path, tmp_path: Path) -> None:
    run(folder, spec, tmp_path / "out", layers=(2,))
    found = contents(tmp_path / "out")
    for name, t in made.layer_tensors(1).items():
        assert np.array_equal(raw(found[f"{made.PREFIX}.1.{name}"]), raw(t)), name
    assert not [name for name in found if name.startswith(f"{made.PREFIX}.2.self_attn")]
    with pytest.raises(Refused, match=r"no layer .*layers\.0 with block_sparse_moe"):
        run(folder, spec, tmp_path / "none", layers=(0, 2))


def test_another_prefix_and_another_name_of_the_scales(spec: Path, tmp_path: Path) -> None:
    """The text model alone has no `language_model.`; some checkpoints call their scales weight_scale."""
    tensors = {
        f"model.layers.1.{name.replace('weight_scale_inv', 'weight_scale')}": t
        for name, t in made.layer_tensors(1).items()
    }
    run(made.write_checkpoint(tmp_path / "in", tensors, 2), spec, tmp_path / "out")
    wanted = expected(1, 0)
    found = contents(tmp_path / "out")
    for name in ("s_qkv", "sh_s2"):
        assert np.array_equal(raw(found[f"model.layers.1.SparseMoeLayer.{name}"]).ravel(), wanted[name])


def test_bf16_of_a_widened_source_is_the_same_number(spec: Path, tmp_path: Path) -> None:
    tensors = {f"model.layers.1.{name}": t for name, t in made.layer_tensors(1).items()}
    gate, bias = (
        "model.layers.1.block_sparse_moe.gate.weight",
        "model.layers.1.block_sparse_moe.e_score_correction_bias",
    )
    tensors |= {gate: tensors[gate].to(torch.bfloat16), bias: tensors[bias].to(torch.float16)}
    run(made.write_checkpoint(tmp_path / "in", tensors, 2), spec, tmp_path / "out")
    found = contents(tmp_path / "out")
    assert torch.equal(found["model.layers.1.SparseMoeLayer.gate"], tensors[gate])
    assert torch.equal(found["model.layers.1.SparseMoeLayer.bias"], tensors[bias].to(torch.float32))


def test_without_the_shared_expert_its_block_is_left(spec: Path, tmp_path: Path) -> None:
    """One expert more is the fused shared one: the optional block is absent, and its tensors are copied."""
    tensors = {f"model.layers.1.{name}": t for name, t in made.layer_tensors(1, made.EXPERTS + 1).items()}
    for name in ("gate.weight", "e_score_correction_bias"):
        full = f"model.layers.1.block_sparse_moe.{name}"
        tensors[full] = tensors[full][: made.EXPERTS].contiguous()
    run(made.write_checkpoint(tmp_path / "in", tensors, 2), spec, tmp_path / "out")
    found = contents(tmp_path / "out")
    assert found["model.layers.1.SparseMoeLayer.w13"].shape[0] == made.EXPERTS + 1
    assert "model.layers.1.SparseMoeLayer.sh_w13" not in found
    assert "model.layers.1.block_sparse_moe.shared_experts.gate_proj.weight" in found


PADDED = """
spec padded
arch gfx950
import "aiter.layout"

layout halves(row, k) {
    pad row to 16, k to 64 fill 0x5
    split row = R r:16
    split k = K b:64
    store R K r b
}

struct Padded(layer) {
    let box = layer.a or layer.b
    odd : e8m0[3, 40, 5] { tile e8m0_shuffle  view box.odd  attest e8m0_shuffle when box.odd.is_shuffled }
    parts : uint8[60, 8] {
        segments row = a:25 b:35 pad each
        tile halves
        view box.parts
        attest halves when box.parts.is_tiled
    }
    pairs : fp4_e2m1[20, 96] { tile halves  view box.pairs  attest halves when box.pairs.is_tiled }
    table : bf16[2, 6, 64] { tile row_major  convert mxfp8 row_major box.wide, box.wide_scale }
}
"""
PADDED_MAP = """
layers l{layer}
layer.b.odd   # stacked in the checkpoint already
    odd
layer.b.parts
    b: second cut k
    a: first cut k
layer.b.pairs
    pairs cut row
layer.a.wide
    wide.{n}
layer.a.wide_scale
    scales
"""


@pytest.fixture
def padded(tmp_path: Path) -> tuple[Path, Path, dict[str, torch.Tensor]]:
    """Return a spec with live pads, a checkpoint of one file, and its tensors."""
    spec = tmp_path / "padded.layout"
    spec.write_text(PADDED)
    spec.with_suffix(".map").write_text(PADDED_MAP)
    tensors = {
        "l7.odd": made.e8m0(120, 5, 1).view(3, 40, 5),
        "l7.first": made.fp8(25, 16, 2).view(torch.uint8),
        "l7.second": made.fp8(35, 16, 3).view(torch.uint8),
        "l7.pairs": made.fp8(40, 48, 4).view(torch.uint8),
        "l7.wide.0": made.fp8(6, 64, 5),
        "l7.wide.1": made.fp8(6, 64, 6),
        "l7.scales": made.e8m0(12, 2, 7).view(2, 6, 2),
        "l7.other": torch.arange(9),
    }
    (tmp_path / "in").mkdir()
    save_file(tensors, tmp_path / "in" / "model.safetensors")
    return spec, tmp_path / "in", tensors


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_live_pads_segments_padded_each_and_stacked_tensors(
    padded: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Items of a fixed number, too, go one by one or together."""
    monkeypatch.setattr("mono_gen.checkpoint.convert.CHUNK_BYTES", chunk)
    spec, folder, t = padded
    run(folder, spec, tmp_path / "out", struct="Padded", rank=1, world=2)
    found = contents(tmp_path / "out")
    odd = [pack("e8m0_shuffle", raw(t["l7.odd"])[item]) for item in range(3)]
    assert np.array_equal(raw(found["l7.Padded.odd"]).ravel(), np.concatenate(odd))
    parts = np.full((32 + 48, 64), 5, dtype=np.uint8)
    parts[:25, :8], parts[32:67, :8] = raw(t["l7.first"])[:, 8:], raw(t["l7.second"])[:, 8:]
    assert np.array_equal(
        raw(found["l7.Padded.parts"]).ravel(), parts.reshape(5, 16, 1, 64).transpose(0, 2, 1, 3).ravel()
    )
    pairs = np.full((32, 64), 0x55, dtype=np.uint8)
    pairs[:20, :48] = raw(t["l7.pairs"])[20:]
    assert np.array_equal(
        raw(found["l7.Padded.pairs"]).ravel(), pairs.reshape(2, 16, 2, 32).transpose(0, 2, 1, 3).ravel()
    )
    for item in range(2):
        powers = torch.exp2(t["l7.scales"][item].float() - 127).repeat_interleave(32, dim=1)
        wide = (t[f"l7.wide.{item}"].float() * powers).to(torch.bfloat16)
        assert torch.equal(found["l7.Padded.table"][item], wide)
    assert torch.equal(found["l7.other"], t["l7.other"])
    assert not list((tmp_path / "out").glob("*.json"))  # one file, no index
    assert set(runtime.load(tmp_path / "out" / "model.safetensors")) == set(found)


def test_what_is_converted_is_not_converted_again(
    padded: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    spec, folder, _ = padded
    run(folder, spec, tmp_path / "once", struct="Padded", world=2)
    with pytest.raises(Refused, match=r"converted already: model\.safetensors has mono-gen's records"):
        run(tmp_path / "once", spec, tmp_path / "twice", struct="Padded", world=2)


def test_one_file_is_a_checkpoint(padded: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path) -> None:
    spec, folder, _ = padded
    run(folder / "model.safetensors", spec, tmp_path / "one", struct="Padded", world=2)
    run(folder, spec, tmp_path / "all", struct="Padded", world=2)
    one, all_ = (tmp_path / name / "model.safetensors" for name in ("one", "all"))
    assert one.read_bytes() == all_.read_bytes()


def test_experts_go_some_at_a_time_and_the_bytes_are_the_same(
    folder: Path, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mono_gen.checkpoint import convert as module

    run(folder, spec, tmp_path / "whole")
    for number, size in enumerate((1, 70_000, 200_000)):  # one expert at a time, some, more
        monkeypatch.setattr("mono_gen.checkpoint.convert.CHUNK_BYTES", size)
        run(folder, spec, tmp_path / f"few{number}")
        for path in sorted((tmp_path / "whole").glob("*.safetensors")):
            assert (tmp_path / f"few{number}" / path.name).read_bytes() == path.read_bytes(), (size, path.name)
    assert module.CHUNK_BYTES == 200_000


def test_a_value_without_a_number_is_refused_by_layer_and_place(spec: Path, tmp_path: Path) -> None:
    tensors = {f"model.layers.1.{name}": t.clone() for name, t in made.layer_tensors(1).items()}
    tensors["model.layers.1.self_attn.q_proj.weight_scale_inv"][5, 3] = 255
    folder = made.write_checkpoint(tmp_path / "in", tensors, 2)
    with pytest.raises(Refused) as refusal:
        run(folder, spec, tmp_path / "out")
    assert "layer 1: w_qkv: e8m0 scale: expected 0..254, found 255 (NaN) at row 5, block 3" in str(refusal.value)
    assert refusal.value.code == 1
    assert not list((tmp_path / "out").glob("*.safetensors"))
    assert not list((tmp_path / "out").glob(".*"))
