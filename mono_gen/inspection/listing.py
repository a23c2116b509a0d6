"""The tensors of a file with what its records say, and what is wrong with either."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

from mono_gen.checkpoint.shards import DTYPES, Entry, Shard
from mono_gen.formats import Element
from mono_gen.frozen import frozen
from mono_gen.runtime.errors import MonoUnsupported
from mono_gen.runtime.files import KEY, records_in
from mono_gen.runtime.tensors import dtype_name, joined

_TORCH = {name: dtype_name(dtype) for name, (dtype, _) in DTYPES.items()} | {"F8_E4M3FNUZ": "float8_e4m3fnuz"}


@frozen
class Records:
    """What the metadata of a file says, by tensor: None is a tensor of which nothing is known.

    struct: the name of the struct that was saved, empty where the file has no records.
    wrong:  why the records do not hold, empty where they do or there are none.
    """

    by_name: dict[str, dict[str, Any] | None]
    struct: str
    wrong: str


def records_of(file: Shard) -> Records:
    """Return the records of a file; none, with the reason, where they were edited or are of a later version."""
    text = file.metadata.get(KEY)
    if text is None:
        return Records({}, "", "")
    try:
        found: Any = records_in(str(file.path), text)
        struct = _struct(text)
    except MonoUnsupported as refusal:
        problem = refusal.problems[0]
        return Records({}, "", f"{problem.what}: expected {problem.expected}, found {problem.found}; {problem.help}")
    if not isinstance(found, dict):
        return Records({}, "", "they are no table of tensors")
    return Records({name: said if isinstance(said, dict) else None for name, said in found.items()}, struct, "")


def field_ids(records: Records) -> dict[str, str]:
    """Return the recorded field id of each tensor."""
    return {name: str(said.get("field_id", "")) for name, said in records.by_name.items() if said is not None}


def record_text(said: Mapping[str, Any]) -> str:
    """Return a record as `shuffle_16x16, fp8_e4m3fn 2560 x 6144, field 0123456789abcdef`."""
    batch = f" (batch {said['batch']})" if said.get("batch") else ""
    extents = joined(said.get("extents", ()))
    return f"{said.get('layout')}, {said.get('format')} {extents}{batch}, field {said.get('field_id')}"


def record_remark(entry: Entry, said: Mapping[str, Any]) -> str:
    """Return how a tensor differs from its record; empty where it does not."""
    held = torch_name(entry.dtype)
    wanted, shape = str(said.get("dtype")), said.get("shape")
    if held != wanted and held != "uint8":
        return f"the record is of a {wanted}, the tensor is {held}"
    if shape != list(entry.torch_shape):
        return f"the record is of shape {shape}, the tensor has {list(entry.torch_shape)}"
    return ""


def torch_name(dtype: str) -> str:
    """Return torch's name of a type of the file; the file's own where torch has none."""
    return _TORCH.get(dtype, dtype)


def bits_of(entry: Entry) -> int:
    """Return the bits of an element, worked out where the type is not known; 0 where there is no element."""
    return DTYPES[entry.dtype][1] if entry.dtype in DTYPES else entry.nbytes * 8 // max(prod(entry.shape), 1)


def holds(element: Element, entry: Entry) -> bool:
    """Return whether a tensor of the file may be one of an element: in a type of its own, or as bytes."""
    return torch_name(entry.dtype) in element.holders or (entry.dtype == "U8" and element.bits <= 8)


def _struct(text: str) -> str:
    """Return the name of the struct that was saved."""
    found = json.loads(text).get("struct")
    return found if isinstance(found, str) else ""
