"""What the runtime costs on a GPU: `python -m tools.bench.device`. Ratios against a clone of the same bytes.

Each figure is the median of CUDA events of both, taken in turns. Bytes count what is read and written.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch

from mono_gen import runtime
from mono_gen.runtime.content import fingerprint
from tools.bench.pack import generated

ROWS, COLUMNS = 32768, 8192
ROUNDS = 15


def main() -> None:
    """Print a ratio a line, and the device."""
    if not torch.cuda.is_available():
        sys.exit("no GPU that torch sees")
    spec, aiter = generated("minimax_m3"), generated("aiter")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, fp8 {ROWS} x {COLUMNS}")
    codes = torch.randint(0, 0x7F, (ROWS, COLUMNS), dtype=torch.uint8, device="cuda")
    data = codes.view(torch.float8_e4m3fn)
    scale = torch.randint(118, 130, (ROWS, COLUMNS // 32), dtype=torch.uint8, device="cuda")
    out, scales_out = torch.empty_like(data), torch.empty_like(scale)
    show("pack shuffle_16x16", data, lambda: aiter.pack_shuffle_16x16(data, out=out))
    show("pack mxfp8_a_tiles", data, lambda: spec.pack_mxfp8_a_tiles(data, out=out))
    show("pack e8m0_shuffle", scale, lambda: aiter.pack_e8m0_shuffle(scale, out=scales_out))
    show("mxfp8 -> bf16 -> ptpc_fp8", data, lambda: runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=data.dtype))
    show("fingerprint", data, lambda: fingerprint(data))


def show(name: str, t: torch.Tensor, run: Callable[[], object]) -> None:
    """Print the time of a clone of t over that of the call: 1 is the speed of copying."""
    clone, mine = in_turns(lambda: t.clone(), run)
    print(f"clone / {name:28} {clone / mine:6.3f}  ({clone:.3f} ms / {mine:.3f} ms)", flush=True)


def in_turns(*runs: Callable[[], object]) -> list[float]:
    """Return the median milliseconds of each call, by events of the current stream."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, column in zip(runs, times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            run()
            end.record()
            end.synchronize()
            column.append(start.elapsed_time(end))
    return [statistics.median(column) for column in times]


if __name__ == "__main__":
    main()
