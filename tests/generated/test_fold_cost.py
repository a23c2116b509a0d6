"""The header costs nothing: folds compile to no more instructions than the addresses that kernels write by hand.

Of each tensor the reads of one task stand in kernels for gfx950 that differ in the address alone. All vector
instructions are counted, and all scalar ones but memory, waits, hints and jumps (tests/kernels/assembly.py). By hand
coordinates are counted in `int`, and again in `unsigned`, where `/ 2` is a shift: the fold is no worse than the better
of them. An expert's base is 64 bits in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from tests.generated.headers import must_compile
from tests.kernels.assembly import Counts, Kernel, assembled, count, has_scalar_base, kernels, loads

SKELETON = Path(__file__).parent / "fold_cost.hip"
UNROLLED = "unrolled"
LOOPS = {UNROLLED: "true", "in a loop": "false"}
TABLE = "instructions of a weight's reads on gfx950: by the fold | by hand, in int | by hand, in unsigned"


@dataclass(frozen=True, slots=True)
class Reads:
    """What a wave reads of a tensor in one task: `count` times at tile + step, and a lane's own part.

    at:    the task's row group and first chunk, over block and wave.
    loop:  `stream<T` reads a T a lane; `scales<` reads a dword a lane and takes a byte of it for each of two chunks.
    fold:  tile, step, lane and, for scales, select. C++ over e, rg and kc; i, the number of the read; block and l.
    hand:  the same without the header.
    """

    using: str
    at: str
    loop: str
    count: int
    fold: tuple[str, ...]
    hand: tuple[str, ...]


def data(fold: str, at: str, reads: int, steps: tuple[str, str], item: int, hand: str, lane: str = "16 * l") -> Reads:
    """Return reads of 16 bytes a lane; `steps` with and without the fold, `item` bytes an expert."""
    base = f"spec::{fold.split(',')[0]}::base(e) + " if item else ""
    by_hand = f"e * {item}LL + " if item else ""
    using = f"using F = spec::wave_fold<spec::{fold}>;"
    return Reads(
        using,
        at,
        "stream<Quad, ",
        reads,
        (f"{base}F::uniform(rg, kc)", steps[0], "F::lane(l)"),
        (by_hand + hand, steps[1], lane),
    )


def scales(tensor: str, loop: str, at: str, reads: int, item: int, pairs: int) -> Reads:
    """Return reads of scales, dwords or bytes; `pairs` of chunks a row."""
    base = f"spec::{tensor}::base(e) + " if item else ""
    using = f"using F = spec::wave_fold<spec::{tensor}, 16, 4, 1>;"
    dword, select = f"e * {item}LL + (rg / 2 * {pairs} + kc / 2) * 256", "2 * (kc % 2) + rg % 2"
    dword = dword if item else dword.split(" + ", 1)[1]
    if loop == "scales<":
        fold = (f"{base}F::dword(rg, kc)", "i / F::kStepChunks * F::kStep", "F::lane(l)", "F::select(rg, kc + i)")
        return Reads(using, at, loop, reads, fold, (dword, "i / 2 * 256", "4 * l", "2 * ((kc + i) % 2) + rg % 2"))
    fold = (f"{base}F::uniform(rg, kc)", "F::uniform(0, i)", "F::lane(l)")
    return Reads(using, at, "stream<Byte, ", reads, fold, (f"{dword} + {select}", "i / 2 * 256 + i % 2 * 2", "4 * l"))


STEP = ("i * F::kStep", "i * 1024")
GATE_UP = ("F::uniform(48 * (i % 2), i / 2)", "(i % 2 * 48 * 96 + i / 2 * 2) * 512")
HALVES = ("F::uniform(0, i)", "i / 2 * 2048 + i % 2 * 16")
UP_GATE = "rg = block, kc = 6 * wave"
DOWN = "rg = 2 * block + wave / 4, kc = 0"
FUSED_ROW = "((l % 16 < 8 ? 0 : 760) + 8 * block + l % 16)"  # gate rows 8 block .., then up rows 768 + 8 block ..
READS = {
    "w_qkv": data("w_qkv, 16, 64, 16", "rg = block, kc = 12 * wave", 12, STEP, 0, "(rg * 192 + 2 * kc) * 512"),
    "w_o": data(
        "w_o, 16, 64, 16", "rg = 2 * block + wave / 4, kc = wave % 4 * 8", 8, STEP, 0, "(rg * 64 + 2 * kc) * 512"
    ),
    "w13": data("w13, 16, 128, 32", UP_GATE, 12, GATE_UP, 4718592, "(rg * 96 + 2 * kc) * 512"),
    "w13, fused shared": Reads(
        "using F = spec::wave_fold<spec::w13, 16, 128, 32>;",
        UP_GATE,
        "stream<Quad, ",
        6,
        (
            "spec::w13::base(128) + F::uniform(0, kc)",
            "i * F::kStep",
            f"F::uniform({FUSED_ROW} / 16, 0) + F::lane(l / 16 * 16 + {FUSED_ROW} % 16)",
        ),
        (
            "128 * 4718592LL + 2 * kc * 512",
            "i * 1024",
            f"{FUSED_ROW} / 16 * 96 * 512 + (l / 16 * 16 + {FUSED_ROW} % 16) * 16",
        ),
    ),
    "w2": data("w2, 16, 128, 32", DOWN, 6, STEP, 2359296, "(rg * 12 + 2 * kc) * 512"),
    "gate": data("gate, 1, 512, 8", "rg = 8 * block + wave, kc = 0", 12, STEP, 0, "2 * (rg * 6144 + 64 * kc * 8)"),
    "sh_w13": data(
        "sh_w13, 16, 64, 16", "rg = block, kc = 12 * wave", 12, HALVES, 0, "(rg * 48 + kc / 2) * 2048", "32 * l"
    ),
    "sh_w2": data("sh_w2, 16, 64, 16", DOWN, 12, HALVES, 0, "(rg * 6 + kc / 2) * 2048", "32 * l"),
    "s13, dwords": scales("s13", "scales<", UP_GATE, 6, 294912, 24),
    "s13, bytes": scales("s13", "bytes", UP_GATE, 6, 294912, 24),
    "s2, dwords": scales("s2", "scales<", DOWN, 6, 147456, 3),
    "s2, bytes": scales("s2", "bytes", DOWN, 6, 147456, 3),
    "sh_s13, dwords": scales("sh_s13", "scales<", UP_GATE, 6, 0, 24),
    "sh_s2, dwords": scales("sh_s2", "scales<", DOWN, 6, 0, 3),
    "s_qkv": Reads(
        "using F = spec::row_fold<spec::s_qkv, 16>;",
        "rg = block, kc = 0",
        "stream<unsigned, ",
        1,
        ("F::uniform(rg)", "0", "F::lane(l)"),
        ("4 * (16 * rg)", "0", "4 * (l % 16)"),
    ),
    "s_o": Reads(
        "using F = spec::row_fold<spec::s_o, 32>;",
        "rg = block, kc = 0",
        "stream<unsigned, ",
        1,
        ("F::uniform(rg)", "0", "F::lane(l)"),
        ("4 * (32 * rg)", "0", "4 * (l % 32)"),
    ),
}
"""The tasks of the vendor's kernels, with the formulas that they are described by."""
LOOPED = [name for name, reads in READS.items() if reads.count > 1]


def address(name: str, reads: Reads, kind: str, how: tuple[str, ...]) -> str:
    """Return a class of addresses in C++; `kind` is what its coordinates are counted in."""
    rg, kc = (part.split(" = ")[1] for part in reads.at.split(", "))
    at = f"const {kind} rg = static_cast<{kind}>({rg}), kc = static_cast<{kind}>({kc});"
    select = f"const {kind} i = static_cast<{kind}>(read); (void)rg, (void)kc, (void)i;"
    select += f" return static_cast<int>({how[3]});" if len(how) > 3 else " return 0;"
    return f"""struct {name} {{
    {reads.using if how is reads.fold else ""}
    [[maybe_unused]] int e, block, wave;
    DEVICE long long tile() const {{ {at} (void)rg, (void)kc; return {how[0]}; }}
    DEVICE static int step(int i) {{ (void)i; return {how[1]}; }}
    DEVICE int lane(int l) const {{ return {how[2]}; }}
    DEVICE int select(int read) const {{ {at} {select} }}
}};
"""


HOWS = {"fold": "int", "int": "int", "unsigned": "unsigned"}
"""The fold, and two ways by hand: what coordinates are counted in."""


def addresses(number: int, reads: Reads) -> str:
    """Return a task's three classes of addresses."""
    return "\n".join(
        address(f"{how}_{number}", reads, kind, reads.fold if how == "fold" else reads.hand)
        for how, kind in HOWS.items()
    )


def program(chosen: Mapping[str, Reads]) -> tuple[str, dict[tuple[str, str, str], str]]:
    """Return a HIP source, and the kernel of each (reads, loop, `fold` or what is counted in by hand)."""
    text, names = [SKELETON.read_text()], {}
    for number, (name, reads) in enumerate(chosen.items()):
        text.append(addresses(number, reads))
        for how, (loop, unrolled) in product(HOWS, LOOPS.items()):
            kernel = f"k_{how}_{number}_{unrolled}"
            call = f"{reads.loop}{how}_{number}, {unrolled}, {reads.count}>(w, out, e)"
            text.append(f"KERNEL {kernel}(const Byte* w, unsigned* out, int e) {{ {call}; }}")
            names[name, loop, how] = kernel
    return "\n".join(text), names


@pytest.fixture(scope="module")
def compiled(header_folder: Path) -> dict[tuple[str, str, str], Kernel]:
    """Return the kernel of each (reads, loop, how)."""
    text, names = program(READS)
    (header_folder / "fold_cost.hip").write_text(text)
    found = kernels(assembled("fold_cost.hip", header_folder))
    return {key: found[name] for key, name in names.items()}


@pytest.mark.parametrize(("name", "loop"), [*product(READS, [UNROLLED]), *product(LOOPED, ["in a loop"])])
def test_a_fold_costs_no_more_than_the_hand_written_address(
    name: str,
    loop: str,
    compiled: dict[tuple[str, str, str], Kernel],
    record_property: Callable[[str, object], None],
) -> None:
    fold, *by_hand = (compiled[name, loop, how] for how in HOWS)
    record_property(f"table: {TABLE}", row(name, loop, [count(kernel.lines) for kernel in (fold, *by_hand)]))
    assert bool(fold.inner) == (loop != UNROLLED)
    for other in by_hand:
        assert_no_more(count(fold.lines), count(other.lines))
        assert_no_more(count(fold.inner), count(other.inner))


def assert_no_more(fold: Counts, by_hand: Counts) -> None:
    """Assert that the fold's vector and scalar instructions are no more, for the same loads."""
    assert fold.loads == by_hand.loads
    assert fold.vector <= by_hand.vector and fold.scalar <= by_hand.scalar, (fold, by_hand)


def row(name: str, loop: str, counts: list[Counts]) -> str:
    """Return a row of the table that is printed at the end of the run."""
    vector, scalar = (" | ".join(f"{getattr(c, kind):2}" for c in counts) for kind in ("vector", "scalar"))
    return f"{name:18} {loop:10} vector {vector}   scalar {scalar}"


SAME_BYTES = """#include <initializer_list>
template <class A, class B>
bool are_equal(int count) {
    for (int e : {0, 5, 128}) for (int block : {0, 1, 2, 13, 47}) for (int wave = 0; wave < 8; ++wave) {
        const A a{e, block, wave};
        const B b{e, block, wave};
        for (int i = 0; i < count; ++i) for (int l = 0; l < 64; ++l) {
            if (a.tile() + a.step(i) + a.lane(l) != b.tile() + b.step(i) + b.lane(l)) return false;
            if (a.select(i) != b.select(i)) return false;
        }
    }
    return true;
}
"""


def test_what_is_compared_reads_the_same_bytes(header_folder: Path) -> None:
    prologue = '#include "minimax_m3.hpp"\n#define DEVICE constexpr\nnamespace spec = mono::minimax_m3;\n'
    classes = [addresses(number, reads) for number, reads in enumerate(READS.values())]
    checks = [
        f"    if (!are_equal<fold_{number}, {how}_{number}>({reads.count})) return 1;"
        for number, reads in enumerate(READS.values())
        for how in ("int", "unsigned")
    ]
    text = "\n".join([prologue, *classes, SAME_BYTES, "int main() {", *checks, "    return 0;", "}"])
    (header_folder / "same_bytes.cpp").write_text(text)
    must_compile(["g++", "-std=c++17", "-O1", "same_bytes.cpp", "-o", "same_bytes"], header_folder)
    must_compile(["./same_bytes"], header_folder)


def test_the_general_form_costs_more(compiled: dict[tuple[str, str, str], Kernel], header_folder: Path) -> None:
    """The comparison is not blind: offsets of coordinates that differ by lane, a chunk at a time."""
    general = replace(
        READS["w13"],
        fold=("spec::w13::base(e)", "0", "spec::w13::inner(16 * block + l % 16, 768 * wave + 32 * (l / 16)).byte"),
    )
    text, names = program({"w13": replace(general, count=1)})
    (header_folder / "general_form.hip").write_text(text)
    found = kernels(assembled("general_form.hip", header_folder))
    slow, by_hand = (count(found[names["w13", UNROLLED, how]].lines) for how in ("fold", "int"))
    assert slow.vector > by_hand.vector


@pytest.mark.parametrize("name", [name for name, reads in READS.items() if "Quad" in reads.loop])
def test_weights_are_read_16_bytes_a_lane_from_a_scalar_base(
    name: str, compiled: dict[tuple[str, str, str], Kernel]
) -> None:
    kernel = compiled[name, UNROLLED, "fold"]
    wide = loads(kernel.lines, "global_load_dwordx4")
    assert len(wide) == READS[name].count == count(kernel.lines).loads
    assert all(has_scalar_base(load) for load in wide), wide
    assert (kernel.vgpr_spills, kernel.sgpr_spills, kernel.scratch_bytes) == (0, 0, 0)
