"""gather over NCCL on two GPUs: a synthetic TP of 2, and a rank that differs refused before NCCL moves anything."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.multiprocessing

from mono_gen.pipeline import generate
from mono_gen.runtime import MonoUnsupported
from mono_gen.write import write
from tests.conftest import load_generated

pytestmark = pytest.mark.two_gpus

SPEC = """\
spec two_ranks
arch gfx950
import "aiter.layout"

struct Whole(layer) {
    w, s : ptpc_fp8[192, 512] {
        tile    shuffle_16x16
        convert mxfp8 row_major layer.w, layer.s via bf16
        attest  not layer.w.is_shuffled
    }
}

struct Gathered(layer, group) {
    w, s : ptpc_fp8[192, 512] {
        segments row = q:64 index_q:96 k:32
        gather   index_q over group
        tile     shuffle_16x16
        convert  mxfp8 row_major layer.w, layer.s via bf16
        attest   not layer.w.is_shuffled
    }
}
"""


def rows_of(rank: int, count: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (fp8, e8m0) of a rank: 64 rows of q, its own of index_q, 32 of k."""
    common, own = torch.Generator().manual_seed(1), torch.Generator().manual_seed(100 + rank)
    parts = []
    for k, low, high in ((512, 0, 0x78), (16, 115, 125)):
        shared = torch.randint(low, high, (96, k), generator=common, dtype=torch.uint8)
        mine = torch.randint(low, high, (count, k), generator=own, dtype=torch.uint8)
        parts.append(torch.cat((shared[:64], mine, shared[64:])))
    return parts[0], parts[1]


def layer_on(device: str, codes: torch.Tensor, scales: torch.Tensor) -> Any:
    """Return a layer whose tensors lie on a device."""
    return SimpleNamespace(w=codes.view(torch.float8_e4m3fn).to(device), s=scales.to(device))


def _rank(rank: int, out: str, count: int) -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=f"file://{out}/store", rank=rank, world_size=2)
    module = load_generated(Path(out) / "two_ranks.py")
    group = torch.distributed.group.WORLD
    if count == 48:
        ranks = [rows_of(r) for r in range(2)]
        whole = [
            torch.cat((ranks[0][i][:64], ranks[0][i][64:112], ranks[1][i][64:112], ranks[0][i][112:])) for i in (0, 1)
        ]
        expected = module.Whole.from_layer(layer_on("cpu", *whole))
        found = module.Gathered.from_layer(layer_on(f"cuda:{rank}", *ranks[rank]), group)
        assert torch.equal(found.w.cpu().view(torch.uint8), expected.w.view(torch.uint8))
        assert torch.equal(found.s.cpu(), expected.s)
    else:
        begun = time.monotonic()
        with pytest.raises(MonoUnsupported) as refused:
            module.Gathered.from_layer(layer_on(f"cuda:{rank}", *rows_of(rank, count if rank else 48)), group)
        wrong_shape = "w: shape: expected 144 x 512 elements, found 128 x 512 elements"
        assert wrong_shape in str(refused.value), str(refused.value)  # on both ranks
        assert time.monotonic() - begun < 60
    torch.distributed.destroy_process_group()
    (Path(out) / f"done{rank}").touch()


@pytest.mark.parametrize("count", [48, 32])
def test_two_ranks(tmp_path: Path, count: int) -> None:
    spec = tmp_path / "two_ranks.layout"
    spec.write_text(SPEC)
    write(generate([spec], {}).files, tmp_path)
    torch.multiprocessing.spawn(_rank, args=(str(tmp_path), count), nprocs=2)
    assert sorted(p.name for p in tmp_path.glob("done*")) == ["done0", "done1"]
