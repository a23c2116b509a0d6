"""`convert` and `verify` as a user runs them: whole processes, real names, and everything that may be in the way."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from mono_gen.checkpoint.shards import header_bytes
from tests.checkpoint import made
from tests.end_to_end.commands import ROOT, as_anybody, run_all

STRUCT = ("--struct", "SparseMoeLayer")
FIRST = "model-00001-of-00004.safetensors"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_spec(tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "in")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", **more}


def mono_gen(
    *arguments: object, limit: Callable[[], None] | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mono_gen", *map(str, arguments)]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, check=False, preexec_fn=limit
    )


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_all_ranks_one_after_another_and_the_comparison(folder: Path, spec: Path, tmp_path: Path) -> None:
    before = files(folder)
    arguments = ("--spec", str(spec), *STRUCT, "--world-size", "4")
    out = tmp_path / "out"
    compare = ("verify", str(folder), str(out), *arguments)
    converted, compared = run_all(
        [("convert", str(folder), *arguments, "-o", str(out)), (*compare, "--whole")], tmp_path, tmp_path
    )
    assert (converted.code, converted.err) == (0, "")
    lines = converted.out.splitlines()
    assert len(lines) == 5
    for rank, line in enumerate(lines[:4]):
        assert line.startswith(f"{out}/rank{rank}: 4 files, ")
        assert line.endswith("bytes; 40 tensors of 2 layers converted, 5 copied")
    left = "cos_sin, index_cache, k_scale, v_scale"
    assert lines[4] == f"left to the serving process, no tensor of the checkpoint makes them: {left}"
    assert sorted(p.name for p in out.iterdir()) == ["rank0", "rank1", "rank2", "rank3"]
    assert files(folder) == before
    assert (compared.code, compared.err) == (0, "")
    assert compared.out.splitlines()[3] == f"{out}/rank3: 45 tensors as {folder} makes them, by every byte"

    path = out / "rank2" / FIRST
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (tmp_path / "specs").symlink_to(spec.parent)
    by_name = ("verify", str(folder), str(out), "--spec", "minimax_m3", *STRUCT, "--world-size", "4")
    again = ("convert", str(folder), *arguments, "-o", str(out))
    whole, one_rank, anew = run_all(
        [(*compare, "--whole"), (*by_name, "--rank", "1", "--sample", "4"), again], tmp_path, tmp_path
    )
    assert (whole.code, one_rank.code) == (1, 0)
    assert anew.code == 2 and len(anew.err.splitlines()) == 1 and "not empty: it holds" in anew.err
    wrong = [line for line in whole.out.splitlines() if ": byte " in line]
    assert len(wrong) == 1 and "expected 0x" in wrong[0] and "row " in wrong[0]
    assert f"{out}/rank2: 1 difference, by every byte" in whole.out


def test_torchrun_gives_each_rank_its_share(folder: Path, spec: Path, tmp_path: Path) -> None:
    """Two processes, which say nothing to each other; the spec is that of one of two ranks."""
    arguments = ("convert", folder, "--spec", spec, *STRUCT, "--set", "minimax_m3.TP=2", "-o")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "mono_gen"]
    command = [*torchrun, *map(str, arguments), str(tmp_path / "both")]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert sorted(p.name for p in (tmp_path / "both").iterdir()) == ["rank0", "rank1"]
    assert mono_gen(*arguments, tmp_path / "in_turn", "--world-size", 2).returncode == 0
    assert files(tmp_path / "both") == files(tmp_path / "in_turn")
    assert files(tmp_path / "both" / "rank0") != files(tmp_path / "both" / "rank1")


# --- what is in the way ---


def test_wrong_commands_are_messages(folder: Path, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.layout").write_text("spec bare\n")
    (tmp_path / "wrong.layout").write_text("spec wrong\nlayout t(row, k) {\n    store row\n}\n")
    (tmp_path / "empty").mkdir()
    shutil.copytree(folder, tmp_path / "cut")
    (tmp_path / "cut" / FIRST).write_bytes((folder / FIRST).read_bytes()[:-5])
    shutil.copytree(folder, tmp_path / "lost")
    (tmp_path / "lost" / FIRST).unlink()
    (tmp_path / "half.map").write_text("layers model.layers.{layer}\nlayer.no\n    a\n")
    map_ = ("--map", spec.with_suffix(".map"))
    fine, out = ("--spec", spec, *STRUCT), ("-o", tmp_path / "out")
    four = ("--world-size", 4)
    wrong = [
        (2, "no such file or folder", (tmp_path / "none", *fine, *out)),
        (2, "no safetensors file in this folder", (tmp_path / "empty", *fine, *out)),
        (2, f"{FIRST}: cut short: its tensors end at byte", (tmp_path / "cut", *fine, *out)),
        (2, f"{FIRST}: missing; the index", (tmp_path / "lost", *fine, *out)),
        (2, f"{FIRST}: cut short", (tmp_path / "cut" / FIRST, *fine, *out)),
        (2, "expected one spec, found 2: name one of them", (folder, "--spec", tmp_path, *STRUCT, *out)),
        (2, "did you mean `wrong.layout`", (folder, "--spec", tmp_path / "wrnog.layout", *STRUCT, *out)),
        (2, "no spec `minimax`: no such file", (folder, "--spec", "minimax", *STRUCT, *out)),
        (2, "the checkpoint itself; name another folder", (folder, *fine, *four, "-o", folder)),
        (2, "no map", (folder, "--spec", tmp_path / "bare.layout", *STRUCT, *out)),
        (
            2,
            "no struct 'SparseMoeLayer'; the spec has no struct at all",
            (folder, "--spec", tmp_path / "bare.layout", *map_, *STRUCT, *out),
        ),
        (
            2,
            "no struct 'Sparse'; the spec has SparseMoeLayer, CpSparseMoeLayer",
            (folder, "--spec", spec, "--struct", "Sparse", *out),
        ),
        (1, "digit-dropped", (folder, "--spec", tmp_path / "wrong.layout", *map_, *STRUCT, *out)),
        (1, "line 2: no field of SparseMoeLayer reads layer.no", (folder, *fine, "--map", tmp_path / "half.map", *out)),
        (1, "SparseMoeLayer is of one of 4 ranks, and this is rank 0 of 1: say --world-size 4", (folder, *fine, *out)),
        (2, "has no param `TQ`", (folder, *fine, *out, "--set", "minimax_m3.TQ=1")),
        (2, "--rank 1 of how many? say --world-size, too", (folder, *fine, *out, "--rank", 1)),
        (2, "expected a rank from 0 to below the world size", (folder, *fine, *out, "--rank", 4, *four)),
        (2, "--layers 3-: expected numbers and ranges", (folder, *fine, *out, "--layers", "3-")),
        (1, "no layer language_model.model.layers.7 with", (folder, *fine, *out, *four, "--layers", "1,7")),
    ]
    ran = run_all([("convert", *map(str, arguments)) for _, _, arguments in wrong], tmp_path, tmp_path)
    for (code, message, _), one in zip(wrong, ran, strict=True):
        assert one.code == code and message in one.err and "Traceback" not in one.err, one
    assert not (tmp_path / "out").exists()


def test_numbers_of_ranks_that_are_none(folder: Path, spec: Path, tmp_path: Path) -> None:
    ran = mono_gen("convert", folder, "--spec", spec, *STRUCT, "-o", tmp_path / "out", WORLD_SIZE="2", RANK="first")
    assert ran.returncode == 2 and "expected two numbers, as torchrun sets them" in ran.stderr


def test_no_permission_to_write_or_to_read(folder: Path, spec: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "in")
    (tmp_path / "closed").mkdir(mode=0o555)
    arguments = ("convert", tmp_path / "in", "--spec", spec, *STRUCT, "--world-size", 4, "-o", tmp_path / "closed/out")
    ran = mono_gen(*arguments, limit=as_anybody)
    assert ran.returncode == 2 and "ermission denied" in ran.stderr and "Traceback" not in ran.stderr
    (tmp_path / "in" / FIRST).chmod(0)
    ran = mono_gen(*arguments, limit=as_anybody)
    assert ran.returncode == 2 and FIRST in ran.stderr and "ermission denied" in ran.stderr
    assert not list((tmp_path / "closed").iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None] | None]]:
    """Return a folder in which files of a megabyte do not fit, and what a process does first.

    A small tmpfs where the system lets us mount one; elsewhere a limit on the size of files.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2600k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode == 0:
        yield disk, None
        subprocess.run(["umount", str(disk)], check=True)
    else:
        yield disk, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, 900_000))


def test_a_full_disk_loses_nothing_and_resume_goes_on(
    folder: Path, spec: Path, small_disk: tuple[Path, Callable[[], None] | None]
) -> None:
    """Room is looked at first; what fills the disk meanwhile is an error like any other."""
    disk, limit = small_disk
    out = disk / "out"
    arguments = ("convert", folder, "--spec", spec, *STRUCT, "--world-size", 4, "--rank", 1, "-o", out)
    if limit is None:
        (disk / "filler").write_bytes(bytes(1_000_000))
        ran = mono_gen(*arguments)
        assert ran.returncode == 2 and "bytes free, and 2," in ran.stderr, ran.stderr
        assert [p.name for p in (out / "rank1").iterdir()] == ["mono-gen.journal"]
        (disk / "filler").unlink()
        shutil.rmtree(out)
        script = (
            "import shutil, sys; usage = shutil.disk_usage; "
            "shutil.disk_usage = lambda path: usage(path)._replace(free=1 << 40); "
            f"open({str(disk / 'filler')!r}, 'wb').write(bytes(1_000_000)); "
            "from mono_gen.cli import main; sys.exit(main())"
        )
        command = [sys.executable, "-c", script, *map(str, arguments)]
        ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    else:
        ran = mono_gen(*arguments, limit=limit)
    assert ran.returncode == 2 and "Traceback" not in ran.stderr
    assert "No space left on device: '" in ran.stderr or "File too large: '" in ran.stderr, ran.stderr
    assert str(out / "rank1" / "model-0") in ran.stderr
    assert "the files that are whole stay; --resume" in ran.stderr
    assert not [p for p in (out / "rank1").iterdir() if p.name.startswith(".") or p.suffix == ".json"]
    (disk / "filler").unlink(missing_ok=True)
    ran = mono_gen(*arguments, "--resume")
    assert ran.returncode == 0, ran.stderr
    verify = ("verify", folder, out, "--spec", spec, *STRUCT, "--world-size", 4, "--rank", 1, "--whole")
    assert mono_gen(*verify).returncode == 0


def test_a_bar_on_a_terminal_alone(folder: Path, spec: Path, tmp_path: Path) -> None:
    arguments = ["convert", folder, "--spec", spec, *STRUCT, "--world-size", 4, "--rank", 0, "-o", tmp_path / "out"]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mono_gen", *map(str, arguments)]
    env = environment(TERM="xterm", COLUMNS="100")
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=theirs) as ran:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # the other end was closed
            pass
        assert ran.stdout is not None and b"4 files" in ran.stdout.read()
    os.close(ours)
    assert ran.returncode == 0 and b"converting rank 0 of 4" in shown


# --- the real sizes ---


def big_checkpoint(folder: Path) -> int:
    """Write the routed experts of one layer of a TP4 rank, 128 of them; return the bytes of the largest tensor made."""
    rows, hidden, experts = 768, 6144, 128
    name = "model.layers.3.block_sparse_moe.experts"
    said, pieces = [], []
    codes = made.fp8(rows, hidden // 2, 5).view(torch.uint8)
    scales = made.e8m0(rows, hidden // 32, 6)
    for expert in range(experts):
        for w, shape in (("w1", (rows, hidden)), ("w2", (hidden, rows)), ("w3", (rows, hidden))):
            said.append((f"{name}.{expert}.{w}.weight", "U8", (shape[0], shape[1] // 2), rows * hidden // 2))
            pieces.append((codes, 31 * expert + int(w[1])))
            said.append((f"{name}.{expert}.{w}.weight_scale", "U8", (shape[0], shape[1] // 32), rows * hidden // 32))
            pieces.append((scales, expert % 3))
    folder.mkdir()
    with open(folder / "model.safetensors", "wb", buffering=0) as stream:
        stream.write(header_bytes(said, {}))
        for data, more in pieces:
            stream.write((data + more).numpy().tobytes())
    return experts * 2 * rows * hidden // 2


EXPERTS_MAP = """
layers model.layers.{layer}
layer.block_sparse_moe.experts.w13_weight
    gate: block_sparse_moe.experts.{e}.w1.weight
    up:   block_sparse_moe.experts.{e}.w3.weight
layer.block_sparse_moe.experts.w13_weight_scale
    gate: block_sparse_moe.experts.{e}.w1.weight_scale
    up:   block_sparse_moe.experts.{e}.w3.weight_scale
layer.block_sparse_moe.experts.w2_weight
    block_sparse_moe.experts.{e}.w2.weight
layer.block_sparse_moe.experts.w2_weight_scale
    block_sparse_moe.experts.{e}.w2.weight_scale
"""


def test_a_layer_of_the_real_size_in_little_memory(tmp_path: Path) -> None:
    """0.96 GB of experts, of which one tensor is 0.6 GB: the process takes at most 250 MB more than its imports."""
    largest = big_checkpoint(tmp_path / "in")
    (tmp_path / "experts.map").write_text(EXPERTS_MAP)
    spec = ROOT / "specs" / "minimax_m3.layout"
    arguments = (tmp_path / "in", "--spec", spec, *STRUCT, "--map", tmp_path / "experts.map")
    script = (
        "import resource, sys, torch, mono_gen.checkpoint.convert, mono_gen.pipeline\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "from mono_gen.cli import main\n"
        "try: code = main()\n"
        "except SystemExit as left: code = left.code\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n"
        "sys.exit(code)\n"
    )
    command = [sys.executable, "-c", script, "convert", *map(str, arguments), "-o", str(tmp_path / "out")]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    said, _, grown = ran.stdout.strip().splitlines()
    assert "4 tensors of 1 layer converted, 0 copied" in said
    assert int(grown) < 250_000_000 < largest
    ran = mono_gen("verify", tmp_path / "in", tmp_path / "out", *arguments[1:], "--sample", 48)
    assert ran.returncode == 0, ran.stdout
    shutil.rmtree(tmp_path / "in")
    shutil.rmtree(tmp_path / "out")
