"""Pointer tables, and the bytes that a struct holds."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from mono_gen.runtime import tensors
from mono_gen.runtime.errors import MonoUnsupported, Problem, show

KEPT = "_mono_gen_kept_alive"  # on the table's storage: as long as any view of the table


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
    table, or a copy on another device, keeps nothing.

    Raises: MonoUnsupported, with every entry that a kernel must not get.
    """
    addresses: list[int] = []
    kept: list[torch.UntypedStorage] = []
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
            addresses.append(t.data_ptr())
            kept.append(t.untyped_storage())
        else:
            addresses.append(entry)
    if where is None and not problems:
        problems.append(Problem(subject, "device", "a tensor among the entries, or device=", "addresses alone"))
    if problems or where is None:
        raise MonoUnsupported(subject, problems)
    table = _on_device(addresses, where)
    setattr(table.untyped_storage(), KEPT, tuple(kept))
    return table


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
