"""The host build of every stage touches nothing that is not there, and does nothing that C++ leaves undefined."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def sanitized(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the end of a process that ran the stages under gcc's sanitizers."""
    names = ("libasan.so", "libubsan.so")
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in names
    ]
    assert all(Path(library).is_file() for library in libraries), "g++ came without its sanitizers"
    environment = {**os.environ, "LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, "-m", "tests.kernels.sanitized", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("tokens", ["3", "16"])
def test_every_stage_is_clean(folder: Path, tokens: str) -> None:
    done = sanitized(folder, tokens)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.split() == ["qkv", "head", "o_proj", "router", "moe", "moe", "shared"]


def test_a_weight_that_is_a_tile_short_is_noticed(folder: Path) -> None:
    done = sanitized(folder, "1", "short")
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr, done.stdout + done.stderr[-4000:]
    assert "o_proj.hpp" in done.stderr or "products" in done.stderr
