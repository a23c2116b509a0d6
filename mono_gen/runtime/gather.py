"""gather: a segment whose parts lie on the ranks of a group, brought together in rank order as bytes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import torch

from mono_gen.runtime.content import fingerprint
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse
from mono_gen.runtime.exchange import GATHER_TIMEOUT_S, exchange_digests, silent_ranks
from mono_gen.runtime.groups import group_problem
from mono_gen.runtime.tensors import bytes_problems, joined, plain


def gather(
    field: str,
    tensors: Sequence[torch.Tensor],
    group: torch.distributed.ProcessGroup,
    axes: Sequence[int],
    begins: Sequence[int],
    lengths: Sequence[int],
    timeout_s: float = GATHER_TIMEOUT_S,
) -> tuple[torch.Tensor, ...]:
    """Return each tensor with this rank's part of the segment replaced by the parts of all ranks, in the group's order.

    Units:    `begins` and `lengths` (the full segment's) are torch extents of the tensor's axis.
    Requires: this rank's tensor holds length / world size at begin; all ranks call with the same arguments, after
              `Load.agree` found them alike.
    Raises:   MonoUnsupported within the timeout: where a rank is gone or late, or a slot holds another rank's bytes.
    Law:      tests/runtime/test_gather.py
    """
    sources = [_source(field, t, group, *place) for t, *place in zip(tensors, axes, begins, lengths, strict=True)]
    world, rank = torch.distributed.get_world_size(group), torch.distributed.get_rank(group)
    own = [
        t.narrow(axis, begin, length // world).contiguous()
        for t, axis, begin, length in zip(sources, axes, begins, lengths, strict=True)
    ]
    message = torch.cat([part.view(-1).view(torch.uint8) for part in own])  # gloo has no float8: bytes travel
    replies = [torch.empty_like(message) for _ in range(world)]
    begun = time.monotonic()
    deadline = begun + timeout_s
    try:
        said, why_not = exchange_digests(group, rank, digest_of(message), begun + _SHARE * timeout_s)
        if not why_not:
            work = torch.distributed.all_gather(replies, message, group=group, async_op=True)
            work.wait(timedelta(seconds=max(begun + _SHARE * timeout_s - time.monotonic(), 0.001)))
    except (RuntimeError, OSError) as error:  # torch reports a peer that is gone, and a timeout, as a RuntimeError
        found = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _lost(field, world, timeout_s, f"{silent_ranks(group, rank, deadline)}: {found}") from error
    if why_not:
        raise _lost(field, world, timeout_s, why_not)
    wrong = [r for r, reply in enumerate(replies) if digest_of(reply) != said[r]]
    if wrong or not torch.equal(replies[rank], message):
        expected = "each rank's own bytes in its slot, in the group's order"
        found = f"other bytes in the slots of ranks {wrong or [rank]}"
        raise refuse(field, "gather", expected, found, "ranks out of order, or a bad link")
    results, start = [], 0
    for t, part, axis, begin in zip(sources, own, axes, begins, strict=True):
        parts = [reply[start : start + part.nbytes].view(part.dtype).view(part.shape) for reply in replies]
        results.append(_joined(t, parts, axis, begin, part.shape[axis]))
        start += part.nbytes
    return tuple(results)


_SHARE = 0.75
"""The part of the timeout in which bytes arrive; what is left tells which ranks are silent."""


def _lost(field: str, world: int, timeout_s: float, found: str) -> MonoUnsupported:
    expected = f"bytes of {world} ranks within {timeout_s:g} s"
    return refuse(field, "gather", expected, found, "a rank died or is late: look at its log")


def digest_of(message: torch.Tensor) -> str:
    """Return the fingerprint of bytes as text."""
    return f"{int(fingerprint(message, sampled=False).value) & (2**64 - 1):016x}"


def _source(field: str, t: torch.Tensor, group: object, axis: int, begin: int, length: int) -> torch.Tensor:
    problem = group_problem(field, group, "the gathered segment", length, None)
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
