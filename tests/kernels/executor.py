"""The host wave executor for the tests: its headers, the map header, and shared libraries made with them."""

from __future__ import annotations

import ctypes
from pathlib import Path

from mono_gen.operands import maps_header
from tests.generated.headers import must_compile

HERE = Path(__file__).parent
HOST = HERE.parents[1] / "mono_gen" / "kernels" / "host"
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-pedantic")


class Launch(ctypes.Structure):
    """mono::host::Launch, field by field."""

    _fields_ = (
        ("grid_x", ctypes.c_int),
        ("grid_y", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("wave", ctypes.c_int),
        ("lds_bytes", ctypes.c_longlong),
        ("seed", ctypes.c_ulonglong),
    )


def write_maps(folder: Path, text: str | None = None) -> Path:
    """Return the folder, the header of operand maps written into it: the table's, or another text."""
    (folder / "mfma_maps.hpp").write_text(maps_header() if text is None else text)
    return folder


def load_library(source: str, folder: Path, *options: str) -> ctypes.CDLL:
    """Return a source of this folder as a shared library, made with the maps that stand in `folder`."""
    library = folder / f"{Path(source).stem}.so"
    command = ("g++", *FLAGS, "-O2", "-shared", "-fPIC", *options, f"-I{HOST}", f"-I{folder}")
    must_compile([*command, str(HERE / source), "-o", str(library)], folder)
    return ctypes.CDLL(str(library))
