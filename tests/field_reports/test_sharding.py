"""H: shards, experts and ranks: what moves together, what is whole, and in which order parts come."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing

from mono_gen import runtime
from tests.field_reports.product import E8M0, FP4, U8, layer, made, ramp, raw, refused, spec_refused, whats


def test_h1_shard_offset_and_size_rounded_apart(tmp_path: Path) -> None:
    """Blocks of 32: half a block and one and a half of them, as 64 and 192 are of the report's 128."""
    spec = """
    struct S(layer) {{ w, s : mxfp8[4, {}] {{
        segments k = {}
        tile row_major  scale row_major  view layer.w, layer.s
    }} }}
    """
    said = spec_refused(tmp_path, spec.format(64, "a:16 b:16 c:16 d:16"), "segment-cuts-block")
    assert "16" in said and "32" in said
    spec_refused(tmp_path, spec.format(96, "a:48 b:48"), "segment-cuts-block")
    made(tmp_path, spec.format(96, "a:32 b:64"))


EXPERTS = """
struct Moe(layer) {
    dim E in { 4, 129 }
    w13, s13 : mxfp4[E, 32, 256] { tile shuffle_16x16  scale e8m0_tiles
        convert mxfp4 row_major layer.w13, layer.s13 }
    bias : fp32[E, 32] { tile row_major  view layer.bias }
}
"""


def test_h2_experts_are_moved_without_their_scales(tmp_path: Path) -> None:
    module = made(tmp_path, EXPERTS).module
    order = [2, 0, 3, 1]
    w13, s13, bias = ramp(4, 32, 128), ramp(4, 32, 8, below=251), torch.arange(128.0).view(4, 32)
    before = module.Moe.from_layer(layer(w13=w13, s13=s13, bias=bias))
    moved = layer(w13=w13[order].contiguous(), s13=s13[order].contiguous(), bias=bias[order].contiguous())
    after = module.Moe.from_layer(moved)
    for name in ("w13", "s13", "bias"):
        old, new = getattr(before, name), getattr(after, name)
        assert all(raw(new[to].contiguous()) == raw(old[e].contiguous()) for to, e in enumerate(order)), name
    del moved.s13
    assert whats(refused(module.Moe.from_layer, moved)) == [("s13", "attribute")]
    spec_refused(tmp_path, EXPERTS.replace("w13, s13 :", "w13 :"), "wrong-arity")


def test_h4_contiguity_asked_of_column_major_scales(tmp_path: Path) -> None:
    """[E, M, G] with M fast is [E, G, M] to the spec: taken as it lies, never made contiguous."""
    module = made(tmp_path, "struct S(layer) { dim E  s : uint8[E, 4, 8] { tile row_major  view layer.s } }").module
    scale = torch.arange(64, dtype=U8).as_strided((2, 8, 4), (32, 1, 8))
    assert not scale.is_contiguous()
    s = module.S.from_layer(layer(s=scale.transpose(1, 2))).s
    assert s.data_ptr() == scale.data_ptr() and raw(s) == list(range(64))
    other = made(
        tmp_path, "struct S(layer) { dim E  s : uint8[E, 8, 4] { tile row_major  view layer.s } }", name="other"
    )
    assert whats(refused(other.module.S.from_layer, layer(s=scale))) == [("s", "strides")]


def test_h5_collective_rejects_e8m0(tmp_path: Path) -> None:
    module = made(tmp_path, "struct S(layer) { s : e8m0[4, 8] { tile row_major  view layer.s } }").module
    scale = torch.full((4, 8), 127, dtype=U8).view(E8M0)
    struct = module.S.from_layer(layer(s=scale))
    as_bytes = struct.s.view(U8)
    assert (as_bytes.data_ptr(), as_bytes.shape, as_bytes.stride()) == (scale.data_ptr(), scale.shape, scale.stride())
    as_bytes[1, 2] = 120
    assert scale.float()[1, 2].item() == 2.0**-7
    assert module.S.from_layer(layer(s=as_bytes)).s.data_ptr() == scale.data_ptr(), "bytes are taken, too"


def test_h7_shared_expert_slot_is_never_written(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        struct Moe(layer) {
            dim E in { 129 }
            w13, s13 : mxfp4[E, 32, 256] { tile shuffle_16x16  scale e8m0_tiles  view layer.w13, layer.s13
                attest shuffle_16x16 when layer.promised }
        }
        """,
    ).module
    experts = torch.zeros(129, 32, 128, dtype=U8).view(FP4)
    scales = torch.full((129, 32, 8), 127, dtype=U8)
    routed = layer(w13=experts[:128], s13=scales[:128], promised=True)
    assert whats(refused(module.Moe.from_layer, routed)) == [("w13", "dim")]
    scales[128] = 0xFF  # what a poisoned allocator left there
    (problem,) = refused(runtime.verify_all, (module.Moe.from_layer(layer(w13=experts, s13=scales, promised=True)),))
    assert (problem.field, problem.what) == ("s13", "content") and "0xFF" in problem.expected
    assert problem.found.startswith("256 ")


def test_h8_shared_expert_in_another_precision(tmp_path: Path) -> None:
    spec = "struct Moe(layer) {{ {} }}"
    source = "tile row_major  scale row_major  view layer.{0}, layer.{0}_s"
    both = f"w, s : mxfp4, mxfp8[129, 32, 64] {{ {source.format('w')} }}"
    spec_refused(tmp_path, spec.format(both), "syntax-error")
    apart = (
        f"w, w_s : mxfp4[128, 32, 64] {{ {source.format('w')} }}\n sh, sh_s : mxfp8[32, 64] {{ {source.format('sh')} }}"
    )
    module = made(tmp_path, spec.format(apart)).module
    mine = layer(w=ramp(128, 32, 32), w_s=ramp(128, 32, 2), sh=ramp(32, 64), sh_s=ramp(32, 2))
    assert whats(refused(module.Moe.from_layer, mine)) == [("sh", "dtype")]


def test_h9_start_and_end_in_the_wrong_order(tmp_path: Path) -> None:
    module = made(tmp_path, EXPERTS).module
    with pytest.raises(TypeError, match="positional"):
        module.Moe(4, ramp(4, 32, 128), ramp(4, 32, 8), torch.zeros(4, 32))
    with pytest.raises(TypeError, match="positional"):
        module.pack_shuffle_16x16(ramp(32, 64), torch.empty(32, 64, dtype=U8))
    with pytest.raises(TypeError, match="positional"):
        runtime.pack("t", ramp(32, 64), (32, 64), None, (32, 64), (0, 1))
    packed = module.pack_shuffle_16x16(ramp(32, 64))
    for shape in ((64, 0), (0, 64), (-32, 64)):
        assert [p.what for p in refused(module.unpack_shuffle_16x16, packed, shape)] == ["shape"]
    assert refused(module.unpack_shuffle_16x16, packed, (64, 32))[0].what in ("shape", "layout")


class _Done:
    """A collective that has ended."""

    def wait(self, timeout: object) -> None:
        """Return at once."""


def _rank_of_h10(rank: int, folder: str) -> None:
    """Gather on one of four ranks over a real group, then over one whose pieces come in another order."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    group, piece = torch.distributed.group.WORLD, torch.full((2, 16), rank, dtype=U8)
    real = torch.distributed.all_gather

    def disordered(replies: list[torch.Tensor], message: torch.Tensor, **options: Any) -> _Done:
        real(replies, message, group=options["group"])
        replies[1], replies[2] = replies[2], replies[1]
        return _Done()

    (whole,) = runtime.gather("w", (piece,), group, axes=(0,), begins=(0,), lengths=(8,))
    assert whole[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    torch.distributed.all_gather = disordered
    (problem,) = refused(runtime.gather, "w", (piece,), group, axes=(0,), begins=(0,), lengths=(8,))
    assert problem.what == "gather" and "ranks [1, 2]" in problem.found
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_h10_pieces_in_an_assumed_rank_order(tmp_path: Path) -> None:
    multiprocessing.set_forkserver_preload(["torch"])  # one import of torch for all ranks, and no threads to fork
    args = (str(tmp_path),)
    torch.multiprocessing.start_processes(_rank_of_h10, args=args, nprocs=4, start_method="forkserver")
