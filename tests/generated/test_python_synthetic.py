"""Specs with every form of field, generated, imported and run on plain objects: all bytes by independent numpy code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen.pipeline import generate
from mono_gen.runtime import MonoUnsupported
from tests.conftest import load_generated
from tests.reference.data import mixed
from tests.reference.layouts import pack
from tests.reference.values import bf16_to_ptpc_fp8, fp32_to_bf16, mxfp8_to_bf16, mxfp8_to_ptpc_fp8

BASE = """
## What others extend.
spec common
arch gfx950

param ROWS = 24

## Tiles of 4 rows by 16 bytes, rows to 8.
layout tile4(row, k) {
    pad row to 8 fill 0x7F
    split row = R r:4
    split k   = K b:16B
    store tile R K | lane r | byte b
}

struct Base(layer) {
    let attn = layer.first or layer.attn
    require layer.ok, attn.heads in { 2, 4 }, layer.depth != 0
    dim T
    ## A vector.
    g    : bf16[32] { view attn.g }
    w    : uint8[ROWS, 64] { tile tile4  convert uint8 row_major attn.w }
    table : uint8[T, 16] { tile row_major  view attn.table }
    args base_args(x) { x g w table }
}
"""

FORMS = """
spec forms
arch gfx950
import "common.layout"
import "aiter.layout"

const N = 45

layout rows16(row, k) {
    pad row to 16, k to 96 fill 0x5A
    split row = R r:16
    split k   = K b:32
    store R K r b
}

layout cols96(row, k) {
    pad k to 96 fill 0xA
    split row = R r:16
    split k   = K b:32
    store R K r b
}

layout rows8(row, k) {
    pad row to 8, k to 4 fill 0x7F
    split row = R r:8
    store R k r
}

## Two rows at a time, the k of a pair of halves beside each other.
layout halves(row, k) {
    split row = gu:2 I
    split k   = h:2 K
    store I gu K h
}

layout pitched(row, k) {
    store row k
    pitch row = 40
}

struct Forms(layer, extra) extends Base {
    dim E in { 2, 3 }
    table : uint8[T, 16] { tile row_major  convert uint8 row_major extra.table }

    # segments padded one by one, data and scale; the scale by its own multiple
    w_pad, s_pad : mxfp8[N, 64] {
        segments row = a:20 b:9 c:16 pad each
        tile rows16  scale rows8
        convert mxfp8 row_major layer.pad.weight, layer.pad.scale
    }
    # segments along k, padded each, of four-bit data
    f_pad : fp4_e2m1[16, 96] {
        segments k = a:32 b:64 pad each
        tile cols96
        convert fp4_e2m1 row_major layer.fp4k
    }
    gated : fp8_e4m3fn[E, 64, 64] { segments row = gate:32 up:32  tile shuffle_16x16_gate_up
        convert fp8_e4m3fn row_major layer.gated }
    mixed_up : bf16[E, 3, 6, 4] { tile halves  convert bf16 row_major layer.mixed }
    flat : uint8[E, 4, 32] { tile row_major  view layer.flat as [E * 4, 32] }
    lone : uint8[E, 4, 32] { tile row_major  view layer.lone as [E, 128] }
    packed : bf16[E, 32, 32] { tile shuffle_16x16  view layer.packed as [E * 1024]
        attest shuffle_16x16 when layer.packed_flag }
    plain : bf16[5, 7] { tile row_major  convert bf16 row_major layer.plain  attest not layer.plain_flag }
    undone : uint8[32, 64] { tile row_major  convert uint8 shuffle_16x16 layer.undone
        attest shuffle_16x16 when layer.undone_flag }
    redone : uint8[E, 32, 64] { tile tile4  convert uint8 shuffle_16x16 layer.redone
        attest shuffle_16x16 when layer.undone_flag }
    quant, quant_s : ptpc_fp8[32, 64] { tile shuffle_16x16  convert bf16 row_major layer.bf }
    wide : bf16[16, 64] { tile row_major  convert mxfp8 row_major layer.pad16.weight, layer.pad16.scale }
    fp4, fp4_s : mxfp4[32, 256] { tile shuffle_16x16  scale e8m0_tiles
        convert mxfp4 row_major layer.fp4, layer.fp4_scale }
    cast : bf16[2, 8, 16] { tile row_major  convert fp32 row_major layer.floats as [16, 16] }

    optional tail when E == 3, layer.has_tail {
        let part = layer.tail or extra.tail
        require part.ok, part.n >= 2
        t, t_s : mxfp8[32, 256] { tile shuffle_16x16  scale e8m0_shuffle
            convert mxfp8 row_major part.weight, part.scale }
        args tail_args(y) { t y t_s }
    }
    args all_args(x, y) { w_pad s_pad x quant y w }
}

struct Promised(layer) {
    nobody : uint8[32, 64] { tile shuffle_16x16  view layer.w }
}
"""

FNUZ = """
spec old
arch gfx942
import "aiter.layout"

struct Old(layer) {
    a, a_s : ptpc_fp8[32, 64] { tile shuffle_16x16  convert mxfp8 row_major layer.w, layer.s via bf16 }
    b, b_s : ptpc_fp8[2, 16, 64] { tile shuffle_16x16  scale row_major  convert bf16 row_major layer.b }
}
"""

Array = NDArray[Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the specs, and in `out` what is generated of them."""
    path = tmp_path_factory.mktemp("synthetic")
    (path / "out").mkdir()
    for name, text in (("common", BASE), ("forms", FORMS), ("fnuz", FNUZ)):
        (path / f"{name}.layout").write_text(text)
    for file in generate([path / "forms.layout", path / "fnuz.layout"], {}).files:
        (path / "out" / file.path).write_text(file.text)
    return path


@pytest.fixture(scope="module")
def forms(folder: Path) -> ModuleType:
    return load_generated(folder / "out" / "forms.py")


@pytest.fixture(scope="module")
def old(folder: Path) -> ModuleType:
    return load_generated(folder / "out" / "old.py")


# --- the layer ---


def codes(*shape: int, seed: int, below: int = 256, plus: int = 0) -> Array:
    """Return bytes without an fp8 NaN."""
    never = (0x7F, 0xFF) if below == 256 else ()
    return mixed(int(np.prod(shape)), seed, below=below, plus=plus, never=never).reshape(shape)


def bf16_bits(*shape: int, seed: int) -> Array:
    """Return bits of bf16 values from 0.5 to 2."""
    return mixed(int(np.prod(shape)), seed).astype(np.uint16).reshape(shape) | np.uint16(0x3F00)


def tensor(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """Return the bytes of an array as a tensor of its own, of a torch dtype."""
    data = torch.from_numpy(np.ascontiguousarray(array).copy())
    return data if data.dtype == dtype else data.view(dtype)


def numbers(experts: int) -> dict[str, Array]:
    """Return everything that a layer holds, in logical order."""
    return {
        "g": bf16_bits(32, seed=1),
        "w": codes(24, 64, seed=2),
        "table": codes(7, 16, seed=3),
        "pad.weight": codes(45, 64, seed=4),
        "pad.scale": codes(45, 2, seed=5, below=13, plus=118),
        "fp4k": mixed(16 * 48, seed=6).reshape(16, 48),
        "gated": codes(experts, 64, 64, seed=7),
        "mixed": bf16_bits(experts, 3, 6, 4, seed=8) + np.arange(experts * 72, dtype=np.uint16).reshape(-1, 3, 6, 4),
        "flat": codes(experts * 4, 32, seed=9),
        "lone": codes(experts, 128, seed=10),
        "packed": bf16_bits(experts * 1024, seed=11),
        "plain": bf16_bits(5, 7, seed=12),
        "undone": codes(32, 64, seed=13),
        "redone": codes(experts, 32, 64, seed=14),
        "bf": bf16_bits(32, 64, seed=15),
        "pad16.weight": codes(16, 64, seed=16),
        "pad16.scale": codes(16, 2, seed=17, below=13, plus=118),
        "fp4": mixed(32 * 128, seed=18).reshape(32, 128),
        "fp4_scale": codes(32, 8, seed=19, below=100, plus=80),
        "floats": (mixed(4 * 256, seed=20).view(np.uint32) & 0x83FFFFFF | 0x3C000000).view(np.float32).reshape(16, 16),
        "tail.weight": codes(32, 256, seed=21),
        "tail.scale": codes(32, 8, seed=22, below=13, plus=118),
    }


E4M3, E8M0 = torch.float8_e4m3fn, torch.float8_e8m0fnu
DTYPES = {
    "g": torch.bfloat16, "pad.weight": E4M3, "pad.scale": E8M0, "fp4k": torch.float4_e2m1fn_x2, "gated": E4M3,
    "mixed": torch.bfloat16, "packed": torch.bfloat16, "plain": torch.bfloat16, "bf": torch.bfloat16,
    "pad16.weight": E4M3, "pad16.scale": torch.uint8, "fp4": torch.uint8, "fp4_scale": E8M0, "floats": torch.float32,
    "tail.weight": E4M3, "tail.scale": E8M0,
}  # fmt: skip


def layer_of(found: dict[str, Array], *, has_tail: bool = True) -> tuple[Any, Any]:
    """Return (layer, extra): plain objects with tensors at the paths of the spec."""
    t = {name: tensor(array, DTYPES.get(name, torch.uint8)) for name, array in found.items()}
    own = {name: value for name, value in t.items() if "." not in name and name not in ("g", "w", "table")}
    layer = SimpleNamespace(
        ok=True,
        depth=3,
        first=None,
        attn=SimpleNamespace(heads=4, g=t["g"], w=t["w"], table=None),
        pad=SimpleNamespace(weight=t["pad.weight"], scale=t["pad.scale"]),
        pad16=SimpleNamespace(weight=t["pad16.weight"], scale=t["pad16.scale"]),
        packed_flag=True,
        undone_flag=True,
        has_tail=has_tail,
        **own,
    )
    extra = SimpleNamespace(
        table=t["table"], tail=SimpleNamespace(ok=True, n=2, weight=t["tail.weight"], scale=t["tail.scale"])
    )
    return layer, extra


# --- what the fields must hold ---


def rows16(block: Array) -> bytes:
    """Return [R, K, r, b] of rows in 16 and k in 32, k padded to a multiple of 96 already."""
    rows, k = block.shape
    return block.reshape(rows // 16, 16, k // 32, 32).transpose(0, 2, 1, 3).tobytes()


def padded(array: Array, multiples: tuple[int, ...], fill: int) -> Array:
    """Return an array with every axis padded to a multiple at its end."""
    return np.pad(array, [(0, -n % m) for n, m in zip(array.shape, multiples, strict=True)], constant_values=fill)


def in_pieces(array: Array, lengths: list[int], multiple: int, fill: int) -> Array:
    """Return rows cut in pieces, each padded to a multiple."""
    pieces = np.split(array, np.cumsum(lengths)[:-1])
    return np.concatenate([padded(piece, (multiple, 1), fill) for piece in pieces])


def expected(found: dict[str, Array], experts: int) -> dict[str, bytes]:
    """Return the bytes of every tensor of Forms."""
    pieces = [20, 9, 16]
    data = padded(in_pieces(found["pad.weight"], pieces, 16, 0x5A), (1, 96), 0x5A)
    scale = padded(in_pieces(found["pad.scale"], pieces, 8, 0x7F), (1, 4), 0x7F)
    nibbles = np.stack([found["fp4k"] & 15, found["fp4k"] >> 4], axis=-1).reshape(16, 96)
    wide = np.concatenate([padded(p, (1, 96), 0xA) for p in np.split(nibbles, [32], axis=1)], axis=1)
    fp4_stored = np.frombuffer(rows16(wide), dtype=np.uint8).reshape(-1, 2)
    halves = found["mixed"].reshape(experts, 3, 2, 3, 2, 2).transpose(0, 1, 3, 2, 5, 4)
    undone = found["undone"].reshape(2, 4, 16, 16).transpose(0, 2, 1, 3).reshape(32, 64)
    redone = found["redone"].reshape(experts, 2, 4, 16, 16).transpose(0, 1, 3, 2, 4).reshape(experts, 32, 64)
    quant, quant_s = bf16_to_ptpc_fp8(found["bf"])
    tile4 = padded(found["w"], (8, 1), 0x7F)
    return {
        "g": found["g"].tobytes(),
        "w": tile4.reshape(6, 4, 4, 16).transpose(0, 2, 1, 3).tobytes(),
        "table": found["table"].tobytes(),
        "w_pad": rows16(data),
        "s_pad": scale.reshape(-1, 8, 4).transpose(0, 2, 1).tobytes(),
        "f_pad": (fp4_stored[:, 0] | fp4_stored[:, 1] << 4).tobytes(),
        "gated": b"".join(pack("shuffle_16x16_gate_up", item).tobytes() for item in found["gated"]),
        "mixed_up": halves.tobytes(),
        "flat": found["flat"].tobytes(),
        "lone": found["lone"].tobytes(),
        "packed": found["packed"].tobytes(),
        "plain": found["plain"].tobytes(),
        "undone": undone.tobytes(),
        "redone": redone.reshape(experts, 8, 4, 4, 16).transpose(0, 1, 3, 2, 4).tobytes(),
        "quant": pack("shuffle_16x16", quant).tobytes(),
        "quant_s": quant_s.tobytes(),
        "wide": mxfp8_to_bf16(found["pad16.weight"], found["pad16.scale"]).tobytes(),
        "fp4": pack("shuffle_16x16", found["fp4"], 4).tobytes(),
        "fp4_s": pack("e8m0_tiles", found["fp4_scale"]).tobytes(),
        "cast": fp32_to_bf16(found["floats"]).tobytes(),
        "t": pack("shuffle_16x16", found["tail.weight"]).tobytes(),
        "t_s": pack("e8m0_shuffle", found["tail.scale"]).tobytes(),
    }


def raw(t: torch.Tensor) -> bytes:
    """Return a dense tensor's bytes."""
    assert t.is_contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("experts", [2, 3])
def test_every_form_holds_the_bytes_that_numpy_works_out(forms: ModuleType, experts: int) -> None:
    found = numbers(experts)
    layer, extra = layer_of(found)
    struct = forms.Forms.from_layer(layer, extra)
    wanted = expected(found, experts)
    assert set(wanted) == set(struct.field_ids)
    for name, data in wanted.items():
        t = getattr(struct, name)
        if name in ("t", "t_s") and experts == 2:
            assert t is None
            continue
        assert t.data_ptr() % 16 == 0 and t.nbytes == len(data), name
        assert raw(t) == data, name
    sizes = (struct.E, struct.T)
    assert sizes == (experts, 7)
    assert struct.nbytes() == sum(len(d) for n, d in wanted.items() if experts == 3 or n not in ("t", "t_s"))
    assert struct.quant.dtype == E4M3 and struct.fp4.dtype in (torch.float4_e2m1fn_x2, torch.uint8)
    views = {"flat": layer.flat, "lone": layer.lone, "packed": layer.packed, "g": layer.attn.g}
    for name, source in views.items():
        assert getattr(struct, name).data_ptr() == source.data_ptr(), f"{name} is a view"
    assert struct.flat.shape == struct.lone.shape == (experts, 4, 32)
    for name in ("table", "plain", "undone", "cast"):
        mine = {"table": extra.table, "plain": layer.plain, "undone": layer.undone, "cast": layer.floats}[name]
        assert getattr(struct, name).data_ptr() != mine.data_ptr(), f"{name} is a copy"


def test_the_fields_offsets_find_every_element(forms: ModuleType) -> None:
    """Each field's own offset function, over all logical elements, against the bytes that numpy worked out."""
    found = numbers(3)
    struct, wanted = forms.Forms, expected(found, 3)
    logical = {
        "w": found["w"], "w_pad": found["pad.weight"], "s_pad": found["pad.scale"], "gated": found["gated"],
        "mixed_up": found["mixed"], "flat": found["flat"].reshape(3, 4, 32), "plain": found["plain"],
        "t_s": found["tail.scale"], "fp4_s": found["fp4_scale"],
    }  # fmt: skip
    for name, values in logical.items():
        offset = getattr(struct, f"offset_{name}")
        at = tuple(np.indices(values.shape, dtype=np.int64))
        stored = np.frombuffer(wanted[name], dtype=values.dtype)
        where = np.broadcast_to(offset(*at), values.shape)
        assert not np.any(where % values.itemsize), name
        assert np.array_equal(stored[where // values.itemsize], values), name
        assert offset(*(0 for _ in values.shape)) == 0 and type(offset(*(1 for _ in values.shape))) is int
    nibbles = np.stack([found["fp4k"] & 15, found["fp4k"] >> 4], axis=-1).reshape(16, 96)
    byte, half = struct.offset_f_pad(*np.indices((16, 96), dtype=np.int64))
    stored = np.frombuffer(wanted["f_pad"], dtype=np.uint8)
    assert np.array_equal(stored[byte] >> (4 * half) & 15, nibbles)


def test_a_pitch_is_in_the_offset(forms: ModuleType) -> None:
    assert not hasattr(forms, "pack_pitched")
    assert [forms.offset_pitched(*at, (6, 36), 16) for at in ((0, 0), (0, 35), (1, 0), (5, 35))] == [0, 70, 80, 470]


def test_tables_hold_the_addresses_in_order(forms: ModuleType) -> None:
    layer, extra = layer_of(numbers(3))
    struct = forms.Forms.from_layer(layer, extra)
    x, y = torch.zeros(32), 4096
    assert struct.base_args(x).tolist() == [t.data_ptr() for t in (x, struct.g, struct.w, struct.table)]
    addresses = [struct.w_pad.data_ptr(), struct.s_pad.data_ptr(), x.data_ptr(), struct.quant.data_ptr(), y]
    assert struct.all_args(x, y).tolist() == [*addresses, struct.w.data_ptr()]
    assert struct.tail_args(y).tolist() == [struct.t.data_ptr(), 4096, struct.t_s.data_ptr()]
    absent = forms.Forms.from_layer(*layer_of(numbers(2)))
    assert absent.tail_args(y) is None


def test_a_struct_of_an_imported_base_has_its_own_ids(forms: ModuleType, folder: Path) -> None:
    base = load_generated(folder / "out" / "common.py").Base
    assert forms.Forms.field_ids["w"] == base.field_ids["w"] and forms.Forms.field_ids["g"] == base.field_ids["g"]
    assert forms.Forms.struct_id != base.struct_id
    assert base.offset_w(5, 33) == forms.Forms.offset_w(5, 33)


def refused(forms: ModuleType, layer: Any, extra: Any) -> list[tuple[str, str]]:
    """Return the problems of a layer."""
    with pytest.raises(MonoUnsupported) as refusal:
        forms.Forms.from_layer(layer, extra)
    return [(p.field, p.what) for p in refusal.value.problems]


def test_conditions_of_the_base_and_of_the_optional_are_asked(forms: ModuleType) -> None:
    layer, extra = layer_of(numbers(3))
    layer.ok, layer.attn.heads, layer.depth = False, 3, 0
    extra.tail.ok, extra.tail.n = False, 1
    assert refused(forms, layer, extra) == [
        ("layer.ok", "require"),
        ("attn.heads in { 2, 4 }", "require"),
        ("layer.depth != 0", "require"),
        ("part.ok", "require"),
        ("part.n >= 2", "require"),
    ]


def test_an_optional_is_absent_where_its_condition_does_not_hold(forms: ModuleType) -> None:
    layer, extra = layer_of(numbers(3), has_tail=False)
    extra.tail = None
    struct = forms.Forms.from_layer(layer, extra)
    assert struct.t is None and struct.t_s is None and struct.tail_args(0) is None


def test_a_let_takes_the_first_path_that_is_there(forms: ModuleType) -> None:
    layer, extra = layer_of(numbers(2))
    layer.first = SimpleNamespace(heads=2, g=layer.attn.g.clone(), w=layer.attn.w)
    assert forms.Forms.from_layer(layer, extra).g.data_ptr() == layer.first.g.data_ptr()


def test_run_time_dims_are_one_number_in_all_shapes(forms: ModuleType) -> None:
    layer, extra = layer_of(numbers(3))
    layer.flat = layer.flat[:8]
    layer.redone = layer.redone[:2]
    assert refused(forms, layer, extra) == [("flat", "shape"), ("redone", "dim")]
    layer, extra = layer_of(numbers(3))
    layer.packed = layer.packed[:1024]
    assert refused(forms, layer, extra) == [("packed", "shape")]


def test_flags_that_are_attested(forms: ModuleType) -> None:
    layer, extra = layer_of(numbers(3))
    layer.packed_flag, layer.undone_flag, layer.plain_flag = False, None, True
    assert sorted(refused(forms, layer, extra)) == [
        ("packed", "attest"),
        ("plain", "attest"),
        ("redone", "attest"),
        ("undone", "attest"),
    ]


def test_values_that_cannot_be_converted_are_named(forms: ModuleType) -> None:
    found = numbers(2)
    found["pad16.weight"][3, 40] = 0x7F
    found["pad16.scale"][5, 0] = 255
    layer, extra = layer_of(found)
    problems = refused(forms, layer, extra)
    assert problems and {field for field, _ in problems} == {"wide"}


def test_a_view_that_nobody_promises_is_refused(forms: ModuleType) -> None:
    layer = SimpleNamespace(w=tensor(codes(32, 64, seed=1), torch.uint8))
    with pytest.raises(MonoUnsupported) as refusal:
        forms.Promised.from_layer(layer)
    assert [(p.field, p.what) for p in refusal.value.problems] == [("nobody", "attest")]


def test_the_other_dialect_has_its_own_largest_value(old: ModuleType) -> None:
    weight, scale = codes(32, 64, seed=31), codes(32, 2, seed=32, below=13, plus=118)
    bits = bf16_bits(2, 16, 64, seed=33)
    layer = SimpleNamespace(w=tensor(weight, E4M3), s=tensor(scale, torch.uint8), b=tensor(bits, torch.bfloat16))
    struct = old.Old.from_layer(layer)
    assert struct.a.dtype == struct.b.dtype == torch.float8_e4m3fnuz
    for mine, mine_s, (data, rows) in (
        (struct.a, struct.a_s, mxfp8_to_ptpc_fp8(weight, scale, "fnuz")),
        (struct.b, struct.b_s, bf16_to_ptpc_fp8(bits, "fnuz")),
    ):
        assert raw(mine) == pack("shuffle_16x16", data).tobytes()
        assert raw(mine_s) == rows.tobytes()
    assert old.Old.offset_b_s(1, 3) == (16 + 3) * 4


def test_generated_modules_are_formatter_clean_as_they_are(folder: Path) -> None:
    paths = [str(path) for path in sorted((folder / "out").glob("*.py"))]
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "--isolated", "--diff", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
