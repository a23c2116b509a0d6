"""Four gloo processes: what each rank is told when one of them brings something else, is late, or dies.

One start of four processes runs every scenario in turn, each over a group of its own; the last ones end processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.multiprocessing

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported
from mono_gen.runtime.exchange import _store
from tests.conftest import load_generated
from tests.runtime.made import FN, U8, layer, made, ramp

WORLD = 4
SHORT_S, SLACK_S = 3.0, 2.5  # a rank must answer within the timeout; a loaded machine gets some slack
SPEC = """
spec wide
arch gfx950
struct Base(layer) {
    w, s : ptpc_fp8[28, 64] {
        segments row = a:16 q:12
        tile row_major
        convert mxfp8 row_major layer.w, layer.s via bf16
        attest not layer.w.is_shuffled
    }
}
struct Wide(layer, group) extends Base {
    w, s : ptpc_fp8[64, 64] {
        segments row = a:16 q:48
        gather q over group
        tile row_major
        convert mxfp8 row_major layer.w, layer.s via bf16
        attest not layer.w.is_shuffled
    }
}
struct Free(layer, group) {
    w, s : ptpc_fp8[64, 64] {
        segments row = head:16 q:48
        gather q over group
        tile row_major
        convert mxfp8 row_major layer.w, layer.s via bf16
        attest not layer.w.is_shuffled
    }
}
"""
Result = dict[str, Any]


def layer_of(rank: int, rows: int = 28, plus: int = 0) -> Any:
    """Return a rank's layer: 16 rows that all have, and its own part of q."""
    w = ramp(rows, 64, below=101 + plus)
    w[16:] = (w[16:] + 5 * rank) % 120
    return layer(w=w.view(FN), s=torch.full((rows, 2), 120 + plus, dtype=U8))


def expected(world: int, plus: int = 0) -> torch.Tensor:
    """Return the wide rows, before values change format."""
    parts = [layer_of(rank, 16 + 48 // world, plus).w.view(U8) for rank in range(world)]
    return torch.cat([parts[0][:16], *(part[16:] for part in parts)])


# --- scenarios: each is called on every rank of its group ---


def happy(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    found = modules[0].Wide.from_layer(layer_of(rank), group, timeout_s=60)
    wide = (expected(WORLD).view(FN), torch.full((64, 2), 120, dtype=U8))
    w, s = runtime.mxfp8_to_ptpc_fp8("w", *wide, dtype=FN)
    assert torch.equal(found.w.view(U8), w.view(U8)) and torch.equal(found.s, s)
    assert runtime.recheck(found, content=True) == "verified"
    return {}


def refreshed(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Many updates over one group: right each time, and the store does not fill up."""
    found = modules[0].Wide.from_layer(layer_of(rank), group, timeout_s=60)
    address, keys = found.w.data_ptr(), []
    for turn in range(1, 7):
        found.refresh(layer_of(rank, plus=turn), group, timeout_s=60)
        torch.distributed.barrier(group)
        keys.append(_store().num_keys())
        torch.distributed.barrier(group)
        scale = torch.full((64, 2), 120 + turn, dtype=U8)
        w, _ = runtime.mxfp8_to_ptpc_fp8("w", expected(WORLD, turn).view(FN), scale, dtype=FN)
        assert torch.equal(found.w.view(U8), w.view(U8)) and found.w.data_ptr() == address
    assert keys[-1] == keys[-2] == keys[-3], keys
    return {}


def digest(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Rank 2 has the module of a spec with another comment: no field differs."""
    return told(modules[rank == 2].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def other_struct(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    struct = modules[0].Free if rank == 1 else modules[0].Wide
    return told(struct.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def rows(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Rank 1 brings a row less."""
    return told(modules[0].Wide.from_layer, layer_of(rank, 27 if rank == 1 else 28), group, timeout_s=SHORT_S)


def attribute(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Rank 0 has no scale."""
    mine = layer_of(rank)
    if rank == 0:
        del mine.s
    return told(modules[0].Wide.from_layer, mine, group, timeout_s=SHORT_S)


def members(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Rank 3 takes the group for another one."""
    if rank == 3:
        torch.distributed.get_process_group_ranks = lambda group: [0, 1, 3, 4]
    return told(modules[0].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def unsorted(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    return told(modules[0].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def two(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """A group of two where the spec has four."""
    return told(modules[0].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def late(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    if rank == 3:
        time.sleep(SHORT_S + 1)
    return told(modules[0].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def late_bytes(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Rank 1 agrees and then dawdles before its bytes, a second longer than it takes the others to give up."""
    real = runtime.gather

    def dawdles(*args: Any, **named: Any) -> Any:
        time.sleep(SHORT_S)
        return real(*args, **named)

    if rank == 1:
        runtime.gather = dawdles  # type: ignore[assignment]
    try:
        return told(modules[0].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)
    finally:
        runtime.gather = real


def dies_before(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    if rank == 3:
        os._exit(7)
    return told(modules[0].Wide.from_layer, layer_of(rank), group, timeout_s=SHORT_S)


def dies_during(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Of ranks 0, 1, 2 the last dies when the bytes begin to move."""
    if rank == 2:
        torch.distributed.all_gather = lambda *args, **named: os._exit(7)
    return told(modules[0].Free.from_layer, layer_of(rank, 32), group, timeout_s=SHORT_S)


def store_dies(rank: int, group: Any, modules: list[ModuleType]) -> Result:
    """Of ranks 0 and 1 the one that serves the store."""
    if rank == 0:
        os._exit(7)
    return told(modules[0].Free.from_layer, layer_of(rank, 40), group, timeout_s=SHORT_S)


Scenario = Callable[[int, Any, list[ModuleType]], Result]
SCENARIOS: tuple[tuple[Scenario, tuple[int, ...]], ...] = (
    (happy, (0, 1, 2, 3)),
    (refreshed, (0, 1, 2, 3)),
    (digest, (0, 1, 2, 3)),
    (other_struct, (0, 1, 2, 3)),
    (rows, (0, 1, 2, 3)),
    (attribute, (0, 1, 2, 3)),
    (members, (0, 1, 2, 3)),
    (unsorted, (2, 0, 1, 3)),
    (two, (0, 1)),
    (late, (0, 1, 2, 3)),
    (late_bytes, (0, 1, 2, 3)),
    (dies_before, (0, 1, 2, 3)),
    (dies_during, (0, 1, 2)),
    (store_dies, (0, 1)),
)


def told(call: Callable[..., Any], *args: Any, **named: Any) -> Result:
    """Return the problems that a rank is told, and after how long."""
    begun = time.monotonic()
    with pytest.raises(MonoUnsupported) as refusal:
        call(*args, **named)
    problems = [(p.field, p.what, p.expected, p.found) for p in refusal.value.problems]
    return {"problems": problems, "seconds": time.monotonic() - begun}


def _run(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=WORLD)
    modules = [load_generated(folder / name / "wide.py") for name in ("first", "second")]
    groups = [
        torch.distributed.new_group(list(ranks), use_local_synchronization=True, sort_ranks=False)
        if ranks != tuple(sorted(ranks))
        else torch.distributed.new_group(list(ranks))
        for _, ranks in SCENARIOS
    ]
    torch.distributed.barrier()
    real = torch.distributed.get_process_group_ranks
    for (scenario, ranks), group in zip(SCENARIOS, groups, strict=True):
        if rank in ranks:
            torch.distributed.barrier(group)  # the one before took its ranks a different time each
            found = scenario(rank, group, modules)
            (folder / f"{scenario.__name__}-{rank}.json").write_text(json.dumps(found))
        torch.distributed.get_process_group_ranks = real
    os._exit(0)  # the store is gone: nothing is left to be closed in order


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scenario], dict[int, Result]]:
    """Return what each rank was told in a scenario, after all have been run."""
    folder = tmp_path_factory.mktemp("ranks")
    for name, text in (("first", SPEC), ("second", f"# the same, said differently\n{SPEC}")):
        (folder / name).mkdir()
        made(folder / name, text, "wide")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    multiprocessing.set_forkserver_preload(["torch"])  # one import of torch for all ranks, and no threads to fork
    context = torch.multiprocessing.get_context("forkserver")
    processes = [context.Process(target=_run, args=(rank, port, folder)) for rank in range(WORLD)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(150)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [7, 0, 7, 7], codes

    def of(scenario: Scenario) -> dict[int, Result]:
        files = sorted(folder.glob(f"{scenario.__name__}-*.json"))
        return {int(file.stem[-1]): json.loads(file.read_text()) for file in files}

    return of


Results = Callable[[Scenario], dict[int, Result]]


def problems(found: dict[int, Result], ranks: tuple[int, ...]) -> dict[int, list[list[str]]]:
    """Return each surviving rank's problems, after holding that it was told in time."""
    assert tuple(found) == ranks
    for rank, result in found.items():
        assert result["problems"] and result["seconds"] < SHORT_S + SLACK_S, (rank, result)
    return {rank: result["problems"] for rank, result in found.items()}


def test_ranks_that_bring_the_same_come_together(results: Results) -> None:
    assert results(happy) == {rank: {} for rank in range(WORLD)}


def test_updates_over_one_group_leave_nothing_behind(results: Results) -> None:
    assert results(refreshed) == {rank: {} for rank in range(WORLD)}


def test_a_rank_with_another_spec_is_named_on_every_rank(results: Results) -> None:
    for rank, found in problems(results(digest), (0, 1, 2, 3)).items():
        others = [0, 1, 3] if rank == 2 else [2]
        assert [(field, what) for field, what, *_ in found] == [(f"rank {r}", "spec digest") for r in others]


def test_a_rank_with_another_struct_is_named(results: Results) -> None:
    for rank, found in problems(results(other_struct), (0, 1, 2, 3)).items():
        others = [0, 2, 3] if rank == 1 else [1]
        assert [(field, what) for field, what, *_ in found] == [(f"rank {r}", "struct id") for r in others]


def test_a_rank_with_other_rows_is_named(results: Results) -> None:
    for rank, found in problems(results(rows), (0, 1, 2, 3)).items():
        if rank == 1:
            assert ["w", "shape"] in [p[:2] for p in found]
        else:
            assert {p[0] for p in found} == {"rank 1"} and any("it refused: w: shape" in p[3] for p in found)


def test_a_rank_whose_layer_is_not_whole_is_named(results: Results) -> None:
    for rank, found in problems(results(attribute), (0, 1, 2, 3)).items():
        if rank == 0:
            assert ["s", "attribute"] in [p[:2] for p in found]
        else:
            assert {p[0] for p in found} == {"rank 0"} and any("it refused: s: attribute" in p[3] for p in found)


def test_a_rank_in_another_group_is_named(results: Results) -> None:
    for rank, found in problems(results(members), (0, 1, 2, 3)).items():
        others = [0, 1, 2] if rank == 3 else [3]
        assert [(field, what) for field, what, *_ in found] == [(f"rank {r}", "rank order") for r in others]


def test_ranks_out_of_order(results: Results) -> None:
    for found in problems(results(unsorted), (0, 1, 2, 3)).values():
        assert ["w", "group", "ranks in order: [0, 1, 2, 3]", "[2, 0, 1, 3]"] in found


def test_a_group_of_the_wrong_size(results: Results) -> None:
    for found in problems(results(two), (0, 1)).values():
        assert ["w", "group", "4 ranks", "2 ranks"] in found


def test_a_rank_that_is_late(results: Results) -> None:
    """The others give up in time; it is told so when it comes, by each of them."""
    for rank, found in problems(results(late), (0, 1, 2, 3)).items():
        if rank == 3:
            assert {p[0] for p in found} == {"rank 0", "rank 1", "rank 2"}
            assert all("nothing from rank 3" in p[3] for p in found)
        else:
            assert [p[0] for p in found] == ["rank 3"] and found[0][3] == "nothing from rank 3"


def test_a_rank_whose_bytes_are_late(results: Results) -> None:
    for rank, found in problems(results(late_bytes), (0, 1, 2, 3)).items():
        assert [p[:2] for p in found] == [["w", "gather"]]
        gave_up = "; ".join(f"rank {other} gave up: nothing from rank 1" for other in (0, 2, 3))
        assert found[0][3] == (gave_up if rank == 1 else "nothing from rank 1")


def test_a_rank_that_dies_before(results: Results) -> None:
    for found in problems(results(dies_before), (0, 1, 2)).values():
        assert [p[0] for p in found] == ["rank 3"] and found[0][3] == "nothing from rank 3"


def test_a_rank_that_dies_during(results: Results) -> None:
    for found in problems(results(dies_during), (0, 1)).values():
        assert [p[:2] for p in found] == [["w", "gather"]] and "nothing from rank 2" in found[0][3]


def test_the_rank_that_serves_the_store_dies(results: Results) -> None:
    for found in problems(results(store_dies), (1,)).values():
        assert [p[:2] for p in found] == [["store", "gather"]] and "no answer" in found[0][3]
