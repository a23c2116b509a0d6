"""Every measurement that this machine can make, one after another: `python -m tools.bench`, which `make bench` runs."""

from __future__ import annotations

import subprocess
import sys

import torch

CPU = ("cpu_convert", "command", "identity", "convert")
GPU = ("gpu_convert", "stages")


def main() -> int:
    """Return 0 where every measurement ran."""
    failed = 0
    for name in (*CPU, *(GPU if torch.cuda.is_available() else ())):
        print(f"\n## python -m tools.bench.{name}\n", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"tools.bench.{name}"], check=False).returncode
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
