"""A conversion killed at random moments and gone on with: `python -m tests.checkpoint.kills SPEC INPUT OUT KILLS`.

Each run is a fork of this process, which has loaded everything already: it begins at once, and ends by SIGKILL. Between
runs the folder is looked at as somebody would find it. Prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path

import torch

from mono_gen.checkpoint.convert import convert
from mono_gen.checkpoint.folder import open_checkpoint
from mono_gen.checkpoint.jobs import plan_work
from mono_gen.checkpoint.names import read_map
from mono_gen.checkpoint.pieces import Share
from mono_gen.checkpoint.target import find_target

INDEX = "model.safetensors.index.json"


def files(folder: Path) -> dict[str, str]:
    """Return a digest of each file of a folder."""
    return {p.name: sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def main() -> None:
    """Print how many kills hit, how many runs ended before, and what was found wrong."""
    spec, source, out, wanted = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    target, names = find_target(spec, "SparseMoeLayer", {}), read_map(spec.with_suffix(".map"))
    share = Share(1, 4)

    def run(folder: Path) -> None:
        checkpoint = open_checkpoint(source)
        work = plan_work(checkpoint, target, names, share, None)
        convert(checkpoint, target, work, share, "", folder, True, lambda _: None)

    def child(folder: Path) -> int:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                run(folder)
                code = 0
            finally:
                os._exit(code)
        return process

    reference = out / "uninterrupted"
    begin = time.monotonic()
    _, status = os.waitpid(child(reference), 0)
    duration = time.monotonic() - begin
    before, truth = files(source), files(reference)
    kills, finished, rounds = 0, 0, 0
    wrong: list[str] = [] if status == 0 else [f"the first run ended with {status}"]
    folder = out / "killed"
    while kills < wanted and not wrong:
        process = child(folder)
        time.sleep(random.uniform(0, duration))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        there = files(folder) if folder.is_dir() else {}
        whole = {
            name: digest for name, digest in there.items() if not name.startswith(".") and name != "mono-gen.journal"
        }
        wrong += [
            f"{name} is not what an uninterrupted run writes" for name, d in whole.items() if truth.get(name) != d
        ]
        complete = {name for name in truth if name.endswith(".safetensors")} <= set(whole)
        wrong += ["the index is there before every file is"] if INDEX in whole and not complete else []
        if os.WIFSIGNALED(status):
            kills += 1
        elif os.WEXITSTATUS(status) == 0:
            finished += 1
            wrong += [f"{n} differs in the end" for n in truth.keys() | there.keys() if truth.get(n) != there.get(n)]
            shutil.rmtree(folder)
            rounds += 1
        else:
            wrong.append(f"a run ended with {status}")
    _, status = os.waitpid(child(folder), 0)
    wrong += [f"the last run ended with {status}"] if status else []
    wrong += ["it differs in the end"] if files(folder) != truth else []
    wrong += ["the input was written"] if files(source) != before else []
    print(json.dumps({"kills": kills, "finished": finished, "duration": duration, "wrong": wrong[:5]}))


if __name__ == "__main__":
    main()
