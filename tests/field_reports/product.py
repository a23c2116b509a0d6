"""mono-gen as its users meet it: a spec's text made, imported, compiled, loaded; and what each of these refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from mono_gen.diagnostics.model import SpecError
from mono_gen.diagnostics.render import render
from mono_gen.pipeline import generate
from mono_gen.runtime import MonoUnsupported, Problem
from tests.conftest import load_generated
from tests.generated.headers import STRICT, compiled, must_compile

FN, FNUZ, E8M0, FP4 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2
BF16, FP32, U8 = torch.bfloat16, torch.float32, torch.uint8
GXX = ("g++", "-std=c++17", *STRICT)


@dataclass(frozen=True, slots=True)
class Made:
    """A spec that was generated into a folder: its Python module, and the text of its header."""

    folder: Path
    name: str
    module: ModuleType
    header: str


def made(folder: Path, text: str, arch: str = "gfx950", name: str = "symptom") -> Made:
    """Return what mono-gen makes of a spec's items, under a head that names it."""
    folder.mkdir(exist_ok=True)
    files = {file.path: file.text for file in generate([_written(folder, text, arch, name)], {}).files}
    for path, content in files.items():
        (folder / path).write_text(content)
    return Made(folder, name, load_generated(folder / f"{name}.py"), files[f"{name}.hpp"])


def _written(folder: Path, text: str, arch: str, name: str) -> Path:
    path = folder / f"{name}.layout"
    path.write_text(f'spec {name}\narch {arch}\nimport "aiter.layout"\n{text}\n')
    return path


def spec_refused(folder: Path, text: str, code: str, arch: str = "gfx950") -> str:
    """Return all that is said of a spec, which is refused with this code among others."""
    with pytest.raises(SpecError) as refusal:
        generate([_written(folder, text, arch, "symptom")], {})
    said = render(refusal.value.diagnostics, "full", False)
    assert code in [d.code for d in refusal.value.diagnostics], said
    return said


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> list[Problem]:
    """Return the problems for which a call is refused; each says what was expected and what was found."""
    with pytest.raises(MonoUnsupported) as refusal:
        call(*args, **options)
    assert all(p.expected and p.found and p.expected != p.found for p in refusal.value.problems)
    return list(refusal.value.problems)


def whats(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """Return (field, what) of each problem."""
    return [(p.field, p.what) for p in problems]


def layer(**attributes: Any) -> SimpleNamespace:
    """Return a layer of these attributes; a tensor's flags are attributes of the tensor."""
    return SimpleNamespace(**attributes)


def flagged(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose producer promises that it is shuffled."""
    t.is_shuffled = True  # type: ignore[attr-defined]
    return t


def ramp(*shape: int, dtype: torch.dtype = U8, below: int = 256) -> torch.Tensor:
    """Return position-coded bytes, `below` different ones in a row of the ramp, as a one-byte dtype."""
    count = torch.Size(shape).numel()
    index = torch.arange(count)
    return ((index + index // below) % below).to(U8).view(shape).view(dtype)


def numbered(*shape: int) -> torch.Tensor:
    """Return 32-bit numbers, each once."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(shape)


def raw(t: torch.Tensor) -> list[int]:
    """Return a dense tensor's bytes."""
    assert t.is_contiguous()
    return t.reshape(-1).view(U8).tolist()


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two dense tensors hold the same bytes."""
    return raw(a) == raw(b)


def asserted(product: Made, *conditions: str, others: Sequence[Made] = ()) -> None:
    """Hold that g++, warnings as errors, takes these conditions of a header as static assertions."""
    must_compile([*GXX, "-fsyntax-only", _program(product, conditions, others)], product.folder)


def not_compiled(product: Made, *conditions: str, others: Sequence[Made] = ()) -> str:
    """Return what g++ says where it must refuse these static assertions."""
    done: subprocess.CompletedProcess[str] = compiled(
        [*GXX, "-fsyntax-only", _program(product, conditions, others)], product.folder
    )
    assert done.returncode != 0, f"{conditions} compiles"
    return done.stderr


def _program(product: Made, conditions: Sequence[str], others: Sequence[Made]) -> str:
    names = [product.name, *(str(other.folder / other.name) for other in others)]
    includes = "".join(f'#include "{name}.hpp"\n' for name in names)
    body = "".join(f"static_assert({condition});\n" for condition in conditions)
    (product.folder / "use.cpp").write_text(f"{includes}using namespace mono::{product.name};\n{body}int main() {{}}\n")
    return "use.cpp"


def printed(product: Made, expression: str, extents: Sequence[int]) -> list[int]:
    """Return what a program prints: a C++ expression of i, j, ... at every coordinate of the extents, row by row."""
    names = "ijkl"[: len(extents)]
    loops = "".join(f"for (int {n} = 0; {n} < {extent}; ++{n}) " for n, extent in zip(names, extents, strict=True))
    text = f'#include "{product.name}.hpp"\n#include <cstdio>\nusing namespace mono::{product.name};\n'
    text += f'int main() {{ {loops}std::printf("%lld ", static_cast<long long>({expression})); }}\n'
    (product.folder / "dump.cpp").write_text(text)
    must_compile([*GXX, "dump.cpp", "-o", "dump"], product.folder)
    return [int(n) for n in must_compile([str(product.folder / "dump")], product.folder).split()]


def own_ids(product: Made, name: str) -> dict[str, object]:
    """Return the ids that a kernel, compiled with the product's header, exports."""
    struct = getattr(product.module, name)
    fields = [struct.field_ids[info.name.partition(",")[0]] for info in struct.fields]
    asserted(
        product,
        f"{name}::kStructId == {struct.struct_id:#x}ULL",
        *(f"{name}::kFieldIds[{i}] == {n:#x}ULL" for i, n in enumerate(fields)),
    )
    return {"struct_id": struct.struct_id, "field_ids": fields}
