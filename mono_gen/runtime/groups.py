"""What a torch.distributed group must be before a segment is gathered over it."""

from __future__ import annotations

from typing import Any

import torch

from mono_gen.runtime.errors import Problem, show


def group_problem(field: str, group: Any, segment: str, elements: int, world: int | None) -> Problem | None:
    """Return why `group` cannot bring the `elements` in equal parts from `world` ranks, or None.

    `segment` names the elements in words. `world` None: any number of ranks that divides the elements.
    """
    if not torch.distributed.is_available() or not isinstance(group, torch.distributed.ProcessGroup):
        return Problem(field, "group", "a torch.distributed process group that this rank is in", show(group))
    size = torch.distributed.get_world_size(group)
    if world is not None and size != world:
        return Problem(field, "group", f"{world} ranks", f"{size} ranks")
    ranks = torch.distributed.get_process_group_ranks(group)
    if ranks != sorted(ranks):
        help = "parts are joined in rank order: build the group from ascending ranks"
        return Problem(field, "group", f"ranks in order: {sorted(ranks)}", str(ranks), help)
    if elements % size:
        expected = f"a number of ranks that divides the {elements} of {segment}"
        return Problem(field, "group", expected, f"{size} ranks, {elements} % {size} == {elements % size}")
    return None
