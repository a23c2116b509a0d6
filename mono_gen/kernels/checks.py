"""What a stage is handed, checked before it runs: kind, dtype, shape, device, density, alignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse, show
from mono_gen.runtime.tensors import (
    POINTER_ALIGNMENT,
    alignment_problem,
    bytes_problems,
    dtype_problem,
    joined,
)

MAX_TOKENS = 16


@frozen
class Expected:
    """A dense row-major tensor of a shape and a dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def tokens_of(subject: str, name: str, value: Any) -> int:
    """Return S, the first extent of a stage's first activation.

    Raises: MonoUnsupported, where it is no tensor of two axes or S is not 1 to 16.
    """
    if not isinstance(value, torch.Tensor) or value.dim() != 2:
        found = f"{joined(value.shape)}" if isinstance(value, torch.Tensor) else show(value)
        raise MonoUnsupported(subject, (Problem(name, "shape", f"a tensor of S x ..., S 1 to {MAX_TOKENS}", found),))
    if not 1 <= value.shape[0] <= MAX_TOKENS:
        problem = Problem(name, "tokens", f"1 to {MAX_TOKENS}", str(value.shape[0]), "split a longer step")
        raise MonoUnsupported(subject, (problem,))
    return value.shape[0]


def require_tensors(
    subject: str, device: torch.device, given: Mapping[str, tuple[Any, Expected]], written: Sequence[str] = ()
) -> None:
    """Return nothing where every tensor is as expected, on the device, and what is written overlaps nothing else.

    Raises: MonoUnsupported, with every problem.
    """
    problems: list[Problem] = []
    for name, (value, expected) in given.items():
        problems += _problems(name, value, expected, device)
    if not problems:
        problems += _overlaps({name: value for name, (value, _) in given.items()}, written)
    if problems:
        raise MonoUnsupported(subject, problems)


def _problems(name: str, value: Any, expected: Expected, device: torch.device) -> list[Problem]:
    found = bytes_problems(name, value)
    if not isinstance(value, torch.Tensor) or value.is_meta:
        return found
    wrong_dtype = dtype_problem(name, value, (expected.dtype,))
    if wrong_dtype is not None:
        found.append(wrong_dtype)
    if tuple(value.shape) != expected.shape:
        found.append(Problem(name, "shape", joined(expected.shape), joined(value.shape)))
    if value.device != device:
        found.append(Problem(name, "device", str(device), str(value.device)))
    crooked = alignment_problem(name, value, POINTER_ALIGNMENT)
    if crooked is not None:
        found.append(crooked)
    return found


def _overlaps(tensors: Mapping[str, torch.Tensor], written: Sequence[str]) -> list[Problem]:
    """Return a problem for each output that shares bytes with another tensor: lanes would read what others wrote."""
    ranges = {name: (t.data_ptr(), t.data_ptr() + t.numel() * t.itemsize) for name, t in tensors.items()}
    found = []
    for name in written:
        begin, end = ranges[name]
        for other, (first, last) in ranges.items():
            if other != name and begin < last and first < end:
                found.append(Problem(name, "memory", f"bytes of its own, none of {other}'s", "the same bytes"))
                break
    return found


def require_number(subject: str, name: str, value: Any) -> float:
    """Return a number that a stage takes.

    Raises: MonoUnsupported, where it is none or NaN.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value != value or (isinstance(value, int) and value.bit_length() > 1000):
        raise refuse(f"{subject}: {name}", "value", "a number", show(value))
    return float(value)
