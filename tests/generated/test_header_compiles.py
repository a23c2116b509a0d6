"""Headers compile alone and together, warnings as errors, for hosts, gfx942, gfx950, NVIDIA; the fold in a kernel."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from mono_gen.plan.model import SpecPlan
from tests.generated.headers import DEVICE, STRICT, ZIG, header, must_compile, plans

NAMES = ("aiter", "minimax_m3", "inherited", "corners")
KERNEL = Path(__file__).parent / "fold_kernel.hip"
HOSTS = {
    "g++, C++17": ("g++", "-std=c++17", "-pedantic", *STRICT),
    "g++, C++20": ("g++", "-std=c++20", "-pedantic", *STRICT),
    "clang++, C++17": (*ZIG, "-std=c++17", "-nostdinc", "-pedantic", *STRICT, "-Wdocumentation", "-Wcomma"),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_header_compiles_alone(host: str, name: str, header_folder: Path) -> None:
    (header_folder / f"alone_{name}.cpp").write_text(f'#include "{name}.hpp"\n')
    must_compile([*HOSTS[host], "-fsyntax-only", f"alone_{name}.cpp"], header_folder)


@pytest.mark.parametrize("host", HOSTS)
def test_headers_compile_together_and_twice(host: str, header_folder: Path) -> None:
    includes = "".join(f'#include "{name}.hpp"\n' for name in (*NAMES, *NAMES))
    (header_folder / "together.cpp").write_text(f"{includes}int main() {{ return 0; }}\n")
    must_compile([*HOSTS[host], "-fsyntax-only", "together.cpp"], header_folder)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_kernel_that_uses_the_fold_compiles_for_amd(arch: str, header_folder: Path) -> None:
    shutil.copy(KERNEL, header_folder)
    flags = (*DEVICE, "-std=c++17", *STRICT, f"--offload-arch={arch}", "-Rpass-analysis=kernel-resource-usage")
    said = must_compile([*ZIG, *flags, "-S", KERNEL.name, "-o", f"fold_{arch}.s"], header_folder)
    assembly = (header_folder / f"fold_{arch}.s").read_text()
    # A scalar resource an expert, a scalar tile, and 32 bits a lane: no address is worked out in vector registers.
    assert re.search(r"buffer_load_dwordx4 v\[\d+:\d+\], v\d+, s\[\d+:\d+\], s\d+ offen", assembly)
    assert re.search(r"buffer_load_dword v\d+, v\d+, s\[\d+:\d+\], s\d+ offen", assembly)
    assert "v_mad_u64" not in assembly
    assert re.search(r"VGPRs Spill: 0\b", said), said


@pytest.mark.nvcc
def test_headers_and_the_kernel_compile_with_nvcc(header_folder: Path) -> None:
    shutil.copy(KERNEL, header_folder)
    host = "-Wall,-Wextra,-Werror,-Wshadow,-Wconversion"
    command = ["nvcc", "-x", "cu", "-std=c++17", "-arch=sm_90", "-Werror", "all-warnings", "-Xcompiler", host]
    must_compile([*command, "-c", KERNEL.name, "-o", "fold_nvcc.o"], header_folder)


def test_no_header_includes_anything_or_is_wider_than_120_columns(spec_plans: dict[str, SpecPlan]) -> None:
    for plan in spec_plans.values():
        text = header(plan)
        assert "#include" not in text
        assert max(len(line) for line in text.splitlines()) <= 120
        assert not re.search(r"[ \t]$", text, re.MULTILINE)
        assert "\n\n\n" not in text
        assert text.endswith("#endif\n")


def test_every_layout_and_tensor_has_three_sample_points(spec_plans: dict[str, SpecPlan]) -> None:
    for plan in spec_plans.values():
        for layout in plan.layouts:
            assert len(layout.samples) >= 3, layout.model.name
        for tensor in (t for struct in plan.structs for field in struct.fields for t in field.tensors):
            elements = 1
            for n in tensor.model.extents:
                elements *= 9 if isinstance(n, str) else n
            assert len(tensor.samples) >= min(3, elements), tensor.model.name


def test_a_small_change_of_the_spec_is_a_small_change_of_the_header(spec_plans: dict[str, SpecPlan]) -> None:
    before = header(spec_plans["minimax_m3"]).splitlines()
    after = header(plans({"minimax_m3.TP": 2})["minimax_m3"]).splitlines()
    assert [re.sub(r"0x\w+|\d+", "#", line) for line in before if "static constexpr" in line] == [
        re.sub(r"0x\w+|\d+", "#", line) for line in after if "static constexpr" in line
    ]
