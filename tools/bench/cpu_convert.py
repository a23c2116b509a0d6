"""What conversions cost on a CPU: `python -m tools.bench.cpu_convert`. Ratios, measured side by side; never a test.

Each figure and its yardstick take turns, outputs reused, with as many threads as torch takes by itself:

pack, fp8 6144 x 8192         against  copy_ of the same bytes               (at least 0.70 of its speed)
pack e8m0_shuffle 6144 x 2048 against  the same order by one torch permute   (at least 5 times as fast)
mxfp8 -> ptpc_fp8 2560 x 6144 against  the same numbers by plain torch       (at least 2 times as fast, in 64 MiB)

In two regimes: each form twenty times in a row before the other has its turn, and once. A first call after 30 ms of
anything else takes about 1 ms longer, which the second regime counts in full.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from mono_gen import runtime
from tools.bench.command import side_by_side
from tools.bench.pack import generated

FN = torch.float8_e4m3fn
ROUNDS = 9
REGIMES = {"in a row": 20, "in turns": 1}
"""Calls of a form before the other has its turn."""


def main() -> None:
    """Print a line a comparison, after holding that both forms give the same bytes."""
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, outputs reused, medians of {ROUNDS}")
    pack_against_copy()
    scales_against_permute()
    requantize_against_torch()


def pack_against_copy() -> None:
    """Print the speed of packing weights over that of a copy."""
    source = torch.randint(0, 256, (6144, 8192), dtype=torch.uint8).view(FN)
    copied, packed = torch.empty_like(source), torch.empty_like(source)
    for module, layout in (("aiter", "shuffle_16x16"), ("minimax_m3", "mxfp8_a_tiles")):
        pack: Callable[..., torch.Tensor] = getattr(generated(module), f"pack_{layout}")
        compare(f"copy_ / pack {layout}", 0.70, lambda: copied.copy_(source), partial(pack, source, out=packed))


def scales_against_permute() -> None:
    """Print the time of the scales' order by one permute over that of the generated function."""
    pack = generated("aiter").pack_e8m0_shuffle
    source = torch.randint(0, 256, (6144, 2048), dtype=torch.uint8)
    permuted = source.view(192, 2, 16, 256, 2, 4).permute(0, 3, 5, 2, 4, 1)
    plain, packed = torch.empty(permuted.shape, dtype=torch.uint8), torch.empty_like(source)
    compare("permute / pack e8m0_shuffle", 5, lambda: plain.copy_(permuted), lambda: pack(source, out=packed))
    hold("e8m0_shuffle", plain, packed)


def requantize_against_torch() -> None:
    """Print the time of the conversion in plain torch over that of the runtime's, and the memory that this takes."""
    codes = torch.randint(0, 256, (2560, 6144), dtype=torch.uint8)
    data = codes.where((codes & 0x7F) != 0x7F, codes ^ 1).view(FN)
    scale = torch.randint(100, 130, (2560, 192), dtype=torch.uint8)
    out = torch.empty_like(data), torch.empty(2560)

    convert = partial(runtime.mxfp8_to_ptpc_fp8, "w", data, scale, dtype=FN, out=out)
    compare("torch / mxfp8 -> ptpc_fp8", 2, lambda: plain_torch(data, scale), convert)
    for wanted, made in zip(plain_torch(data, scale), out, strict=True):
        hold("mxfp8 -> ptpc_fp8", wanted, made)
    print(f"{'memory beyond the output':42} {peak_bytes(convert) / 2**20:5.1f} MiB  at most 64")


def plain_torch(data: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fp8 values and the scales of rows, as a reviewer would write it."""
    wide = data.float().unflatten(-1, (-1, 32)) * torch.exp2(scale.float() - 127).unsqueeze(-1)
    x = wide.flatten(-2).bfloat16().float()
    row_scale = x.abs().amax(dim=-1) * (1 / 448)
    row_scale = torch.where(row_scale == 0, 1.0, row_scale)
    return (x / row_scale.unsqueeze(-1)).to(FN), row_scale


def peak_bytes(run: Callable[[], object]) -> int:
    """Return how far memory rises during a call, by the kernel's own mark: the least of three. Linux with glibc only.

    Pages that the kernel had taken away and a call brings back would count too, hence the least.
    """
    run()
    rises = []
    for _ in range(3):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed would hide what is taken again
        Path("/proc/self/clear_refs").write_text("5")  # the mark falls to what is held now
        before = memory("VmRSS")
        run()
        rises.append(memory("VmHWM") - before)
    return min(rises)


def memory(name: str) -> int:
    """Return a line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def hold(what: str, wanted: torch.Tensor, made: torch.Tensor) -> None:
    """Return nothing where both hold the same bytes; end the process otherwise."""
    if not torch.equal(wanted.flatten().view(torch.uint8), made.flatten().view(torch.uint8)):
        sys.exit(f"{what} and its plain form differ")


def compare(what: str, least: float, yardstick: Callable[[], object], run: Callable[[], object]) -> None:
    """Print the time of a yardstick over that of a call, a line a regime."""
    for regime, calls in REGIMES.items():
        slow, fast = side_by_side(ROUNDS, partial(many, calls, yardstick), partial(many, calls, run))
        times = f"{slow / calls * 1e3:.1f} ms / {fast / calls * 1e3:.1f} ms"
        print(f"{what:30} {regime:10} {slow / fast:6.2f}  ({times}) at least {least}", flush=True)


def many(calls: int, run: Callable[[], object]) -> None:
    """Call so many times."""
    for _ in range(calls):
        run()


if __name__ == "__main__":
    main()
