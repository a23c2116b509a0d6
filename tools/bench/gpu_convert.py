"""What converters and hashes cost on a GPU: `python -m tools.bench.gpu_convert`. Each figure beside a copy, in one run.

A figure is the yardstick's time over ours: medians of CUDA events, the two taken in turns over rotating buffers, the
host ahead of the device. `--sweep` tries other shapes of programs; `--json` prints a row a line as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from mono_gen import runtime
from mono_gen.frozen import frozen
from mono_gen.runtime import Storage, gpu_content, gpu_moves, gpu_values
from mono_gen.runtime.boxes import plan_boxes
from mono_gen.runtime.content import fingerprint
from mono_gen.runtime.gpu_values import Split, plan_split
from mono_gen.runtime.places import plan_places
from tools.bench.pack import generated

FN, U8 = torch.float8_e4m3fn, torch.uint8
ROUNDS = 25
AHEAD_CYCLES = 4_000_000  # what the device waits for a round to be enqueued, about 2 ms
W13, SCALES = (129, 1536, 3072), (129, 1536, 768)
LARGE, SMALL = (32768, 8192), (2560, 6144)
Call = Callable[[], object]


@frozen
class Row:
    """A figure: times in ms, the ratio yardstick / ours, what is asked for, and the call's time on the host in us."""

    work: str
    yardstick: str
    yardstick_ms: float
    ours_ms: float
    ratio: float
    ask: str
    host_us: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no GPU that torch sees")
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}", flush=True)
    if options.sweep:
        sweep()
        return
    if not options.json:
        print("| work | yardstick | yardstick / ours | asked for | times | host |\n|---|---|---|---|---|---|")
    for measure in (packs, requantize_large, requantize_small, values, hashes, layers):
        for row in measure():
            print(as_json(row) if options.json else as_markdown(row), flush=True)
        torch.cuda.empty_cache()


def as_json(row: Row) -> str:
    """Return the row as one JSON object."""
    return json.dumps({name: getattr(row, name) for name in Row.__match_args__})


def as_markdown(row: Row) -> str:
    """Return the row as a line of the table."""
    times = f"{row.yardstick_ms:.3f} ms / {row.ours_ms:.3f} ms"
    return f"| {row.work} | {row.yardstick} | {row.ratio:.3f} | {row.ask} | {times} | {row.host_us:.0f} us |"


def compare(work: str, yardstick: str, ask: str, theirs: Sequence[Call], ours: Sequence[Call]) -> Row:
    """Return the figure of calls that rotate over buffers."""
    slow, fast = in_turns(theirs, ours)
    host = []
    for call in ours[:1] * 20:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        host.append((time.perf_counter() - begun) * 1e6)
    torch.cuda.synchronize()
    return Row(work, yardstick, slow, fast, slow / fast, ask, statistics.median(host))


def in_turns(*rows: Sequence[Call]) -> list[float]:
    """Return the median milliseconds of each row's calls, which take turns and rotate, the first of each unmeasured."""
    for calls in rows:
        for call in calls:
            call()
    torch.cuda.synchronize()
    times: list[list[float]] = [[] for _ in rows]
    for turn in range(ROUNDS):
        torch.cuda._sleep(AHEAD_CYCLES)
        marks = []
        for calls in rows:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            calls[turn % len(calls)]()
            end.record()
            marks.append((start, end))
        torch.cuda.synchronize()
        for (start, end), column in zip(marks, times, strict=True):
            column.append(start.elapsed_time(end))
    return [statistics.median(column) for column in times]


def some(shape: Sequence[int], dtype: torch.dtype = U8, below: int = 0x7F, least: int = 0) -> torch.Tensor:
    """Return random bytes on the device."""
    return torch.randint(least, below, tuple(shape), dtype=U8, device="cuda").view(dtype)


def packs() -> list[Row]:
    """Return the figures of byte moves, and of a shape that they are also asked to undo."""
    spec, aiter = generated("minimax_m3"), generated("aiter")
    rows = []
    for work, ask, pack, shape, dtype in (
        ("pack w13 shuffle_16x16, 129 x 1536 x 3072 B", "0.92", aiter.pack_shuffle_16x16, W13, U8),
        ("pack mxfp8_a_tiles, 32768 x 8192", "0.92", spec.pack_mxfp8_a_tiles, LARGE, FN),
        ("pack e8m0_shuffle, 129 x 1536 x 768 (152 MB)", "0.85", aiter.pack_e8m0_shuffle, SCALES, U8),
        ("pack e8m0_shuffle, rows of 1500 padded", "", aiter.pack_e8m0_shuffle, (129, 1500, 768), U8),
        ("pack page16_v (transposed), bf16 65536 x 128 x 16", "", spec.pack_page16_v, (65536, 128, 16), torch.bfloat16),
    ):
        pairs = []
        for _ in range(2):
            t = some((*shape[:-1], shape[-1] * dtype.itemsize), dtype)
            pairs.append((t, pack(t), torch.empty_like(t)))
        ours = [partial(pack, t, out=out) for t, out, _ in pairs]
        theirs = [partial(copy.view(U8).copy_, t.view(U8)) for t, _, copy in pairs]
        rows.append(compare(work, "copy_", ask, theirs, ours))
    t = some(W13)
    packed = aiter.pack_shuffle_16x16(t)
    copied = torch.empty_like(t)
    ours = [partial(aiter.unpack_shuffle_16x16, packed, W13)]
    rows.append(compare("unpack w13 shuffle_16x16, fresh output", "copy_", "", [partial(copied.copy_, t)], ours))
    return rows


def tile_storage(rows: int, k: int) -> Storage:
    """Return shuffle_16x16 of fp8."""
    return generated("aiter").storage_shuffle_16x16("bench", 8, rows, k)


def requantize_large() -> list[Row]:
    """Return the figures of mxfp8 -> bf16 -> ptpc_fp8 -> shuffle_16x16, and of its memory beyond the output."""
    storage, layout = tile_storage(*LARGE), generated("aiter").LAYOUTS["shuffle_16x16"]
    data, scale = some(LARGE, FN), some((LARGE[0], LARGE[1] // 32), below=130, least=118)
    out = torch.empty_like(data), torch.empty(LARGE[0], device="cuda")
    copied = torch.empty_like(data)
    ours = partial(runtime.mxfp8_to_packed_ptpc_fp8, "w", layout, data, scale, dtype=FN, out=out)
    kernel = partial(launch, data, scale, out, storage, None)
    ours()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ours()
    beyond = torch.cuda.max_memory_allocated() - before
    copies = [partial(copied.view(U8).copy_, data.view(U8))]
    work = "mxfp8 -> bf16 -> ptpc_fp8 -> shuffle_16x16, 32768 x 8192"
    return [
        compare(work, "copy_ of the weight", "0.50", copies, [ours]),
        compare(f"{work}, its kernel", "copy_ of the weight", "", copies, [kernel]),
        Row(f"{work}, MiB beyond the output", "-", 0.0, 0.0, beyond / 2**20, "at most 64", 0.0),
    ]


def launch(
    data: torch.Tensor,
    scale: torch.Tensor,
    out: tuple[torch.Tensor, torch.Tensor],
    storage: Storage,
    split: Split | None,
    **options: Any,
) -> None:
    """Launch the kernel alone: no checks, no verdict."""
    places = plan_places(1, storage.extents, storage.padded, storage.view, storage.permute)
    if places is None:
        raise AssertionError(storage)
    settings: dict[str, Any] = {"fnuz": False, "fast": True, "ptx": True, "split": split, **options}
    gpu_values.mxfp8_to_ptpc(data, scale, *out, places, 1 / 448, **settings)


def eager(data: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same conversion as torch's own operations make it: float arithmetic, whole tensors."""
    rows, k = data.shape
    power = torch.exp2(scale.float() - 127).unsqueeze(-1)
    x = (data.float().view(rows, k // 32, 32) * power).view(rows, k).to(torch.bfloat16).float()
    q_scale = x.abs().amax(-1) * (1 / 448)
    q_scale.masked_fill_(q_scale == 0, 1.0)
    q = (x / q_scale.unsqueeze(-1)).to(FN)
    packed = q.view(U8).view(rows // 16, 16, k // 32, 2, 16).permute(0, 2, 3, 1, 4).contiguous().view(rows, k)
    return packed.view(FN), q_scale


def requantize_small() -> list[Row]:
    """Return the figure of a layer's own projection against eager torch."""
    storage = tile_storage(*SMALL)
    ours: list[Call] = []
    theirs: list[Call] = []
    kernels: list[Call] = []
    for _ in range(8):  # 8 x 31 MiB: several times the L2
        data, scale = some(SMALL, FN), some((SMALL[0], SMALL[1] // 32), below=130, least=118)
        out = torch.empty_like(data), torch.empty(SMALL[0], device="cuda")
        ours.append(partial(runtime.mxfp8_to_ptpc_fp8, "w", data, scale, dtype=FN, storage=storage, out=out))
        kernels.append(partial(launch, data, scale, out, storage, None))
        theirs.append(partial(eager, data, scale))
    wanted, got = eager(data, scale), runtime.mxfp8_to_ptpc_fp8("w", data, scale, dtype=FN, storage=storage)
    if not all(torch.equal(a.view(U8), b.view(U8)) for a, b in zip(wanted, got, strict=True)):
        print("eager torch gives other bytes", file=sys.stderr)
    work = "the same, 2560 x 6144"
    return [
        compare(work, "eager torch", "8", theirs, ours),
        compare(f"{work}, its kernel", "eager torch", "", theirs, kernels),
    ]


def values() -> list[Row]:
    """Return the figures of the other value changes, against a copy that moves as many bytes."""
    data, scale = some(LARGE, FN), some((LARGE[0], LARGE[1] // 32), below=130, least=118)
    fp32 = torch.randn(128 << 20, device="cuda")
    rows = []
    for work, nbytes, call in (
        (
            "dequantize mxfp8 -> bf16, 32768 x 8192",
            3 * data.nbytes,
            partial(runtime.dequantize_mxfp8, "w", data, scale),
        ),
        ("cast fp32 -> bf16, 128 Mi", fp32.nbytes * 3 // 2, partial(runtime.cast_bf16, "w", fp32)),
    ):
        a, b = (torch.zeros(nbytes // 2, dtype=U8, device="cuda") for _ in range(2))
        rows.append(compare(work, "copy_ of as many bytes", "", [partial(b.copy_, a)], [call]))
    return rows


def hashes() -> list[Row]:
    """Return the figures of fingerprints."""
    t, copied = some(W13), torch.empty(W13, dtype=U8, device="cuda")
    theirs = [partial(copied.copy_, t)]
    return [
        compare("content hash of w13", "copy_", "0.8", theirs, [partial(fingerprint, t)]),
        compare("samples of w13's items", "copy_", "", theirs, [partial(fingerprint, t, 129, sampled=True)]),
    ]


def layers() -> list[Row]:
    """Return the figure of a whole layer's verification: all its bytes, one wait."""
    from tools.bench.identity import layer

    struct = generated("minimax_m3").SparseMoeLayer.from_layer(layer())
    tensors = [t for t in (getattr(struct, name) for name in struct.tensors) if t is not None]
    a, b = (torch.zeros(sum(t.nbytes for t in tensors), dtype=U8, device="cuda") for _ in range(2))
    work = f"verify_all of a layer, {a.nbytes / 1e6:.0f} MB"
    return [compare(work, "copy_ of its bytes", "", [partial(b.copy_, a)], [partial(runtime.verify_all, (struct,))])]


def sweep() -> None:
    """Print the figures of other boxes, splits and parts, against a copy."""
    for name, shape, view, permute in (
        ("w13", W13, (96, 16, 96, 2, 16), (0, 2, 3, 1, 4)),
        ("a_tiles", (1, *LARGE), (2048, 16, 64, 2, 4, 16), (0, 2, 4, 1, 3, 5)),
        ("e8m0", SCALES, (48, 2, 16, 96, 2, 4), (0, 3, 5, 2, 4, 1)),
    ):
        t = some(shape).view(-1)
        out, copied = torch.empty_like(t), torch.empty_like(t)
        for box_bytes in (4096, 8192, 16384, 32768):
            for warps in (2, 4, 8):
                boxes = plan_boxes(shape[0], Storage(shape[1:], shape[1:], view, permute), 8, 16, False, box_bytes)
                if boxes is None:
                    raise AssertionError(name)
                call = partial(gpu_moves.move, t, out, boxes, 0, unpacks=False, warps=warps)
                theirs, ours = in_turns([partial(copied.copy_, t)], [call])
                print(
                    f"{name:8} box {box_bytes:6} warps {warps}: {theirs / ours:.3f} ({theirs:.3f} / {ours:.3f})",
                    flush=True,
                )
    for shape in (LARGE, SMALL):
        sweep_splits(shape)
    t, copied = some(W13), torch.empty(W13, dtype=U8, device="cuda")
    for part, step, warps in (
        (8192, 1024, 4),
        (8192, 512, 4),
        (16384, 1024, 4),
        (32768, 1024, 4),
        (8192, 2048, 8),
        (4096, 1024, 4),
    ):
        gpu_content.PART_WORDS, gpu_content.STEP_WORDS, gpu_content.WARPS = part, step, warps
        theirs, ours = in_turns([partial(copied.copy_, t)], [partial(fingerprint, t)])
        print(
            f"hash part {part} step {step} warps {warps}: {theirs / ours:.3f} ({theirs:.3f} / {ours:.3f})", flush=True
        )


def sweep_splits(shape: tuple[int, int]) -> None:
    """Print the figures of the requantizing kernel for other splits."""
    data, scale = some(shape, FN), some((shape[0], shape[1] // 32), below=130, least=118)
    out = torch.empty_like(data), torch.empty(shape[0], device="cuda")
    copied = torch.empty_like(data)
    blocks = shape[1] // 32
    whole = blocks & -blocks
    splits = [plan_split(blocks)]
    for rows in (2, 4, 8, 16):
        splits += [Split(rows, whole, blocks // whole, warps) for warps in (4, 8, 16)]
        splits += [Split(rows, size, 0, warps) for size in (64, 128) if blocks % size == 0 for warps in (4, 8)]
    for split in splits:
        if split.chunks and split.rows * blocks * 8 // (32 * split.warps) > 64:
            continue
        call = partial(launch, data, scale, out, tile_storage(*shape), split)
        theirs, ours = in_turns([partial(copied.view(U8).copy_, data.view(U8))], [call])
        print(f"ptpc {shape} {split}: {theirs / ours:.3f} ({theirs:.3f} / {ours:.3f})", flush=True)


if __name__ == "__main__":
    main()
