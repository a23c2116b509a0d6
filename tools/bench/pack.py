"""What packing in the widest unit gains: `python -m tools.bench.pack`. Ratios, measured side by side; never a test.

The generated `pack_X(t, out=...)` against the form that a reviewer would write, bytes permuted into a reused output.
At least 1.6 is asked for, with as many threads as torch takes by itself. Two regimes: each form many times in a row,
and each once after the other, which then finds the caches full of the other's bytes.
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
REGIMES = {"in a row": 20, "in turns": 1}  # calls of a form before the other has its turn

# Layout, its module, and its plain form on fp8: view and permute, in elements.
LAYOUTS = (
    ("shuffle_16x16", "aiter", (ROWS // 16, 16, COLUMNS // 32, 2, 16), (0, 2, 3, 1, 4)),
    ("mxfp8_a_tiles", "minimax_m3", (ROWS // 16, 16, COLUMNS // 128, 2, 4, 16), (0, 2, 4, 1, 3, 5)),
)


def main() -> None:
    """Print a ratio a layout, after holding that both forms give the same bytes."""
    print(f"{torch.get_num_threads()} threads, fp8 {ROWS} x {COLUMNS}")
    bits = torch.arange(ROWS * COLUMNS, dtype=torch.int32).mul_(2654435).bitwise_right_shift_(11)
    source = bits.to(torch.uint8).view(ROWS, COLUMNS).view(torch.float8_e4m3fn)
    for layout, module, view, permute in LAYOUTS:
        pack: Callable[..., torch.Tensor] = getattr(generated(module), f"pack_{layout}")
        packed = pack(source)
        plain_out = torch.empty(ROWS * COLUMNS, dtype=torch.uint8)
        permuted = source.view(torch.uint8).view(view).permute(permute)
        wanted = plain_out.view(permuted.shape)

        wanted.copy_(permuted)
        if not torch.equal(plain_out, packed.view(torch.uint8).flatten()):
            sys.exit(f"pack_{layout} and its plain form differ")
        for regime, calls in REGIMES.items():
            slow, fast = side_by_side(
                9,
                lambda wanted=wanted, permuted=permuted, calls=calls: _many(calls, lambda: wanted.copy_(permuted)),
                lambda pack=pack, packed=packed, calls=calls: _many(calls, lambda: pack(source, out=packed)),
            )
            times = f"{slow / calls * 1e3:.1f} ms / {fast / calls * 1e3:.1f} ms"
            print(f"bytes / pack_{layout:16} {regime:10} {slow / fast:6.2f}  ({times}) at least 1.6", flush=True)


def _many(calls: int, run: Callable[[], object]) -> None:
    for _ in range(calls):
        run()


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
