"""Builds: the kernels as a shared library, by the compiler of a backend, kept by the digest of all that goes in."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from hashlib import blake2b
from pathlib import Path

from mono_gen.frozen import frozen
from mono_gen.operands import maps_header
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse

SOURCES = Path(__file__).resolve().parent
MAPS = "mfma_maps.hpp"


@frozen
class Compiler:
    """How a backend is compiled: the commands to try, each with its own options, and what to install without any."""

    commands: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]
    install: str


# -ffp-contract=off: the same bytes on every host. -march is left alone: a library may be kept on a shared disk.
COMPILERS = {
    "host": Compiler(
        (("g++", "-x", "c++"), ("clang++", "-x", "c++")),
        ("-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-pthread"),
        "install g++ (Debian: apt-get install g++), or name a C++17 compiler in CXX",
    ),
    "hip": Compiler(
        (("hipcc", "-x", "hip"),),
        ("-O3", "-fPIC", "-fvisibility=hidden", "--offload-arch=gfx950"),
        "install ROCm's hipcc (ROCm 7 or newer, for gfx950) and put it on PATH",
    ),
    "cuda": Compiler(
        (("nvcc", "-x", "cu"),),
        ("-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden"),
        "install NVIDIA's CUDA toolkit and put nvcc on PATH",
    ),
}


@frozen
class Build:
    """What a library is made of.

    header:  the generated header; its name without the suffix is the spec's.
    struct:  the struct of the spec that the stages read.
    defines: further macros, `NAME` or `NAME=VALUE`.
    options: further options of the compiler.
    maps:    the operand maps that host kernels are compiled with, as a header's text.
    """

    backend: str
    header: Path
    struct: str
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    maps: str = ""


def build_library(build: Build) -> Path:
    """Return the path of the shared library, compiled unless one of these sources, this header and these flags is kept.

    The folder is MONO_GEN_CACHE, else mono-gen in XDG_CACHE_HOME, else ~/.cache/mono-gen.

    Raises: MonoUnsupported, where there is no compiler, it fails, the header is not there, or the folder takes nothing.
    """
    subject = f"mono kernels ({build.backend})"
    if build.backend not in COMPILERS:
        raise refuse(subject, "backend", " or ".join(COMPILERS), repr(build.backend))
    if not build.header.is_file():
        raise refuse(subject, "header", "a generated header", f"no file {build.header}", "run mono-gen generate")
    compiler = _compiler(build.backend, subject)
    command = _command(build, compiler)
    kept = _cache_folder() / _digest(build, command)
    path = kept / "mono.so"
    if path.is_file():
        return path
    try:
        kept.mkdir(parents=True, exist_ok=True)
        _compile(build, command, path, subject)
    except OSError as error:
        help_ = "name a folder that can be written, with room for 10 MB, in MONO_GEN_CACHE"
        raise refuse(subject, "cache", f"the library in {kept}", error.strerror or str(error), help_) from error
    return path


def _compile(build: Build, command: tuple[str, ...], path: Path, subject: str) -> None:
    """Write the library, whole or not at all, whoever else builds it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / path.name
        (Path(scratch) / MAPS).write_text(build.maps or maps_header())
        done = subprocess.run(
            [*command, f"-I{scratch}", f"-I{build.header.parent}", str(SOURCES / "mono.hip"), "-o", str(made)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line), f"exit code {done.returncode}")
            problem = Problem(command[0], "compiler", "the kernels compiled", first)
            raise MonoUnsupported(subject, (problem,)) from CompileError(done.stderr)
        os.replace(made, path)


class CompileError(Exception):
    """What a compiler printed."""


def _compiler(backend: str, subject: str) -> tuple[str, ...]:
    """Return the command of the first compiler that is installed; the host's is CXX where that is set."""
    how = COMPILERS[backend]
    named = shlex.split(os.environ.get("CXX", "")) if backend == "host" else []
    commands = ((*named, "-x", "c++"),) if named else how.commands
    for command in commands:
        found = shutil.which(command[0])
        if found is not None:
            return (found, *command[1:])
    names = " or ".join(command[0] for command in commands)
    raise refuse(subject, "compiler", names, "none on PATH", how.install)


def _command(build: Build, compiler: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command without paths that differ from machine to machine."""
    spec = build.header.stem
    defines = (f'MONO_SPEC_HEADER="{build.header.name}"', f"MONO_SPEC={spec}", f"MONO_STRUCT={build.struct}")
    arch = _cuda_arch() if build.backend == "cuda" else ()
    return (
        *compiler,
        "-std=c++17",
        "-shared",
        *COMPILERS[build.backend].options,
        *arch,
        *build.options,
        *(f"-D{define}" for define in (*defines, *build.defines)),
    )


def _cuda_arch() -> tuple[str, ...]:
    """Return nvcc's option for the GPU at hand, or for any from sm_90 on where none is."""
    import torch

    if not torch.cuda.is_available():
        return ("-gencode=arch=compute_90,code=[sm_90,compute_90]",)
    major, minor = torch.cuda.get_device_capability()
    return (f"-arch=sm_{major}{minor}",)


def _digest(build: Build, command: tuple[str, ...]) -> str:
    """Return the digest of the sources, the header, the maps, the command and the compiler's version."""
    state = blake2b(digest_size=16)
    sources = sorted(p for p in SOURCES.rglob("*") if p.suffix in (".hip", ".hpp"))
    for path in (*sources, build.header):
        data = path.read_bytes()
        state.update(f"{path.name} {len(data)}\n".encode() + data)
    compiler = command[: command.index("-x")]
    version = subprocess.run([*compiler, "--version"], capture_output=True, check=False).stdout
    state.update("\0".join(command).encode() + version + (build.maps or maps_header()).encode())
    return state.hexdigest()


def _cache_folder() -> Path:
    """Return the folder of kept libraries."""
    named = os.environ.get("MONO_GEN_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mono-gen"
