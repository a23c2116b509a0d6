"""A struct's tensors in a safetensors file, with what the ledger knows of them in the metadata, under one JSON key."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from mono_gen.frozen import replace
from mono_gen.runtime import ledger
from mono_gen.runtime.content import fingerprint
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse, show
from mono_gen.runtime.fields import TensorInfo
from mono_gen.runtime.ledger import Record
from mono_gen.runtime.recheck import Struct, recheck
from mono_gen.runtime.tensors import dtype_name

KEY = "mono_gen"
VERSION = 1
AS_BYTES = (torch.float4_e2m1fn_x2, torch.float8_e8m0fnu, torch.float8_e4m3fnuz)
"""Types that not every reader of safetensors knows: stored as uint8, and typed again by their records."""


def save(struct: Struct, path: str | Path) -> None:
    """Write the tensors of a loaded struct, each with its record and the fingerprint of all its bytes.

    Raises: MonoUnsupported, where a tensor moved or was written since the struct was loaded.
    """
    from safetensors.torch import save_file

    recheck(struct)
    tensors: dict[str, torch.Tensor] = {}
    records: dict[str, Any] = {}
    for one in struct._seal:
        t, info = one.tensor, one.info
        records[info.name] = record_entry(info, t, int(fingerprint(t, sampled=False).value))
        held = t.view(torch.uint8) if t.dtype in AS_BYTES else t
        shares = held.untyped_storage().nbytes() != held.nbytes  # two tensors of one storage are refused by the format
        tensors[info.name] = held.clone() if shares else held
    save_file(tensors, path, metadata=records_metadata(type(struct).__name__, records))


def record_entry(info: TensorInfo, t: torch.Tensor, content: int) -> dict[str, Any]:
    """Return what a file says of a tensor of a struct, whose bytes have this fingerprint; reads none of them."""
    return {
        "layout": info.layout,
        "layout_id": f"{info.layout_id:016x}",
        "field_id": f"{info.field_id:016x}",
        "format": info.element,
        "bits": info.bits,
        "extents": list(info.extents(t)),
        "batch": info.batch,
        "dtype": dtype_name(t.dtype),
        "shape": list(t.shape),
        "content": f"{content & (2**64 - 1):016x}",
    }


def records_metadata(struct: str, records: dict[str, Any]) -> dict[str, str]:
    """Return the metadata of a file: an entry for every tensor, None for one of which nothing is known."""
    body = {"version": VERSION, "struct": struct, "records": records}
    return {KEY: json.dumps({**body, "digest": _digest(body)}, sort_keys=True)}


def load(path: str | Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file by name; `record_of` gives what the file says of each.

    A file without records loads as it is, every tensor unknown; so does a tensor whose record is null. CPU tensors of
    a file are often not 16-byte aligned: converters take them, kernels' pointers refuse them.
    Raises: MonoUnsupported, where the file is none or cut short, a record was edited or of a later version, or bytes,
            type or shape are not those that it was made for.
    Law:    tests/runtime/test_files.py
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
        tensors = load_file(path)
    except SafetensorError as error:
        raise refuse(str(path), "file", "a whole safetensors file", str(error)) from None
    if text is None:
        return tensors
    records = records_in(str(path), text)
    problems: list[Problem] = []
    for name, said in records.items():
        if name not in tensors:
            problems.append(Problem(name, "tensor", "in the file, as its record says", "missing"))
            continue
        if said is None:
            continue  # copied with the others, in whatever order it was
        tensors[name], found = _entered(name, tensors[name], said)
        problems += found
    problems += [Problem(name, "record", "one for every tensor", "none") for name in tensors if name not in records]
    if problems:
        raise MonoUnsupported(str(path), problems)
    return tensors


def _entered(name: str, t: torch.Tensor, said: dict[str, Any]) -> tuple[torch.Tensor, list[Problem]]:
    """Return a tensor in the type that its record names, entered in the ledger; and why, where it is not."""
    dtype = getattr(torch, said["dtype"])
    if dtype in AS_BYTES and t.dtype is torch.uint8:
        t = t.view(dtype)
    if t.dtype is not dtype or list(t.shape) != said["shape"]:
        expected, found = f"{said['dtype']} {said['shape']}, as recorded", f"{dtype_name(t.dtype)} {list(t.shape)}"
        return t, [Problem(name, "shape", expected, found)]
    content = _hex(t)
    if content != said["content"]:
        return t, [Problem(name, "content", f"fingerprint {said['content']}, as recorded", f"fingerprint {content}")]
    record = Record(
        layout=said["layout"],
        layout_id=int(said["layout_id"], 16),
        field_id=int(said["field_id"], 16),
        format=said["format"],
        bits=said["bits"],
        extents=tuple(said["extents"]),
        batch=said["batch"],
        nbytes=t.nbytes,
        origin="file",
    )
    ledger.enter(t, replace(record, content=fingerprint(t, record.items)))
    return t, []


def records_in(path: str, text: str) -> dict[str, Any]:
    """Return the records of the metadata, after proving that nobody edited them: what `save` wrote needs no proof."""
    try:
        body = json.loads(text)
        version, digest = body["version"], body.pop("digest")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise refuse(path, "records", "the JSON that save wrote", f"{type(error).__name__}: {error}") from None
    if version != VERSION:
        raise refuse(path, "version", str(VERSION), show(version), "upgrade mono-gen, or save the tensors again")
    if digest != _digest(body):
        help = "the records were edited by hand: convert the tensors again"
        raise refuse(path, "records", f"digest {_digest(body)}", f"digest {digest}", help)
    found: dict[str, Any] = body["records"]
    return found


def _digest(body: dict[str, Any]) -> str:
    """Return the digest of records in their canonical text."""
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


def _hex(t: torch.Tensor) -> str:
    """Return the fingerprint of all of a tensor's bytes as text."""
    return f"{int(fingerprint(t, sampled=False).value) & (2**64 - 1):016x}"
