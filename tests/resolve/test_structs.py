"""Structs: names, dims, optionals, tables, extends, and what comes of mistakes."""

from __future__ import annotations

import pytest

from mono_gen.model import Attribute, ConvertModel
from tests.resolve.texts import HEAD, codes_of, field_of, spec_of, struct_of, struct_text

GAIN = "gain : bf16[64] { view layer.gain }\n"


def test_or_gives_a_let_more_paths() -> None:
    let = struct_of("let x = layer.a.b or layer.a or group\n" + GAIN).lets[0]
    assert let.paths == (Attribute("layer", ("a", "b")), Attribute("layer", ("a",)), Attribute("group", ()))


def test_conditions_keep_their_meaning() -> None:
    requires = struct_of(
        GAIN + "require layer.a, not layer.b, layer.c == 4 * N, not layer.d < 3, layer.e in { 1, N },"
        " layer.f not in { 2 }, layer.g != layer.h, 2 > layer.i, not layer.j in { 5 }",
        "const N = 2\n",
    ).requires
    assert [(c.op, c.right) for c in requires] == [
        ("is true", ()),
        ("is false", ()),
        ("==", (8,)),
        (">=", (3,)),
        ("in", (1, 2)),
        ("not in", (2,)),
        ("!=", (Attribute("layer", ("h",)),)),
        (">", (Attribute("layer", ("i",)),)),
        ("not in", (5,)),
    ]


@pytest.mark.parametrize("condition", ["N == 3", "not N == 2", "N in { 1, 3 }", "N not in { 2 }", "2 * N < N"])
def test_a_false_condition_of_constants_is_found_at_once(condition: str) -> None:
    assert codes_of(struct_text(f"{GAIN}require {condition}", "const N = 2\n")) == ["require-false"]


def test_a_true_condition_of_constants_leaves_nothing_to_the_loader() -> None:
    assert struct_of(f"{GAIN}require N == 2, N in {{ 2, 3 }}", "const N = 2\n").requires == ()


def test_batch_dims_come_before_the_layouts_axes() -> None:
    w = field_of(
        "dim E\nw : bf16[E, 3, 32, 64] { tile shuffle_16x16  view layer.w  attest shuffle_16x16 when layer.f }"
    )
    assert w.tensors[0].batch == 2
    assert w.tensors[0].axes == ("e", "i1", "row", "k")


@pytest.mark.parametrize("dim", ["AS", "FOR", "INT", "SHAPE", "BITS", "K", "ROW"])
def test_the_coordinate_of_a_dim_is_a_name_in_every_language(dim: str) -> None:
    w = field_of(f"dim {dim}\nw : bf16[{dim}, 32, 64] {{ tile row_major  view layer.w }}")
    assert w.tensors[0].axes == ("i0", "row", "k")


def test_row_major_names_its_last_axes_row_and_k() -> None:
    w = field_of("dim E\nw : bf16[E, 64] { tile row_major  view layer.w }")
    assert (w.tensors[0].batch, w.tensors[0].axes, w.tensors[0].runtime_row) == (0, ("row", "k"), True)


def test_scales_have_blocks_or_rows() -> None:
    mx = field_of("w, s : mxfp4[4, 64, 96] { tile row_major  scale row_major  view layer.w, layer.s }")
    assert (mx.tensors[1].extents, mx.tensors[1].axes) == ((4, 64, 3), ("i0", "row", "block"))
    rows = field_of("w, s : ptpc_fp8[64, 96] { tile row_major  view layer.w, layer.s }")
    assert rows.tensors[1].extents == (64,)
    one = field_of("w, s : mxfp8[64] { view layer.w, layer.s }")
    assert one.tensors[1].extents == (2,)


@pytest.mark.parametrize(
    ("arch", "dtype"), [("gfx942", "fp8_e4m3fnuz"), ("gfx950", "fp8_e4m3fn"), ("gfx1250", "fp8_e4m3fn")]
)
def test_ptpc_fp8_takes_the_dialect_of_the_arch(arch: str, dtype: str) -> None:
    field = "w, s : ptpc_fp8[64, 96] { tile row_major  convert mxfp8 row_major l.w, l.s via bf16 }"
    model = spec_of(f"spec x\narch {arch}\nstruct S(l) {{ {field} }}\n").structs[0].fields[0]
    assert model.tensors[0].element.name == dtype
    assert isinstance(model.origin, ConvertModel) and model.origin.format.data.name == "fp8_e4m3fn"


def test_each_segment_is_padded_in_data_and_scale() -> None:
    layouts = (
        "layout d(row, k) { pad row to 32 fill 0x00  store k row }\n"
        "layout s(row, k) { pad row to 64 fill 0x7F  store k row }\n"
    )
    w = field_of(
        "w, ws : mxfp8[100, 64] { segments row = gate:40 up:60 pad each  tile d  scale s"
        "  convert mxfp8 row_major layer.w, layer.s }",
        layouts,
    )
    data, scale = w.tensors
    assert [(s.begin, s.end, s.padded_begin, s.padded_end) for s in data.segments] == [
        (0, 40, 0, 64),
        (40, 100, 64, 128),
    ]
    assert [(s.padded_begin, s.padded_end) for s in scale.segments] == [(0, 64), (64, 128)]
    assert data.bound.padded == (128, 64)


def test_segments_of_the_last_axis_are_blocks_in_the_scale() -> None:
    w = field_of(
        "w, s : mxfp8[64, 96] { segments k = a:32 b:64  tile row_major  scale row_major  view layer.w, layer.s }"
    )
    assert [(s.begin, s.end) for s in w.tensors[1].segments] == [(0, 1), (1, 3)]


def test_as_is_a_shape_with_run_time_dims() -> None:
    cache = field_of(
        "dim POS\nx : bf16[POS, 64] { tile row_major  view layer.a as [2 * POS, 32] }\ny : bf16[POS] { view layer.y }",
        "",
    )
    assert cache.name == "y"
    shapes = (
        struct_of("dim POS\nx : bf16[POS, 64] { tile row_major  view layer.a as [POS, 2, 32] }")
        .fields[0]
        .origin.sources
    )
    assert shapes[0].shape == (("POS",), (2,), (32,))


def test_a_dim_is_bound_where_it_stands_alone() -> None:
    assert codes_of(struct_text("dim E\nw : bf16[E, 64] { tile row_major  view layer.w as [2 * E, 32] }")) == [
        "unbound-dim"
    ]
    assert codes_of(struct_text("dim E\nw : bf16[E, 64] { tile row_major  view layer.w as [E, 2, 32] }")) == []


def test_views_of_padded_layouts_have_the_padded_shape() -> None:
    pads = "layout p(row, k) { pad row to 16 fill 0x00  store k row }\n"
    view = "w : bf16[60, 8] {{ tile p  view layer.w as [{}, 8]  attest p when layer.f }}"
    assert codes_of(struct_text(view.format(64), pads)) == []
    assert codes_of(struct_text(view.format(60), pads)) == ["as-shape"]


BASE = """
struct Base(layer) {
    let attn = layer.attn
    dim E in { 4, 5 }
    require layer.is_moe
    ## First.
    a : bf16[E, 8] { tile row_major  view attn.a }
    b, c : mxfp8[64, 64] { tile row_major  scale row_major  view attn.b, attn.c }
    optional shared when E == 4 {
        let mlp = layer.mlp
        d : bf16[8] { view mlp.d }
    }
    args table { a b c }
}
"""


def derived(members: str, args: str = "layer, group") -> str:
    return f"{HEAD}{BASE}struct Wide({args}) extends Base {{\n{members}\n}}\n"


def test_a_struct_inherits_and_overrides_in_place() -> None:
    text = derived(
        "b, c : mxfp8[32, 64] { tile row_major  scale row_major  view attn.b, attn.c }\ne : bf16[8] { view attn.e }"
    )
    base, wide = spec_of(text).structs
    assert [f.name for f in wide.fields] == ["a", "b", "d", "e"]
    assert wide.fields[0] is base.fields[0]
    assert wide.fields[1].tensors[0].extents == (32, 64)
    assert (wide.lets, wide.requires, wide.dims, wide.tables) == (base.lets, base.requires, base.dims, base.tables)
    assert wide.optionals == base.optionals
    assert (wide.base, wide.declares) == ("Base", frozenset(("b", "c", "e")))


def test_an_override_of_an_optional_field_stays_in_its_optional() -> None:
    wide = spec_of(derived("d : fp32[8] { view mlp.d }")).structs[1]
    field = next(f for f in wide.fields if f.name == "d")
    assert (field.format.name, field.optional) == ("fp32", "shared")


@pytest.mark.parametrize(
    ("members", "codes"),
    [
        (
            "b : mxfp8[32, 64] { tile row_major  scale row_major  view attn.b, attn.c }",
            ["extends-names", "wrong-arity"],
        ),
        ("let a = layer.x", ["duplicate-name"]),
        ("let attn = layer.x", ["duplicate-name"]),
        ("dim E", ["duplicate-name"]),
        ("args table { a }", ["duplicate-name"]),
        ("optional shared when layer.x { f : bf16[8] { view layer.f } }", ["duplicate-name"]),
        ("args more { a z }", ["args-absent-field"]),
        ("args more { d }", ["args-absent-field"]),
    ],
)
def test_names_of_the_base_are_taken(members: str, codes: list[str]) -> None:
    assert codes_of(derived(members)) == codes


def test_the_world_size_of_a_gather_is_known_from_the_base() -> None:
    text = (
        HEAD
        + "struct Base(layer) { w : bf16[48, 8] { segments row = q:16 k:32"
        + "  tile row_major  convert bf16 row_major layer.w } }\n"
        + "struct Wide(layer, group) extends Base { w : bf16[80, 8] { segments row = q:48 k:32  gather q over group"
        + "  tile row_major  convert bf16 row_major layer.w } }\n"
    )
    gather = spec_of(text).structs[1].fields[0].gather
    assert gather is not None and gather.world == 3


TILED = "struct S(layer) { w : bf16[4, 4] { tile p  view layer.w  attest p when layer.f } }"
VECTOR = "struct S(layer) { w : bf16[N, 4] { tile row_major  view layer.w }  require layer.n == N }"
OPTIONAL = "optional o when E == 3 { v : bf16[4] { view layer.v } }"
BARE = "spec x\narch gfx950\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "layout p(row, k) { store row }\n" + TILED,
        HEAD + "layout p(row k) { store row k }\n" + TILED,
        HEAD + "const M = 1 / 2\nconst N = 2 * M\n" + VECTOR,
        HEAD + "const N = 3 +\n" + VECTOR,
        HEAD + "struct A(layer) { w : bf17[4] { view layer.w }  args t { w } }\nstruct B(layer) extends A { }",
        HEAD + "struct A(layer) { let x = layr.x  w : bf16[4] { view x.w } }",
        HEAD + "struct A(layer) { dim E in { 3, M }  w : bf16[E] { view layer.w }  " + OPTIONAL + " }",
        HEAD + "record r align 16 { a : bf16[4] { } }\n"
        "struct A(layer) { dim E  w : r[E] { view layer.w  attest r when layer.f } }",
        BARE + 'import "nowhere.layout"\n' + TILED,
        BARE + "import nowhere.layout\n" + TILED,
        "spec x\narch gfx951\nstruct A(layer) { w : fp8_e4m3fnuz[4] { view layer.w } }",
    ],
)
def test_one_mistake_is_one_error(text: str) -> None:
    assert len(codes_of(text)) == 1
