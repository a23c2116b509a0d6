"""`convert` and `verify`: a checkpoint as kernels read it, and the comparison of it with where it came from."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mono_gen.cli import report
from mono_gen.cli.arguments import parse_overrides
from mono_gen.cli.specs import one_spec
from mono_gen.diagnostics import SpecError

if TYPE_CHECKING:
    from mono_gen.checkpoint.folder import Checkpoint
    from mono_gen.checkpoint.jobs import Work
    from mono_gen.checkpoint.outputs import Advance
    from mono_gen.checkpoint.pieces import Share
    from mono_gen.checkpoint.target import Target

DIFFERS = 1
MAP_SUFFIX = ".map"


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments that `convert` and `verify` share.

    ranks: the ranks to do, and how many there are in all; one of one where nobody speaks of ranks.
    """

    checkpoint: Path
    out: Path
    spec: Path
    struct: str
    map: Path
    layers: tuple[int, ...] | None
    ranks: tuple[int, ...]
    world: int
    overrides: dict[str, int]

    @classmethod
    def of(
        cls,
        checkpoint: Path,
        out: Path,
        spec: str,
        struct: str,
        map_: Path | None,
        layers: str | None,
        rank: int | None,
        world: int | None,
        settings: Sequence[str] | None,
    ) -> Request:
        """Return the request that arguments make, and the ranks that torchrun names in the environment.

        Raises: CommandError.
        """
        file = one_spec(spec, "--spec")
        if not checkpoint.exists():
            raise report.CommandError(f"no such file or folder: '{checkpoint}'")
        if out.resolve() == (checkpoint if checkpoint.is_dir() else checkpoint.parent).resolve():
            raise report.CommandError(f"{out}: the checkpoint itself; name another folder")
        found = file.with_suffix(MAP_SUFFIX) if map_ is None else map_
        if not found.is_file():
            raise report.CommandError(f"no map '{found}': it says which tensors make each source; name one with --map")
        ranks, count = _ranks(rank, world)
        chosen = _layers(layers) if layers is not None else None
        return cls(checkpoint, out, file, struct, found, chosen, ranks, count, parse_overrides(settings or ()))

    def folder(self, rank: int) -> Path:
        """Return the folder of a rank's output."""
        return self.out if self.world == 1 else self.out / f"rank{rank}"


def _ranks(rank: int | None, world: int | None) -> tuple[tuple[int, ...], int]:
    """Return the ranks to do and the number of all: of the options, else of torchrun's environment, else one of one."""
    if rank is None and world is None and os.environ.get("WORLD_SIZE"):
        try:
            rank, world = int(os.environ.get("RANK", "")), int(os.environ["WORLD_SIZE"])
        except ValueError:
            said = f"RANK={os.environ.get('RANK')!r} and WORLD_SIZE={os.environ['WORLD_SIZE']!r}"
            raise report.CommandError(
                f"{said} in the environment: expected two numbers, as torchrun sets them"
            ) from None
    if world is None:
        if rank is not None:
            raise report.CommandError(f"--rank {rank} of how many? say --world-size, too")
        world = 1
    if world < 1 or (rank is not None and not 0 <= rank < world):
        raise report.CommandError(f"--rank {rank} --world-size {world}: expected a rank from 0 to below the world size")
    return (tuple(range(world)) if rank is None else (rank,)), world


def _layers(text: str) -> tuple[int, ...]:
    """Return the numbers of `3-5,8`."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise report.CommandError(f"--layers {text}: expected numbers and ranges, such as 3-5 or 3-5,8")
        numbers.update(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(numbers))


def convert(request: Request, resume: bool) -> int:
    """Return the exit code, after the checkpoint of each rank was written."""
    return _for_each_rank(request, lambda job: _convert(request, job, resume))


def verify(request: Request, sample: int | None) -> int:
    """Return the exit code, after each rank's output was compared; sample None compares every byte."""
    if sample is not None and sample < 1:
        raise report.CommandError(f"--sample {sample}: expected at least 1 row")
    return _for_each_rank(request, lambda job: _verify(request, job, sample))


@dataclass(frozen=True, slots=True)
class RankJob:
    """What is to be done for one rank."""

    checkpoint: Checkpoint
    target: Target
    work: Work
    share: Share
    map_digest: str
    out: Path


def _for_each_rank(request: Request, do: Callable[[RankJob], int]) -> int:
    """Return the largest exit code, after everything was planned, for all ranks, and then done."""
    from hashlib import blake2b

    from mono_gen.checkpoint.folder import open_checkpoint
    from mono_gen.checkpoint.jobs import plan_work
    from mono_gen.checkpoint.names import read_map
    from mono_gen.checkpoint.pieces import Share
    from mono_gen.checkpoint.problems import Refused
    from mono_gen.checkpoint.target import find_target, require_map
    from mono_gen.pipeline import OverrideError

    gc.enable()  # this command is not short
    try:
        target = find_target(request.spec, request.struct, request.overrides)
        names = read_map(request.map)
        require_map(target, names.path, names.lines)
        checkpoint = open_checkpoint(request.checkpoint)
        digest = blake2b(request.map.read_bytes(), digest_size=8).hexdigest()
        planned = []
        for rank in request.ranks:
            share = Share(rank, request.world)
            work = plan_work(checkpoint, target, names, share, request.layers)
            planned.append(RankJob(checkpoint, target, work, share, digest, request.folder(rank)))
        return max(do(job) for job in planned)
    except SpecError as error:
        report.diagnostics(error.diagnostics, "full")
        return report.SPEC_WRONG
    except OverrideError as error:
        raise report.CommandError(str(error)) from error
    except Refused as refusal:
        report.refuse(str(refusal))
        return refusal.code


def _convert(request: Request, job: RankJob, resume: bool) -> int:
    from mono_gen.checkpoint.convert import convert
    from mono_gen.checkpoint.outputs import plan_outputs

    total = sum(shard.data_bytes for shard in plan_outputs(job.checkpoint, job.target.name, job.work.jobs))
    with (
        _progress(f"converting{_of_rank(job)}", total, job.share.rank, in_bytes=True) as advance,
        _said_what_stays(job.out),
    ):
        done = convert(job.checkpoint, job.target, job.work, job.share, job.map_digest, job.out, resume, advance)
    kept = f" ({done.kept} were there)" if done.kept else ""
    lines = [
        f"{job.out}: {report.count(done.shards, 'file')}{kept}, {done.nbytes:,} bytes; "
        f"{report.count(done.converted, 'tensor')} of {_layers_text(job)} converted, {done.copied} copied\n"
    ]
    if job.work.left and job.share.rank == request.ranks[-1]:
        lines.append(
            f"left to the serving process, no tensor of the checkpoint makes them: {', '.join(job.work.left)}\n"
        )
    report.out("".join(lines))
    return report.FINE


def _verify(request: Request, job: RankJob, sample: int | None) -> int:
    from mono_gen.checkpoint.outputs import plan_outputs
    from mono_gen.checkpoint.verify import verify

    total = sum(len(s.tensors) for s in plan_outputs(job.checkpoint, job.target.name, job.work.jobs))
    with _progress(f"comparing{_of_rank(job)}", total, job.share.rank, in_bytes=False) as advance:
        found = verify(job.checkpoint, job.target, job.work, job.share, job.out, sample, advance)
    how = "every byte" if sample is None else f"a sample of {found.nbytes:,} bytes"
    if not found.differences:
        report.out(
            f"{job.out}: {report.count(found.tensors, 'tensor')} as {job.checkpoint.folder} makes them, by {how}\n"
        )
        return report.FINE
    lines = [f"{name}: {what}\n" for name, what in found.differences[: report.DIFF_LINES]]
    more = len(found.differences) - len(lines)
    lines += [f"and {more} more\n"] if more else []
    lines.append(f"{job.out}: {report.count(len(found.differences), 'difference')}, by {how}\n")
    report.out("".join(lines))
    return DIFFERS


@contextmanager
def _said_what_stays(out: Path) -> Iterator[None]:
    """Return a context that says, when it ends badly, that files of this run are kept, which `--resume` takes."""
    before = _whole_files(out)
    try:
        yield
    except BaseException:
        if _whole_files(out) - before:
            report.err(f"{out}: the files that are whole stay; --resume goes on with the others\n")
        raise


def _whole_files(out: Path) -> frozenset[str]:
    return frozenset(p.name for p in out.glob("*.safetensors"))


def _of_rank(job: RankJob) -> str:
    return "" if job.share.world == 1 else f" rank {job.share.rank} of {job.share.world}"


def _layers_text(job: RankJob) -> str:
    return report.count(len(job.work.layers), "layer")


@contextmanager
def _progress(what: str, total: int, rank: int, in_bytes: bool) -> Iterator[Advance]:
    """Return a context with a function that moves a bar on; a bar on a terminal alone, and the first rank's."""
    if sys.stderr is None or not sys.stderr.isatty() or (rank and "LOCAL_RANK" in os.environ):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counted = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *counted, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
