"""What the ledger and the checks of a loaded layer cost: `python -m tools.bench.identity`. Never a test.

A layer of the real shapes with its 24 tensors and both tables. On a machine with a GPU the layer lies there, and the
structure check runs with torch's synchronisations made errors.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import torch

from mono_gen import runtime
from tests.end_to_end.light_layer import PATHS, at, light_layer, put, specimens
from tools.bench.command import show
from tools.bench.pack import generated

RECORDS = 10_000


def main() -> None:
    """Print each cost beside its limit."""
    module = generated("minimax_m3")
    struct = module.SparseMoeLayer.from_layer(layer())
    extra = torch.zeros(64, dtype=torch.uint8, device=struct.w13.device)
    tables = struct.k1_args(extra, extra, extra), struct.sh_args()

    def structure() -> None:
        runtime.recheck(struct)
        for table in tables:
            runtime.recheck_table(table)

    if torch.cuda.is_available():
        torch.cuda.set_sync_debug_mode("error")
    show("structure of 24 tensors, 2 tables", f"{median_s(structure) * 1e3:.3f} ms", "", "0.3 ms")
    if torch.cuda.is_available():
        torch.cuda.set_sync_debug_mode("default")
    begun = time.perf_counter()
    runtime.verify_all((struct,))
    show("content of the same layer", f"{(time.perf_counter() - begun) * 1e3:.0f} ms", "", "no limit")
    live = [torch.zeros(16, 32, dtype=torch.uint8) for _ in range(RECORDS)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for t in live:
        runtime.attest(t, "shuffle_16x16")
    cost = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    show("10,000 live records", f"{cost / 1e6:.1f} MB", "", "10 MB")
    show("a lookup among them", f"{median_s(lambda: runtime.record_of(live[7])) * 1e6:.1f} us", "", "5 us")
    show("a lookup of one expert", f"{median_s(lambda: runtime.record_of(struct.w13[3])) * 1e6:.1f} us", "", "5 us")


def layer() -> Any:
    """Return a layer of the real shapes, on the GPU where there is one."""
    found = light_layer(specimens(128))
    if torch.cuda.is_available():
        for name, path in PATHS.items():
            t = at(found, path).detach().cuda()
            if name in ("w13", "w2"):
                t.is_shuffled = True
            put(found, path, t)
    return found


def median_s(call: Callable[[], object]) -> float:
    """Return the median time of a call, in seconds, after some to warm up."""
    times = []
    for turn in range(1200):
        begun = time.perf_counter()
        call()
        if turn >= 200:
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()
