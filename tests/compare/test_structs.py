"""Structs, fields and tables of two sides: what moves against the plan's own formulas, and each class."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from mono_gen.compare.maps import map_of_tensor
from mono_gen.compare.moves import move
from mono_gen.plan.model import TensorPlan
from mono_gen.terms import evaluate
from tests.compare.specs import compared, plans, told

LAYOUTS = """
layout t(row, k) {
    split row = R r:4
    split k   = K g:2 b:8
    store tile R K | lane g r | byte b
}
layout s(row, k) {
    pad row to 8, k to 4 fill 0x7F
    store k row
}
layout two(row, k) { store k row }
"""
STRUCT = """
param N = 16
const KEPT = 3
## A struct.
struct T(layer) {
    let a = layer.first or layer.second
    require a.n == N, not a.bad
    dim E in { 2, 3 }
    dim LONG
    ## A field.
    w, w_s : mxfp8[E, 12, 128] {
        segments row = gate:4 up:8
        tile t
        scale s
        view a.w, a.w_scale
        attest t when a.is_shuffled
    }
    u, u_s : mxfp8[12, 64] {
        tile t
        scale two
        convert mxfp8 row_major a.u, a.u_scale
        attest not a.u.is_shuffled
    }
    g : bf16[KEPT] { view a.g }
    h : bf16[KEPT] { view a.h }
    c : bf16[LONG, 32] { tile row_major  view a.c }
    optional more when E == 3 {
        o : bf16[5] { view a.o }
    }
    ## A table.
    args table(x, y) { x g h y }
}
struct D(layer) extends T {
    g : bf16[KEPT] { view layer.g }
}
"""
SPEC = LAYOUTS + STRUCT


def change(tmp_path: Path, *edits: tuple[str, str]) -> list[str]:
    """Return what is told of an edit of the spec, a replacement an edit; each must change it."""
    new = SPEC
    for old, text in edits:
        assert old in new, old
        new = new.replace(old, text, 1)
    return told(compared(tmp_path, SPEC, new))


def without_ids(lines: list[str]) -> list[str]:
    """Return the lines that say more than that an id is another one."""
    return [line for line in lines if " id " not in line]


# --- bytes: against the formulas that the generated code has ---


def places(plan: TensorPlan, runtime: int) -> dict[tuple[int, ...], int]:
    """Return the bit of every logical element, by the plan's own formula."""
    model = plan.model
    extents = [runtime if isinstance(n, str) else n for n in model.extents]
    found = {}
    for at in itertools.product(*map(range, extents)):
        values = dict(zip(model.axes, at, strict=True))
        nibble = evaluate(plan.nibble, values) if plan.nibble is not None else 0
        found[at] = evaluate(plan.byte, values) * 8 + nibble * 4
    return found


TENSORS = {
    "batch": "w, w_s : mxfp8[3, 8, 64] { tile t scale two view layer.w, layer.ws attest t when layer.f }",
    "more batches": "w, w_s : mxfp8[2, 3, 8, 64] { tile t scale two view layer.w, layer.ws attest t when layer.f }",
    "run time": "dim E\n w, w_s : mxfp8[E, 8, 64] { tile t scale s view layer.w, layer.ws attest t when layer.f }",
    "padded each": "w, w_s : mxfp8[12, 64] { segments row = a:5 b:7 pad each tile p scale s "
    "convert mxfp8 row_major layer.w, layer.ws }",
    "nibbles": "w, w_s : mxfp4[2, 8, 64] { tile t scale s view layer.w, layer.ws attest t when layer.f }",
    "one axis": "w : bf16[24] { view layer.w }",
    "row major": "w : bf16[3, 8, 6] { tile row_major view layer.w }",
    "run time rows": "dim E\n w : bf16[E, 6] { tile row_major view layer.w }",
}
EDITS = {
    "batch": [
        ("lane g r", "lane r g"),
        ("mxfp8[3", "mxfp8[4"),
        (", 64]", ", 32]"),
        ("scale two", "scale s"),
        ("[3, 8", "[3, 4"),
    ],
    "more batches": [("lane g r", "lane r g"), ("[2, 3,", "[3, 3,"), ("[2, 3,", "[2, 4,"), ("b:8", "b:4")],
    "run time": [("lane g r", "lane r g"), ("pad row to 8", "pad row to 16"), ("store k row", "store row k")],
    "padded each": [
        ("a:5 b:7", "a:6 b:6"),
        (" pad each", ""),
        ("k to 4", "k to 8"),
        ("lane r", "lane r p"),
        ("row to 4", "row to 16"),
    ],
    "nibbles": [("lane g r", "lane r g"), ("b:8", "b:4"), ("scale s", "scale two"), ("64]", "32]")],
    "one axis": [("24", "25")],
    "row major": [("[3, 8", "[3, 4"), ("[3, 8, 6]", "[3, 8, 4]"), ("[3", "[2"), ("row_major", "two")],
    "run time rows": [("[E, 6]", "[E, 4]")],
}
PADDED = """
layout p(row, k) {
    pad row to 4 fill 0x00
    split row = R r:4
    split k   = K p:4
    store tile R K p | lane r
}
"""


@pytest.mark.parametrize(("kind", "edit"), [(kind, edit) for kind, edits in EDITS.items() for edit in edits])
def test_a_tensor_moves_as_the_formulas_say(tmp_path: Path, kind: str, edit: tuple[str, str]) -> None:
    text = f"{LAYOUTS}{PADDED}struct T(layer) {{\n{TENSORS[kind]}\n}}"
    old_text, new_text = edit
    if new_text == "lane r p":
        old_text, new_text = "K p | lane r", "K | lane r p"
    assert old_text in text
    sides = [plans(tmp_path, side)[0].structs[0].fields[0].tensors for side in (text, text.replace(old_text, new_text))]
    told_of = 0
    for old, new in zip(*sides, strict=True):
        before, after = places(old, 3), places(new, 3)
        shared = before.keys() & after.keys()
        apart = [at for at in shared if before[at] != after[at]]
        found = move(map_of_tensor(old, 3), map_of_tensor(new, 3), "")
        assert (found.elements, found.moved) == (len(shared), len(apart))
        if apart:
            assert found.first_bit == min(min(before[at], after[at]) for at in apart)
            names = new.model.axes
            where = {bit: at for at, bit in after.items()}.get(found.first_bit)
            if where is not None:
                assert found.now == " ".join(f"{n} {c}" for n, c in zip(names, where, strict=True))
        told_of += bool(apart) or found.sizes[0] != found.sizes[1]
    assert told_of


def test_a_layout_is_the_cause_of_what_its_fields_lose(tmp_path: Path) -> None:
    lines = change(tmp_path, ("lane g r", "lane r g"))
    assert "field T.w, w_s: bytes w: 75 % of 4,608 bytes <- layout t" in lines
    assert "field T.u, u_s: bytes u: 75 % of 768 bytes <- layout t" in lines
    ids = [line.partition(": ")[0] for line in lines if " id " in line]
    assert ids == ["layout t", "struct T", "field T.w, w_s", "field T.u, u_s", "struct D"]
    assert all("<-" in line for line in lines if line.startswith(("field", "struct")))


def test_another_layout_of_a_field_is_its_own_change(tmp_path: Path) -> None:
    lines = change(tmp_path, ("scale two", "scale s"))
    assert without_ids(lines) == [
        "field T.u, u_s: bytes u_s: layout two -> s; 50 % moves (at [12, 2]) in runs of 4 bytes; "
        "byte 12 was row 0 block 1, now fill 0x7F; storage: 24 -> 64 bytes"
    ]


# --- the other classes ---


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        # abi
        (("x g h y }", "x h g y }"), ["table T.table: abi pointers g and h exchanged, at bytes 8 and 16"]),
        (("x g h y }", "x g u h y }"), ["table T.table: abi pointers u added at byte 16"]),
        (("(x, y) { x g h y }", "(x) { x g h }"), [
            "table T.table: abi pointers y dropped",
            "table T.table: abi arguments (x, y) -> (x)",
        ]),
        (("    ## A table.\n    args table(x, y) { x g h y }\n", ""), ["table T.table: abi table is gone"]),
        (("gate:4 up:8", "gate:8 up:4"), ["field T.w, w_s: abi segments gate:4 up:8 -> gate:8 up:4"]),
        (("gate:4 up:8", "up:8 gate:4"), ["field T.w, w_s: abi segments gate:4 up:8 -> up:8 gate:4"]),
        ((" o : bf16[5]", " p : bf16[5] { view a.p }\n o : bf16[5]"), ["field T.p: abi bf16[5] is new"]),
        (("    g : bf16[KEPT] { view a.g }\n    h : bf16[KEPT] { view a.h }\n",
          "    h : bf16[KEPT] { view a.h }\n    g : bf16[KEPT] { view a.g }\n"), [
            "struct T: abi fields in another order: g -> h is the first, and so in kFieldIds",
        ]),
        # checks
        (("a.n == N", "a.n == 32"), ["struct T: checks `a.n == 16` -> `a.n == 32`"]),
        ((", not a.bad", ""), ["struct T: checks `not a.bad` is no longer asked"]),
        (("not a.bad", "not a.bad, a.kind in { 1, 2 }"), ["struct T: checks `a.kind in {1, 2}` is asked now"]),
        (("E in { 2, 3 }", "E in { 2, 3, 4 }"), ["struct T: checks dim E: {2, 3} -> {2, 3, 4}"]),
        (("layer.first or layer.second", "layer.second"), [
            "struct T: checks let a: layer.first or layer.second -> layer.second",
        ]),
        (("attest t when a.is_shuffled", "attest t when a.flag"), [
            "field T.w, w_s: checks attest t when a.is_shuffled -> t when a.flag",
        ]),
        (("        attest not a.u.is_shuffled\n", ""), [
            "field T.u, u_s: checks attest not a.u.is_shuffled is no longer asked",
        ]),
        (("a.u, a.u_scale", "a.v, a.u_scale"), ["field T.u, u_s: checks source a.u -> a.v"]),
        (("{ view a.h }", "{ convert fp32 row_major a.h }"), [
            "field T.h: checks source: view a.h -> convert fp32 row_major a.h",
        ]),
        (("when E == 3", "when E == 2"), ["struct T: checks optional more: `E == 3` -> `E == 2`"]),
        (("param N = 16", "param N = 8"), ["param N: checks 16 -> 8", "struct T: checks `a.n == 16` -> `a.n == 8`"]),
        (("param N", "const N"), ["const N: checks param -> const: `--set` of it is refused now"]),
        # name
        (("gate:4 up:8", "door:4 up:8"), [
            "field T.w, w_s: abi segments gate:4 up:8 -> door:4 up:8",
            "field T.w, w_s: name segment gate -> door",
        ]),
        (("a.n == N", "a.n == 4 * 4"), ["struct T: name `a.n == N` reads `a.n == 4 * 4`"]),
        # doc
        (("## A field.", "## The field."), ["field T.w, w_s: doc doc comment changed"]),
        (("## A table.", "## The table."), ["table T.table: doc doc comment changed"]),
        (("## A struct.", "## The struct."), ["struct T: doc doc comment changed"]),
        (("param N", "## The number.\nparam N"), ["param N: doc doc comment changed"]),
        # nothing
        (("## A field.", "# of no meaning\n    ## A field."), []),
    ],
)  # fmt: skip
def test_a_change_has_its_class_and_its_words(tmp_path: Path, edit: tuple[str, str], said: list[str]) -> None:
    assert [line for line in without_ids(change(tmp_path, edit)) if not line.endswith("<- struct T")] == said


def test_what_a_struct_inherits_follows_from_its_base(tmp_path: Path) -> None:
    lines = change(tmp_path, ("a.n == N", "a.n == 32"))
    assert lines == [
        "struct T: checks `a.n == 16` -> `a.n == 32`",
        "struct D: checks `a.n == 16` -> `a.n == 32` <- struct T",
    ]


def test_other_dims_are_bytes_abi_and_checks(tmp_path: Path) -> None:
    assert without_ids(change(tmp_path, ("bf16[LONG, 32]", "bf16[LONG, 64]"))) == [
        "field T.c: bytes c: [LONG, 32] -> [LONG, 64]; 50 % moves (at [LONG = 2, 32]) in runs of 64 bytes; "
        "byte 64 was row 1 k 0, now row 0 k 32; storage: 128 -> 256 bytes",
        "field T.c: checks c has extents [LONG, 64], not [LONG, 32]",
    ]


def test_another_element_is_another_number_in_every_byte(tmp_path: Path) -> None:
    lines = change(tmp_path, ("h : bf16", "h : fp16"), ("view a.h", "view a.h"))
    assert without_ids(lines) == [
        "field T.h: bytes h: each element is another number, bf16 -> fp16",
        "field T.h: checks format bf16 (bf16) -> fp16 (fp16)",
    ]
    lines = change(tmp_path, ("h : bf16", "h : fp32"))
    assert without_ids(lines)[0] == (
        "field T.h: bytes h: elements bf16 -> fp32; all moves (at [3]); storage: 6 -> 12 bytes"
    )


def test_a_renamed_field_is_a_name_and_another_member(tmp_path: Path) -> None:
    lines = change(tmp_path, ("    h : bf16", "    j : bf16"), ("x g h y", "x g j y"))
    assert without_ids(lines) == [
        "struct T: abi member h -> j",
        "field T.j: name h -> j",
        "table T.table: abi pointers h dropped, j added at byte 16",
        "struct D: abi member h -> j <- struct T",
    ]


def test_structs_that_come_go_and_change_their_name(tmp_path: Path) -> None:
    gone = SPEC[: SPEC.index("struct D")]
    assert told(compared(tmp_path, SPEC, gone)) == ["struct D: abi gone: 6 fields, 1 table"]
    assert told(compared(tmp_path, gone, SPEC)) == ["struct D: abi new: 6 fields, 1 table"]
    assert told(compared(tmp_path, SPEC, SPEC.replace("struct D(", "struct F("))) == ["struct F: name struct D -> F"]


def test_arguments_of_a_struct(tmp_path: Path) -> None:
    old = "struct A(layer, group) {\n g : bf16[3] { view layer.g }\n}"
    new = "struct A(group, layer) {\n g : bf16[3] { view layer.g }\n}"
    assert told(compared(tmp_path, old, new)) == ["struct A: abi arguments (layer, group) -> (group, layer)"]


def test_heads_and_constants(tmp_path: Path) -> None:
    old = "## One.\nspec a\narch gfx950\nconst X = 1\nparam P = 2\nlayout t(n) { store n }"
    assert told(compared(tmp_path, old, old.replace("One", "Two"))) == ["spec a: doc doc comment changed"]
    assert told(compared(tmp_path, old, old.replace("gfx950", "gfx942"))) == ["spec a: checks arch gfx950 -> gfx942"]
    assert told(compared(tmp_path, old, old.replace("const X", "const Y"))) == ["const Y: name X -> Y"]
    assert told(compared(tmp_path, old, old.replace("param P = 2\n", ""))) == [
        "param P: checks gone, 2: `--set` of it is refused now"
    ]
    assert told(compared(tmp_path, old, old.replace("spec a", "spec b"))) == [
        "spec b: abi spec a -> b: module b.py, namespace mono::b"
    ]
    assert told(compared(tmp_path, old, "spec c\nlayout u(n) { store n }")) == [
        "spec c: abi spec is new: 1 layout, 0 structs",
        "spec a: abi spec is gone: 1 layout, 0 structs",
    ]


# --- generated names ---


def test_touched_names_are_those_of_what_is_another_thing_now(tmp_path: Path) -> None:
    items = compared(tmp_path, SPEC, SPEC.replace("lane g r", "lane r g"))
    by_label = {item.label: item.symbols for item in items}
    assert by_label["field T.u, u_s"].python == ("T.offset_u", "D.offset_u", "offset_u")
    assert by_label["field T.u, u_s"].cpp == ("mono::s::T::u", "mono::s::D::u", "mono::s::u")
    assert by_label["struct T"].cpp == ("mono::s::T::kStructId", "mono::s::T::kFieldIds")


def test_an_overridden_field_is_not_that_of_the_base(tmp_path: Path) -> None:
    items = compared(tmp_path, SPEC, SPEC.replace("{ view layer.g }", "{ convert fp32 row_major layer.g }"))
    (item,) = items
    assert item.label == "field D.g"
    assert item.symbols.python == ("D.from_layer",)
