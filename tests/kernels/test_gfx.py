"""The kernels as code for AMD GPUs: no spills, the instructions that they are meant for, weights from scalar bases."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mono_gen.kernels import KernelFault, load
from mono_gen.kernels.library import Library
from mono_gen.operands import maps_header
from mono_gen.runtime import MonoUnsupported
from tests.generated.headers import ROOT, ZIG, must_compile
from tests.kernels import assembly, small
from tests.kernels.assembly import Kernel

SOURCE = ROOT / "mono_gen" / "kernels" / "mono.hip"
STUB = ROOT / "tests" / "kernels" / "hip_stub"
DEFINES = (
    "-DMONO_DEVICE_ONLY",
    '-DMONO_SPEC_HEADER="minimax_m3.hpp"',
    "-DMONO_SPEC=minimax_m3",
    "-DMONO_STRUCT=SparseMoeLayer",
)

# Loads of weights, 16 bytes each, that the loops of a stage are unrolled into; and the instruction that they feed.
SCALED, DENSE = "v_mfma_scale_f32_16x16x128_f8f6f4", "v_mfma_f32_16x16x32_fp8_fp8"
WEIGHTS = {
    "mono_qkv_kernel": (12, DENSE),
    "mono_o_proj_kernel": (8, SCALED),
    "mono_logits_kernel": (12, None),
    "mono_up_gate_kernel": (24, SCALED),
    "mono_down_kernel": (12, SCALED),  # ahead of the loop, and in it
    "mono_shared_up_gate_kernel": (48, SCALED),
    "mono_shared_down_kernel": (24, SCALED),
    "mono_norm_kernel": (0, None),
    "mono_fp8_kernel": (0, None),
    "mono_mx_kernel": (0, None),
    "mono_head_kernel": (0, None),
    "mono_rank_kernel": (0, None),
}
FP4 = ("mono_up_gate_kernel", "mono_down_kernel")


@pytest.fixture(scope="module")
def folder_of_maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the maps header."""
    folder = tmp_path_factory.mktemp("gfx")
    (folder / "mfma_maps.hpp").write_text(maps_header())
    return folder


@pytest.fixture(scope="module")
def gfx950(folder_of_maps: Path) -> dict[str, Kernel]:
    """Return the kernels for gfx950, of the real header."""
    return compiled(folder_of_maps, ROOT / "generated", "gfx950")


def compiled(folder: Path, headers: Path, arch: str, *flags: str) -> dict[str, Kernel]:
    """Return the kernels of mono.hip for an arch; warnings are errors."""
    text = assembly.assembled(str(SOURCE), folder, arch, ("-O3", f"-I{folder}", f"-I{headers}", *DEFINES, *flags))
    return assembly.kernels(text)


def test_every_kernel_is_looked_at(gfx950: dict[str, Kernel]) -> None:
    assert gfx950.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("name", WEIGHTS)
def test_no_scratch_and_no_spills(gfx950: dict[str, Kernel], name: str) -> None:
    kernel = gfx950[name]
    assert (kernel.scratch_bytes, kernel.vgpr_spills, kernel.sgpr_spills) == (0, 0, 0)
    assert kernel.lds_bytes <= 160 * 1024
    assert not [line for line in kernel.lines if line.startswith(("flat_load", "scratch_"))]


@pytest.mark.parametrize("name", [name for name, (count, _) in WEIGHTS.items() if count])
def test_weights_come_16_bytes_a_lane_from_a_scalar_base(gfx950: dict[str, Kernel], name: str) -> None:
    loads = assembly.loads(gfx950[name].lines, "global_load_dwordx4")
    assert len([line for line in loads if assembly.has_scalar_base(line)]) == WEIGHTS[name][0]


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_instruction_is_the_one_of_the_layout(gfx950: dict[str, Kernel], name: str) -> None:
    matrix = [line for line in gfx950[name].lines if line.startswith("v_mfma")]
    assert {line.split()[0] for line in matrix} == ({WEIGHTS[name][1]} - {None})
    # cbsz 4 says that A is fp4; no cbsz that it is fp8. B is fp8 throughout: no blgp.
    assert {"cbsz:4" in line for line in matrix} <= {name in FP4}
    assert not any("blgp" in line for line in matrix)


def test_one_dword_of_scales_serves_four_instructions(gfx950: dict[str, Kernel]) -> None:
    """The four bytes of a dword: two 16-row halves of two chunks, each by its operand select."""
    scaled = [line for line in gfx950["mono_up_gate_kernel"].lines if line.startswith(SCALED)]
    selects = [tuple(re.findall(r"op_sel(?:_hi)?:\[(\d)", line)) for line in scaled]
    assert {selects.count(select) for select in set(selects)} == {len(scaled) // 4}


def test_the_header_costs_nothing(
    gfx950: dict[str, Kernel], folder_of_maps: Path, record_property: Callable[[str, object], None]
) -> None:
    """The same kernels with the public kernels' addresses, written by hand: the folds take no more instructions."""
    flag = f'-DMONO_FOLDS="{ROOT / "tests" / "kernels" / "hand_written.hpp"}"'
    hand = compiled(folder_of_maps, ROOT / "generated", "gfx950", flag)
    table = [f"{'kernel':28} {'fold v':>7} {'hand v':>7} {'fold s':>7} {'hand s':>7}"]
    more = []
    for name, kernel in gfx950.items():
        mine, theirs = assembly.count(kernel.lines), assembly.count(hand[name].lines)
        table.append(f"{name:28} {mine.vector:7} {theirs.vector:7} {mine.scalar:7} {theirs.scalar:7}")
        if mine.vector > theirs.vector or mine.scalar > theirs.scalar:
            more.append(name)
        assert mine.matrix == theirs.matrix
    record_property("table: instructions of whole kernels on gfx950", "\n".join(table))
    print("\n".join(table))
    assert not more


# --- what hipcc does with the same sources: it reads them for the host, too, launches included ---


def hip(folder: Path, whose: str, *flags: str) -> tuple[str, ...]:
    """Return the command that reads a source as hipcc does, against declarations of HIP's runtime."""
    import ziglang  # not on machines that run GPU tests alone

    system = ("-isystem", str(Path(ziglang.__file__).parent / "lib" / "include"))
    headers = (f"-I{h}" for h in (STUB, folder, ROOT / "generated"))
    strict = ("-x", "hip", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-nogpulib", "-nogpuinc")
    return (*ZIG, *strict, "--offload-arch=gfx950", f"--offload-{whose}-only", *system, *headers, *DEFINES[1:], *flags)


@pytest.mark.parametrize(("source", "whose"), [("mono.hip", "device"), ("probe.hip", "host"), ("probe.hip", "device")])
def test_both_passes_of_hip(folder_of_maps: Path, source: str, whose: str) -> None:
    """What is for the device is well-formed for the host, too; `launches` is that of mono.hip."""
    must_compile([*hip(folder_of_maps, whose, "-fsyntax-only"), str(SOURCE.with_name(source))], folder_of_maps)


@pytest.fixture(scope="module")
def launches(folder_of_maps: Path) -> Library:
    """Return the host's half of a hip library, linked with a runtime that notes what is launched."""
    command = hip(folder_of_maps, "host", "-O1", "-fPIC", "-fuse-cuid=none", "-c")
    must_compile([*command, str(SOURCE), "-o", "mono.o"], folder_of_maps)
    flags = ("-std=c++17", "-shared", "-fPIC", "-Wl,--defsym=__hip_fatbin=mono_fatbin")
    must_compile(["g++", *flags, str(STUB / "runtime.cpp"), "mono.o", "-o", "mono.so"], folder_of_maps)
    return Library(folder_of_maps / "mono.so")


# Blocks of each launch for 16 tokens, where the shared expert is fused.
GRIDS = {
    "norm": (16, 1),
    "qkv": (160, 1),
    "head": (19, 1),
    "fp8": (16, 1),
    "o_proj": (192, 1),
    "logits": (16, 16),
    "rank": (16, 1),
    "mx": (16, 1),
    "up_gate": (24, 65),
    "down": (192, 1),
    "shared_up_gate": (24, 1),
    "shared_down": (192, 1),
}


@pytest.mark.parametrize("stage", GRIDS)
def test_what_is_launched(launches: Library, stage: str) -> None:
    """The kernel, its grid, the stream, the first word of its arguments and the last of its table."""
    values = {name: 100 + i for i, (_, name) in enumerate(launches.words(stage))}
    has_table = stage.startswith("shared")
    launches.run(stage, {**values, "tokens": 16, "fused": 1}, 0x1234, (1, 2, 3, 4) if has_table else ())
    x, y = GRIDS[stage]
    wanted = f"mono_{stage}_kernel {x} {y} 1 512 1 1 0 {0x1234} 100" + (" 4" if has_table else "")
    launches._handle.stub_launched.restype = ctypes.c_char_p
    assert launches._handle.stub_launched().decode() == wanted


def test_an_error_that_a_call_before_left_is_no_fault_of_a_launch(launches: Library) -> None:
    values = {name: 1 for _, name in launches.words("norm")}
    launches._handle.stub_errors(1, 0)
    launches.run("norm", values, 0)
    launches._handle.stub_errors(0, 2)
    with pytest.raises(KernelFault, match="norm: of the launch"):
        launches.run("norm", values, 0)
    launches._handle.stub_errors(0, 0)


# --- gfx942: fnuz bytes, no scaled MFMA, 64 KiB of LDS ---


@pytest.fixture(scope="module")
def gfx942_headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the real spec for gfx942: the fp8 fields that gfx942 has no dialect for are left out."""
    text = (ROOT / "specs" / "minimax_m3.layout").read_text()
    return small.written(for_gfx942(text), tmp_path_factory.mktemp("gfx942"))


def for_gfx942(text: str) -> str:
    """Return the spec for gfx942: the index cache holds its dialect, and the separate MXFP8 expert is left out."""
    text = text.replace("arch gfx950", "arch gfx942").replace("index_cache : fp8_e4m3fn", "index_cache : fp8_e4m3fnuz")
    text = re.sub(r"(?s)    ## The separate MXFP8 shared expert.*?\n    }\n\n(?=    args k1_args)", "", text)
    return re.sub(r"(?m)^ *feeds .*\n", "", text)


def test_qkv_compiles_for_gfx942(folder_of_maps: Path, gfx942_headers: Path) -> None:
    found = compiled(folder_of_maps, gfx942_headers, "gfx942", "-DMONO_FNUZ")
    assert found.keys() == {"mono_norm_kernel", "mono_qkv_kernel"}
    for kernel in found.values():
        assert (kernel.scratch_bytes, kernel.vgpr_spills, kernel.sgpr_spills) == (0, 0, 0)
        assert kernel.lds_bytes <= 64 * 1024
    matrix = {line.split()[0] for line in found["mono_qkv_kernel"].lines if line.startswith("v_mfma")}
    assert matrix == {DENSE}


def test_fn_bytes_are_refused_where_the_kernel_reads_fnuz(
    gfx942_headers: Path, kernel_cache: None, layers: object
) -> None:
    """The ids tell: a layer of gfx950's spec holds fn bytes, and the library was compiled for fnuz ones."""
    of_gfx942 = load("host", header=gfx942_headers / "minimax_m3.hpp", defines=("MONO_FNUZ",))
    layer = layers(True).loaded  # type: ignore[operator]
    with pytest.raises(MonoUnsupported) as refused:
        of_gfx942.qkv(layer, *(2 * [layer.g_in[None]]))
    assert "w_qkv" in {problem.field.partition(",")[0] for problem in refused.value.problems} or "fields" in str(
        refused.value
    )
