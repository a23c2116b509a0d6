"""The safetensors container: where each tensor of a file lies, without reading any of them.

Source: the format's description in the README of safetensors: 8 bytes of header length, little endian; a JSON header;
the tensors, one behind the other without holes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch

from mono_gen.checkpoint.problems import Refused
from mono_gen.frozen import frozen

_LENGTH_BYTES = 8
_LONGEST_HEADER = 100 << 20  # safetensors' own limit
_HEADER_MULTIPLE = 4096
"""Tensors begin at a page of the file; the format allows blanks behind the JSON."""

DTYPES: dict[str, tuple[torch.dtype, int]] = {
    "F64": (torch.float64, 64),
    "F32": (torch.float32, 32),
    "F16": (torch.float16, 16),
    "BF16": (torch.bfloat16, 16),
    "I64": (torch.int64, 64),
    "I32": (torch.int32, 32),
    "I16": (torch.int16, 16),
    "I8": (torch.int8, 8),
    "U8": (torch.uint8, 8),
    "BOOL": (torch.bool, 8),
    "F8_E4M3": (torch.float8_e4m3fn, 8),
    "F8_E5M2": (torch.float8_e5m2, 8),
    "F8_E8M0": (torch.float8_e8m0fnu, 8),
    "F4": (torch.float4_e2m1fn_x2, 4),
}
"""The names of the format that conversions read: the torch dtype, and the bits of one element."""


@frozen
class Entry:
    """A tensor of a file.

    dtype, shape: as the header has them; an F4 shape counts single elements.
    begin, end:   bytes of the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Return the bytes of the tensor."""
        return self.end - self.begin

    @property
    def torch_shape(self) -> tuple[int, ...]:
        """Return the shape as torch counts it: pairs of 4-bit elements on the last axis."""
        return (*self.shape[:-1], self.shape[-1] // 2) if self.dtype == "F4" else self.shape


@frozen
class Shard:
    """A safetensors file. `header` is its beginning as it stands, up to the first tensor."""

    path: Path
    size: int
    header: bytes
    entries: dict[str, Entry]
    metadata: dict[str, str]


def read_shard(path: Path) -> Shard:
    """Return what a file says of its tensors.

    Raises: Refused, for a file that is no safetensors file or is cut short; OSError.
    """
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        if len(start) < _LENGTH_BYTES or not 2 <= length <= _LONGEST_HEADER:
            raise Refused(str(path), ["not a safetensors file: it does not begin with the length of a header"])
        text = stream.read(length)
    begin = _LENGTH_BYTES + length
    if len(text) < length:
        raise Refused(str(path), [f"cut short: its header ends at byte {begin}, the file at byte {size}"])
    try:
        said = json.loads(text)
        metadata = dict(said.pop("__metadata__", {}))
        if not all(isinstance(text, str) for text in metadata.values()):
            raise ValueError("metadata that is no text")
        entries = [_entry(name, value, begin) for name, value in said.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        lines = [f"not a safetensors file: its header is damaged ({type(error).__name__}: {error})"]
        raise Refused(str(path), lines) from None
    _check_ranges(path, size, begin, entries)
    return Shard(path, size, start + text, {entry.name: entry for entry in entries}, metadata)


def _entry(name: str, said: Mapping[str, Any], base: int) -> Entry:
    """Return the entry of a tensor. Raises ValueError where its bytes are not those of its shape."""
    dtype, shape, (begin, end) = said["dtype"], tuple(said["shape"]), said["data_offsets"]
    if not all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end)) or not isinstance(dtype, str):
        raise ValueError(f"{name}: shape {shape}, data_offsets {begin}, {end}")
    if dtype in DTYPES and (end - begin) * 8 != prod(shape) * DTYPES[dtype][1]:
        raise ValueError(f"{name}: {end - begin} bytes for {dtype} {list(shape)}")
    return Entry(name, dtype, shape, base + begin, base + end)


def _check_ranges(path: Path, size: int, begin: int, entries: Iterable[Entry]) -> None:
    """Raise Refused unless the tensors fill the file behind the header, one behind the other."""
    at = begin
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != at:
            raise Refused(str(path), [f"damaged: {entry.name} begins at byte {entry.begin}, not at {at}"])
        at = entry.end
    if at > size:
        raise Refused(str(path), [f"cut short: its tensors end at byte {at}, the file at byte {size}"])
    if at < size:
        raise Refused(str(path), [f"damaged: {size - at} bytes behind the last tensor"])


def header_bytes(tensors: Iterable[tuple[str, str, tuple[int, ...], int]], metadata: Mapping[str, str]) -> bytes:
    """Return the beginning of a file with these tensors (name, dtype, shape, bytes), in this order.

    Its length depends on the lengths of the names and of the metadata alone.
    """
    said: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, dtype, shape, nbytes in tensors:
        said[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + nbytes]}
        at += nbytes
    text = json.dumps(said, separators=(",", ":")).encode()
    padded = -(-(_LENGTH_BYTES + len(text)) // _HEADER_MULTIPLE) * _HEADER_MULTIPLE - _LENGTH_BYTES
    return padded.to_bytes(_LENGTH_BYTES, "little") + text.ljust(padded)
