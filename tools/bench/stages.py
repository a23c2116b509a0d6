"""The stages on a GPU beside a plain read of the same bytes, and beside bf16 matmul: `python -m tools.bench.stages`.

Real sizes, random bytes. Each figure is launches in a graph, over copies of the weights of four times the L2, timed by
events in turns with its yardstick; medians. Nothing is asserted.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from mono_gen.kernels import Kernels, load
from tools.demo.__main__ import ROOT, load_generated

L2_TIMES, TURNS = 4, 15
LIMIT = 7.0
BF16 = torch.bfloat16


@dataclass(frozen=True)
class Work:
    """One figure: what is launched, and what it reads."""

    name: str
    launches: list[Callable[[], Any]]
    reads: list[tuple[float, tuple[int, int]]]  # bytes of weights, and the grid that reads them, a launch
    dense: list[Callable[[], Any]]

    @property
    def weight_bytes(self) -> float:
        """Return the bytes of all launches."""
        return sum(nbytes for nbytes, _ in self.reads)


def bytes_of(*shape: int) -> torch.Tensor:
    """Return random bytes, none of them NaN as fp8 or e8m0."""
    return torch.randint(0, 0x78, shape, dtype=torch.uint8, device="cuda")


def build_layer(struct: Any, is_fused: bool) -> Any:
    """Return a layer of the real sizes with random bytes."""
    experts = 129 if is_fused else 128
    vectors = {n: torch.randn(6144, device="cuda").to(BF16) for n in ("g_in", "g_post")}
    vectors |= {n: torch.randn(128, device="cuda").to(BF16) for n in ("g_q", "g_k", "g_iq", "g_ik")}
    fp8, e8m0 = torch.float8_e4m3fn, torch.float8_e8m0fnu
    scales = lambda *shape: torch.randint(115, 122, shape, dtype=torch.uint8, device="cuda").view(e8m0)  # noqa: E731
    shared = dict.fromkeys(("sh_w13", "sh_s13", "sh_w2", "sh_s2"))
    if not is_fused:
        shared = {
            "sh_w13": bytes_of(1536, 6144).view(fp8),
            "sh_s13": scales(1536, 192),
            "sh_w2": bytes_of(6144, 768).view(fp8),
            "sh_s2": scales(6144, 24),
        }
    return struct(
        E=experts,
        POS=4096,
        BLOCKS=4,
        **vectors,
        w_qkv=bytes_of(2560, 6144).view(fp8),
        s_qkv=torch.rand(2560, device="cuda"),
        cos_sin=torch.randn(4096, 64, device="cuda").to(BF16),
        index_cache=bytes_of(4, 128, 128).view(fp8),
        k_scale=torch.ones(1, device="cuda"),
        v_scale=torch.ones(1, device="cuda"),
        w_o=bytes_of(6144, 2048).view(fp8),
        s_o=torch.rand(6144, device="cuda"),
        gate=torch.randn(128, 6144, device="cuda").to(BF16),
        bias=torch.randn(128, device="cuda"),
        w13=bytes_of(experts, 1536, 3072).view(torch.float4_e2m1fn_x2),
        s13=scales(experts, 1536, 192),
        w2=bytes_of(experts, 6144, 384).view(torch.float4_e2m1fn_x2),
        s2=scales(experts, 6144, 24),
        **shared,
    )


def copies(nbytes: int) -> int:
    """Return how many copies of so many bytes make four times the L2."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return max(2, -(-L2_TIMES * l2 // nbytes))


def dense_of(rows: int, k: int, x: torch.Tensor) -> list[Callable[[], Any]]:
    """Return matmuls with dequantized bf16 weights, rotating too."""
    weights = [torch.randn(rows, k, device="cuda").to(BF16) for _ in range(copies(2 * rows * k))]
    return [lambda w=w: torch.matmul(x, w.T) for w in weights]


def work_of(k: Kernels, fused: Any, separate: Any, s: int) -> list[Work]:
    """Return the figures of steps of s tokens."""
    x = torch.randn(s, 6144, device="cuda").to(BF16)
    attn = torch.randn(s, 2048, device="cuda").to(BF16)
    n_qkv, n_o, n_shared = copies(2560 * 6144), copies(6144 * 2048), copies(1536 * 6144 + 6144 * 768)
    qkv = [replace(fused, w_qkv=fused.w_qkv.clone()) for _ in range(n_qkv)]
    o = [replace(fused, w_o=fused.w_o.clone()) for _ in range(n_o)]
    shared = [replace(separate, sh_w13=separate.sh_w13.clone(), sh_w2=separate.sh_w2.clone()) for _ in range(n_shared)]
    rounds = 24  # of ids: the experts of a round are others than those of the last
    ids = [torch.stack([torch.randperm(128)[:4] for _ in range(s)]).int() for _ in range(rounds)]
    distinct = sum(i.unique().numel() + 1 for i in ids) / rounds
    ids = [i.cuda() for i in ids]
    weights = torch.rand(s, 4, device="cuda")
    mids = [k.up_gate(fused, x, i, LIMIT) for i in ids]
    y = min(4 * s, 128) + 1
    up_bytes, down_bytes = 1536 * 3072 + 1536 * 192, 6144 * 384 + 6144 * 24
    shared_up, shared_down = 1536 * 6144 + 1536 * 192, 6144 * 768 + 6144 * 24
    dense_experts = round(distinct)
    for layer in shared:
        k.shared(layer, x, LIMIT)  # reads its table of addresses once, outside the graph
    return [
        Work("qkv", [lambda i=i: k.qkv(i, x, x) for i in qkv], [(2560 * 6144, (160, 1))], dense_of(2560, 6144, x)),
        Work(
            "o_proj",
            [lambda i=i: k.o_proj(i, attn, x) for i in o],
            [(6144 * 2048, (192, 1))],
            dense_of(6144, 2048, attn),
        ),
        Work(
            "shared",
            [lambda i=i: k.shared(i, x, LIMIT) for i in shared],
            [(shared_up, (24, 1)), (shared_down, (192, 1))],
            [
                lambda a=a, b=b: (a(), b())
                for a, b in zip(dense_of(1536, 6144, x), dense_of(6144, 768, x[:, :768].contiguous()), strict=False)
            ],
        ),
        Work(
            "up_gate",
            [lambda i=i: k.up_gate(fused, x, i, LIMIT) for i in ids],
            [(distinct * up_bytes, (24, y))],
            dense_of(1536 * dense_experts, 6144, x),
        ),
        Work(
            "down",
            [lambda i=i, m=m: k.down(fused, *m, i, weights) for i, m in zip(ids, mids, strict=True)],
            [(distinct * down_bytes, (192, 1))],
            dense_of(6144 * dense_experts, 768, x[:, :768].contiguous()),
        ),
    ]


def graph_of(launches: list[Callable[[], Any]]) -> tuple[torch.cuda.CUDAGraph, int]:
    """Return a graph of every launch, twice, and how many that is."""
    for launch in launches[:2]:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [launch() for _ in range(2) for launch in launches]
    return graph, len(kept)


def timed(graph: torch.cuda.CUDAGraph, count: int) -> float:
    """Return the microseconds of a launch."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / count


class Reader:
    """The read kernel, compiled here."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp())
        major, minor = torch.cuda.get_device_capability()
        command = ["nvcc", "-O3", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler", "-fPIC"]
        subprocess.run([*command, ROOT / "tools" / "bench" / "read.cu", "-o", folder / "read.so"], check=True)
        self.handle = ctypes.CDLL(str(folder / "read.so"))
        self.sink = torch.zeros(4, dtype=torch.int32, device="cuda")
        self.pool = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")

    def launches(self, reads: list[tuple[float, tuple[int, int]]]) -> list[Callable[[], Any]]:
        """Return the reads of a stage, each time of other bytes."""
        each = [self._launches(int(nbytes), grid) for nbytes, grid in reads]
        return [lambda launches=launches: [launch() for launch in launches] for launches in zip(*each, strict=False)]

    def _launches(self, nbytes: int, grid: tuple[int, int]) -> list[Callable[[], Any]]:
        """Return reads of so many bytes by one grid."""
        step = nbytes // 16 * 16
        count = min(max(copies(step), 2), self.pool.numel() // step)

        def read(i: int) -> None:
            self.handle.read_bytes(
                ctypes.c_void_p(self.pool.data_ptr() + i * step),
                ctypes.c_longlong(step),
                *grid,
                ctypes.c_void_p(self.sink.data_ptr()),
                ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
            )

        return [lambda i=i: read(i) for i in range(count)]


def main() -> None:
    """Print a row a stage and number of tokens."""
    module = load_generated(ROOT / "generated" / "minimax_m3.py")
    k, reader = load("cuda", header=ROOT / "generated" / "minimax_m3.hpp", defines=tuple(sys.argv[1:])), Reader()
    fused, separate = (build_layer(module.SparseMoeLayer, is_fused) for is_fused in (True, False))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    print("| stage | tokens | MB of weights | us | read / stage | bf16 matmul / stage |")
    print("|---|---|---|---|---|---|")
    for s in (1, 16):
        for work in work_of(k, fused, separate, s):
            graphs = [graph_of(ls) for ls in (work.launches, reader.launches(work.reads), work.dense)]
            turns = [[timed(*graph) for graph in graphs] for _ in range(TURNS)]
            stage, read, dense = (median(column) for column in zip(*turns, strict=True))
            ratios = f"{read / stage:.2f} | {dense / stage:.1f}"
            print(
                f"| {work.name} | {s} | {work.weight_bytes / 1e6:.1f} | {stage:.1f} | {ratios} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
