"""What the launcher refuses, before anything runs; and how libraries are built and kept."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen.kernels import KernelFault, Kernels, build, load
from mono_gen.runtime import MonoUnsupported, Problem
from tests.kernels import small
from tests.kernels.conftest import Layer

Layers = Callable[[bool], Layer]
BF16 = torch.bfloat16


def refused(call: Callable[[], Any]) -> tuple[Problem, ...]:
    """Return the problems of a refusal."""
    with pytest.raises(MonoUnsupported) as caught:
        call()
    return caught.value.problems


def row(s: int = 2, width: int = 2048, dtype: torch.dtype = BF16) -> torch.Tensor:
    """Return zeros."""
    return torch.zeros(s, width, dtype=dtype)


def whats(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    """Return (field, what) of each problem."""
    return [(p.field, p.what) for p in problems]


@pytest.mark.parametrize("s", [0, 17])
def test_a_step_of_0_or_17_tokens(host: Kernels, layers: Layers, s: int) -> None:
    layer = layers(True).loaded
    for call in (
        lambda: host.qkv(layer, row(s), row(s)),
        lambda: host.o_proj(layer, row(s, 1024), row(s)),
        lambda: host.router(layer, row(s), 1.0),
        lambda: host.moe(layer, row(s), row(s, 4, torch.int32), row(s, 4, torch.float32), 7.0),
        lambda: host.head(layer, *[row(s, w) for w in (1024, 256, 128, 128)], torch.zeros(s, dtype=torch.int64)),
    ):
        (problem,) = refused(call)
        assert (problem.what, problem.expected, problem.found) == ("tokens", "1 to 16", str(s))


def test_every_problem_of_a_call_in_one_refusal(host: Kernels, layers: Layers) -> None:
    layer = layers(True).loaded
    res = torch.zeros(2, 4096, dtype=torch.float32)[:, ::2]
    found = refused(lambda: host.qkv(layer, row(2, 1024), res))
    assert whats(found) == [("ar", "shape"), ("res", "strides"), ("res", "dtype")]


def test_null_extras(host: Kernels, layers: Layers) -> None:
    layer = layers(True).loaded
    nothing = torch.empty(0, dtype=BF16)
    assert whats(refused(lambda: host.qkv(layer, None, row()))) == [("ar", "shape")]  # type: ignore[arg-type]
    assert whats(refused(lambda: host.qkv(layer, row(), None))) == [("res", "kind")]  # type: ignore[arg-type]
    assert ("res", "shape") in whats(refused(lambda: host.qkv(layer, row(), nothing)))
    meta = torch.empty(2, 2048, dtype=BF16, device="meta")
    assert whats(refused(lambda: host.qkv(layer, row(), meta))) == [("res", "kind")]


def test_a_crooked_pointer(host: Kernels, layers: Layers) -> None:
    crooked = torch.zeros(2 * 2048 + 1, dtype=BF16)[1:].view(2, 2048)
    assert whats(refused(lambda: host.qkv(layers(True).loaded, row(), crooked))) == [("res", "alignment")]


def test_outputs_of_another_kind_and_outputs_that_overlap(host: Kernels, layers: Layers) -> None:
    layer = layers(True).loaded
    attn, residual = row(2, 1024), row()
    assert whats(refused(lambda: host.o_proj(layer, attn, residual, out=row(2, 1024)))) == [("a", "shape")]
    assert whats(refused(lambda: host.o_proj(layer, attn, residual, out=residual))) == [("a", "memory")]
    assert whats(refused(lambda: host.qkv(layer, row(), row(), out=(row(),)))) == [(host.subject, "out")]


def test_one_tensor_where_a_stage_writes_several(host: Kernels, layers: Layers) -> None:
    (problem,) = refused(lambda: host.qkv(layers(True).loaded, row(), row(), out=row()))  # type: ignore[arg-type]
    assert problem.what == "out" and problem.found == "one tensor" and "index_k" in problem.expected


@pytest.mark.parametrize("value", [float("nan"), "7", None, True, 10**400])
def test_a_limit_that_is_no_number(host: Kernels, layers: Layers, value: Any) -> None:
    layer = layers(True).loaded
    assert refused(lambda: host.moe(layer, row(), row(2, 4, torch.int32), row(2, 4, torch.float32), value))


def test_nothing_runs_of_a_call_that_is_refused(host: Kernels, layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the last launch of a stage takes is looked at before the first."""
    layer, ran = layers(True).loaded, []
    monkeypatch.setattr(host.library, "run", lambda stage, *_: ran.append(stage))
    ids, xn = row(2, 4, torch.int32), row()
    weights = row(2, 4, torch.float32)
    assert whats(refused(lambda: host.moe(layer, xn, ids, row(2, 4), 7.0))) == [("weights", "dtype")]
    assert whats(refused(lambda: host.moe(layer, xn, ids, weights, 7.0, out=xn))) == [("out", "memory")]
    assert refused(lambda: host.moe(layer, xn, ids, weights, float("nan")))
    assert refused(lambda: host.router(layer, xn, float("nan")))
    assert ran == []
    host.moe(layer, xn, ids, weights, 7.0)
    assert ran == ["mx", "up_gate", "down"]


def test_shared_where_the_shared_expert_is_fused(host: Kernels, layers: Layers) -> None:
    (problem,) = refused(lambda: host.shared(layers(True).loaded, row(), 7.0))
    assert problem.what == "shared" and "fused" in problem.found and "moe" in problem.help


def test_the_first_shared_of_a_layer_inside_a_capture(
    host: Kernels, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table would be read back from the device, which ends a capture; one that was read before is no matter."""
    layer = layers(False).loaded
    on_gpu = Kernels("cuda", host.header, host.library)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    (problem,) = refused(lambda: on_gpu._shared_table(layer))
    assert problem.what == "shared" and "capture" in problem.found and "once before" in problem.help
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    read = on_gpu._shared_table(layer)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert on_gpu._shared_table(layer) == read


def test_a_layer_that_is_none(host: Kernels, module: ModuleType) -> None:
    for layer in (None, object(), module.SparseMoeLayer):
        assert refused(lambda layer=layer: host.qkv(layer, row(), row()))  # type: ignore[misc]


def test_a_layer_of_another_spec_names_both_sides(host: Kernels, minimax_module: ModuleType) -> None:
    """The library was compiled for reduced sizes: the real struct's fields have other ids."""
    tensors = dict.fromkeys(minimax_module.SparseMoeLayer.tensors)
    layer = object.__new__(minimax_module.SparseMoeLayer)
    assert tensors
    found = {p.field: p for p in refused(lambda: host.qkv(layer, row(), row()))}
    wanted = minimax_module.SparseMoeLayer.field_ids["w_qkv"]
    assert f"{wanted:016x}" in found["w_qkv, s_qkv"].expected and "in the kernel" in found["w_qkv, s_qkv"].found


def test_gate_and_up_exchanged_is_another_struct(host: Kernels, tmp_path: Path) -> None:
    """Same sizes, same layouts, segments named the other way round: the ids differ, and so the layer is refused."""
    text = small.Sizes().text().replace("segments row = gate:INTER up:INTER", "segments row = up:INTER gate:INTER")
    other = small.loaded_module(small.written(text, tmp_path), "exchanged_minimax_m3")
    layer = object.__new__(other.SparseMoeLayer)
    fields = {p.field for p in refused(lambda: host.qkv(layer, row(), row()))}
    assert fields == {"w13, s13", "sh_w13, sh_s13"}


def test_a_wider_projection_is_a_struct_of_its_own(folder: Path, kernel_cache: None) -> None:
    plain, wide = (
        load("host", header=folder / "minimax_m3.hpp", struct=s) for s in ("SparseMoeLayer", "CpSparseMoeLayer")
    )
    assert plain.library.struct_id != wide.library.struct_id
    assert plain.library.path != wide.library.path


# --- builds ---


def test_a_library_is_compiled_once(folder: Path, host: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second load finds it by its digest: no compiler runs but for its version."""
    ran: list[Any] = []
    run = subprocess.run
    monkeypatch.setattr(build.subprocess, "run", lambda command, **kw: ran.append(command) or run(command, **kw))
    again = load("host", header=folder / "minimax_m3.hpp")
    assert again.library.path == host.library.path
    assert [command[1:] for command in ran] == [["--version"]]


def test_another_header_is_another_library(folder: Path, host: Kernels, tmp_path: Path) -> None:
    header = tmp_path / "minimax_m3.hpp"
    header.write_text((folder / "minimax_m3.hpp").read_text() + "// more\n")
    made = build.Build("host", header, "SparseMoeLayer")
    command = build._command(made, ("g++", "-x", "c++"))
    assert build._digest(made, command) != host.library.path.parent.name


def test_no_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for backend, compiler in (("host", "g++"), ("hip", "hipcc"), ("cuda", "nvcc")):
        (problem,) = refused(lambda backend=backend: load(backend, header=folder / "minimax_m3.hpp"))  # type: ignore[misc]
        assert problem.what == "compiler" and compiler in problem.expected and "install" in problem.help


def test_a_compiler_of_two_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "env g++")
    assert build._compiler("host", "x")[1:] == ("g++", "-x", "c++")
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    (problem,) = refused(lambda: load("host", header=folder / "minimax_m3.hpp"))
    assert (problem.what, problem.expected) == ("compiler", "no-such-compiler")


def test_a_cache_that_takes_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MONO_GEN_CACHE", str(tmp_path / "file"))
    (problem,) = refused(lambda: load("host", header=folder / "minimax_m3.hpp"))
    assert problem.what == "cache" and "MONO_GEN_CACHE" in problem.help
    assert str(tmp_path / "file") in problem.expected


def test_no_header_and_no_such_backend(tmp_path: Path) -> None:
    (problem,) = refused(lambda: load("host", header=tmp_path / "minimax_m3.hpp"))
    assert problem.what == "header" and "mono-gen generate" in problem.help
    (problem,) = refused(lambda: load("vulkan"))
    assert problem.what == "backend"


def test_a_header_that_does_not_compile_shows_what_the_compiler_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONO_GEN_CACHE", str(tmp_path / "kernels"))
    (tmp_path / "minimax_m3.hpp").write_text("#error not a header of mono-gen\n")
    with pytest.raises(MonoUnsupported) as caught:
        load("host", header=tmp_path / "minimax_m3.hpp")
    assert "not a header of mono-gen" in caught.value.problems[0].found
    kept = list((tmp_path / "kernels").iterdir())
    assert len(kept) == 1 and not list(kept[0].iterdir()), "nothing is left half-built"


def test_a_launch_that_does_not_run_is_a_fault(host: Kernels, layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONO_HOST_THREADS", "none")
    with pytest.raises(KernelFault, match=r"norm: .*MONO_HOST_THREADS"):
        host.qkv(layers(True).loaded, row(), row())
