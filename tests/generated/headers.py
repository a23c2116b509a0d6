"""Plans and headers for the tests, and the compilers that read them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mono_gen.emit.hip import emit_hip
from mono_gen.pipeline import plan_specs
from mono_gen.plan.model import SpecPlan

ROOT = Path(__file__).resolve().parents[2]
SPECS = (ROOT / "specs" / "minimax_m3.layout", Path(__file__).parent / "specs" / "corners.layout")
"""Their imports come with them: the library, and a spec whose struct another extends."""

STRICT = ("-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wsign-conversion", "-Wshadow")
ZIG = (sys.executable, "-m", "ziglang", "clang")
DEVICE = ("-x", "hip", "-O3", "--offload-device-only", "-nogpulib", "-nogpuinc", "-nostdinc", "-fuse-cuid=none")


def plans(overrides: dict[str, int] | None = None) -> dict[str, SpecPlan]:
    """Return the plan of each spec by its name."""
    found, _ = plan_specs(SPECS, overrides or {})
    return {plan.model.name: plan for plan in found}


def header(plan: SpecPlan) -> str:
    """Return the text of a spec's header."""
    (file,) = emit_hip(plan)
    return file.text


def write_headers(folder: Path, chosen: dict[str, SpecPlan]) -> Path:
    """Return the folder, each spec's header written into it."""
    for name, plan in chosen.items():
        (folder / f"{name}.hpp").write_text(header(plan))
    return folder


def compiled(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Return a compiler's run in a folder."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def must_compile(command: Sequence[str], folder: Path) -> str:
    """Return what a compiler wrote to its output; a failure shows what it said."""
    done = compiled(command, folder)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr
