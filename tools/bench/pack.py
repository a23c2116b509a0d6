"""What packing in the widest unit gains: `python -m tools.bench.pack`. Ratios, measured side by side; never a test.

The generated `pack_X(t, out=...)` against the form that a reviewer would write, bytes permuted into a reused output.
At least 1.6 is asked for, on one thread: with more, memory or whatever else runs here decides.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from tools.bench.command import side_by_side

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS = 6144, 8192
CALLS = 5  # in a row: each form finds the caches as it left them

# Layout, its module, and its plain form on fp8: view and permute, in elements.
LAYOUTS = (
    ("shuffle_16x16", "aiter", (ROWS // 16, 16, COLUMNS // 32, 2, 16), (0, 2, 3, 1, 4)),
    ("mxfp8_a_tiles", "minimax_m3", (ROWS // 16, 16, COLUMNS // 128, 2, 4, 16), (0, 2, 4, 1, 3, 5)),
)


def main() -> None:
    """Print a ratio a layout, after holding that both forms give the same bytes."""
    torch.set_num_threads(1)
    bits = torch.arange(ROWS * COLUMNS, dtype=torch.int32).mul_(2654435).bitwise_right_shift_(11)
    source = bits.to(torch.uint8).view(ROWS, COLUMNS).view(torch.float8_e4m3fn)
    for layout, module, view, permute in LAYOUTS:
        pack: Callable[..., torch.Tensor] = getattr(generated(module), f"pack_{layout}")
        packed = pack(source)
        plain_out = torch.empty(ROWS * COLUMNS, dtype=torch.uint8)
        permuted = source.view(torch.uint8).view(view).permute(permute)
        wanted = plain_out.view(permuted.shape)

        def plain(wanted: torch.Tensor = wanted, permuted: torch.Tensor = permuted) -> None:
            for _ in range(CALLS):
                wanted.copy_(permuted)

        def widest(pack: Callable[..., torch.Tensor] = pack, packed: torch.Tensor = packed) -> None:
            for _ in range(CALLS):
                pack(source, out=packed)

        plain()
        if not torch.equal(plain_out, packed.view(torch.uint8).flatten()):
            sys.exit(f"pack_{layout} and its plain form differ")
        slow, fast = side_by_side(9, plain, widest)
        times = f"{slow / CALLS * 1e3:.1f} ms / {fast / CALLS * 1e3:.1f} ms"
        print(f"bytes / pack_{layout:20} {slow / fast:8.2f}  ({times}) at least 1.6", flush=True)


def generated(name: str) -> ModuleType:
    """Return a module of generated/."""
    path = ROOT / "generated" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{path} is missing: run `make generate`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
