"""Runs that were stopped, by a kill at any moment or an error: what a later one goes on with, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mono_gen.checkpoint import outputs
from mono_gen.checkpoint.problems import Refused
from tests.checkpoint import made
from tests.checkpoint.test_convert import run
from tests.conftest import ROOT

JOURNAL = "mono-gen.journal"
SECOND = "model-00002-of-00004.safetensors"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_spec(tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "in")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(folder: Path, spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run(folder, spec, out)
    return out


@pytest.fixture
def stopped(folder: Path, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run that an error stopped in its third file."""
    written = outputs._write
    opened: list[int] = []

    def fail_in_the_third(descriptor: int, *rest: object) -> None:
        if descriptor not in opened:
            opened.append(descriptor)
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        if "00003-of" in place:
            raise OSError(28, "No space left on device")
        written(descriptor, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(outputs, "_write", fail_in_the_third)
        with pytest.raises(OSError, match="No space left"):
            run(folder, spec, tmp_path / "out")
    return tmp_path / "out"


def test_fifty_kills_at_random_moments(spec: Path, folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.checkpoint.kills", str(spec), str(folder), str(tmp_path), "50"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["wrong"] == [] and found["kills"] == 50, found


def test_what_a_stopped_run_leaves(stopped: Path, whole: Path) -> None:
    there = files(stopped)
    assert sorted(there) == ["model-00001-of-00004.safetensors", SECOND, JOURNAL]
    assert all(files(whole)[name] == data for name, data in there.items() if name != JOURNAL)


def test_resume_goes_on_and_ends_with_the_same_bytes(stopped: Path, whole: Path, folder: Path, spec: Path) -> None:
    times = {name: (stopped / name).stat().st_mtime_ns for name in (SECOND,)}
    done = run(folder, spec, stopped, resume=True)
    assert done.kept == 2
    assert files(stopped) == files(whole)
    assert (stopped / SECOND).stat().st_mtime_ns == times[SECOND]
    again = run(folder, spec, stopped, resume=True)  # of a folder that is finished
    assert again.kept == 4 and files(stopped) == files(whole)


@pytest.mark.parametrize("damage", ["changed", "cut", "lost"])
def test_a_finished_file_is_known_by_its_contents(
    stopped: Path, whole: Path, folder: Path, spec: Path, damage: str
) -> None:
    data = bytearray((stopped / SECOND).read_bytes())
    data[-7] ^= 1
    match damage:
        case "changed":
            (stopped / SECOND).write_bytes(data)
        case "cut":
            (stopped / SECOND).write_bytes(data[:-9])
        case _:
            (stopped / SECOND).unlink()
    assert run(folder, spec, stopped, resume=True).kept == 1
    assert (stopped / SECOND).read_bytes() == (whole / SECOND).read_bytes()


def test_a_line_of_the_journal_that_was_cut_short_costs_its_file(
    stopped: Path, whole: Path, folder: Path, spec: Path
) -> None:
    journal = (stopped / JOURNAL).read_bytes()
    (stopped / JOURNAL).write_bytes(journal[:-20])
    (stopped / f".{SECOND}.77.mono-gen-tmp").write_bytes(b"half")
    assert run(folder, spec, stopped, resume=True).kept == 1
    assert files(stopped) == files(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("spec", "another spec, struct, map or --set"),
        ("struct", "another spec, struct, map or --set"),
        ("input", "not the one that it was begun with"),
        ("time", "not the one that it was begun with"),
        ("layers", r"other --layers: \[1, 2\] then, \[2\] now"),
        ("rank", "as another rank: 0 then, 1 now"),
    ],
)
def test_another_run_is_refused_and_writes_nothing(
    stopped: Path, folder: Path, spec: Path, tmp_path: Path, change: str, message: str
) -> None:
    before = files(stopped)
    source, text = shutil.copytree(folder, tmp_path / "copy"), tmp_path / spec.name
    shutil.copy(spec.with_suffix(".map"), tmp_path)
    words = spec.read_text()
    if change == "spec":
        words = words.replace("tile     shuffle_16x16\n        convert", "tile     shuffle_32x16\n        convert", 1)
    text.write_text(words)
    if change == "input":
        path = source / "model-00003-of-00004.safetensors"
        data, times = bytearray(path.read_bytes()), path.stat()
        data[-1] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if change != "time":
        for path in folder.iterdir():
            if change != "input" or path.name != "model-00003-of-00004.safetensors":
                os.utime(source / path.name, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    else:
        os.utime(source / SECOND, ns=(1, 1))
    with pytest.raises(Refused, match=message) as refusal:
        run(
            source,
            text,
            stopped,
            resume=True,
            struct="CpSparseMoeLayer" if change == "struct" else "SparseMoeLayer",
            layers=(2,) if change == "layers" else None,
            rank=int(change == "rank"),
        )
    assert refusal.value.code == 2 and len(refusal.value.lines) == 1
    assert files(stopped) == before


def test_folders_that_are_not_to_be_written_into(whole: Path, folder: Path, spec: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"not empty: it holds .*; go on with it by --resume"):
        run(folder, spec, whole)
    with pytest.raises(Refused, match="the checkpoint itself"):
        run(folder, spec, folder, resume=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("mine")
    for resume, message in ((False, "not empty: it holds mine"), (True, "no mono-gen.journal: nothing that --resume")):
        with pytest.raises(Refused, match=message):
            run(folder, spec, other, resume=resume)
    (other / JOURNAL).write_text("mine\n")
    with pytest.raises(Refused, match="not a journal of mono-gen"):
        run(folder, spec, other, resume=True)
    with pytest.raises(Refused, match="a file, where the output folder is to be"):
        run(folder, spec, other / "mine")
    assert (other / "mine").read_text() == "mine"


def test_one_process_at_a_time(stopped: Path, folder: Path, spec: Path) -> None:
    import fcntl

    with open(stopped / JOURNAL, "ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="another process is converting into it"):
            run(folder, spec, stopped, resume=True)


def test_a_disk_without_room_is_seen_before_anything_is_written(
    folder: Path, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(Refused, match=r"the disk has 1,000 bytes free, and 2,\d+,\d+ are to be written"):
        run(folder, spec, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [JOURNAL]
