"""Offset functions traced by FlyDSL, compiled for the host by its MLIR, and run over all elements: what Python gives.

FlyDSL's numbers stand for values of a kernel that is being built: what the functions do with them becomes its text. A
GPU is not needed for that, nor for running the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mono_gen.model import LayoutModel
from tests.generated.shapes import telling_extents
from tests.generated.test_python_offsets import FIELDS, field_tensors, grid, layouts

pytestmark = pytest.mark.flydsl

TO_LLVM = "convert-scf-to-cf,arith-expand,expand-strided-metadata,convert-to-llvm,reconcile-unrealized-casts"
RUN_TIME = 5
"""What stands for run-time extents."""


@contextmanager
def module() -> Iterator[Any]:
    from flydsl._mlir import ir

    with ir.Context(), ir.Location.unknown():
        yield ir.Module.create()


def traced(function: Callable[..., Any], extents: tuple[int, ...], results: int, bits: int) -> np.ndarray[Any, Any]:
    """Return what a function of coordinates gives for every element: int64 [results, *extents].

    bits: of the integers that the coordinates are traced as.
    """
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import arith, func, memref, scf
    from flydsl._mlir.execution_engine import ExecutionEngine
    from flydsl._mlir.passmanager import PassManager
    from flydsl._mlir.runtime import get_ranked_memref_descriptor
    from flydsl.expr.numeric import Int32, Int64

    found = np.full((results, prod(extents)), -1, dtype=np.int64)
    with module() as built:
        index, wide = ir.IndexType.get(), ir.IntegerType.get_signless(64)
        with ir.InsertionPoint(built.body):
            entry = func.FuncOp("fill", ir.FunctionType.get([ir.MemRefType.get(found.shape, wide)], []))
            entry.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
            block = entry.add_entry_block()
        with ir.InsertionPoint(block):
            numbers = [arith.ConstantOp(index, n).result for n in range(max(results, 2))]
            loop = scf.ForOp(numbers[0], arith.ConstantOp(index, prod(extents)).result, numbers[1])
            with ir.InsertionPoint(loop.body):
                rest, at = Int64(arith.index_cast(wide, loop.induction_variable)), []
                for extent in reversed(extents):
                    at.insert(0, Int32(rest % extent) if bits == 32 else rest % extent)
                    rest = rest // extent
                made = function(*at)
                for number, value in zip(numbers, made if isinstance(made, tuple) else (made,), strict=False):
                    place = [number, loop.induction_variable]
                    memref.StoreOp(Int64(value).ir_value(), block.arguments[0], place)
                scf.YieldOp([])
            func.ReturnOp([])
        PassManager.parse(f"builtin.module({TO_LLVM})").run(built.operation)
        target = ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(found)))
        ExecutionEngine(built).invoke("fill", target)
    return found.reshape(results, *extents)


@pytest.mark.parametrize(("spec", "model", "bits"), layouts())
def test_layout_offsets_trace(
    aiter_module: ModuleType, minimax_module: ModuleType, spec: str, model: LayoutModel, bits: int
) -> None:
    extents = telling_extents(model, bits, whole_bytes=False)
    assert extents is not None
    function = getattr({"aiter": aiter_module, "minimax_m3": minimax_module}[spec], f"offset_{model.name}")
    wanted = np.stack(np.broadcast_arrays(function(*grid(extents), extents, bits))).reshape(-1, *extents)
    found = traced(lambda *at: function(*at, extents, bits), extents, len(wanted), 32)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(("struct", "name"), FIELDS)
def test_field_offsets_trace(minimax_module: ModuleType, struct: str, name: str) -> None:
    """Every element of a full-size tensor; of stacked ones those of the last item."""
    model = field_tensors()[struct][name].model
    whole = tuple(n if isinstance(n, int) else RUN_TIME for n in model.extents)
    item, own = tuple(n - 1 for n in whole[: model.batch]), whole[model.batch :]
    function = getattr(getattr(minimax_module, struct), f"offset_{name}")
    made = function(*item, *grid(own))
    wanted = np.stack(np.broadcast_arrays(*made) if isinstance(made, tuple) else [np.broadcast_to(made, own)])
    assert np.array_equal(traced(lambda *at: function(*item, *at), own, len(wanted), 64), wanted)
