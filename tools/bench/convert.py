"""What `mono-gen convert` costs beside a copy: `python -m tools.bench.convert [FOLDER]`. Ratios, measured side by side.

A checkpoint of one layer of the size of a TP4 rank, its 128 experts 0.94 of its bytes, on the disk of FOLDER (a
temporary one). Copied file by file with the converter's own buffer size, each file synchronised, and converted by the
engine in this process, in turns, the input in the page cache. At least 0.5 of the copy's speed is asked for. Then what
the parts cost, each for itself: nothing is written there.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import save_file

from mono_gen.checkpoint.convert import convert
from mono_gen.checkpoint.folder import Checkpoint, open_checkpoint
from mono_gen.checkpoint.jobs import Work, plan_work
from mono_gen.checkpoint.names import read_map
from mono_gen.checkpoint.pieces import Share
from mono_gen.checkpoint.reading import BLOCK_BYTES, Reader, read_sources
from mono_gen.checkpoint.target import Target, find_target
from mono_gen.runtime.content import Running, unread

ROOT = Path(__file__).parents[2]
HIDDEN, INTER, EXPERTS, Q_ROWS, HEAD = 6144, 768, 128, 2048, 128
ROUNDS = 9
ALONE = Share(0, 1)


def build(folder: Path) -> None:
    """Write the checkpoint: four files of experts, one of the rest."""
    generator = torch.Generator().manual_seed(7)

    def some(rows: int, k: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
        codes = torch.randint(0, 0x78, (rows, k), dtype=torch.uint8, generator=generator)
        return codes.view(dtype)

    rest = {
        "input_layernorm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
        "post_attention_layernorm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
        "block_sparse_moe.gate.weight": torch.randn(EXPERTS, HIDDEN, generator=generator),
        "block_sparse_moe.e_score_correction_bias": torch.randn(EXPERTS, generator=generator),
    }
    rest |= {
        f"self_attn.{n}_norm.weight": torch.ones(HEAD, dtype=torch.bfloat16) for n in ("q", "k", "index_q", "index_k")
    }
    linears = {
        "self_attn.q_proj": (Q_ROWS, HIDDEN),
        **{f"self_attn.{n}_proj": (HEAD, HIDDEN) for n in ("k", "v", "index_q", "index_k")},
        "self_attn.o_proj": (HIDDEN, Q_ROWS),
        **{f"block_sparse_moe.shared_experts.{n}_proj": (INTER, HIDDEN) for n in ("gate", "up")},
        "block_sparse_moe.shared_experts.down_proj": (HIDDEN, INTER),
    }
    for name, (rows, k) in linears.items():
        rest[f"{name}.weight"] = some(rows, k, torch.float8_e4m3fn)
        rest[f"{name}.weight_scale_inv"] = some(rows, k // 32)
    prefix = "model.layers.3."
    kept = {"model.embed_tokens.weight": torch.ones(2000, HIDDEN, dtype=torch.bfloat16)}
    save_file({**{prefix + n: t for n, t in rest.items()}, **kept}, folder / "model-00005-of-00005.safetensors")
    for file in range(4):
        experts = {}
        for expert in range(file * EXPERTS // 4, (file + 1) * EXPERTS // 4):
            for name, rows, k in (("w1", INTER, HIDDEN), ("w2", HIDDEN, INTER), ("w3", INTER, HIDDEN)):
                experts[f"{prefix}block_sparse_moe.experts.{expert}.{name}.weight"] = some(rows, k // 2)
                experts[f"{prefix}block_sparse_moe.experts.{expert}.{name}.weight_scale"] = some(rows, k // 32)
        save_file(experts, folder / f"model-{file + 1:05}-of-00005.safetensors")


def copy(source: Path, target: Path) -> None:
    """Copy the files of a folder with the converter's buffer, each on the disk before the next."""
    target.mkdir()
    buffer = memoryview(bytearray(BLOCK_BYTES))
    for path in sorted(source.iterdir()):
        with open(path, "rb", buffering=0) as read, open(target / path.name, "wb", buffering=0) as write:
            while count := read.readinto(buffer):
                write.write(buffer[:count])
            os.fsync(write.fileno())


def side_by_side(out: Path, rounds: int, *runs: Callable[[], object]) -> list[float]:
    """Return the median time of each run; they take turns, and each finds the memory that the one before gave back."""
    times = []
    for _ in range(rounds + 1):
        row = []
        for run in runs:
            start = time.perf_counter()
            run()
            row.append(time.perf_counter() - start)
            shutil.rmtree(out)
        times.append(row)
    return [statistics.median(column) for column in zip(*times[1:], strict=True)]  # the first fills the page cache


def parts(checkpoint: Checkpoint, target: Target, work: Work, nbytes: int) -> None:
    """Print what reading, converting and hashing cost, for each group of fields."""
    groups: dict[str, list[float]] = {}
    with Reader(checkpoint) as reader:
        for job in work.jobs:
            is_requantized = "quantize" in job.field.loader.fields[0].plan
            group = "requantized" if is_requantized else "experts packed" if job.field.items else "packed or copied"
            found = groups.setdefault(group, [0.0, 0.0, 0.0, 0.0])
            step = 3 if job.field.items else 1
            buffers: list[torch.Tensor] = []
            for first in range(0, job.items, step):
                count = min(step, job.items - first)
                begin = time.perf_counter()
                sources = read_sources(reader, job, ALONE, first, count, buffers)
                read = time.perf_counter()
                names = (source.local for source in job.field.sources)
                with unread():
                    loaded = job.field.loader.from_layer(SimpleNamespace(**dict(zip(names, sources, strict=True))))
                converted = time.perf_counter()
                made = [getattr(loaded, m.info.name) for m in job.field.made]
                for t in made:
                    Running().add(t)
                found[0] += sum(t.nbytes for t in made)
                found[1] += read - begin
                found[2] += converted - read
                found[3] += time.perf_counter() - converted
    for group, (size, read_s, convert_s, hash_s) in groups.items():
        speeds = ", ".join(
            f"{what} {size / seconds / 1e9:.2f} GB/s"
            for what, seconds in (("read", read_s), ("convert", convert_s), ("hash", hash_s))
        )
        print(f"  {group:18} {size / nbytes:6.1%} of the bytes: {speeds}")


def main() -> None:
    """Print the ratio, and the parts."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        build(folder / "in")
        checkpoint = open_checkpoint(folder / "in")
        target = find_target(ROOT / "specs" / "minimax_m3.layout", "SparseMoeLayer", {})
        work = plan_work(checkpoint, target, read_map(ROOT / "specs" / "minimax_m3.map"), ALONE, None)
        nbytes = sum(shard.size for shard in checkpoint.shards.values())
        print(f"{nbytes / 1e9:.2f} GB in {len(checkpoint.shards)} files, {torch.get_num_threads()} threads, {folder}")
        out = folder / "out"
        fast, slow = side_by_side(
            out,
            ROUNDS,
            lambda: copy(folder / "in", out),
            lambda: convert(checkpoint, target, work, ALONE, "", out, False, lambda _: None),
        )
        times = f"{fast:.2f} s, {nbytes / fast / 1e9:.2f} GB/s / {slow:.2f} s, {nbytes / slow / 1e9:.2f} GB/s"
        print(f"copy / convert {fast / slow:6.2f}  ({times}) at least 0.5", flush=True)
        parts(checkpoint, target, work, nbytes)


if __name__ == "__main__":
    main()
