"""Byte moves on a CPU: torch's own strided copy where its loops are long, else helped."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from mono_gen.runtime.cpu_strided import SHORT, Dim, copy_units, joined
from mono_gen.runtime.cpu_turns import move_turns, plan_turns

UNITS = ((16, torch.complex128), (8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
"""Bytes a unit, and the dtype that moves them bit for bit; a 16-byte copy is the widest that torch has."""

_LEAST_BYTES = 1 << 14  # of a target: below, the calls for turns cost more than they save
_LONG = 64  # elements along its last axis, from as many rows of the source: with more these share few sets of the cache


def move(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; write a strided target from a strided source of the same shape and dtype, on the CPU.

    Requires: no two elements of `target` at one place; dtypes of UNITS.
    Law:      tests/runtime/test_cpu_moves.py
    """
    dims = joined(target, source)
    is_worth_it = target.itemsize == 1 and target.numel() >= _LEAST_BYTES and _is_slow(dims)
    turns = plan_turns(dims) if is_worth_it else None
    if turns is not None:
        move_turns(turns, target, source)
    else:
        copy_units(_strided(target, dims, True), _strided(source, dims, False))


def _is_slow(dims: Sequence[Dim]) -> bool:
    """Return whether torch's own loops over a target are short, or go down long columns of the source."""
    return bool(dims) and (math.prod(dim.size for dim in dims[-2:]) < SHORT or dims[-1].size >= _LONG)


def _strided(t: torch.Tensor, dims: tuple[Dim, ...], is_target: bool) -> torch.Tensor:
    return t.as_strided([d.size for d in dims], [d.target if is_target else d.source for d in dims])
