"""The probe decodes the operand table from instructions: from the modelled ones here, whatever maps they are given."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mono_gen.operands import ROWS, OperandMap, OperandRow, maps_header, rows_text
from tests.generated.headers import DEVICE, ROOT, ZIG, must_compile

PROBE = ROOT / "mono_gen" / "kernels" / "probe.hip"
STRICT = ("-Wall", "-Wextra", "-Werror")
SCALED = "mfma_scale_f32_16x16x128_f8f6f4"


def seen(header: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return the run of a probe whose host executor has these maps."""
    (folder / "mfma_maps.hpp").write_text(header)
    flags = ("-x", "c++", "-std=c++17", "-O1", *STRICT, f"-I{folder}")
    must_compile(["g++", *flags, str(PROBE), "-pthread", "-o", "probe"], folder)
    return subprocess.run([folder / "probe"], capture_output=True, text=True, check=False)


def test_the_probe_prints_the_table(tmp_path: Path) -> None:
    done = seen(maps_header(), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == rows_text().splitlines()


LANES_BY_K = OperandMap(("row = r:16", "k = g:4 e:8"), "lane r g | element e", "nobody")
TRANSPOSED = OperandMap(("row = i:16", "col = g:4 e:4"), "lane g i | element e", "nobody")
CONTIGUOUS = OperandMap(("row = r:16", "k = g:4 b:32"), "lane g r | element b", "FlyDSL")
BLOCKS_BY_ROW = OperandMap(("row = r:16", "block = g:4"), "lane r g", "nobody")


def parts(rows: tuple[OperandRow, ...]) -> tuple[str, str, str]:
    """Return the header of a table in three: the arrays of the first instruction's B, and what stands around them."""
    text = maps_header(rows)
    begin, end = (text.index(f"    static constexpr unsigned char {name}[") for name in ("b_col", "d_row"))
    return text[:begin], text[begin:end], text[end:]


def test_the_probe_prints_what_other_instructions_take(tmp_path: Path) -> None:
    mutants = (
        ROWS[0],
        replace(ROWS[1], data=LANES_BY_K, accumulator=TRANSPOSED),
        replace(ROWS[2], data=CONTIGUOUS, scale=BLOCKS_BY_ROW),
        replace(ROWS[3], scale=BLOCKS_BY_ROW),
    )
    other_b = (replace(ROWS[0], data=LANES_BY_K), *mutants[1:])
    before, _, after = parts(mutants)
    done = seen(before + parts(other_b)[1] + after, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with_b = [line.startswith("mfma_f32_16x16x32_fp8_fp8.b ") for line in rows_text().splitlines()]
    texts = zip(with_b, rows_text(mutants).splitlines(), rows_text(other_b).splitlines(), strict=True)
    assert done.stdout.splitlines() == [other if is_b else line for is_b, line, other in texts]
    changed = {line.split(" lane ")[0] for line in set(done.stdout.splitlines()) - set(rows_text().splitlines())}
    assert {"mfma_f32_16x16x32_fp8_fp8.b fp8*fp8", "mfma_f32_16x16x32_bf16.d bf16*bf16"} <= changed
    assert {f"{SCALED}.a fp8*fp4", f"{SCALED}.b fp4*fp8", f"{SCALED}.a_scale fp8*fp4 byte 3"} <= changed
    assert "mfma_f32_16x16x32_fp8_fp8.a fp8*fp8" not in changed


@pytest.mark.parametrize(("arch", "flags"), [("gfx950", ()), ("gfx942", ("-DMONO_FNUZ",))])
def test_the_probe_compiles_for_amd(arch: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    usage = "-Rpass-analysis=kernel-resource-usage"
    command = [*ZIG, *DEVICE, "-std=c++17", *STRICT, "-DMONO_DEVICE_ONLY", *flags, f"--offload-arch={arch}", usage]
    said = must_compile([*command, "-S", str(PROBE), "-o", "probe.s"], tmp_path)
    found = {word for line in (tmp_path / "probe.s").read_text().splitlines() for word in line.split()[:1]}
    instructions = {f"v_{row.instruction}" for row in ROWS if arch in row.archs}
    assert {word for word in found if word.startswith("v_mfma")} == instructions
    for what in ("ScratchSize [bytes/lane]", "SGPRs Spill", "VGPRs Spill"):
        values = [line.split(": ")[-1].split()[0] for line in said.splitlines() if f" {what}: " in line]
        assert values, what
        assert set(values) == {"0"}, what


# What the probe takes of ROCm's header, so that its half for the host is compiled where there is no ROCm.
RUNTIME = """#pragma once
#include <cstddef>
#define __global__ __attribute__((global))
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
enum hipError_t { hipSuccess = 0 };
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2 };
using hipStream_t = struct ihipStream_t*;
extern "C" {
hipError_t hipMalloc(void**, std::size_t);
hipError_t hipFree(void*);
hipError_t hipMemcpy(void*, const void*, std::size_t, hipMemcpyKind);
hipError_t hipMemset(void*, int, std::size_t);
hipError_t hipGetLastError();
const char* hipGetErrorString(hipError_t);
unsigned __hipPushCallConfiguration(dim3, dim3, std::size_t, hipStream_t);
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, std::size_t, hipStream_t);
}
"""


@pytest.mark.parametrize("flags", [(), ("-DMONO_FNUZ",)], ids=["gfx950", "gfx942"])
def test_the_half_of_the_probe_that_runs_beside_the_gpu_compiles(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").write_text(RUNTIME)
    import ziglang  # not on machines that run GPU tests alone

    include = Path(ziglang.__file__).parent / "lib" / "include"
    host = ("-x", "hip", "--offload-host-only", "--offload-arch=gfx950", "-nogpulib", "-nogpuinc", "-fsyntax-only")
    paths = ("-Xclang", "-internal-isystem", "-Xclang", str(include), f"-I{tmp_path}")
    must_compile([*ZIG, *host, "-std=c++17", *STRICT, *flags, *paths, str(PROBE)], tmp_path)
