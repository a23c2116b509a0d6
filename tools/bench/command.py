"""How long the command takes: `python -m tools.bench.command`. Ratios, measured side by side; never a test.

mono-gen check specs          against  python -c "import lark, jinja2, typer, rich"   (at most 3)
generate 1,000 fields         against  generate 100 fields                            (at most 12)
import of a generated module  beyond   import torch                                   (at most 20 ms)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable


def main() -> None:
    """Print the three comparisons."""
    check_against_imports()
    many_fields_against_few()
    import_beyond_torch()


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def side_by_side(rounds: int, *runs: Callable[[], object]) -> list[float]:
    """Return the median time of each run; the runs take turns, so that what else the machine does hits them alike."""
    for run in runs:
        run()
    times = [[seconds(run) for run in runs] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def process(*arguments: str) -> Callable[[], object]:
    """Return a call that runs Python with these arguments, and raises if it fails."""
    return lambda: subprocess.run([PYTHON, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def check_against_imports() -> None:
    """Print the time of `mono-gen check`, a whole process, over that of importing its libraries."""
    libraries, check = side_by_side(
        15, process("-c", "import lark, jinja2, typer, rich"), process("-m", "mono_gen", "check", "specs")
    )
    show(
        "mono-gen check / imports", f"{check / libraries:.2f}", f"{check * 1e3:.0f} ms / {libraries * 1e3:.0f} ms", "3"
    )


def many_fields_against_few() -> None:
    """Print the time to generate a spec of 1,000 fields over that of 100, in this process."""
    from mono_gen.pipeline import generate

    with tempfile.TemporaryDirectory() as folder:
        few, many = (Path(folder) / f"fields_{count}.layout" for count in (100, 1000))
        few.write_text(spec_of("few", 100))
        many.write_text(spec_of("many", 1000))
        short, long = side_by_side(3, lambda: generate([few], {}), lambda: generate([many], {}))
    show("1,000 fields / 100 fields", f"{long / short:.2f}", f"{long * 1e3:.0f} ms / {short * 1e3:.0f} ms", "12")


def spec_of(name: str, fields: int) -> str:
    """Return a spec with a struct of this many fields, of the kinds that the real one has, in turn."""
    kinds: Sequence[str] = (
        "v{i} : bf16[4096] {{ view layer.v{i} }}",
        "w{i}, s{i} : ptpc_fp8[512, 4096] {{\n tile shuffle_16x16\n"
        " convert mxfp8 row_major layer.w{i}, layer.s{i} via bf16\n attest not layer.w{i}.is_shuffled }}",
        "e{i}, f{i} : mxfp4[8, 512, 4096] {{\n segments row = gate:256 up:256\n tile shuffle_16x16\n"
        " scale e8m0_shuffle\n view layer.e{i}, layer.f{i}\n attest shuffle_16x16 when layer.e{i}.is_shuffled }}",
        "g{i} : bf16[128, 4096] {{ tile row_major convert fp32 row_major layer.g{i} }}",
    )
    body = "\n".join(kinds[i % len(kinds)].format(i=i) for i in range(fields))
    return f'spec {name}\narch gfx950\nimport "aiter.layout"\nstruct Layer(layer) {{\n{body}\n}}\n'


def import_beyond_torch() -> None:
    """Print what importing the generated module costs once torch is there; its own process each time."""
    script = (
        "import sys, time, torch, dataclasses; sys.path.insert(0, 'generated'); start = time.perf_counter(); "
        "import minimax_m3; print(time.perf_counter() - start)"
    )
    runs = [subprocess.check_output([PYTHON, "-c", script], cwd=ROOT, text=True) for _ in range(8)]
    show("import minimax_m3 beyond torch", f"{statistics.median(map(float, runs[1:])) * 1e3:.1f} ms", "", "20 ms")


def show(what: str, result: str, times: str, limit: str) -> None:
    """Print one comparison."""
    print(f"{what:32} {result:>8}  {f'({times})' if times else '':24} at most {limit}", flush=True)


if __name__ == "__main__":
    main()
