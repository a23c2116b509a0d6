"""What an output folder says of its own making: which run it is of, and which shards are done. A line a fact."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from mono_gen.checkpoint.folder import JOURNAL
from mono_gen.checkpoint.problems import Refused
from mono_gen.frozen import frozen
from mono_gen.write import replace_file

VERSION = 1
_TEMPORARY = re.compile(r"\A\..+\.[0-9]+\.mono-gen-tmp\Z", re.DOTALL)


@frozen
class Done:
    """A shard that was written: its size, and the digest of its contents."""

    size: int
    digest: str


class Journal:
    """The journal of an output folder, open for more lines; while it is open nobody else writes into the folder."""

    def __init__(self, folder: Path, done: dict[str, Done], finished: bool) -> None:
        self.folder = folder
        self.done = done
        self.finished = finished
        self._stream = os.open(folder / JOURNAL, os.O_WRONLY | os.O_APPEND)

    def lock(self) -> None:
        """Raise Refused where another process writes into the folder."""
        try:
            from fcntl import LOCK_EX, LOCK_NB, flock
        except ImportError:
            return  # not a POSIX system
        try:
            flock(self._stream, LOCK_EX | LOCK_NB)
        except OSError:
            raise Refused(str(self.folder), ["another process is converting into it"]) from None

    def shard(self, name: str, done: Done) -> None:
        """Note a shard that is in its place."""
        self._append({"shard": name, "size": done.size, "digest": done.digest})
        self.done[name] = done

    def finish(self) -> None:
        """Note that the folder is complete, after all names are on the disk."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not self.finished:
            self._append({"finished": True})
            self.finished = True
        os.fsync(self._stream)

    def close(self) -> None:
        """Let others have the folder."""
        os.close(self._stream)

    def _append(self, fact: dict[str, Any]) -> None:
        os.write(
            self._stream, json.dumps(fact).encode() + b"\n"
        )  # not synchronised: a line that is lost costs its file


def open_journal(folder: Path, run: dict[str, Any], resume: bool) -> Journal:
    """Return the journal of a run: a new one in a new or empty folder, or that of the same run to go on with.

    Raises: Refused, where the folder holds anything else; OSError.
    """
    if folder.exists() and not folder.is_dir():
        raise Refused(str(folder), ["a file, where the output folder is to be"])
    path = folder / JOURNAL
    there = sorted(p.name for p in folder.iterdir() if not _TEMPORARY.match(p.name)) if folder.is_dir() else []
    if there and not resume:
        hint = "go on with it by --resume, or name another folder" if JOURNAL in there else "name another folder"
        raise Refused(str(folder), [f"not empty: it holds {there[0]}; {hint}"])
    if there and JOURNAL not in there:
        raise Refused(str(folder), [f"it holds {there[0]} and no {JOURNAL}: nothing that --resume could go on with"])
    if not there:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        replace_file(path, json.dumps({"version": VERSION, **run}).encode() + b"\n")
        journal = Journal(folder, {}, False)
        journal.lock()
        return journal
    started, facts, length = _read(path)
    journal = Journal(folder, {f["shard"]: Done(f["size"], f["digest"]) for f in facts if "shard" in f}, False)
    journal.lock()
    _require_same(folder, started, {"version": VERSION, **run})
    os.truncate(path, length)  # a line that a kill cut short
    remove_leftovers(folder)
    journal.finished = any("finished" in fact for fact in facts)
    return journal


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """Return the first line, the others, and the bytes of the whole lines."""
    data = path.read_bytes()
    length = data.rfind(b"\n") + 1
    try:
        started, *facts = (json.loads(line) for line in data[:length].splitlines())
        for fact in facts:
            if "shard" in fact and not (isinstance(fact["size"], int) and isinstance(fact["digest"], str)):
                raise ValueError(f"a size and a digest are expected of {fact['shard']}")
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(str(path), [f"not a journal of mono-gen ({type(error).__name__}: {error})"]) from None
    return started, facts, length


_SAID = {
    "version": "it was begun by another version of mono-gen",
    "spec": "it was begun with another spec, struct, map or --set",
    "input": "the checkpoint is not the one that it was begun with, or was changed since",
    "layers": "it was begun with other --layers",
    "rank": "it was begun as another rank",
    "world": "it was begun with another --world-size",
}


def _require_same(folder: Path, started: dict[str, Any], run: dict[str, Any]) -> None:
    """Raise Refused where a run is not the one that was begun."""
    lines = [
        f"{_SAID[key]}: {started.get(key)} then, {value} now" for key, value in run.items() if started.get(key) != value
    ]
    if lines:
        raise Refused(str(folder), [f"{line}; remove the folder to begin anew" for line in lines])


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of runs that were killed."""
    for path in folder.iterdir():
        if _TEMPORARY.match(path.name):
            path.unlink(missing_ok=True)


def temporary(path: Path) -> Path:
    """Return the name under which a file is written until it is whole."""
    return path.with_name(f".{path.name}.{os.getpid()}.mono-gen-tmp")
