"""The map beside a spec: what it says, and every way in which it may be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mono_gen.checkpoint.folder import open_checkpoint
from mono_gen.checkpoint.jobs import plan_work
from mono_gen.checkpoint.names import Part, read_map
from mono_gen.checkpoint.pieces import Share
from mono_gen.checkpoint.problems import Refused
from mono_gen.checkpoint.target import find_target, require_map
from tests.checkpoint import made
from tests.conftest import ROOT

HEAD = "layers model.layers.{layer}\n"


def text_map(tmp_path: Path, text: str) -> Path:
    (tmp_path / "some.map").write_text(text)
    return tmp_path / "some.map"


def refusal(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(Refused) as raised:
        read_map(text_map(tmp_path, text))
    assert raised.value.code == 1
    return raised.value.lines


def test_a_map_says_what_it_says(tmp_path: Path) -> None:
    text = (
        "# a comment\nlayers a.{layer} or b.{layer}.c  # another\nhaving x.y and z\n\n"
        "layer.p.q\n    s:  n.m or n.k   cut row widen\n\t{e}.w\nlayer.r\n  t  cut k\n"
    )
    found = read_map(text_map(tmp_path, text))
    assert (found.layers, found.having) == (("a.{layer}", "b.{layer}.c"), ("x.y", "z"))
    assert found.sources == {
        "layer.p.q": (Part("s", ("n.m", "n.k"), "row", True, 6), Part("", ("{e}.w",), "", False, 7)),
        "layer.r": (Part("", ("t",), "k", False, 9),),
    }
    assert found.lines == {"layer.p.q": 5, "layer.r": 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer.p\n  a\n", "no `layers` line"),
        ("layers model.layers\nlayer.p\n  a\n", "'model.layers' has no {layer}"),
        (HEAD, "it names no source of any field"),
        (f"{HEAD}layer.p\n", "line 2: layer.p is made of nothing"),
        (f"{HEAD}{HEAD}layer.p\n  a\n", "line 2: a second `layers`"),
        (f"{HEAD}  a\nlayer.p\n  a\n", "line 2: tensors without a source"),
        (f"{HEAD}layer.p = a\n", "line 2: expected `layers`, `having` or a source's path alone, found 'layer.p = a'"),
        (f"{HEAD}layer.p\n  a\nlayer.p\n  b\n", "line 4: layer.p a second time, first in line 2"),
        (f"{HEAD}layer.p\n  a cut\n", "line 3: expected `[SEGMENT:] NAME"),
        (f"{HEAD}layer.p\n  a cut row cut k\n", "line 3: expected `[SEGMENT:] NAME"),
        (f"{HEAD}layer.p\n  a b\n", "line 3: expected `[SEGMENT:] NAME"),
        (f"{HEAD}layer.p\n  cut row\n", "line 3: expected `[SEGMENT:] NAME"),
        (f"{HEAD}layer.p\n  a,b\n", "'a,b' is no name of a tensor"),
        (f"{HEAD}layer.p\n  model.layers.{{layer}}.a\n", "leave {layer} out"),
        (f"{HEAD}layer.p\n  {{a}}.{{b}}\n", "one {item} at most"),
        (f"{HEAD}layer.p\n  {{a}}.x or x\n", "an {item} in all of the names, or in none"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    lines = refusal(tmp_path, text)
    assert any(message in line for line in lines), lines


def test_every_wrong_line_is_named_at_once(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, "x y\n  a b c\nlayer.p\n  cut\n")) == 4


def test_a_map_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "some.map").write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="not UTF-8"):
        read_map(tmp_path / "some.map")


def test_the_map_of_the_real_spec_fits_both_structs() -> None:
    spec = ROOT / "specs" / "minimax_m3.layout"
    names = read_map(spec.with_suffix(".map"))
    for struct in ("SparseMoeLayer", "CpSparseMoeLayer"):
        target = find_target(spec, struct, {})
        require_map(target, names.path, names.lines)
        left = {f.name for f in target.fields if not any(p in names.sources for s in f.sources for p in s.paths)}
        assert left == {"cos_sin", "index_cache", "k_scale", "v_scale"}


def test_paths_that_nothing_reads_and_half_a_field(tmp_path: Path) -> None:
    spec = made.write_spec(tmp_path)
    target = find_target(spec, "SparseMoeLayer", {})
    experts = "layer.block_sparse_moe.experts"
    text = (
        f"{HEAD}layer.input_layernorm.wieght\n  a\nlayer.self_attn.o_proj.weight\n  b\n"
        f"{experts}.w2_weight\n  c.{{e}}\n{experts}.w2_weight_scale\n  d.{{e}}\n"
        f"{experts}.routed_experts.w2_weight\n  e.{{e}}\n"
    )
    names = read_map(text_map(tmp_path, text))
    with pytest.raises(Refused) as raised:
        require_map(target, names.path, names.lines)
    assert raised.value.lines == (
        "line 2: no field of SparseMoeLayer reads layer.input_layernorm.wieght; "
        "did you mean layer.input_layernorm.weight?",
        "field w_o: it names layer.self_attn.o_proj.weight, and not layer.self_attn.o_proj.weight_scale, "
        "which goes with it",
        f"line 6: {experts}.w2_weight is the same source as {experts}.routed_experts.w2_weight",
    )
    names = read_map(text_map(tmp_path, f"{HEAD}layer.nothing\n  a\n"))
    with pytest.raises(
        Refused, match=r"it names no source of SparseMoeLayer, whose fields read layer\.input_layernorm"
    ):
        require_map(target, names.path, names.lines)


def lines_of(tmp_path: Path, changes: dict[str, str], world: int = 4, drop: str = "") -> tuple[str, ...]:
    """Return the problems of a changed map with the checkpoint, one tensor dropped."""
    spec = made.write_spec(tmp_path)
    text = spec.with_suffix(".map").read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    spec.with_suffix(".map").write_text(text)
    tensors = {name: t for name, t in made.all_tensors().items() if not drop or drop not in name}
    folder = made.write_checkpoint(tmp_path / "in", tensors)
    target, names = find_target(spec, "SparseMoeLayer", {}), read_map(spec.with_suffix(".map"))
    with pytest.raises(Refused) as raised:
        plan_work(open_checkpoint(folder), target, names, Share(0, world), None)
    assert raised.value.code == 1
    return raised.value.lines


@pytest.mark.parametrize(
    ("changes", "world", "drop", "messages"),
    [
        (
            {"having block_sparse_moe.gate.weight and": "having no.such and"},
            4,
            "",
            ["no layer language_model.model.layers.{layer} or model.layers.{layer} with no.such and self_attn"],
        ),
        ({}, 1, "", ["SparseMoeLayer is of one of 4 ranks, and this is rank 0 of 1: say --world-size 4, or --set"]),
        ({}, 8, "", ["SparseMoeLayer is of one of 4 ranks, and this is rank 0 of 8: say --world-size 4"]),
        (
            {},
            4,
            ".1.self_attn.k_norm",
            ["layer 1: missing: language_model.model.layers.1.self_attn.k_norm.weight (minimax_m3.map:"],
        ),
        (
            {},
            4,
            ".1.self_attn.v_proj.weight_scale",
            ["v_proj.weight_scale_inv or language_model.model.layers.1.self_attn.v_proj.weight_scale (minimax_m3.map:"],
        ),
        (
            {},
            4,
            ".2.block_sparse_moe.experts.3.w2.weight_scale",
            ["layer 2: missing: language_model.model.layers.2.block_sparse_moe.experts.3.w2.weight_scale, of"],
        ),
        ({}, 4, ".2.block_sparse_moe.experts.5.", ["E is 5; SparseMoeLayer takes 6 or 7"]),
        (
            {"self_attn.o_proj.weight  cut k": "self_attn.o_proj.weight  cut row"},
            4,
            "",
            ["o_proj.weight: shape: expected 1024 x 128, found 256 x 512 (torch)"],
        ),
        (
            {"self_attn.o_proj.weight  cut k": "self_attn.o_proj.weight  cut head"},
            4,
            "",
            ["cut head: w_o has the axes row, k (minimax_m3.map:"],
        ),
        (
            {"    v:       self_attn.v_proj.weight        cut row\n": ""},
            4,
            "",
            ["w_qkv is made of segments q, k, v, index_q, index_k, found q, k, index_q, index_k"],
        ),
        (
            {"    self_attn.q_norm": "    x: self_attn.q_norm"},
            4,
            "",
            ["g_q is made of one line without a segment, found x"],
        ),
        (
            {"    self_attn.q_norm": "    self_attn.{e}_norm"},
            4,
            "",
            ["missing: language_model.model.layers.1.self_attn.0_norm"],
        ),
        (
            {"    self_attn.q_norm": "    self_attn.k_norm"},
            4,
            "",
            ["self_attn.k_norm.weight goes into both g_q and g_k"],
        ),
        (
            {"block_sparse_moe.gate.weight  widen": "input_layernorm.weight"},
            4,
            "",
            [
                "input_layernorm.weight: dtype: expected float32, found BF16",
                "input_layernorm.weight: shape: expected 6 x 256, found 256",
            ],
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    tmp_path: Path, changes: dict[str, str], world: int, drop: str, messages: list[str]
) -> None:
    lines = lines_of(tmp_path, changes, world, drop)
    for message in messages:
        assert any(message in line for line in lines), "\n".join(lines)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, {}, drop="weight_scale")
    assert len(lines) == 21 and lines[-1] == "and 4 more"
