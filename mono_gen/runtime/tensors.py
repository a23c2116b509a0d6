"""Structure checks of one tensor: kind, dtype, shape, strides, storage, alignment. Nothing here reads contents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from mono_gen.runtime.errors import Problem, show

POINTER_ALIGNMENT = 16  # the widest load that a kernel does


def dtype_name(dtype: torch.dtype) -> str:
    """Return the dtype's name without the module."""
    return str(dtype).removeprefix("torch.")


def dtype_bits(dtype: torch.dtype) -> int:
    """Return the bits of one element: 4 for float4_e2m1fn_x2, whose torch element is a pair."""
    return 4 if dtype is torch.float4_e2m1fn_x2 else 8 * dtype.itemsize


def joined(extents: Sequence[object]) -> str:
    """Return the extents as "128 x 64"; a shape without axes is "scalar"."""
    return " x ".join(str(n) for n in extents) if extents else "scalar"


def shape_text(torch_extents: Sequence[Any], bits: int) -> str:
    """Return a torch shape in elements, and in torch's own units where a torch element holds two."""
    if bits != 4 or not torch_extents:
        return f"{joined(torch_extents)} elements"
    elements = [*torch_extents[:-1], 2 * torch_extents[-1]]
    return f"{joined(elements)} elements (torch {joined(torch_extents)}, two a byte)"


def plain(t: torch.Tensor) -> torch.Tensor:
    """Return an alias of `t` that is a torch.Tensor and nothing else: same bytes, no gradient, no subclass.

    Later `.data = ...` on a Parameter does not move the alias.
    """
    with torch._C.DisableTorchFunctionSubclass():
        return t.detach()


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in torch elements, of a dense row-major tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def kind_problem(field: str, value: object) -> Problem | None:
    """Return why `value` is not an ordinary strided tensor with bytes behind it, or None.

    Parameter and subclasses that define only __torch_function__ or carry attributes are ordinary. A class with its own
    __torch_dispatch__ (DTensor, FakeTensor, wrapper subclasses) is not: its pointer need not be what its shape says.
    """
    found = None if _is_ordinary(value) else _odd_kind(value)
    if found is None:
        return None
    return Problem(field, "kind", "a plain torch.Tensor or Parameter with its own bytes", found)


def _odd_kind(value: object) -> str | None:
    if not isinstance(value, torch.Tensor):
        return show(value)
    name = type(value).__name__
    if isinstance(value, (UninitializedParameter, UninitializedBuffer)):
        return f"{name}, which has no shape yet"
    if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"{name}, a wrapper with its own __torch_dispatch__"
    with torch._C.DisableTorchFunctionSubclass():
        odd = (
            (torch._is_functional_tensor(value), "a functional tensor"),
            (torch._C._functorch.is_functorch_wrapped_tensor(value), "a tensor inside a functorch transform"),
            (value.is_meta, "a meta tensor, which has no bytes"),
            (value.is_nested, "a nested tensor"),
            (value.layout is not torch.strided, f"a tensor of layout {value.layout}"),
            (value.is_quantized, f"a quantized tensor ({value.dtype})"),
            (value.is_conj() or value.is_neg(), "a view with the conj or neg bit, whose bytes are not its values"),
        )
    return next((text for holds, text in odd if holds), None)


def _is_ordinary(value: object) -> TypeGuard[torch.Tensor]:
    """Return whether `value` has no kind_problem, in short; other subclasses than Parameter go the long way."""
    return (
        (type(value) is torch.Tensor or type(value) is torch.nn.Parameter)
        and value.layout is torch.strided
        and not (
            torch._is_functional_tensor(value)
            or torch._C._functorch.is_functorch_wrapped_tensor(value)
            or value.is_meta
            or value.is_nested
            or value.is_quantized
            or value.is_conj()
            or value.is_neg()
        )
    )


def is_dense(value: object) -> bool:
    """Return whether `value` has neither a kind_problem nor bytes_problems, in short, as _is_ordinary."""
    if not _is_ordinary(value) or not value.is_contiguous():
        return False
    end = (value.storage_offset() + value.numel()) * value.itemsize
    return value.numel() > 0 and end <= value.untyped_storage().nbytes()


def dtype_problem(field: str, t: torch.Tensor, dtypes: Sequence[torch.dtype]) -> Problem | None:
    """Return a problem unless `t`'s dtype is one of `dtypes`: no dialect is taken for another."""
    if t.dtype in dtypes:
        return None
    return Problem(field, "dtype", " or ".join(dtype_name(d) for d in dtypes), dtype_name(t.dtype))


def extent_problem(field: str, t: torch.Tensor) -> Problem | None:
    """Return a problem where `t` has no elements."""
    if t.numel() > 0:
        return None
    return Problem(field, "extent", "at least 1 on every axis", f"torch {joined(t.shape)}, no elements")


def stride_problem(field: str, t: torch.Tensor) -> Problem | None:
    """Return a problem unless `t` is dense row-major on every axis longer than 1."""
    wanted = row_major_strides(t.shape)
    if t.numel() == 0 or all(n == 1 or have == want for n, have, want in zip(t.shape, t.stride(), wanted, strict=True)):
        return None
    return Problem(
        field,
        "strides",
        f"{', '.join(map(str, wanted))} (row-major, torch elements)",
        f"{', '.join(map(str, t.stride()))} for torch {joined(t.shape)}",
        "pitched, transposed or expanded: state it in the spec, or hand over a dense tensor; nothing is copied here",
    )


def storage_problem(field: str, t: torch.Tensor) -> Problem | None:
    """Return a problem where the storage ends before the bytes that a dense reader takes."""
    needed = (t.storage_offset() + t.numel()) * t.itemsize
    have = t.untyped_storage().nbytes()
    if needed <= have:
        return None
    return Problem(
        field, "storage", f"at least {needed} bytes", f"{have} bytes", "the storage was freed, resized or expanded"
    )


def alignment_problem(field: str, t: torch.Tensor, alignment: int) -> Problem | None:
    """Return a problem unless the first byte's address is a multiple of `alignment` bytes."""
    rest = t.data_ptr() % alignment
    if rest == 0:
        return None
    return Problem(field, "alignment", f"data_ptr % {alignment} == 0", f"data_ptr % {alignment} == {rest}")


def item_problem(field: str, shape: Sequence[int], itemsize: int, batch: int, alignment: int) -> Problem | None:
    """Return a problem where the bases of the batch items (the first `batch` axes) are not all aligned."""
    item_bytes = math.prod(shape[batch:]) * itemsize
    if math.prod(shape[:batch]) <= 1 or item_bytes % alignment == 0:
        return None
    return Problem(
        field,
        "alignment",
        f"every batch item's base aligned: item bytes % {alignment} == 0",
        f"items of {item_bytes} bytes, {item_bytes} % {alignment} == {item_bytes % alignment}",
    )


def bytes_problems(field: str, value: torch.Tensor) -> list[Problem]:
    """Return what keeps `value` from being a dense row-major tensor with elements and storage behind them."""
    if is_dense(value):
        return []
    odd = kind_problem(field, value)
    if odd is not None:
        return [odd]
    t = plain(value)
    found = (extent_problem(field, t), stride_problem(field, t), storage_problem(field, t))
    return [problem for problem in found if problem is not None]
