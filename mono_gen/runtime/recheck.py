"""Looking again: a struct's tensors against what they were when it was loaded, by structure and by content.

Structure reads pointers, strides and counters: no byte, no device. Content reads every byte (samples of what is large
on the CPU), enqueued for all tensors, with one synchronisation for all verdicts. Without it the state is "unverified".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch

from mono_gen.runtime.content import Fingerprint, fingerprint
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.fields import TensorInfo
from mono_gen.runtime.ledger import Record, enter, version_of
from mono_gen.runtime.moves import unpack

State = Literal["verified", "unverified"]
"""`verified`: structure and content were compared and equal. `unverified`: structure holds, nobody compared content."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A tensor of a struct as it was at load: the tensor is kept, so that its memory is."""

    info: TensorInfo
    tensor: torch.Tensor
    address: int
    storage: int
    storage_nbytes: int
    shape: torch.Size
    strides: tuple[int, ...]
    version: int | None
    content: Fingerprint


Seal = tuple[Sealed, ...]


class Struct(Protocol):
    """A generated struct: its tensors by name, and what they were at load."""

    _seal: Seal


def seal(struct: object, tensors: Mapping[str, TensorInfo]) -> Seal:
    """Return what the tensors of a struct are now, and enter each in the ledger as its field.

    Fingerprints are enqueued; nothing waits for a device.
    """
    present = ((info, getattr(struct, name)) for name, info in tensors.items())
    return tuple(_sealed(info, t) for info, t in present if t is not None)


def _sealed(info: TensorInfo, t: torch.Tensor) -> Sealed:
    storage = t.untyped_storage()
    content = fingerprint(t, info.items(t))
    pairs = 2 if info.bits == 4 else 1
    extents = (*t.shape[:-1], t.shape[-1] * pairs) if t.dim() else ()
    record = Record(
        info.layout, info.layout_id, info.field_id, info.element, info.bits, extents, info.batch, t.nbytes, "load"
    )
    enter(t, replace(record, content=content))
    return Sealed(info, t, t.data_ptr(), storage._cdata, storage.nbytes(), t.shape, t.stride(), version_of(t), content)


def recheck(struct: Struct, content: bool = False, changing: Collection[str] = ()) -> State:
    """Return the state of a loaded struct: "unverified" after structure alone, "verified" after content, too.

    content:  whether every byte is compared with what it was at load, which synchronises with the device.
    changing: fields whose bytes are meant to change under kernels, such as caches: their pointers alone are checked.
    Raises:   MonoUnsupported, with every tensor that moved, was freed, recycled or overwritten.
    """
    if content:
        return verify_all((struct,), changing)
    problems = [p for one in struct._seal for p in _structure(one, one.info.name in changing)]
    if problems:
        raise MonoUnsupported(type(struct).__name__, problems)
    return "unverified"


def _structure(one: Sealed, changing: bool) -> list[Problem]:
    """Return what moved since load, by pointers, strides and counters."""
    t, name = one.tensor, one.info.name
    storage = t.untyped_storage()
    if t.data_ptr() == one.address and storage._cdata == one.storage and storage.nbytes() == one.storage_nbytes:
        if t.shape != one.shape or t.stride() != one.strides:
            found = f"torch {tuple(t.shape)}, strides {t.stride()}"
            return [Problem(name, "strides", f"torch {tuple(one.shape)}, strides {one.strides}", found)]
        version = version_of(t)
        if not changing and version != one.version:
            help = "refresh the struct, or load the layer again"
            found = f"{version} writes" if version is not None else "no counter"
            return [Problem(name, "overwritten", f"{one.version} in-place writes, as at load", found, help)]
        return []
    if storage.nbytes() == 0:
        return [Problem(name, "freed", f"{one.storage_nbytes} bytes at {one.address:#x}", "storage of 0 bytes", _AGAIN)]
    found = f"{storage.nbytes()} bytes, tensor at {t.data_ptr():#x}"
    return [Problem(name, "moved", f"{one.storage_nbytes} bytes, tensor at {one.address:#x}", found, _AGAIN)]


_AGAIN = "captured graphs still read the old address: load the layer again and capture anew"


def verify_all(structs: Iterable[Struct], changing: Collection[str] = ()) -> State:
    """Return "verified" when structure and content of every struct hold: one synchronisation for all of them.

    Content is the fingerprint of every tensor, its pads, and codes that no kernel survives: e8m0 0xFF, fp8 NaN, and
    bf16 or fp32 infinities and NaNs.
    Raises: MonoUnsupported, with every problem of every struct.
    """
    found: list[tuple[str, Sealed, list[Problem], torch.Tensor | None]] = []
    for struct in structs:
        subject = type(struct).__name__
        for one in struct._seal:
            skipped = one.info.name in changing
            problems = _structure(one, True)
            measured = None if problems or skipped else _measure(one)
            found.append((subject, one, problems, measured))
    numbers = _read([m for *_, m in found if m is not None])
    subjects = list(dict.fromkeys(subject for subject, *_ in found))
    problems = []
    for subject, one, structural, measured in found:
        mine = structural if measured is None else _judge(one, *next(numbers))
        prefix = f"{subject}." if len(subjects) > 1 else ""
        problems += [Problem(prefix + p.field, p.what, p.expected, p.found, p.help) for p in mine]
    if problems:
        raise MonoUnsupported(", ".join(subjects), problems)
    return "verified"


def _measure(one: Sealed) -> torch.Tensor:
    """Return fingerprint then, fingerprint now, bad codes and wrong pads, as one int64 tensor on the device."""
    now = fingerprint(one.tensor, one.info.items(one.tensor)).value
    return torch.stack((one.content.value, now, bad_codes(one.tensor, one.info), wrong_pads(one.tensor, one.info)))


def _read(measured: list[torch.Tensor]) -> Any:
    """Return an iterator of the measurements as integers, after one synchronisation a device."""
    if not measured:
        return iter(())
    by_device: dict[torch.device, list[int]] = {}
    for index, m in enumerate(measured):
        by_device.setdefault(m.device, []).append(index)
    values: list[list[int]] = [[] for _ in measured]
    for indices in by_device.values():
        for index, row in zip(indices, torch.stack([measured[i] for i in indices]).tolist(), strict=True):
            values[index] = row
    return iter(values)


def _judge(one: Sealed, then: int, now: int, bad: int, pads: int) -> list[Problem]:
    """Return what is wrong with a tensor's content."""
    problems = []
    name, info = one.info.name, one.info
    if then != now:
        how = "samples of every batch item" if one.content.sampled else "every byte"
        found = f"fingerprint {now & (2**64 - 1):016x}"
        expected = f"fingerprint {then & (2**64 - 1):016x} over {how}, as at load"
        problems.append(Problem(name, "overwritten", expected, found, "refresh the struct, or load the layer again"))
    if bad:
        problems.append(Problem(name, "content", f"no {bad_code_name(info.element)}", f"{bad} of them"))
    if pads:
        problems.append(Problem(name, "pads", f"pad elements 0x{info.fill or 0:02X} ({info.layout})", f"{pads} others"))
    return problems


def bad_code_name(element: str) -> str:
    """Return what `bad_codes` counts in elements of a kind."""
    if element == "e8m0":
        return "scale byte 0xFF (NaN)"
    return "NaN code" if element.startswith("fp8") else "infinity or NaN"


def bad_codes(t: torch.Tensor, info: TensorInfo) -> torch.Tensor:
    """Return how many elements no kernel survives, as an int64 tensor of no axes on the device."""
    match info.element:
        case "e8m0":
            return (t.view(torch.uint8) == 0xFF).sum()
        case "fp8_e4m3fn":
            return (t.view(torch.uint8) & 0x7F == 0x7F).sum()
        case "fp8_e4m3fnuz":
            return (t.view(torch.uint8) == 0x80).sum()
        case "bf16" | "fp16" | "fp32":
            return (~torch.isfinite(t)).sum()
    return torch.zeros((), dtype=torch.int64, device=t.device)


def wrong_pads(t: torch.Tensor, info: TensorInfo) -> torch.Tensor:
    """Return how many pad elements do not hold the layout's fill, as an int64 tensor of no axes on the device."""
    none = torch.zeros((), dtype=torch.int64, device=t.device)
    if info.fill is None or info.storage is None or not info.pads:
        return none
    padded = (*t.shape[info.batch : -1], t.shape[-1] * (2 if info.bits == 4 else 1))
    storage = info.storage(info.name, info.bits, *padded)
    moved = unpack(info.name, t, tuple(t.shape), padded=padded, view=storage.view, permute=storage.permute)
    logical = moved.view(torch.uint8)
    fill = torch.tensor(list(info.fill.to_bytes(t.element_size(), "little")), dtype=torch.uint8, device=t.device)
    wrong = logical.view(*t.shape, t.element_size()) != fill
    total = none
    inside = wrong
    for axis, ranges in info.pads:
        kept = torch.cat([inside.narrow(axis, begin, end - begin) for begin, end in ranges], dim=axis)
        total = total + inside.any(-1).sum() - kept.any(-1).sum()
        inside = kept
    return total
