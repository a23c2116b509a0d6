"""A compiled library: its ids, and its stages called with arguments by name."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

Value = torch.Tensor | int | float


class KernelFault(RuntimeError):
    """A launch that did not run to its end: what the driver, or the host's executor, says of it."""


class Library:
    """The stages of a shared library, which itself says what each is handed: no second list to keep in step.

    activation_bytes: what an element of fp8 activations takes between launches: 2 where the product converts them once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        for name in ("mono_words", "mono_error"):
            getattr(self._handle, name).restype = ctypes.c_char_p
        for name in ("mono_struct_id", "mono_field_id"):
            getattr(self._handle, name).restype = ctypes.c_ulonglong
        self.struct_id = int(self._handle.mono_struct_id())
        self.field_ids = tuple(int(self._handle.mono_field_id(i)) for i in range(self._handle.mono_field_count()))
        self.activation_bytes = int(self._handle.mono_activation_bytes())
        self._words: dict[str, tuple[tuple[str, str], ...]] = {}

    def words(self, stage: str) -> tuple[tuple[str, str], ...]:
        """Return (kind, name) of each argument of a stage: P an address, I an integer, F a float."""
        if stage not in self._words:
            text = self._handle.mono_words(stage.encode())
            if text is None:
                raise AssertionError(f"{self.path} has no stage {stage}")
            flat = text.decode().split()
            self._words[stage] = tuple(zip(flat[::2], flat[1::2], strict=True))
        return self._words[stage]

    def run(self, stage: str, values: Mapping[str, Value], stream: int, table: Sequence[int] = ()) -> None:
        """Enqueue a stage on a stream; `table` is the spec's own argument table, as addresses, where it takes one.

        Raises: KernelFault.
        """
        words = self.words(stage)
        packed = struct.pack(
            "".join("d" if kind == "F" else "q" for kind, _ in words), *(_plain(values[n]) for _, n in words)
        )
        more = [(ctypes.c_longlong * len(table))(*table)] if table else []
        failed = getattr(self._handle, f"mono_{stage}")(packed, *more, ctypes.c_void_p(stream))
        if failed:
            raise KernelFault(f"{stage}: {self._handle.mono_error().decode()}")

    def set_seed(self, seed: int) -> None:
        """Take another order of lanes and waves: of the host's executor alone."""
        self._handle.mono_set_seed(ctypes.c_ulonglong(seed))


def _plain(value: Value) -> int | float:
    """Return a tensor's address, or the number."""
    return value.data_ptr() if isinstance(value, torch.Tensor) else value
