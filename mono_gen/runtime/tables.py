"""Pointer tables, and the bytes that a struct holds."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import count

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime import tensors
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse, show
from mono_gen.runtime.ledger import version_of

KEPT = "_mono_gen_kept_alive"  # on the table's storage: as long as any view of the table
_generations = count(1)


@frozen
class Entry:
    """A pointer of a table, as it was when the table was built.

    tensor:  held weakly, to find one whose `data` was replaced; None for an address that the caller vouches for.
    storage: kept, and so is its memory unless somebody resizes it.
    address: of the tensor; `begin` and `nbytes` are the storage's.
    """

    name: str
    address: int
    tensor: weakref.ref[torch.Tensor] | None = None
    storage: torch.UntypedStorage | None = None
    begin: int = 0
    nbytes: int = 0


@frozen
class Built:
    """What a table was built from; `generation` is one more than that of the table built before."""

    subject: str
    generation: int
    version: int | None
    entries: tuple[Entry, ...]


def nbytes(*fields: torch.Tensor | None) -> int:
    """Return the bytes of the tensors that are present."""
    return sum(t.numel() * t.itemsize for t in fields if t is not None)


def address_table(
    subject: str,
    entries: Iterable[tuple[str, torch.Tensor | int]],
    *,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """Return the addresses of the entries as an int64 tensor on their device; nothing waits for that device.

    An int is an address that the caller vouches for (0 is null). A tensor must be dense and 16-byte aligned; its
    storage is kept on the table's own storage, so that it lives as long as the table or any view of it. A clone of the
    table, or a copy on another device, keeps nothing. `recheck_table` finds a table whose tensors moved.

    Raises: MonoUnsupported, with every entry that a kernel must not get.
    """
    kept: list[Entry] = []
    problems: list[Problem] = []
    where = torch.device(device) if device is not None else None
    for name, entry in entries:
        found = _entry_problems(name, entry, where)
        problems += found
        if found:
            continue
        if isinstance(entry, torch.Tensor):
            t = tensors.plain(entry)
            where = t.device if where is None else where
            storage = t.untyped_storage()
            kept.append(Entry(name, t.data_ptr(), weakref.ref(entry), storage, storage.data_ptr(), storage.nbytes()))
        else:
            kept.append(Entry(name, entry))
    if where is None and not problems:
        problems.append(Problem(subject, "device", "a tensor among the entries, or device=", "addresses alone"))
    if problems or where is None:
        raise MonoUnsupported(subject, problems)
    table = _on_device([entry.address for entry in kept], where)
    built = Built(subject, next(_generations), version_of(table), tuple(kept))
    setattr(table.untyped_storage(), KEPT, built)
    return table


def recheck_table(table: torch.Tensor) -> int:
    """Return the generation of a table, after finding that every tensor in it is where it was; no device waits.

    A tensor that nobody holds any more is kept by the table, where it was.
    Raises: MonoUnsupported, with every entry whose memory was freed, resized or replaced, whose tensor has other
            memory now, and where the table's own addresses were written over.
    Law:    tests/runtime/test_recheck.py
    """
    built = getattr(table.untyped_storage(), KEPT, None)
    if not isinstance(built, Built):
        raise refuse("recheck_table", "table", "a table of addresses", "a tensor that no args method built")
    problems = [p for entry in built.entries if (p := _moved(entry)) is not None]
    if version_of(table) != built.version:
        problems.append(Problem(built.subject, "overwritten", "the addresses as built", "in-place writes since"))
    if problems:
        raise MonoUnsupported(built.subject, problems)
    return built.generation


def _moved(entry: Entry) -> Problem | None:
    """Return what happened to the memory of an entry since its table was built."""
    if entry.storage is None:
        return None
    begin, nbytes = entry.storage.data_ptr(), entry.storage.nbytes()
    if (begin, nbytes) != (entry.begin, entry.nbytes):
        expected, found = f"{entry.nbytes} bytes at {entry.begin:#x}", f"{nbytes} bytes at {begin:#x}"
        return Problem(entry.name, "freed" if nbytes == 0 else "moved", expected, found, _AGAIN)
    t = entry.tensor() if entry.tensor is not None else None
    if t is not None and t.data_ptr() != entry.address:
        return Problem(entry.name, "moved", f"tensor at {entry.address:#x}", f"tensor at {t.data_ptr():#x}", _AGAIN)
    return None


_AGAIN = "the table points to memory that the tensor has left: build it again, and capture graphs anew"


def _entry_problems(name: str, entry: object, where: torch.device | None) -> list[Problem]:
    if isinstance(entry, torch.Tensor):
        problems = tensors.bytes_problems(name, entry)
        if tensors.kind_problem(name, entry) is None:
            misaligned = tensors.alignment_problem(name, tensors.plain(entry), tensors.POINTER_ALIGNMENT)
            problems += [misaligned] if misaligned is not None else []
            if where is not None and entry.device != where:
                problems.append(Problem(name, "device", str(where), str(entry.device)))
        return problems
    if isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < 1 << 63:
        return []
    return [Problem(name, "address", "a tensor, or an address from 0 to 2^63 - 1", show(entry))]


def _on_device(addresses: list[int], device: torch.device) -> torch.Tensor:
    if device.type != "cuda":
        return torch.tensor(addresses, dtype=torch.int64, device=device)
    # pinned: the copy is queued on the current stream, and the allocator holds the host buffer until it has run
    return torch.tensor(addresses, dtype=torch.int64, device="cpu", pin_memory=True).to(device, non_blocking=True)
