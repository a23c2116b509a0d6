"""A full-size layer through the generated loader: every byte where the kernels read it, and every refusal by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from rich.progress import Progress

from mono_gen.kernels import load
from mono_gen.pipeline import generate
from mono_gen.runtime import MonoUnsupported
from tests.conftest import ROOT, load_generated
from tests.end_to_end.light_layer import CONVERTED, E4M3, E8M0, FP4, PATHS, at, drop, empty, light_layer, put, specimens
from tools.demo import __main__ as demo
from tools.demo import sources as s
from tools.demo.sources import Sources, build_sources
from tools.demo.stand_in import Part, build_layer

VIEWS = tuple(name for name in PATHS if name not in CONVERTED)
Problems = set[tuple[str, str]]


# --- every byte ---


@pytest.fixture(scope="module")
def src() -> Sources:
    return build_sources()


def checksums(layer: Part) -> dict[str, int]:
    """Return a sum over every tensor's bytes, weighted by place, so that no exchange of bytes keeps it."""
    found = {}
    for name, t in (*layer.named_parameters(), *_plain_tensors(layer, "")):
        words = t.detach().reshape(-1).view(torch.uint8)
        whole = words[: words.numel() // 8 * 8].view(torch.int64)
        found[name] = (int(whole.sum()), int(whole[1::2].sum()), int(words[whole.numel() * 8 :].sum()), t.data_ptr())
    return found


def _plain_tensors(part: Any, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that are attributes of a module and no parameters."""
    for name, value in vars(part).items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{name}", value
    for name, child in part.named_children():
        yield from _plain_tensors(child, f"{prefix}{name}.")


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "separate"])
def test_every_byte_of_a_full_size_layer(
    minimax_module: ModuleType, src: Sources, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = []

    def built(src: Sources, *, fused: bool) -> Part:
        layer = build_layer(src, fused=fused)
        layers.append((layer, checksums(layer)))
        return layer

    monkeypatch.setattr(demo, "build_layer", built)
    with Progress(disable=True) as progress:
        report = demo.run_layer(minimax_module, src, load("host"), fused, progress)
    assert report.problems == ()
    assert len(report.rows) == (20 if fused else 24)
    assert report.nbytes == sum(row.nbytes for row in report.rows)
    ((layer, before),) = layers
    assert len(before) == (20 if fused else 24)
    assert checksums(layer) == before, "loading writes nothing into its source"


def test_the_check_of_every_byte_sees_one(minimax_module: ModuleType, src: Sources) -> None:
    """One bit of one scale block, one weight nibble, one gate value: each is reported by name."""
    spoiled = dataclasses.replace(
        src,
        qkv=dataclasses.replace(src.qkv, scale=src.qkv.scale.copy()),
        gate=src.gate.copy(),
        down=dataclasses.replace(src.down, weight=src.down.weight.copy()),
    )
    spoiled.qkv.scale[2559, 191] ^= 1
    spoiled.gate[127, 6143] *= 2
    spoiled.down.weight[17, 200] ^= 1
    layer = build_layer(dataclasses.replace(spoiled, w13=_few(src.w13), w2=_few(src.w2)), fused=False)
    _refill_experts(layer, src)
    loaded = minimax_module.SparseMoeLayer.from_layer(layer)
    expected = demo.expected_fields(src, s.ROUTED)
    small = {name: chunks for name, chunks in expected.items() if name not in ("w13", "s13", "w2", "s2")}
    wrong = {name for name, chunks in small.items() if demo.first_mismatch(getattr(loaded, name), chunks) is not None}
    assert wrong - {"s_qkv"} == {"w_qkv", "gate", "sh_w2"}, "a block's scale need not be the row's largest"


def _few(experts: Any) -> Any:
    """Return experts that are cheap to build: one row of tiles, which `_refill_experts` replaces."""
    return dataclasses.replace(experts, first=experts.first[:32], blocks=8)


def _refill_experts(layer: Part, src: Sources) -> None:
    """Put expert tensors of the real shapes in place, their contents untouched memory."""
    tensors = specimens(s.ROUTED)
    for name in ("w13", "s13", "w2", "s2"):
        put(layer, PATHS[name], tensors[name])
    for name in ("w13", "w2"):
        at(layer, PATHS[name]).is_shuffled = True


# --- refusals ---


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    """Return new memory: what one load was told of a tensor, the next would know."""
    return specimens(s.ROUTED)


@pytest.fixture
def layer(tensors: dict[str, torch.Tensor]) -> Part:
    return light_layer(tensors)


def problems(module: ModuleType, layer: Part) -> Problems:
    """Return (field, what) of every problem for which a layer is refused."""
    with pytest.raises(MonoUnsupported) as refusal:
        module.SparseMoeLayer.from_layer(layer)
    assert refusal.value.subject == "SparseMoeLayer (minimax_m3.layout)"
    found = [(p.field, p.what) for p in refusal.value.problems]
    assert len(found) == len(set(found)), "one problem, one line"
    assert all(p.expected and p.found and p.expected != p.found for p in refusal.value.problems)
    return set(found)


def test_the_light_layer_is_refused_for_nothing(minimax_module: ModuleType, layer: Part) -> None:
    loaded = minimax_module.SparseMoeLayer.from_layer(layer)
    assert (loaded.E, loaded.POS, loaded.BLOCKS) == (s.ROUTED, 96, 5)
    assert all(getattr(loaded, name) is not None for name in PATHS)


@pytest.mark.parametrize("name", PATHS)
def test_a_tensor_that_is_not_there(minimax_module: ModuleType, layer: Part, name: str) -> None:
    drop(layer, PATHS[name])
    assert problems(minimax_module, layer) == {(name, "attribute")}
    put(layer, PATHS[name], None)
    assert problems(minimax_module, layer) == {(name, "attribute")}


OTHER_DTYPE = {
    torch.bfloat16: torch.float16,
    torch.float32: torch.int32,
    E4M3: torch.float8_e4m3fnuz,
    E8M0: torch.int8,
    FP4: torch.int8,
    torch.uint8: torch.int8,
}


@pytest.mark.parametrize("name", PATHS)
def test_a_tensor_of_another_dtype(
    minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor], name: str
) -> None:
    t = tensors[name]
    replaced(layer, name, t.view(OTHER_DTYPE[t.dtype]))
    assert problems(minimax_module, layer) == {(name, "dtype")}


def replaced(layer: Part, name: str, t: Any) -> None:
    """Put another tensor in a field's place, with the flag that its producer sets."""
    if name in ("w13", "w2") and isinstance(t, torch.Tensor):
        t.is_shuffled = True  # type: ignore[attr-defined]
    put(layer, PATHS[name], t)


@pytest.mark.parametrize("name", PATHS)
def test_a_tensor_of_another_shape(
    minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor], name: str
) -> None:
    t = tensors[name]
    for shape in ((*t.shape[:-1], 2 * t.shape[-1]), (1, *t.shape), (t.numel(),) if t.dim() > 1 else (2, t.numel())):
        replaced(layer, name, empty(shape, t.dtype))
        assert problems(minimax_module, layer) == {(name, "shape")}
    if name not in ("cos_sin", "index_cache", "w13", "s13", "w2", "s2"):  # whose first axis is a run-time dim
        replaced(layer, name, empty((t.shape[0] + 1, *t.shape[1:]), t.dtype))
        assert problems(minimax_module, layer) == {(name, "shape")}
    replaced(layer, name, empty((0, *t.shape[1:]), t.dtype))
    assert (name, "extent") in problems(minimax_module, layer)


@pytest.mark.parametrize("name", [n for n in PATHS if n not in ("k_scale", "v_scale")])
def test_a_strided_tensor(minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor], name: str) -> None:
    t = tensors[name]
    wide = empty((*t.shape[:-1], 2 * t.shape[-1]), t.dtype)
    replaced(layer, name, wide[..., ::2])
    assert problems(minimax_module, layer) == {(name, "strides")}
    if t.dim() > 1:
        replaced(layer, name, wide[..., : t.shape[-1]])
        assert problems(minimax_module, layer) == {(name, "strides")}
        replaced(layer, name, empty((*t.shape[:-2], t.shape[-1], t.shape[-2]), t.dtype).transpose(-1, -2))
        assert problems(minimax_module, layer) == {(name, "strides")}
        replaced(layer, name, t.transpose(-1, -2))
        square = t.shape[-1] == t.shape[-2]
        assert problems(minimax_module, layer) == {(name, "strides"), *(() if square else {(name, "shape")})}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_at_an_odd_address(
    minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor], name: str
) -> None:
    t = tensors[name]
    base = torch.empty(t.nbytes + 16, dtype=torch.uint8)
    replaced(layer, name, base[t.itemsize : t.itemsize + t.nbytes].view(t.dtype).view(t.shape))
    assert problems(minimax_module, layer) == {(name, "alignment")}
    replaced(layer, name, base[8 : 8 + t.nbytes].view(t.dtype).view(t.shape))
    assert problems(minimax_module, layer) == {(name, "alignment")}


@pytest.mark.parametrize("name", [n for n in CONVERTED if n != "gate"])
def test_a_converters_source_may_stand_at_any_address_of_its_element(
    minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor], name: str
) -> None:
    t = tensors[name]
    base = torch.zeros(t.nbytes + 16, dtype=torch.uint8)
    replaced(layer, name, base[1 : 1 + t.nbytes].view(t.dtype).view(t.shape))
    drop(layer, "is_moe_layer")  # refused for this alone, before anything is converted
    assert problems(minimax_module, layer) == {("layer.is_moe_layer", "attribute")}


@pytest.mark.parametrize("name", PATHS)
def test_a_tensor_without_memory(
    minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor], name: str
) -> None:
    t = tensors[name]
    replaced(layer, name, torch.empty(t.shape, dtype=t.dtype, device="meta"))
    (problem,) = problems(minimax_module, layer)
    assert problem[0] == name and problem[1] not in ("dtype", "shape")
    put(layer, PATHS[name], [1, 2, 3])
    (problem,) = problems(minimax_module, layer) - {(name, "attest")}
    assert problem[0] == name


@pytest.mark.parametrize("name", ["w13", "w2"])
@pytest.mark.parametrize("flag", ["absent", None, False, 1, "yes"])
def test_experts_that_nobody_says_are_shuffled(minimax_module: ModuleType, layer: Part, name: str, flag: Any) -> None:
    if flag == "absent":
        del at(layer, PATHS[name]).is_shuffled
    else:
        at(layer, PATHS[name]).is_shuffled = flag
    assert problems(minimax_module, layer) == {(name, "attest")}


@pytest.mark.parametrize("name", ["w_qkv", "w_o", "sh_w13", "sh_w2"])
def test_a_row_major_source_that_says_it_is_shuffled(minimax_module: ModuleType, layer: Part, name: str) -> None:
    at(layer, PATHS[name]).is_shuffled = True
    assert problems(minimax_module, layer) == {(name, "attest")}


def test_a_number_of_experts_that_the_spec_does_not_have(minimax_module: ModuleType) -> None:
    found = specimens(127)
    layer = light_layer(found)
    assert problems(minimax_module, layer) == {("w13", "dim")}


@pytest.mark.parametrize("name", ["s13", "w2", "s2"])
def test_experts_of_two_numbers(minimax_module: ModuleType, layer: Part, name: str) -> None:
    replaced(layer, name, specimens(129)[name])
    assert problems(minimax_module, layer) == {(name, "dim")}


def test_the_first_tensor_of_experts_says_how_many_there_are(minimax_module: ModuleType, layer: Part) -> None:
    replaced(layer, "w13", specimens(129)["w13"])
    assert problems(minimax_module, layer) == {("s13", "dim"), ("w2", "dim"), ("s2", "dim")}


REQUIRED: list[tuple[str, str, Any]] = [
    ("layer.is_moe_layer", "is_moe_layer", False),
    ("attn.num_heads == Q_HEADS", "self_attn.num_heads", 32),
    ("attn.num_kv_heads == KV_HEADS", "self_attn.num_kv_heads", 4),
    ("attn.head_dim == HEAD_DIM", "self_attn.head_dim", 64),
    ("attn.rotary_emb.rotary_dim == ROTARY_DIM", "self_attn.rotary_emb.rotary_dim", 128),
    ("not experts.moe_config.use_ep", "block_sparse_moe.experts.moe_config.use_ep", True),
    ("experts.top_k == 4", "block_sparse_moe.experts.top_k", 8),
]


@pytest.mark.parametrize(("text", "path", "wrong"), REQUIRED)
def test_a_condition_that_does_not_hold(
    minimax_module: ModuleType, layer: Part, text: str, path: str, wrong: Any
) -> None:
    for value in (wrong, None, "4", 4.0):
        put(layer, path, value)
        assert problems(minimax_module, layer) == {(text, "require")}
    drop(layer, path)
    assert problems(minimax_module, layer) == {(text, "attribute")}


def test_every_condition_of_the_spec_is_tried() -> None:
    text = (ROOT / "specs" / "minimax_m3.layout").read_text()
    stated = [line.strip() for line in text.splitlines() if line.startswith("    require") and "row" not in line]
    conditions = [c.strip() for line in stated for c in line.removeprefix("require").split(",")]
    assert conditions == [text for text, _, _ in REQUIRED]


@pytest.mark.parametrize(
    ("path", "name"), [("self_attn", "attn"), ("block_sparse_moe", "moe"), ("block_sparse_moe.experts", "experts")]
)
def test_a_part_of_the_layer_that_is_not_there_is_one_problem(
    minimax_module: ModuleType, layer: Part, path: str, name: str
) -> None:
    drop(layer, path)
    assert problems(minimax_module, layer) == {(name, "path")}


def test_no_shared_expert_beside_128_experts(minimax_module: ModuleType, layer: Part) -> None:
    drop(layer, "block_sparse_moe.shared_experts")
    assert problems(minimax_module, layer) == {("mlp", "path")}


def test_every_problem_of_a_layer_stands_in_one_refusal(
    minimax_module: ModuleType, layer: Part, tensors: dict[str, torch.Tensor]
) -> None:
    put(layer, "self_attn.num_heads", 32)
    drop(layer, "block_sparse_moe.experts.top_k")
    replaced(layer, "g_in", tensors["g_in"].view(torch.float16))
    at(layer, PATHS["w_qkv"]).is_shuffled = True
    replaced(layer, "s_qkv", tensors["s_qkv"][:-1])
    replaced(layer, "w13", tensors["w13"].view(torch.int8).transpose(1, 2))
    at(layer, PATHS["w2"]).is_shuffled = False
    drop(layer, PATHS["sh_s2"])
    with pytest.raises(MonoUnsupported) as refusal:
        minimax_module.SparseMoeLayer.from_layer(layer)
    found = [(p.field, p.what) for p in refusal.value.problems]
    assert found == [
        ("attn.num_heads == Q_HEADS", "require"),
        ("experts.top_k == 4", "attribute"),
        ("g_in", "dtype"),
        ("s_qkv", "shape"),
        ("w_qkv", "attest"),
        ("w13", "dtype"),
        ("w13", "shape"),
        ("w13", "strides"),
        ("w2", "attest"),
        ("sh_s2", "attribute"),
    ], "in the order of the spec"
    text = str(refusal.value)
    assert text.startswith("SparseMoeLayer (minimax_m3.layout): 10 problems")
    assert all(name in text for name in ("g_in", "expected bfloat16", "found float16", "2559 x 192"))


# --- the struct ---


def test_the_struct_is_frozen_and_keyword_only_and_compares_by_identity(minimax_module: ModuleType) -> None:
    struct = minimax_module.SparseMoeLayer
    params = struct.__dataclass_params__
    assert params.frozen and not params.eq
    assert all(f.kw_only for f in dataclasses.fields(struct))
    names = [f.name for f in dataclasses.fields(struct) if not f.name.startswith("_")]
    assert names == ["E", "POS", "BLOCKS", *PATHS]
    assert set(struct.field_ids) == set(PATHS)
    assert struct.segments["w13"] == {"gate": (0, 768), "up": (768, 1536)} == struct.segments["sh_s13"]


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return the module generated with `--set minimax_m3.TP=2`."""
    folder = tmp_path_factory.mktemp("tp2")
    for file in generate([ROOT / "specs" / "minimax_m3.layout"], {"minimax_m3.TP": 2}).files:
        if file.path == "minimax_m3.py":
            (folder / file.path).write_text(file.text)
    return load_named(folder / "minimax_m3.py")


def load_named(path: Path) -> ModuleType:
    """Return a generated module, kept apart from the committed one of the same name."""
    other = path.with_name("minimax_m3_tp2.py")
    path.rename(other)
    return load_generated(other)


def test_another_tensor_parallel_size_changes_every_number_that_follows(
    half: ModuleType, minimax_module: ModuleType, layer: Part
) -> None:
    struct, quarter = half.SparseMoeLayer, minimax_module.SparseMoeLayer
    assert struct.segments["w13"] == {"gate": (0, 1536), "up": (1536, 3072)}
    assert struct.segments["w_qkv"]["index_k"] == (4864, 4992)
    assert half.CpSparseMoeLayer.segments["w_qkv"]["index_q"] == (4608, 5120)
    assert struct.offset_w13(1, 0, 0) == (2 * quarter.offset_w13(1, 0, 0)[0], 0)
    assert struct.struct_id != quarter.struct_id and struct.field_ids["g_in"] == quarter.field_ids["g_in"]
    sharded = {"w_qkv", "s_qkv", "w_o", "s_o", "w13", "s13", "w2", "s2", "sh_w13", "sh_s13", "sh_w2", "sh_s2"}
    with pytest.raises(MonoUnsupported) as refusal:
        struct.from_layer(layer)
    found = {(p.field, p.what) for p in refusal.value.problems}
    heads = {("attn.num_heads == Q_HEADS", "require"), ("attn.num_kv_heads == KV_HEADS", "require")}
    asked = {name for name in sharded if not name.startswith("sh_")}  # no tensor binds E: the shared expert is not
    assert found == {(name, "shape") for name in asked} | heads


def test_the_stamp_names_the_override(half: ModuleType) -> None:
    assert half.__file__ is not None
    head = Path(half.__file__).read_text().split('"""')[0]
    assert "minimax_m3.TP=2" in head and "Do not edit" in head
