"""gather over real gloo groups of 1 to 4 processes: rank order, bytes, and what is refused."""

from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing

from mono_gen import runtime
from mono_gen.runtime import Load, MonoUnsupported

ROWS, BEGIN, REST, SEGMENT = 12, 4, 2, 24  # rank r's source: 4 rows, its 24 / world rows of the segment, 2 rows


def sources(rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (fp8 data, bf16 by columns) of a rank: NaN codes included, every byte dependent on rank and place."""
    share = SEGMENT // world
    rows = torch.arange((BEGIN + share + REST) * 32).add(37 * rank).mul(11).remainder(256).to(torch.uint8).view(-1, 32)
    common = torch.arange(rows.shape[0] * 32).mul(7).remainder(256).to(torch.uint8).view(-1, 32)
    rows[:BEGIN], rows[BEGIN + share :] = common[:BEGIN], common[-REST:]
    wide = torch.arange(3 * (1 + share)).add(1000 * rank).to(torch.bfloat16).view(3, 1 + share)
    wide[:, 0] = 5
    return rows.view(torch.float8_e4m3fn), wide


def expected(world: int) -> tuple[torch.Tensor, torch.Tensor]:
    share = SEGMENT // world
    parts = [sources(rank, world) for rank in range(world)]
    first = parts[0][0].view(torch.uint8)
    data = torch.cat(
        [first[:BEGIN], *(p.view(torch.uint8)[BEGIN : BEGIN + share] for p, _ in parts), first[BEGIN + share :]]
    )
    return data, torch.cat([parts[0][1][:, :1], *(wide[:, 1:] for _, wide in parts)], dim=1)


def _happy(rank: int, world: int) -> None:
    group = torch.distributed.group.WORLD
    data, wide = sources(rank, world)
    load = Load("S", "x.layout")
    rows = load.gathered("w", group, segment="index_q", elements=SEGMENT, rest=BEGIN + REST, world=world)
    load.check()
    assert rows == data.shape[0]
    begins, lengths = (BEGIN, 1), (SEGMENT, SEGMENT)
    got = runtime.gather("w", (data, wide), group, axes=(0, 1), begins=begins, lengths=lengths)
    want = expected(world)
    assert got[0].dtype == torch.float8_e4m3fn
    assert got[1].dtype == torch.bfloat16
    assert all(t.is_contiguous() for t in got)
    assert torch.equal(got[0].view(torch.uint8), want[0])
    assert torch.equal(got[1], want[1])
    assert got[0].data_ptr() != data.data_ptr()


def _part_of_the_world(rank: int, world: int) -> None:
    """A group of ranks 2 and 0, in that order of members: torch sorts them, and so do we."""
    group = torch.distributed.new_group([2, 0])
    load = Load("S", "x.layout")
    rows = load.gathered("w", group, segment="q", elements=4, rest=0, world=None)
    if rank == 1:
        with pytest.raises(
            MonoUnsupported, match=r"w: group: expected a torch\.distributed process group that this rank is in"
        ):
            load.check()
        return
    assert rows == 2
    t = torch.full((2, 16), rank, dtype=torch.uint8)
    (got,) = runtime.gather("w", (t,), group, axes=(0,), begins=(0,), lengths=(4,))
    assert got[:, 0].tolist() == [0, 0, 2, 2]


def _refusals(rank: int, world: int) -> None:
    group = torch.distributed.group.WORLD
    load = Load("S", "x.layout")
    load.gathered("a", group, segment="q", elements=24, rest=0, world=4)
    load.gathered("b", group, segment="q", elements=25, rest=0, world=None)
    load.gathered("c", group, segment="q", elements=25, rest=0, world=2)
    with pytest.raises(MonoUnsupported) as refusal:
        load.check()
    assert [(p.field, p.expected, p.found) for p in refusal.value.problems] == [
        ("a", "4 ranks", "2 ranks"),
        ("b", "a number of ranks that divides the 25 of segment q", "2 ranks, 25 % 2 == 1"),
        ("c", "a number of ranks that divides the 25 of segment q", "2 ranks, 25 % 2 == 1"),
    ]
    t = torch.zeros(8, 16)
    bad: list[tuple[Any, str]] = [
        ((t, 0, 0, 5), "divides the 5 of the gathered segment"),
        ((t, 0, 0, 18), "segment: expected 9 of this rank from 0 on axis 0, found torch 8 x 16"),
        ((t, 0, 7, 4), "segment: expected 2 of this rank from 7"),
        ((t, 0, -1, 4), "segment"),
        ((t, 2, 0, 4), "segment"),
        ((t.t(), 0, 0, 4), "strides"),
    ]
    for (tensor, axis, begin, length), text in bad:
        with pytest.raises(MonoUnsupported, match=text):
            runtime.gather("w", (tensor,), group, axes=(axis,), begins=(begin,), lengths=(length,))


class _Done:
    """A collective that has ended."""

    def wait(self, timeout: Any) -> None:
        """Return at once."""


def _a_bad_link(rank: int, world: int) -> None:
    """A link that flips a bit of this rank's own part, and one that exchanges the slots of two ranks."""
    real = torch.distributed.all_gather

    def flips(replies: list[torch.Tensor]) -> None:
        replies[rank][-1] ^= 1

    def exchanges(replies: list[torch.Tensor]) -> None:
        replies[0], replies[1] = replies[1], replies[0]

    for crooked, slots in ((flips, f"[{rank}]"), (exchanges, "[0, 1]")):

        def gathers(
            replies: list[torch.Tensor], message: torch.Tensor, crooked: Any = crooked, **options: Any
        ) -> _Done:
            real(replies, message, group=options["group"])
            crooked(replies)
            return _Done()

        torch.distributed.all_gather = gathers
        found = f"w: gather: expected each rank's own bytes in its slot.*slots of ranks {re.escape(slots)}"
        group, t = torch.distributed.group.WORLD, torch.full((2, 16), float(rank))
        with pytest.raises(MonoUnsupported, match=found):
            runtime.gather("w", (t,), group, axes=(0,), begins=(0,), lengths=(4,))
    torch.distributed.all_gather = real


BODIES = {body.__name__: body for body in (_happy, _part_of_the_world, _refusals, _a_bad_link)}


def _run(rank: int, world: int, store: str, body: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    BODIES[body](rank, world)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def ranks(tmp_path: Path, world: int, body: str) -> None:
    """Return once `world` processes have run the body; a failure of one is raised here."""
    multiprocessing.set_forkserver_preload(["torch"])  # one import of torch for all ranks, and no threads to fork
    args = (world, str(tmp_path / "store"), body)
    torch.multiprocessing.start_processes(_run, args=args, nprocs=world, start_method="forkserver")


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_parts_come_together_in_rank_order(tmp_path: Path, world: int) -> None:
    ranks(tmp_path, world, "_happy")


def test_a_group_that_is_part_of_the_world(tmp_path: Path) -> None:
    ranks(tmp_path, 3, "_part_of_the_world")


def test_groups_and_segments_that_do_not_fit(tmp_path: Path) -> None:
    ranks(tmp_path, 2, "_refusals")


def test_the_own_part_is_compared(tmp_path: Path) -> None:
    ranks(tmp_path, 2, "_a_bad_link")


@pytest.mark.parametrize("group", [None, object()])
def test_what_is_no_group_is_refused_before_anything_moves(group: Any) -> None:
    with pytest.raises(MonoUnsupported, match=r"w: group: expected a torch\.distributed process group"):
        runtime.gather("w", (torch.zeros(4, 4),), group, axes=(0,), begins=(0,), lengths=(4,))
