"""gather: a segment whose parts lie on the ranks of a group, brought together in rank order as bytes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse
from mono_gen.runtime.groups import group_problem
from mono_gen.runtime.tensors import bytes_problems, joined, plain


def gather(
    field: str,
    tensors: Sequence[torch.Tensor],
    group: torch.distributed.ProcessGroup,
    axes: Sequence[int],
    begins: Sequence[int],
    lengths: Sequence[int],
) -> tuple[torch.Tensor, ...]:
    """Return each tensor with this rank's part of the segment replaced by the parts of all ranks, in the group's order.

    Units:    `begins` and `lengths` (the full segment's) are torch extents of the tensor's axis.
    Requires: this rank's tensor holds length / world size at begin; all ranks call with the same arguments.
    Raises:   MonoUnsupported; before any byte moves where this rank can tell.
    Law:      tests/runtime/test_gather.py
    """
    sources = [_source(field, t, group, *place) for t, *place in zip(tensors, axes, begins, lengths, strict=True)]
    world = torch.distributed.get_world_size(group)
    own = [
        t.narrow(axis, begin, length // world).contiguous()
        for t, axis, begin, length in zip(sources, axes, begins, lengths, strict=True)
    ]
    message = torch.cat([part.view(-1).view(torch.uint8) for part in own])  # gloo has no float8: bytes travel
    exchange_first(field, message, group)
    replies = [torch.empty_like(message) for _ in range(world)]
    torch.distributed.all_gather(replies, message, group=group)
    if not torch.equal(replies[torch.distributed.get_rank(group)], message):
        raise refuse(
            field,
            "gather",
            "this rank's own part back, byte for byte",
            "other bytes",
            "ranks out of order, or a bad link",
        )
    results, start = [], 0
    for t, part, axis, begin in zip(sources, own, axes, begins, strict=True):
        parts = [reply[start : start + part.nbytes].view(part.dtype).view(part.shape) for reply in replies]
        results.append(_joined(t, parts, axis, begin, part.shape[axis]))
        start += part.nbytes
    return tuple(results)


def exchange_first(field: str, message: torch.Tensor, group: torch.distributed.ProcessGroup) -> None:
    """Return nothing. The place where the ranks will compare field id, shape, rank and digest before bytes move."""


def _source(field: str, t: torch.Tensor, group: object, axis: int, begin: int, length: int) -> torch.Tensor:
    problem = group_problem(field, group, "of the gather", length, None)
    problems = [problem] if problem is not None else []
    problems += bytes_problems(field, t)
    if not problems and isinstance(group, torch.distributed.ProcessGroup):
        share = length // torch.distributed.get_world_size(group)
        if not 0 <= axis < t.dim() or begin < 0 or t.shape[axis] < begin + share:
            expected = f"{share} of this rank from {begin} on axis {axis}"
            problems.append(Problem(field, "segment", expected, f"torch {joined(t.shape)}"))
    if problems:
        raise MonoUnsupported(field, problems)
    return plain(t)


def _joined(t: torch.Tensor, parts: list[torch.Tensor], axis: int, begin: int, share: int) -> torch.Tensor:
    """Return before + parts + after along the axis, as a new dense tensor."""
    end = begin + share
    return torch.cat([t.narrow(axis, 0, begin), *parts, t.narrow(axis, end, t.shape[axis] - end)], dim=axis)
