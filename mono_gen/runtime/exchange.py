"""What ranks tell each other before bytes move: who they are, which field, which shape, which slice.

Messages go through the group's store with a timeout of our own: a rank that died, is late, or brings something else
is named on every rank that is left. Each rank says what it brings, reads all others, then says whether it agrees; a
rank that comes late finds that the others gave up. The store itself must answer: where its process died, that is said;
where its process was stopped and not ended, torch waits for it with the timeout that the store was made with.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.errors import Problem

GATHER_TIMEOUT_S = 60.0
"""How long ranks wait for each other where the caller does not say."""


@frozen
class Message:
    """What a rank brings to the gathers of a struct.

    subject:   the struct, as messages name it.
    digest:    of the spec that the rank's module was generated from.
    struct_id: of the struct.
    sources:   each gathered field with the shapes of its sources, on all ranks alike.
    order:     the global ranks of the group, in its order.
    rank:      this rank's place in the group.
    refused:   what this rank's own checks found, empty where nothing.
    """

    subject: str
    digest: str
    struct_id: str
    sources: tuple[str, ...]
    order: tuple[int, ...]
    rank: int
    refused: str = ""

    @property
    def world(self) -> int:
        """Return the number of ranks."""
        return len(self.order)


def agree(message: Message, group: torch.distributed.ProcessGroup, timeout_s: float) -> tuple[Problem, ...]:
    """Return what keeps the ranks from gathering, naming them; empty when all bring the same, in time.

    Every rank that is left gets an answer within the timeout, one that comes late, too.
    Law:  tests/runtime/test_exchange.py
    """
    deadline = time.monotonic() + timeout_s
    try:
        store, prefix = _round(group, "agree", message.rank, ("says", "agrees"))
        store.set(
            f"{prefix}/says/{message.rank}",
            json.dumps({name: getattr(message, name) for name in message.__match_args__}),
        )
        said, missing = _collect(store, f"{prefix}/says", message.world, deadline)
        problems = [_absent(rank, timeout_s) for rank in missing]
        problems += [p for rank, text in sorted(said.items()) for p in _differences(message, rank, json.loads(text))]
        verdict = "; ".join(f"{p.what}: expected {p.expected}, found {p.found}" for p in problems)
        store.set(f"{prefix}/agrees/{message.rank}", verdict or message.refused or _YES)
        if problems or message.refused:
            return tuple(problems)
        answers, missing = _collect(store, f"{prefix}/agrees", message.world, deadline)
    except (RuntimeError, OSError) as error:  # torch reports a lost store as a RuntimeError
        return (_lost(error),)
    problems = [_absent(rank, timeout_s) for rank in missing]
    problems += [_disagrees(rank, answer) for rank, answer in sorted(answers.items()) if answer != _YES]
    return tuple(problems)


def exchange_digests(
    group: torch.distributed.ProcessGroup, rank: int, digest: str, deadline: float
) -> tuple[dict[int, str], str]:
    """Return what each rank says of the bytes that it is about to send, and why nothing must be sent, empty where all
    ranks are there and know it.

    Raises: RuntimeError, where the store is gone.
    """
    store, prefix = _round(group, "digest", rank, ("says", "agrees"))
    store.set(f"{prefix}/says/{rank}", digest)
    world = torch.distributed.get_world_size(group)
    said, missing = _collect(store, f"{prefix}/says", world, deadline)
    store.set(f"{prefix}/agrees/{rank}", f"nothing from {ranks_text(missing)}" if missing else _YES)
    if missing:
        return said, f"nothing from {ranks_text(missing)}"
    answers, missing = _collect(store, f"{prefix}/agrees", world, deadline)
    verdicts = [f"rank {other} gave up: {answer}" for other, answer in sorted(answers.items()) if answer != _YES]
    verdicts += [f"nothing from {ranks_text(missing)}"] if missing else []
    return said, "; ".join(verdicts)


def silent_ranks(group: torch.distributed.ProcessGroup, rank: int, deadline: float) -> str:
    """Return, in words, which ranks do not answer after bytes were lost on the way."""
    try:
        store, prefix = _round(group, "lost", rank, ("says",))
        store.set(f"{prefix}/says/{rank}", _YES)
        silent = _collect(store, f"{prefix}/says", torch.distributed.get_world_size(group), deadline)[1]
    except (RuntimeError, OSError) as error:
        return _lost(error).found
    return f"nothing from {ranks_text(silent)}" if silent else "every rank is there"


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks in words."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _differences(mine: Message, rank: int, theirs: dict[str, Any]) -> list[Problem]:
    """Return what another rank brings that differs from this rank's, and what its own checks refused."""
    if rank == mine.rank:
        return []
    problems = []
    if theirs["refused"]:
        problems.append(_disagrees(rank, theirs["refused"]))
    for what in ("digest", "struct_id", "sources", "order"):
        expected, found = getattr(mine, what), theirs[what]
        expected = list(expected) if isinstance(expected, tuple) else expected
        if expected != found and not (what == "sources" and (mine.refused or theirs["refused"])):
            where = f"{expected}, as on rank {mine.rank}"
            problems.append(Problem(f"rank {rank}", _SPOKEN[what], where, str(found), _HELP[what]))
    return problems


_YES = "yes"
_SPOKEN = {"digest": "spec digest", "struct_id": "struct id", "sources": "rows", "order": "rank order"}
_HELP = {
    "digest": "generate on every rank from the same spec",
    "struct_id": "load the same struct on every rank",
    "sources": "every rank brings an equal share of the segment",
    "order": "build the group from the same ranks in the same order",
}


def _disagrees(rank: int, why: str) -> Problem:
    return Problem(f"rank {rank}", "gather", f"rank {rank} to agree", f"it refused: {why}")


def _lost(error: Exception) -> Problem:
    """Return the problem of a store that is gone with the rank that served it."""
    found = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Problem("store", "gather", "the group's store", f"no answer: {found}", "the rank that serves it died")


def _absent(rank: int, timeout_s: float) -> Problem:
    """Return the problem of a rank that did not come."""
    help = "it died, is late, or took another path: look at its log"
    return Problem(f"rank {rank}", "gather", f"rank {rank} within {timeout_s:g} s", f"nothing from rank {rank}", help)


def _collect(store: Any, prefix: str, world: int, deadline: float) -> tuple[dict[int, str], list[int]]:
    """Return what each rank said, and the ranks that said nothing before the deadline."""
    waiting = list(range(world))
    said: dict[int, str] = {}
    pause_s = 0.0005
    while waiting:
        for rank in list(waiting):
            if store.check([f"{prefix}/{rank}"]):
                said[rank] = store.get(f"{prefix}/{rank}").decode()
                waiting.remove(rank)
        if waiting and time.monotonic() > deadline:
            break
        if waiting:
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
    return said, waiting


def _store() -> Any:
    """Return the store that the ranks met at."""
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()


def _round(group: torch.distributed.ProcessGroup, what: str, rank: int, kinds: Sequence[str]) -> tuple[Any, str]:
    """Return the store, and a key that all ranks of the group make alike for their n-th round together.

    A rank that begins its n-th round has seen all others in the one before: nobody reads its words of round n - 2.
    """
    store = _store()
    base = f"mono_gen/{what}/{group.group_name}"
    count = store.add(f"{base}/rounds/{rank}", 1)
    if count > 2:
        for kind in kinds:
            store.delete_key(f"{base}/{count - 2}/{kind}/{rank}")
    return store, f"{base}/{count}"
