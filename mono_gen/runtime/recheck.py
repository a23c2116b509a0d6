"""Looking again: a struct's tensors against what they were when it was loaded, by structure and by content.

Structure reads pointers, strides and counters: no byte, no device. Content reads every byte (samples of what is large
on the CPU), enqueued for all tensors, with one synchronisation for all verdicts. Without it the state is "unverified".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar, Literal, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from mono_gen.frozen import frozen
from mono_gen.runtime.content import Codes, Fingerprint, counted, fingerprint, read_all
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.fields import TensorInfo
from mono_gen.runtime.gpu import has_kernels
from mono_gen.runtime.layouts import Storage
from mono_gen.runtime.ledger import Record, enter, record_of, version_of
from mono_gen.runtime.moves import unpack

State = Literal["verified", "unverified"]
"""`verified`: structure and content were compared and equal. `unverified`: structure holds, nobody compared content."""


@frozen
class Sealed:
    """A tensor of a struct as it was at load: the tensor is kept, so that its memory is; its storage weakly."""

    info: TensorInfo
    tensor: torch.Tensor
    address: int
    storage: StorageWeakRef
    storage_nbytes: int
    dtype: torch.dtype
    shape: torch.Size
    strides: tuple[int, ...]
    version: int | None
    content: Fingerprint


Seal = tuple[Sealed, ...]


class Struct(Protocol):
    """A generated struct: its tensors by name, and what they were at load."""

    tensors: ClassVar[dict[str, TensorInfo]]
    _seal: Seal


def described(struct: Struct) -> str:
    """Return a struct's name and its tensors with type and shape; reads no tensor, waits for no device."""
    parts = (f"{one.info.name}: {one.dtype} {tuple(one.shape)} {one.info.layout}" for one in struct._seal)
    return f"{type(struct).__name__}({', '.join(parts)})".replace("torch.", "")


def seal(struct: object, tensors: Mapping[str, TensorInfo]) -> Seal:
    """Return what the tensors of a struct are now, and enter each in the ledger as its field.

    Fingerprints are enqueued; nothing waits for a device.
    """
    present = ((info, getattr(struct, name)) for name, info in tensors.items())
    return tuple(_sealed(info, t) for info, t in present if t is not None)


def _sealed(info: TensorInfo, t: torch.Tensor) -> Sealed:
    storage = t.untyped_storage()
    content = fingerprint(t, info.items(t))
    earlier = record_of(t)
    known = earlier is not None and earlier.layout == info.layout
    record = Record(
        layout=info.layout,
        layout_id=info.layout_id,
        field_id=info.field_id,
        format=info.element,
        bits=info.bits,
        extents=info.extents(t),
        batch=info.batch,
        nbytes=t.nbytes,
        origin=earlier.origin if earlier is not None and known else "load",
        content=content,
    )
    enter(t, record)
    return Sealed(
        info=info,
        tensor=t,
        address=t.data_ptr(),
        storage=StorageWeakRef(storage),  # type: ignore[no-untyped-call]
        storage_nbytes=storage.nbytes(),
        dtype=t.dtype,
        shape=t.shape,
        strides=t.stride(),
        version=version_of(t),
        content=content,
    )


def recheck(struct: Struct, content: bool = False, changing: Collection[str] = ()) -> State:
    """Return the state of a loaded struct: "unverified" after structure alone, "verified" after content, too.

    content:  whether every byte is compared with what it was at load, which synchronises with the device.
    changing: fields whose bytes are meant to change under kernels, such as caches: their pointers alone are checked.
    Raises:   MonoUnsupported, with every tensor that moved, was freed, recycled or overwritten.
    """
    if content:
        return verify_all((struct,), changing)
    _require_known((struct,), changing)
    problems = [p for one in struct._seal for p in structure_problems(one, one.info.name in changing)]
    if problems:
        raise MonoUnsupported(type(struct).__name__, problems)
    return "unverified"


def _require_known(structs: Iterable[Struct], changing: Collection[str]) -> None:
    """Raise MonoUnsupported where a name of `changing` is no tensor of any of the structs: it would shield nothing."""
    if not changing:
        return
    names = {name for struct in structs for name in struct.tensors}
    unknown = [
        Problem(name, "changing", f"one of {', '.join(sorted(names))}", name) for name in changing if name not in names
    ]
    if unknown:
        raise MonoUnsupported("changing", unknown)


def structure_problems(one: Sealed, changing: bool) -> list[Problem]:
    """Return what moved since load, by pointers, strides and counters."""
    t, name = one.tensor, one.info.name
    storage = t.untyped_storage()
    nbytes = storage.nbytes()
    if nbytes == 0:
        return [Problem(name, "freed", f"{one.storage_nbytes} bytes at {one.address:#x}", "storage of 0 bytes", _AGAIN)]
    if t.data_ptr() != one.address or nbytes != one.storage_nbytes:
        found = f"{nbytes} bytes, tensor at {t.data_ptr():#x}"
        expected = f"{one.storage_nbytes} bytes, tensor at {one.address:#x}"
        return [Problem(name, "moved", expected, found, _AGAIN)]
    if storage._cdata != one.storage.cdata:
        found = "another storage at the same address"
        return [Problem(name, "recycled", f"the storage of the load, at {one.address:#x}", found, _AGAIN)]
    if t.shape != one.shape or t.stride() != one.strides or t.dtype != one.dtype:
        expected = f"{one.dtype} {tuple(one.shape)}, strides {one.strides}"
        found = f"{t.dtype} {tuple(t.shape)}, strides {t.stride()}"
        return [Problem(name, "strides", expected, found)]
    version = version_of(t)
    if not changing and version != one.version:
        expected, found = f"{one.version} in-place writes, as at load", f"{version} writes"
        return [Problem(name, "overwritten", expected, found, "refresh the struct, or load the layer again")]
    return []


_AGAIN = "captured graphs still read the old address: load the layer again and capture anew"


def verify_all(structs: Iterable[Struct], changing: Collection[str] = ()) -> State:
    """Return "verified" when structure and content of every struct hold: one synchronisation for all of them.

    Content is the fingerprint of every tensor, its pads, and codes that no kernel survives: e8m0 0xFF, fp8 NaN, and
    bf16 or fp32 infinities and NaNs.
    Raises: MonoUnsupported, with every problem of every struct, numbered in their order where there are several.
    Law:    tests/runtime/test_recheck.py
    """
    structs = tuple(structs)
    _require_known(structs, changing)
    found: list[tuple[str, Sealed, list[Problem], torch.Tensor | None]] = []
    for index, struct in enumerate(structs):
        prefix = f"{type(struct).__name__} {index}: " if len(structs) > 1 else ""
        for one in struct._seal:
            skipped = one.info.name in changing
            problems = structure_problems(one, changing=True)  # of writes the content tells more than the counter
            measured = None if problems or skipped else _measure(one)
            found.append((prefix, one, problems, measured))
    numbers = iter(read_all([m for *_, m in found if m is not None]))
    problems = []
    for prefix, one, structural, measured in found:
        mine = structural if measured is None else _judge(one, *next(numbers))
        problems += [Problem(prefix + p.field, p.what, p.expected, p.found, p.help) for p in mine]
    if problems:
        raise MonoUnsupported(", ".join(dict.fromkeys(type(struct).__name__ for struct in structs)), problems)
    return "verified"


def _measure(one: Sealed) -> torch.Tensor:
    """Return fingerprint then, fingerprint now, bad codes and wrong pads, as one int64 tensor on the device."""
    pads = wrong_pads(one.tensor, one.info)
    if has_kernels(one.tensor):
        now_and_bad = counted(one.tensor, BAD_CODES.get(one.info.element))
        return torch.cat((one.content.value.view(1), now_and_bad, pads.view(1)))
    now = fingerprint(one.tensor, one.info.items(one.tensor)).value
    return torch.stack((one.content.value, now, bad_codes(one.tensor, one.info), pads))


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


BAD_CODES = {
    "e8m0": Codes(8, 0xFF, 0xFF),
    "fp8_e4m3fn": Codes(8, 0x7F, 0x7F),
    "fp8_e4m3fnuz": Codes(8, 0xFF, 0x80),
    "bf16": Codes(16, 0x7F80, 0x7F80),
    "fp16": Codes(16, 0x7C00, 0x7C00),
    "fp32": Codes(32, 0x7F800000, 0x7F800000),
}
"""By element: NaNs, and the infinities of formats that have them."""


def bad_codes(t: torch.Tensor, info: TensorInfo) -> torch.Tensor:
    """Return how many elements no kernel survives, as an int64 tensor of no axes on the device."""
    codes = BAD_CODES.get(info.element)
    if codes is None:
        return torch.zeros((), dtype=torch.int64, device=t.device)
    elements = t.view({8: torch.uint8, 16: torch.int16, 32: torch.int32}[codes.bits])
    return (elements & codes.mask == codes.pattern).sum()


_PADS_BYTES = 64 << 20  # of batch items whose pads are compared together


def wrong_pads(t: torch.Tensor, info: TensorInfo) -> torch.Tensor:
    """Return how many pad elements do not hold the layout's fill, as an int64 tensor of no axes on the device."""
    total = torch.zeros((), dtype=torch.int64, device=t.device)
    if info.fill is None or info.storage is None or not info.pads:
        return total
    items = t.view(-1, *t.shape[info.batch :])
    for part in torch.split(items, max(_PADS_BYTES // (t.nbytes // items.shape[0]), 1)):
        total = total + _wrong_pads(part, info, info.fill, info.storage)
    return total


def _wrong_pads(t: torch.Tensor, info: TensorInfo, fill: int, storage_of: Callable[..., Storage]) -> torch.Tensor:
    """Return the same of a few batch items, on one axis."""
    total = torch.zeros((), dtype=torch.int64, device=t.device)
    held = t.view(torch.float4_e2m1fn_x2) if info.bits == 4 else t
    padded = (*t.shape[1:-1], t.shape[-1] * (2 if info.bits == 4 else 1))
    storage = storage_of(info.name, info.bits, *padded)
    logical = unpack(info.name, held, tuple(t.shape), padded=padded, view=storage.view, permute=storage.permute)
    inside = _differs(logical.view(torch.uint8).view(*t.shape, t.element_size()), fill, info.bits)
    for axis, ranges in info.pads:
        at = axis - info.batch + 1
        kept = torch.cat([inside.narrow(at, begin, end - begin) for begin, end in ranges], dim=at)
        total = total + inside.sum() - kept.sum()
        inside = kept
    return total


def _differs(codes: torch.Tensor, fill: int, bits: int) -> torch.Tensor:
    """Return, for each element of bytes [..., torch elements, bytes of one], whether it is not the fill's pattern."""
    if bits == 4:
        nibbles = torch.cat((codes & 0x0F, codes >> 4), dim=-1)  # low first
        return (nibbles != fill).flatten(-2)
    wrong = codes[..., 0] != (fill & 0xFF)
    for place in range(1, bits // 8):
        wrong |= codes[..., place] != (fill >> (8 * place) & 0xFF)
    return wrong
