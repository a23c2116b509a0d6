"""Generate, load a full-size layer twice, check every byte, drive a step of it: `python -m tools.demo`."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mono_gen.kernels import Kernels, load
from tools.demo.expected import K1_ARGS, SH_ARGS, expected_fields, first_mismatch, places, wrong_offset
from tools.demo.sources import ROUTED, Sources, build_sources
from tools.demo.stand_in import build_layer
from tools.demo.step import BOUND, StageRow, reference_weights, run_step

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS_A_LAYER = 3  # build, load, tables; then one a field, and one a decode step
TOKENS = (1, 4)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    field: str
    format: str
    shape: str
    layout: str
    plan: str
    nbytes: int
    seconds: float
    problem: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """What one layer gave."""

    title: str
    rows: tuple[Row, ...]
    problems: tuple[str, ...]
    built_s: float
    loaded_s: float
    nbytes: int
    steps: dict[int, tuple[StageRow, ...]]  # by tokens


def generate() -> None:
    """Write `generated/` from `specs/`."""
    done = subprocess.run([sys.executable, "-m", "mono_gen", "generate"], cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def load_generated(path: Path) -> ModuleType:
    """Return the generated module at a path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def field_info(struct: Any) -> dict[str, Any]:
    """Return the generated description of each tensor of a struct; a field of two tensors describes both."""
    return {name: info for info in struct.fields for name in re.findall(r"\w+", info.name)}


def check_field(name: str, loaded: Any, chunks: Any, place: Any, source: torch.Tensor | None) -> str | None:
    """Return what is wrong with one field, or None."""
    tensor = getattr(loaded, name)
    if tensor is None:
        return "absent"
    if not tensor.is_contiguous():
        return f"strides {tensor.stride()}"
    if tensor.data_ptr() % 16:
        return f"its address {tensor.data_ptr():#x} is not a multiple of 16"
    if source is not None and tensor.data_ptr() != source.data_ptr():
        return "a copy, where the spec says view"
    different = first_mismatch(tensor, chunks)
    if different is not None:
        return str(different)
    return wrong_offset(getattr(type(loaded), f"offset_{name}"), place)


def viewed(layer: Any) -> dict[str, torch.Tensor]:
    """Return the layer's own tensor of each field that is a view."""
    attn, moe = layer.self_attn, layer.block_sparse_moe
    experts = getattr(moe.experts, "routed_experts", moe.experts)
    return {
        "g_in": layer.input_layernorm.weight,
        "g_q": attn.q_norm.weight,
        "g_k": attn.k_norm.weight,
        "g_iq": attn.index_q_norm.weight,
        "g_ik": attn.index_k_norm.weight,
        "cos_sin": attn.rotary_emb.cos_sin_cache,
        "index_cache": attn.indexer.index_cache.kv_cache,
        "k_scale": attn._k_scale,
        "v_scale": attn._v_scale,
        "g_post": layer.post_attention_layernorm.weight,
        "bias": moe.e_score_correction_bias,
        "w13": experts.w13_weight,
        "s13": experts.w13_weight_scale,
        "w2": experts.w2_weight,
        "s2": experts.w2_weight_scale,
    }


def check_tables(loaded: Any, fused: bool) -> list[str]:
    """Return what is wrong with the address tables."""
    extras = {name: torch.zeros(64, dtype=torch.uint8) for name in ("ar", "iq_out", "scratch")}
    tables: list[tuple[str, tuple[str, ...], Any]] = [("k1_args", K1_ARGS, loaded.k1_args(*extras.values()))]
    problems = []
    shared = loaded.sh_args()
    if fused and shared is not None:
        problems.append("sh_args: a table, where the shared expert is fused")
    if not fused:
        tables.append(("sh_args", SH_ARGS, shared))
    for table, names, found in tables:
        wanted = [(extras[name] if name in extras else getattr(loaded, name)).data_ptr() for name in names]
        if found is None or found.dtype != torch.int64 or found.tolist() != wanted:
            problems.append(f"{table}: not the addresses of {' '.join(names)}, in this order")
    return problems


def run_layer(module: ModuleType, src: Sources, kernels: Kernels, fused: bool, progress: Progress) -> Report:
    """Return the report on one layer: built, loaded, every field and table checked, steps of 1 and of 4 tokens run."""
    title = "shared expert fused" if fused else "shared expert separate"
    names = places(ROUTED + fused)
    task = progress.add_task(title, total=STEPS_A_LAYER + len(TOKENS) + len(names), what="building the layer")
    start = time.perf_counter()
    layer = build_layer(src, fused=fused)
    built = time.perf_counter()
    progress.update(task, advance=1, what="loading it")
    loaded = module.SparseMoeLayer.from_layer(layer)
    done = time.perf_counter()
    progress.update(task, advance=1, what="working out the expected values")
    expected, info, views = expected_fields(src, ROUTED + fused), field_info(type(loaded)), viewed(layer)
    rows = []
    for name, chunks in expected.items():
        progress.update(task, advance=1, what=name)
        begin = time.perf_counter()
        problem = check_field(name, loaded, chunks, names[name], views.get(name))
        seconds = time.perf_counter() - begin
        tensor, said = getattr(loaded, name), info[name]
        size = 0 if tensor is None else tensor.numel() * tensor.element_size()
        rows.append(Row(name, said.format, said.shape, said.layout, said.plan, size, seconds, problem))
    problems = check_tables(loaded, fused)
    unchecked = sorted(set(info) - set(expected)) if not fused else sorted(set(info) - set(expected) - set(SH_ARGS))
    problems += [f"{name}: nothing says what it should hold" for name in unchecked]
    if fused:
        problems += [
            f"{name}: present, where the shared expert is fused"
            for name in SH_ARGS
            if getattr(loaded, name) is not None
        ]
    if loaded.nbytes() != sum(row.nbytes for row in rows):
        problems.append(f"nbytes(): {loaded.nbytes()}, where the fields hold {sum(row.nbytes for row in rows)}")
    progress.update(task, advance=1, what="a step of the kernels")
    weights, steps = reference_weights(src, type(loaded).segments["w_qkv"], fused), {}
    for tokens in TOKENS:
        steps[tokens] = tuple(run_step(kernels, loaded, weights, tokens))
        progress.update(task, advance=1)
        problems += [
            f"{row.stage} of {tokens} tokens: an error of {row.error:.1e}, where {BOUND:.0e} is allowed"
            for row in steps[tokens]
            if not row.error <= BOUND
        ]
    problems = [f"{row.field}: {row.problem}" for row in rows if row.problem] + problems
    return Report(title, tuple(rows), tuple(problems), built - start, done - built, sum(r.nbytes for r in rows), steps)


def table(report: Report) -> Table:
    """Return a report as a table."""
    drawn = Table(title=f"MiniMax-M3 layer, {report.title}", title_justify="left")
    for column in ("field", "format", "shape", "layout", "plan"):
        drawn.add_column(column)
    for column in ("bytes", "checked in"):
        drawn.add_column(column, justify="right", no_wrap=True)
    drawn.add_column("")
    for row in report.rows:
        mark = "[red]differs[/]" if row.problem else "[green]same[/]"
        words = (
            row.field,
            row.format,
            row.shape,
            row.layout,
            row.plan,
            f"{row.nbytes:,}",
            f"{row.seconds * 1e3:.1f} ms",
            mark,
        )
        drawn.add_row(*words)
    return drawn


def step_table(report: Report) -> Table:
    """Return the steps of a report as a table."""
    drawn = Table(title=f"its decode step, on the host build of the kernels, {report.title}", title_justify="left")
    for column in ("tokens", "stage", "outputs"):
        drawn.add_column(column)
    for column in ("error", "ran in"):
        drawn.add_column(column, justify="right", no_wrap=True)
    for tokens, rows in report.steps.items():
        for row in rows:
            words = f"{row.error:.1e}", f"{row.seconds:.2f} s"
            drawn.add_row(str(tokens), row.stage, row.outputs, *words, style=None if row.error <= BOUND else "red")
    return drawn


def main() -> int:
    """Return 0 when every byte of both layers is where the kernels read it, else 1."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    start = time.perf_counter()
    generate()
    module = load_generated(ROOT / "generated" / "minimax_m3.py")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        src = build_sources()
        try:
            kernels = load("host", header=ROOT / "generated" / "minimax_m3.hpp")
            reports = [run_layer(module, src, kernels, fused, progress) for fused in (True, False)]
        except module.MonoUnsupported as refusal:
            console.print(f"[red]refused[/] {escape(str(refusal))}", highlight=False)
            return 1
    for report in reports:
        console.print(table(report))
        console.print(step_table(report))
        console.print(
            f"{len(report.rows)} tensors, {report.nbytes:,} bytes; layer built in {report.built_s:.1f} s, "
            f"loaded in {report.loaded_s:.2f} s; k1_args and sh_args hold the addresses in order; steps of "
            f"{' and '.join(map(str, TOKENS))} tokens within {BOUND:.0e} of the reference."
            if not report.problems
            else "\n".join(f"[red]differs[/] {problem}" for problem in report.problems)
        )
    console.print(f"whole demo: {time.perf_counter() - start:.1f} s")
    return 1 if any(report.problems for report in reports) else 0


if __name__ == "__main__":
    raise SystemExit(main())
