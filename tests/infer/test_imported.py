"""What import makes of functions whose layouts are known: the clauses, the closed formulas, the library's equals."""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mono_gen.algebra.layout import offset
from mono_gen.infer.dtypes import find_dtype
from mono_gen.infer.errors import NotALayout
from mono_gen.infer.imported import Imported, Names, import_layout
from mono_gen.infer.target import find_target
from mono_gen.infer.verify import bound, resolve_text
from mono_gen.syntax.format import format_text
from mono_gen.syntax.source import Source
from tests.reference import layouts as reference

FUNCTIONS = Path(__file__).parent / "functions.py"


@dataclass(frozen=True)
class Case:
    """A function with a shape and dtypes, and what comes out.

    clauses:   of the layout, in order; `head` is the line that opens it, without the name.
    equal:     the library's layout that is named as the same.
    reference: the closed formula, with extents that have live pads, and the bits of an element.
    """

    function: str
    shape: tuple[int, ...]
    dtypes: tuple[str, ...]
    head: str
    clauses: tuple[str, ...]
    equal: str = ""
    reference: tuple[str, tuple[int, ...], int] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.function, *self.dtypes, *map(str, self.arguments.values())])


TILES = ("split row = R r:16", "split k   = K b:16", "store tile R K | lane r | byte b")
VIEW_TILES = "same as torch view(row/16, 16, k/16, 16).permute(0, 2, 1, 3)"
SCALES = (
    "split row = R rh:2 r:16",
    "split k   = K kh:2 g:4",
    "store tile R K | lane g r | byte kh rh",
    "same as torch view(row/32, 2, 16, k/8, 2, 4).permute(0, 3, 5, 2, 4, 1)",
)

CASES = (
    Case(
        "tile_16x16",
        (64, 256),
        ("uint8", "fp4", "bf16"),
        "(row, k)",
        (
            "require k % 32 == 0, k % 32B == 0",
            "split row = R r:16",
            "split k   = K b:16B",
            "store tile R K | lane r | byte b",
            "same as torch view(row/16, 16, k/16B, 16B).permute(0, 2, 1, 3)",
        ),
        "shuffle_16x16",
        ("shuffle_16x16", (48, 128), 4),
    ),
    Case(
        "tile_16x16",
        (2, 32, 64),
        ("bf16",),
        "(row, k)",
        (
            "require k % 32 == 0",
            "split row = R r:16",
            "split k   = K b:8",
            "store tile R K | lane r | byte b",
            "same as torch view(row/16, 16, k/8, 8).permute(0, 2, 1, 3)",
        ),
        "shuffle_16x16",
        ("shuffle_16x16", (48, 64), 16),
    ),
    Case(
        "gate_up",
        (2, 64, 128),
        ("fp8",),
        "(row, k)",
        (
            "split row = half:2 R r:16",
            "split k   = K b:16",
            "store tile R half K | lane r | byte b",
            "same as torch view(2, row/32, 16, k/16, 16).permute(1, 0, 3, 2, 4)",
        ),
        "",
        ("shuffle_16x16_gate_up", (96, 128), 8),
    ),
    Case(
        "tile_nk",
        (64, 128),
        ("fp8",),
        "(row, k)",
        (
            "require k % 32 == 0",
            "split row = R r:16",
            "split k   = K b:8",
            "store tile R K | lane r | byte b",
            "same as torch view(row/16, 16, k/8, 8).permute(0, 2, 1, 3)",
        ),
        "shuffle_weight_NK_16x32",
        ("shuffle_weight_NK_16x32", (48, 96), 8),
        {"inst_k": 32},
    ),
    Case(
        "k_major_source",
        (128, 64),
        ("uint8",),
        "(k, n)",
        (
            "require k % 32 == 0",
            "split k = K b:16",
            "split n = N nl:16",
            "store tile N K | lane nl | byte b",
            "same as torch view(k/16, 16, n/16, 16).permute(2, 0, 3, 1)",
        ),
        "shuffle_weight_gfx1250_3d",
        ("shuffle_weight_gfx1250_3d", (96, 48), 8),
    ),
    Case(
        "k_outermost",
        (64, 128),
        ("uint8",),
        "(row, k)",
        (
            "split row = R r:16",
            "split k   = K kh:2 b:16",
            "store tile K R | lane kh r | byte b",
            "same as torch view(row/16, 16, k/32, 2, 16).permute(2, 0, 3, 1, 4)",
        ),
        "preshuffle_b_k_major",
        ("preshuffle_b_k_major", (48, 96), 8),
    ),
    Case(
        "a_tiles",
        (64, 512),
        ("fp8",),
        "(row, k)",
        (
            "require row % 32 == 0, k % 256 == 0",
            "split row = R r:16",
            "split k   = K kh:2 g:4 b:16",
            "store tile R K | lane g r | byte kh b",
            "same as torch view(row/16, 16, k/128, 2, 4, 16).permute(0, 2, 4, 1, 3, 5)",
        ),
        "",
        ("mxfp8_a_tiles", (96, 512), 8),
    ),
    Case("scale_tiles", (64, 16), ("e8m0",), "(row, k)", SCALES, "e8m0_tiles", ("e8m0_tiles", (96, 24), 8)),
    Case(
        "scale_shuffle",
        (100, 5),
        ("e8m0",),
        "(row, k)",
        ("pad row to 256, k to 8 fill undefined", *SCALES),
        "",
        ("e8m0_shuffle", (300, 13), 8),
    ),
    Case(
        "scale_shuffle_ones",
        (64, 5),
        ("e8m0",),
        "(row, k)",
        ("pad k to 8 fill 0x7F", *SCALES),
        "shuffle_scale_a16w4",
        ("shuffle_scale_a16w4", (96, 13), 8),
    ),
    Case("scale_half_defined", (60, 5), ("uint8",), "(row, k)", ("pad row to 32, k to 8 fill undefined", *SCALES)),
    Case(
        "scale_rows_32",
        (60, 8),
        ("uint8",),
        "(row, k)",
        (
            "pad row to 32 fill 0x7F",
            "split row = R r:32",
            "split k   = K b:4",
            "store tile R K | lane r | byte b",
            "same as torch view(row/32, 32, k/4, 4).permute(0, 2, 1, 3)",
        ),
        "shuffle_mxfp8fp4_scale",
        ("shuffle_mxfp8fp4_scale", (70, 12), 8),
    ),
    Case(
        "gate_up_scales",
        (256, 16),
        ("uint8",),
        "(row, k)",
        (
            "split row = part:4 half:2 R r:16",
            "split k   = K kh:2 g:4",
            "store tile part R K | lane g r | byte kh half",
            "same as torch view(4, 2, row/128, 16, k/8, 2, 4).permute(0, 2, 4, 6, 3, 5, 1)",
        ),
        arguments={"experts": 4},
    ),
    Case(
        "padded_k",
        (64, 200),
        ("uint8",),
        "(row, k)",
        ("pad k to 128 fill 0x00", *TILES, VIEW_TILES),
        "shuffle_16x16_pad_k128",
        ("shuffle_16x16_pad_k128", (48, 300), 8),
    ),
    Case("floors", (64, 128), ("uint8",), "(row, k)", (*TILES, VIEW_TILES), "shuffle_weight_f4"),
    Case(
        "group_pairs",
        (2, 4, 16),
        ("bf16",),
        "(row, k)",
        ("split row = R r:2", "store R k r", "same as torch view(row/2, 2, k).permute(0, 2, 1)"),
        "shuffle_scale_for_int4",
        ("shuffle_scale_for_int4", (6, 5), 16),
    ),
    Case(
        "taps",
        (4, 100, 9),
        ("bf16",),
        "(k, n)",
        ("require n == 9", "pad k to 64 fill 0x00", "store n k", "same as torch view(k, n).permute(1, 0)"),
        "prepack_oihw_to_3x3",
        ("prepack_oihw_to_3x3", (100, 9), 16),
    ),
    Case(
        "value_cache",
        (16, 128),
        ("fp8",),
        "(k, n)",
        ("store n k", "same as torch view(k, n).permute(1, 0)"),
        "",
        ("page16_v", (16, 40), 8),
    ),
    Case(
        "words_of_nibbles",
        (4, 64),
        ("uint8",),
        "(row, k)",
        ("split k = K g:4 q:2", "store row K q g", "same as torch view(row, k/8, 4, 2).permute(0, 1, 3, 2)"),
    ),
    Case(
        "blocked_rows",
        (200, 6),
        ("uint8",),
        "(row, k)",
        (
            "pad row to 128, k to 4 fill 0x00",
            "split row = R rq:4 r:32",
            "split k   = K b:4",
            "store tile R K | lane r | byte rq b",
            "same as torch view(row/128, 4, 32, k/4, 4).permute(0, 3, 2, 1, 4)",
        ),
    ),
    Case(
        "by_width",
        (64, 128),
        ("uint8",),
        "(row, k)",
        (
            "require row % 64 == 0, k % 128 == 0",
            "split k = K b:16",
            "store K row b",
            "same as torch view(row, k/16, 16).permute(1, 0, 2)",
        ),
    ),
    Case("identity", (30, 6), ("fp4",), "(row, k)", ("store row k", "same as torch view(row, k).permute(0, 1)")),
    Case("identity", (30,), ("fp32",), "(k)", ("store k", "same as torch view(k).permute(0)")),
)


def imported(
    function: str, shape: tuple[int, ...], dtypes: tuple[str, ...], arguments: dict[str, Any] | None = None
) -> Imported:
    """Return what import makes of a function of functions.py."""
    target = find_target(f"{FUNCTIONS}:{function}", arguments or {}, len(shape))
    return import_layout(target, [find_dtype(name) for name in dtypes], [shape], Names())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_layout_is_the_one_that_the_function_is_known_to_be(case: Case) -> None:
    found = imported(case.function, case.shape, case.dtypes, case.arguments)
    head, *clauses, _ = [line.strip() for line in found.text.partition("\nlayout ")[2].splitlines()]
    assert head == f"{case.function}{case.head} {{"
    assert tuple(clauses) == case.clauses
    assert format_text(Source("x.layout", found.text)) == found.text
    assert not set(found.found_at) & set(found.checked_at)
    assert len(found.checked_at) >= 4 and any(len(set(s)) == len(s) for s in found.checked_at)
    assert found.is_identity == (case.function == "identity")
    same = [equal.name for equal in found.equals if not equal.differences]
    assert same[:1] == ([case.equal] if case.equal else [])
    if case.reference is not None:
        compare_with_the_formula(found, *case.reference)


def compare_with_the_formula(found: Imported, name: str, extents: tuple[int, ...], bits: int) -> None:
    """Compare the offsets of the written text with a closed formula that shares no code with it."""
    layout = bound(resolve_text(found.text), extents, bits)
    assert layout is not None and layout.padded == reference.padded(name, extents, bits)
    every = list(itertools.product(*map(range, extents)))
    for at in random.Random(0).sample(every, min(len(every), 2000)):
        byte = reference.byte_offset(name, at, extents, bits)
        nibble = reference.nibble(name, at, extents, bits) if bits == 4 else 0
        assert divmod(offset(layout, at) * bits, 8) == (byte, 4 * nibble)


def test_undefined_pads_are_said_and_the_library_s_fill_is_told_apart() -> None:
    found = imported("scale_shuffle", (100, 5), ("e8m0",))
    assert any("pads are undefined" in note for note in found.notes)
    equals = {equal.name: equal.differences for equal in found.equals}
    assert equals["e8m0_shuffle"] == ("its pads are 0x7F, and here undefined",)
    half = imported("scale_half_defined", (60, 5), ("uint8",))
    assert any("some hold 0x7F" in note for note in half.notes)


def test_what_a_reader_has_to_know_is_noted_in_the_text() -> None:
    assert "# the leading axis is a batch axis" in imported("group_pairs", (2, 4, 16), ("bf16",)).text
    assert "# the result is not contiguous" in imported("k_major_source", (128, 64), ("uint8",)).text
    assert "# it parts the elements of uint8" in imported("words_of_nibbles", (4, 64), ("uint8",)).text


def test_legal_sizes_that_differ_are_said() -> None:
    equal, *_ = imported("gate_up", (2, 64, 128), ("fp8",)).equals
    assert (equal.name, equal.differences) == (
        "shuffle_16x16_gate_up",
        ("it takes only k multiples of 64, here multiples of 16",),
    )
    strict = {e.name: e.differences for e in imported("tile_16x16_of_many", (16, 4096), ("uint8",)).equals}
    assert strict["shuffle_16x16"] == ("it takes k multiples of 32, here multiples of 2048",)
    notes = imported("by_width", (64, 128), ("uint8",)).notes
    assert notes[0].startswith("legal for multiples of 64 x 128 alone")
    assert any("also takes" in note for note in notes)


def test_experts_folded_into_the_rows_are_seen() -> None:
    found = imported("gate_up_scales", (192, 16), ("uint8",), {"experts": 3})
    assert not found.equals
    assert found.notes == (
        "row is 3 parts, one after another, as of experts: with a batch axis of 3 in their place each part is "
        "shuffle_scale_a16w4_gate_up of aiter.layout, but it pads k to 8, and this one nothing",
    )


REFUSED = (
    ("flips_a_bit", "uint8", "output byte 0 holds a value that is no input byte"),
    ("flips_one_byte", "uint8", "output byte 1234 holds a value that is no input byte"),
    ("quantizes", "bf16", "output byte 0 holds a value that is no input byte"),
    ("sorts_rows", "uint8", "the order depends on the data"),
    ("xor_swizzle", "uint8", r"element \(1, 16\) is at byte \d+, where .* an XOR"),
    ("two_results", "uint8", "returns a tuple of 2 values"),
    ("in_place", "uint8", "returns NoneType, where a tensor is expected"),
    ("drops_last_row", "uint8", r"element \(63, 0\) .* is nowhere in the 8064 bytes"),
    ("loses_the_rest", "uint8", r"element \(\d+, \d+\) .* is nowhere .*; 2048 output bytes differ from run to run"),
    ("doubles", "uint8", "is in the output twice, at bytes 0 and 8192"),
    ("reversed_rows", "uint8", r"element \(0, 0\) is at byte \d+, and a layout has it at byte 0"),
    ("two_fills", "uint8", "fills its pads with several values"),
    ("large_is_other", "uint8", r"at 4097 x 2 element \(0, 1\) is not at byte 1"),
    ("counts_calls", "uint8", "output bytes differ from run to run on the same data"),
    ("aligned_columns", "fp32", "no padding to a multiple"),
)


@pytest.mark.parametrize(("function", "dtype", "evidence"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_is_no_layout_is_refused_with_evidence(function: str, dtype: str, evidence: str) -> None:
    with pytest.raises(NotALayout, match=evidence):
        imported(function, (64, 128), (dtype,))


def test_a_fill_that_varies_with_the_size_is_refused() -> None:
    with pytest.raises(NotALayout, match=r"at \d+ x \d+ the pad at byte \d+ is not 0x01"):
        imported("fill_varies", (60, 128), ("uint8",))


def test_dtypes_with_different_orders_are_not_made_one() -> None:
    with pytest.raises(NotALayout, match="a digit is 16 of 8 bits, 4 of 16 bits"):
        imported("mixed_widths", (64, 128), ("uint8", "bf16"))


# --- the real aiter, where its file is at hand: AITER_SHUFFLE=.../aiter/ops/shuffle.py; CI has none ---

AITER = (
    ("shuffle_weight", (64, 128), "fp8", {}, "shuffle_16x16"),
    ("shuffle_weight", (64, 128), "int8", {"layout": (32, 16)}, "shuffle_32x16"),
    ("shuffle_weight", (64, 128), "int8", {"use_int4": True}, "shuffle_16x16_int4"),
    ("shuffle_weight_NK", (64, 128), "bf16", {"inst_N": 16, "inst_K": 32}, "shuffle_16x16"),
    ("shuffle_weight_a16w4", (2, 64, 64), "fp4", {"NLane": 16, "gate_up": True}, "shuffle_16x16_gate_up"),
)

if "AITER_SHUFFLE" in os.environ:

    @pytest.mark.parametrize(("function", "shape", "dtype", "arguments", "equal"), AITER)
    def test_aiter_s_functions_are_the_library_s_layouts(
        function: str, shape: tuple[int, ...], dtype: str, arguments: dict[str, Any], equal: str
    ) -> None:
        if "aiter" not in sys.modules and importlib.util.find_spec("aiter") is None:  # newer files ask it for the arch
            stub = type(sys)("aiter.jit.utils.chip_info")
            stub.get_gfx = lambda: "gfx950"  # type: ignore[attr-defined]
            for name in ("aiter", "aiter.jit", "aiter.jit.utils"):
                sys.modules[name] = type(sys)(name)
            sys.modules[stub.__name__] = stub
        target = find_target(f"{os.environ['AITER_SHUFFLE']}:{function}", arguments, len(shape))
        found = import_layout(target, [find_dtype(dtype)], [shape], Names())
        assert equal in [e.name for e in found.equals if not e.differences]
