"""CpSparseMoeLayer on a real gloo group of four processes: every rank's index q rows in the wide projection (S6)."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing

from mono_gen.runtime import MonoUnsupported
from tests.conftest import ROOT, load_generated
from tests.end_to_end.light_layer import E4M3, E8M0, light_layer, specimens
from tests.reference.layouts import pack
from tests.reference.values import mxfp8_to_ptpc_fp8
from tools.demo import sources as s
from tools.demo.sources import Linear, e8m0, fp8

WORLD = 4
INDEX_Q, INDEX_K = 2304, 2432  # where these segments begin in a rank's own rows; index_k ends the 2560


def shared_rows() -> Linear:
    """Return a rank's 2560 rows before the rank has a say in them."""
    return Linear(fp8(s.QKV_ROWS, s.HIDDEN, 10), e8m0(s.QKV_ROWS, s.HIDDEN // 32, 11))


def index_q_rows(rank: int) -> Linear:
    """Return the 128 index q rows that only this rank has."""
    return Linear(fp8(128, s.HIDDEN, 500 + rank), e8m0(128, s.HIDDEN // 32, 600 + rank))


def own_order(rank: int) -> np.ndarray[Any, Any]:
    """Return which of the shared rows stands where on a rank: its q, k and v heads are its own."""
    order = np.arange(s.QKV_ROWS)
    order[:INDEX_Q] = np.roll(order[:INDEX_Q], 16 * rank)
    return order


def qkv_of(rank: int) -> Linear:
    """Return the projection that a rank's loader holds."""
    rows, index_q, order = shared_rows(), index_q_rows(rank), own_order(rank)
    weight, scale = rows.weight[order], rows.scale[order]
    weight[INDEX_Q:INDEX_K], scale[INDEX_Q:INDEX_K] = index_q.weight, index_q.scale
    return Linear(weight, scale)


def layer_of(rank: int) -> Any:
    """Return a rank's layer: fused experts, so that nothing else needs values."""
    tensors = {name: t for name, t in specimens(s.ROUTED + 1).items() if not name.startswith("sh_")}
    qkv = qkv_of(rank)
    tensors["w_qkv"] = torch.from_numpy(qkv.weight).view(E4M3)
    tensors["s_qkv"] = torch.from_numpy(qkv.scale).view(E8M0)
    return light_layer(tensors)


def _happy(rank: int, out: Path) -> None:
    module = load_generated(ROOT / "generated" / "minimax_m3.py")
    layer = layer_of(rank)
    struct = module.CpSparseMoeLayer.from_layer(layer, torch.distributed.group.WORLD)
    assert struct.w_qkv.shape == (2944, 6144) and struct.s_qkv.shape == (2944,)
    assert struct.E == 129 and struct.sh_w13 is None
    assert struct.w13.data_ptr() == layer.block_sparse_moe.experts.w13_weight.data_ptr()
    np.save(out / f"w{rank}.npy", struct.w_qkv.view(torch.uint8).numpy())
    np.save(out / f"s{rank}.npy", struct.s_qkv.numpy())


def _a_part_of_the_world(rank: int, out: Path) -> None:
    module = load_generated(ROOT / "generated" / "minimax_m3.py")
    group = torch.distributed.new_group([0, 1])
    with pytest.raises(MonoUnsupported) as refusal:
        module.CpSparseMoeLayer.from_layer(layer_of(rank), group)
    problems = [p for p in refusal.value.problems if p.field == "w_qkv" and p.what == "group"]
    assert len(problems) == 1, str(refusal.value)
    wanted = "4 ranks" if rank < 2 else "a torch.distributed process group that this rank is in"
    assert problems[0].expected == wanted
    assert rank >= 2 or problems[0].found == "2 ranks"
    (out / f"refused{rank}").touch()


BODIES = {body.__name__: body for body in (_happy, _a_part_of_the_world)}


def _run(rank: int, world: int, out: str, body: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=world)
    BODIES[body](rank, Path(out))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def run_ranks(out: Path, body: str) -> None:
    """Return once four processes have run the body; a failure of one is raised here."""
    multiprocessing.set_forkserver_preload(["torch"])  # one import of torch for all ranks, and no threads to fork
    args = (WORLD, str(out), body)
    torch.multiprocessing.start_processes(_run, args=args, nprocs=WORLD, start_method="forkserver")


def test_the_wide_projection_holds_every_ranks_index_q_rows_on_every_rank(tmp_path: Path) -> None:
    run_ranks(tmp_path, "_happy")
    rows = shared_rows()
    codes, scales = mxfp8_to_ptpc_fp8(rows.weight, rows.scale)  # a row's values depend on that row alone
    parts = [mxfp8_to_ptpc_fp8(part.weight, part.scale) for part in map(index_q_rows, range(WORLD))]
    wide_codes = np.empty((2944, s.HIDDEN), dtype=np.uint8)
    wide_scales = np.empty(2944, dtype=np.float32)
    for rank in range(WORLD):
        own = own_order(rank)
        for wide, base, index in ((wide_codes, codes, 0), (wide_scales, scales, 1)):
            wide[:INDEX_Q], wide[INDEX_Q + 512 :] = base[own[:INDEX_Q]], base[INDEX_K:]
            for other in range(WORLD):
                wide[INDEX_Q + 128 * other : INDEX_Q + 128 * (other + 1)] = parts[other][index]
        assert np.load(tmp_path / f"w{rank}.npy").tobytes() == pack("shuffle_16x16", wide_codes).tobytes()
        assert np.load(tmp_path / f"s{rank}.npy").tobytes() == wide_scales.tobytes()
    assert len({np.load(tmp_path / f"w{rank}.npy").tobytes() for rank in range(WORLD)}) == WORLD
    assert len({part[0].tobytes() for part in parts}) == WORLD


def test_a_group_of_two_is_refused_by_name(tmp_path: Path) -> None:
    run_ranks(tmp_path, "_a_part_of_the_world")
    assert sorted(path.name for path in tmp_path.glob("refused*")) == [f"refused{rank}" for rank in range(WORLD)]


def test_what_is_no_group_is_refused(minimax_module: Any) -> None:
    with pytest.raises(MonoUnsupported) as refusal:
        minimax_module.CpSparseMoeLayer.from_layer(layer_of(0), None)
    assert ("w_qkv", "group") in [(p.field, p.what) for p in refusal.value.problems]
