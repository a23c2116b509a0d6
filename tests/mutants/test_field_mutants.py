"""Mutants of the MiniMax-M3 spec's fields and tables: what is read otherwise has another field or struct id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from mono_gen.pipeline import plan_specs
from tests.conftest import ROOT

SPEC = (ROOT / "specs" / "minimax_m3.layout").read_text()
ALL = ("SparseMoeLayer", "CpSparseMoeLayer")


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one spec: by struct, and by struct and field."""

    structs: dict[str, int]
    fields: dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit: `old` becomes `new`, at its first place or the one after `after`; what gets another id by it.

    fields:  those of SparseMoeLayer, which CpSparseMoeLayer inherits but for w_qkv.
    structs: the structs with another id; those of changed fields always.
    """

    what: str
    old: str
    new: str
    fields: tuple[str, ...] = ()
    wide: bool = False  # w_qkv of CpSparseMoeLayer, too
    structs: tuple[str, ...] = ALL
    after: str = ""
    overrides: dict[str, int] = field(default_factory=dict)


_SEGMENTS = "segments row = gate:INTER up:INTER"
_SWAPPED = "segments row = up:INTER gate:INTER"
_W13, _W2 = "w13, s13 :", "w2, s2 :"
_SH13, _SH2 = "sh_w13, sh_s13 :", "sh_w2, sh_s2 :"

CHANGES = [
    Mutant("gate and up of w13 exchanged", _SEGMENTS, _SWAPPED, ("w13",), after=_W13),
    Mutant("gate and up of sh_w13 exchanged", _SEGMENTS, _SWAPPED, ("sh_w13",), after=_SH13),
    Mutant("w13 without segments", _SEGMENTS, "", ("w13",), after=_W13),
    Mutant("a segment of w13 renamed", _SEGMENTS, "segments row = gate:INTER upper:INTER", ("w13",), after=_W13),
    Mutant("k and v of w_qkv exchanged", "k:KV_HEADS*HEAD_DIM v:", "v:KV_HEADS*HEAD_DIM k:", ("w_qkv",)),
    Mutant(
        "index_q and index_k of w_qkv exchanged",
        "index_q:IQ_HEADS*HEAD_DIM index_k:HEAD_DIM",
        "index_k:HEAD_DIM index_q:IQ_HEADS*HEAD_DIM",
        ("w_qkv",),
    ),
    Mutant("w_o in another tile", "tile     shuffle_16x16", "tile     shuffle_32x16", ("w_o",), after="w_o, s_o :"),
    Mutant("w_o in row-major order", "tile     shuffle_16x16", "tile     row_major", ("w_o",), after="w_o, s_o :"),
    Mutant("w13 gate and up interleaved", "tile     shuffle_16x16\n        scale    e8m0_shuffle\n        view     "
           "experts.w13_weight, experts.w13_weight_scale\n        attest   shuffle_16x16",
           "tile     shuffle_16x16_gate_up\n        scale    e8m0_shuffle\n        view     "
           "experts.w13_weight, experts.w13_weight_scale\n        attest   shuffle_16x16_gate_up", ("w13",)),
    Mutant("scale of w13 in another order", "scale    e8m0_shuffle", "scale    shuffle_scale_n32k4", ("w13",),
           after=_W13),
    Mutant("scale of w2 in another order", "scale    e8m0_shuffle", "scale    shuffle_scale_n32k4", ("w2",), after=_W2),
    Mutant("scale of sh_w2 in row-major order", "scale    e8m0_tiles", "scale    row_major", ("sh_w2",), after=_SH2),
    Mutant("weight and scale layouts of sh_w2 exchanged", "tile     mxfp8_a_tiles\n            scale    e8m0_tiles",
           "tile     e8m0_tiles\n            scale    mxfp8_a_tiles_small", ("sh_w2",), after=_SH2),
    Mutant("sh_w13 in the order of the other weights", "tile     mxfp8_a_tiles", "tile     shuffle_16x16", ("sh_w13",),
           after=_SH13),
    Mutant("w2 transposed", "w2, s2 : mxfp4[E, HIDDEN, INTER]", "w2, s2 : mxfp4[E, INTER, HIDDEN]", ("w2",)),
    Mutant("experts counted otherwise", "mxfp4[E, HIDDEN, INTER]", "mxfp4[ROUTED, HIDDEN, INTER]", ("w2",)),
    Mutant("another hidden size of g_post", "g_post  : bf16[HIDDEN]", "g_post  : bf16[HIDDEN / 2]", ("g_post",)),
    Mutant("bias in another format", "bias    : fp32[ROUTED]", "bias    : int32[ROUTED]", ("bias",)),
    Mutant("g_in in another format of the same bytes", "g_in    : bf16[HIDDEN]", "g_in    : fp16[HIDDEN]", ("g_in",)),
    Mutant("gate not cast", "gate    : bf16[ROUTED, HIDDEN] { tile row_major  convert fp32 row_major moe.gate.weight }",
           "gate    : fp32[ROUTED, HIDDEN] { tile row_major  view moe.gate.weight }", ("gate",)),
    Mutant("a cache block of another length", "fp8_e4m3fn[BLOCKS, BLOCK, HEAD_DIM]",
           "fp8_e4m3fn[BLOCKS, 2 * BLOCK, HEAD_DIM]", ("index_cache",)),
    Mutant("the rotary table half as wide", "bf16[POS, ROTARY_DIM]", "bf16[POS, ROTARY_DIM / 2]", ("cos_sin",)),
    Mutant("args of k1_args exchanged", "ar g_in w_qkv s_qkv", "ar g_in s_qkv w_qkv"),
    Mutant("extras of k1_args exchanged", "args k1_args(ar, iq_out, scratch)", "args k1_args(ar, scratch, iq_out)"),
    Mutant("an arg of k1_args left out", "cos_sin index_cache iq_out", "cos_sin iq_out"),
    Mutant("args of sh_args exchanged", "args sh_args { sh_w13 sh_s13 sh_w2 sh_s2 }",
           "args sh_args { sh_w2 sh_s2 sh_w13 sh_s13 }"),
    Mutant("the table renamed", "args sh_args {", "args shared_args {"),
    Mutant("a field renamed", "bias    : fp32[ROUTED]", "biases  : fp32[ROUTED]"),
    Mutant("gathered segment elsewhere", "index_q:IQ_HEADS*HEAD_DIM*TP index_k:HEAD_DIM",
           "index_k:HEAD_DIM index_q:IQ_HEADS*HEAD_DIM*TP", (), wide=True, structs=("CpSparseMoeLayer",)),
    Mutant("the wide projection in another tile", "tile     shuffle_16x16", "tile     shuffle_32x16", (), wide=True,
           structs=("CpSparseMoeLayer",), after="gather   index_q over group"),
    Mutant("digits of mxfp8_a_tiles exchanged", "store tile R K | lane g r | byte half b",
           "store tile R K | lane r g | byte half b", ("sh_w13", "sh_w2")),
    Mutant("a size of mxfp8_a_tiles halved", "half:2 g:4 b:16", "half:2 g:2 b:16", ("sh_w13", "sh_w2")),
]  # fmt: skip

NOTHING = [
    Mutant("w_o named after another function of the same order", "tile     shuffle_16x16",
           "tile     shuffle_weight_f4", after="w_o, s_o :", structs=()),
    Mutant("pads of another fill where no pad is live", "scale    e8m0_shuffle", "scale    e8m0_shuffle_zero",
           after=_W13, structs=()),
    Mutant("no pads where no pad is live", "scale    e8m0_shuffle", "scale    e8m0_tiles", after=_W2, structs=()),
    Mutant("another source", "view moe.e_score_correction_bias", "view moe.bias", structs=()),
    Mutant("another doc comment", "## Everything the layer kernel reads", "## All that the kernel reads", structs=()),
    Mutant("another condition", "require experts.top_k == 4", "require experts.top_k == 8", structs=()),
    Mutant("a digit renamed", "split row = R r:16\n    split k   = K half:2 g:4 b:16\n    store tile R K | lane g r",
           "split row = R lane_row:16\n    split k   = K half:2 g:4 b:16\n    store tile R K | lane g lane_row",
           structs=()),
    Mutant("a legal size narrowed", "require row % 32 == 0, k % 256 == 0", "require row % 64 == 0, k % 256 == 0",
           structs=()),
    Mutant("fields in another order", "    g_q     : bf16[HEAD_DIM] { view attn.q_norm.weight }\n"
           "    g_k     : bf16[HEAD_DIM] { view attn.k_norm.weight }\n",
           "    g_k     : bf16[HEAD_DIM] { view attn.k_norm.weight }\n"
           "    g_q     : bf16[HEAD_DIM] { view attn.q_norm.weight }\n", structs=()),
    Mutant("run-time extents of other values", "dim E in { ROUTED, ROUTED + 1 }", "dim E in { ROUTED, ROUTED + 2 }",
           structs=()),
]  # fmt: skip

# `scale mxfp8_a_tiles` fits no scale of 24 blocks: this is its order at those extents, for the exchanged pair.
SMALL = """layout mxfp8_a_tiles_small(row, k) {
    split row = R r:16
    split k   = K b:4
    store R K r b
}
"""


def edited(mutant: Mutant) -> str:
    """Return the spec with the mutant's edit, and without the clauses that would refuse it."""
    start = SPEC.index(mutant.after)
    at = SPEC.index(mutant.old, start)
    text = SPEC[:at] + mutant.new + SPEC[at + len(mutant.old) :]
    if "mxfp8_a_tiles_small" in text:
        text = text.replace("struct SparseMoeLayer(layer)", SMALL + "\nstruct SparseMoeLayer(layer)", 1)
        doc = "## Everything the layer kernel reads for one sparse-attention MoE layer.\n"
        text = text.replace(doc, "")
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(("same as", "feeds ")))


def ids_of(folder: Path, text: str, overrides: dict[str, int]) -> Ids:
    """Return the ids of a spec's text."""
    path = folder / "minimax_m3.layout"
    path.write_text(text)
    plans, _ = plan_specs([path], overrides)
    structs = plans[-1].structs
    assert plans[-1].model.name == "minimax_m3"
    fields = {(s.model.name, f.model.name): f.id for s in structs for f in s.fields}
    return Ids({s.model.name: s.id for s in structs}, fields)


@cache
def original() -> Ids:
    """Return the ids of the spec as it is."""
    plans, _ = plan_specs([ROOT / "specs" / "minimax_m3.layout"], {})
    structs = plans[-1].structs
    fields = {(s.model.name, f.model.name): f.id for s in structs for f in s.fields}
    return Ids({s.model.name: s.id for s in structs}, fields)


@pytest.mark.parametrize("mutant", CHANGES + NOTHING, ids=lambda mutant: mutant.what)
def test_exactly_what_is_read_otherwise_has_another_id(
    tmp_path: Path, mutant: Mutant, record_property: Callable[[str, object], None]
) -> None:
    mine, theirs = original(), ids_of(tmp_path, edited(mutant), mutant.overrides)
    wanted = {("SparseMoeLayer", name) for name in mutant.fields}
    wanted |= {("CpSparseMoeLayer", name) for name in mutant.fields if name != "w_qkv"}
    wanted |= {("CpSparseMoeLayer", "w_qkv")} if mutant.wide else set()
    changed = {key for key, number in mine.fields.items() if theirs.fields.get(key, number) != number}
    assert changed == wanted
    structs = {name for name in ALL if mine.structs[name] != theirs.structs[name]}
    if mutant.fields == ("w_qkv",):
        assert structs == {"SparseMoeLayer"}, "the wide projection is the other struct's own"
    else:
        assert structs == set(mutant.structs)
    kind = "that change what is read, each with another id" if structs else "that change nothing, each with the same id"
    record_property(f"count: field mutants {kind}", 1)


def test_another_tensor_parallel_size_is_another_struct(tmp_path: Path) -> None:
    mine, theirs = original(), ids_of(tmp_path, SPEC, {"minimax_m3.TP": 2})
    sharded = {"w_qkv", "w_o", "w13", "w2", "sh_w13", "sh_w2"}
    assert {name for (_, name), number in mine.fields.items() if theirs.fields[_, name] != number} == sharded
    assert not set(mine.structs.values()) & set(theirs.structs.values())


def test_the_generated_ids_are_these(tmp_path: Path, minimax_module: object) -> None:
    mine = original()
    for name, number in mine.structs.items():
        struct = getattr(minimax_module, name)
        assert struct.struct_id == number
        for (owner, field_name), field_id in mine.fields.items():
            if owner == name:
                assert struct.field_ids[field_name] == field_id
    assert ids_of(tmp_path, SPEC, {}) == mine


def test_fields_of_one_layout_and_size_share_an_id_and_others_do_not() -> None:
    """g_in and g_post are exchangeable tensors, so their ids are equal; the struct's text names them apart."""
    mine = original().fields
    groups: dict[int, set[str]] = {}
    for (struct, name), number in mine.items():
        if struct == "SparseMoeLayer":
            groups.setdefault(number, set()).add(name)
    shared = sorted(sorted(names) for names in groups.values() if len(names) > 1)
    assert shared == [["g_ik", "g_iq", "g_k", "g_q"], ["g_in", "g_post"], ["k_scale", "v_scale"]]
