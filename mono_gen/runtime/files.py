"""A struct's tensors in a safetensors file, with what the ledger knows of them in the metadata, under one JSON key."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from mono_gen.runtime import ledger
from mono_gen.runtime.content import Fingerprint, fingerprint
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.ledger import Record
from mono_gen.runtime.recheck import Struct, recheck

KEY = "mono_gen"
VERSION = 1
_AS_BYTES = (torch.float4_e2m1fn_x2, torch.float8_e8m0fnu)
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
        found = ledger.record_of(t)
        extents = found.extents if found is not None else tuple(t.shape)
        records[info.name] = {
            "layout": info.layout,
            "layout_id": f"{info.layout_id:016x}",
            "field_id": f"{info.field_id:016x}",
            "format": info.element,
            "bits": info.bits,
            "extents": list(extents),
            "batch": info.batch,
            "dtype": str(t.dtype).removeprefix("torch."),
            "content": _hex(fingerprint(t, whole=True)),
        }
        plain = t.detach().as_subclass(torch.Tensor)
        tensors[info.name] = plain.view(torch.uint8) if t.dtype in _AS_BYTES else plain
    body = {"version": VERSION, "struct": type(struct).__name__, "records": records}
    save_file(tensors, path, metadata={KEY: json.dumps({**body, "digest": _digest(body)}, sort_keys=True)})


def load(path: str | Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file by name; `record_of` gives what the file says of each.

    A file without records loads as it is, every tensor unknown. CPU tensors of a file are often not 16-byte aligned:
    converters take them, kernels' pointers refuse them.
    Raises: MonoUnsupported, where a record was edited, or bytes are not those that it was made for.
    """
    from safetensors import safe_open
    from safetensors.torch import load_file

    with safe_open(path, framework="pt") as file:
        text = (file.metadata() or {}).get(KEY)
    tensors = load_file(path)
    if text is None:
        return tensors
    records = _records(str(path), text)
    problems: list[Problem] = []
    for name, said in records.items():
        if name not in tensors:
            problems.append(Problem(name, "tensor", "in the file, as its record says", "missing"))
            continue
        t = tensors[name] = _typed(tensors[name], said)
        problems += _entered(name, t, said)
    problems += [Problem(name, "record", "one for every tensor", "none") for name in tensors if name not in records]
    if problems:
        raise MonoUnsupported(str(path), problems)
    return tensors


def _typed(t: torch.Tensor, said: dict[str, Any]) -> torch.Tensor:
    """Return a tensor in the type that its record names, the same bytes."""
    dtype = getattr(torch, str(said["dtype"]), None)
    return t.view(dtype) if isinstance(dtype, torch.dtype) and dtype in _AS_BYTES else t


def _entered(name: str, t: torch.Tensor, said: dict[str, Any]) -> list[Problem]:
    """Enter a tensor's record in the ledger, or return why it does not hold."""
    content = fingerprint(t, whole=True)
    if _hex(content) != said["content"]:
        return [Problem(name, "content", f"fingerprint {said['content']}, as recorded", f"fingerprint {_hex(content)}")]
    ledger.enter(
        t,
        Record(
            layout=said["layout"],
            layout_id=int(said["layout_id"], 16),
            field_id=int(said["field_id"], 16),
            format=said["format"],
            bits=said["bits"],
            extents=tuple(said["extents"]),
            batch=said["batch"],
            nbytes=t.nbytes,
            origin="file",
            content=content,
        ),
    )
    return []


def _records(path: str, text: str) -> dict[str, Any]:
    """Return the records of the metadata, after proving that nobody edited them."""
    try:
        body = json.loads(text)
        digest = body.pop("digest")
        records = body["records"]
        version = body["version"]
    except (ValueError, KeyError, AttributeError) as error:
        problem = Problem(KEY, "records", "the JSON that save wrote", f"{type(error).__name__}: {error}")
        raise MonoUnsupported(path, (problem,)) from error
    if version != VERSION:
        raise MonoUnsupported(path, (Problem(KEY, "version", str(VERSION), str(version)),))
    if digest != _digest(body):
        help = "the records were edited by hand: convert the tensors again"
        raise MonoUnsupported(path, (Problem(KEY, "records", f"digest {_digest(body)}", f"digest {digest}", help),))
    if not isinstance(records, dict):
        raise MonoUnsupported(path, (Problem(KEY, "records", "one a tensor", type(records).__name__),))
    return records


def _digest(body: dict[str, Any]) -> str:
    """Return the digest of records in their canonical text."""
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


def _hex(content: Fingerprint) -> str:
    """Return a fingerprint as text."""
    return f"{int(content.value) & (2**64 - 1):016x}"
