"""The ledger: which bytes of which storage are in which layout. Kept beside tensors, not on them.

A record belongs to a range of bytes of one StorageImpl, which is held weakly: it goes when the last view goes. A tensor
finds a record only where it is exactly that range, or whole batch items of it. A Python attribute would be lost by
`Parameter()`, `clone` and `.data`, and would stay true under `copy_`; a record does neither.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, replace

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from mono_gen.runtime.content import Fingerprint


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a range of bytes.

    layout:    the layout's name; `row_major` where that is known.
    layout_id: of the layout at these extents (for a run-time first axis, of one step of it).
    field_id:  of the field, where a struct owns the bytes; 0 elsewhere.
    format:    the element's name, such as fp8_e4m3fn; empty where only bytes were moved.
    bits:      of one element.
    extents:   logical, in elements, batch axes first.
    batch:     how many of these are batch axes.
    nbytes:    of the range.
    origin:    who said so: pack, attest, load or file.
    version:   torch's version counter when the record was made; None for inference tensors, which have none.
    content:   the fingerprint of the bytes, None where nobody has read them.
    """

    layout: str
    layout_id: int
    field_id: int
    format: str
    bits: int
    extents: tuple[int, ...]
    batch: int
    nbytes: int
    origin: str
    version: int | None = None
    content: Fingerprint | None = None

    @property
    def item_bytes(self) -> int:
        """Return the bytes of one batch item; of the whole where there are no batch axes."""
        items = 1
        for n in self.extents[: self.batch]:
            items *= n
        return self.nbytes // items


@dataclass(frozen=True, slots=True)
class Ended:
    """A record that ended while its storage lived, and why: the bytes are unknown, and were not always."""

    layout: str
    why: str


@dataclass(slots=True)
class _Held:
    """A record with the tensor that it was made for, as far as that lives."""

    record: Record
    owner: weakref.ref[torch.Tensor] | None


@dataclass(slots=True)
class _Storage:
    """The records of one storage, by byte range; `address` and `nbytes` as they were when it was entered."""

    weak: StorageWeakRef
    address: int
    nbytes: int
    ranges: dict[tuple[int, int], _Held | Ended]


_LOCK = threading.RLock()
_STORAGES: dict[int, _Storage] = {}
_SWEEP_AT = 256
_next_sweep = _SWEEP_AT


def enter(t: torch.Tensor, record: Record) -> Record:
    """Return the record as kept: for exactly the bytes of t, in place of all that overlaps them.

    Requires: t is dense in row-major order.
    """
    global _next_sweep
    storage = t.untyped_storage()
    start, size = int(t.storage_offset()) * t.element_size(), t.nbytes
    kept = replace(record, version=version_of(t), nbytes=size)
    with _LOCK:
        entry = _STORAGES.get(storage._cdata)
        if entry is None or entry.address != storage.data_ptr() or entry.nbytes != storage.nbytes():
            entry = _Storage(
                StorageWeakRef(storage),  # type: ignore[no-untyped-call]
                storage.data_ptr(),
                storage.nbytes(),
                {},
            )
            _STORAGES[storage._cdata] = entry
        for begin, length in [r for r in entry.ranges if r[0] < start + size and start < r[0] + r[1]]:
            del entry.ranges[begin, length]
        entry.ranges[start, size] = _Held(kept, _weakly(t))
        if len(_STORAGES) > _next_sweep:
            sweep()
            _next_sweep = max(_SWEEP_AT, 2 * len(_STORAGES))
    return kept


def look_up(t: torch.Tensor) -> Record | Ended | None:
    """Return the record of a tensor's bytes, why it ended, or None where nothing was ever known of them.

    Reads pointers and counters alone: no byte of the tensor, no device.
    """
    storage = t.untyped_storage()
    entry = _STORAGES.get(storage._cdata)
    if entry is None:
        return None
    if entry.weak.expired():  # type: ignore[no-untyped-call]
        with _LOCK:
            _STORAGES.pop(storage._cdata, None)
        return None
    start, size = int(t.storage_offset()) * t.element_size(), t.nbytes
    if entry.address != storage.data_ptr() or entry.nbytes != storage.nbytes():
        return _end_all(entry, start, size, "its storage was resized, replaced or unmapped")
    found = entry.ranges.get((start, size))
    if found is None:
        return _inherited(entry, t, start, size)
    if isinstance(found, Ended) or not t.is_contiguous():
        return found if isinstance(found, Ended) else None
    return _current(entry, (start, size), found, t)


def record_of(t: torch.Tensor) -> Record | None:
    """Return what is known of the layout of a tensor's bytes; None is unknown, never row-major.

    Law: tests/runtime/test_ledger.py
    """
    found = look_up(t)
    return found if isinstance(found, Record) else None


def forget(t: torch.Tensor) -> None:
    """End every record that overlaps a tensor's bytes, without a trace."""
    storage = t.untyped_storage()
    start, end = int(t.storage_offset()) * t.element_size(), int(t.storage_offset()) * t.element_size() + t.nbytes
    with _LOCK:
        entry = _STORAGES.get(storage._cdata)
        if entry is not None:
            for key in [r for r in entry.ranges if r[0] < end and start < r[0] + r[1]]:
                del entry.ranges[key]


def sweep() -> int:
    """Return how many storages are live, after dropping the records of those that died."""
    with _LOCK:
        for key in [k for k, entry in _STORAGES.items() if entry.weak.expired()]:  # type: ignore[no-untyped-call]
            del _STORAGES[key]
        return len(_STORAGES)


def version_of(t: torch.Tensor) -> int | None:
    """Return torch's count of in-place writes; None for inference tensors, which keep none."""
    return None if t.is_inference() else t._version


def _weakly(t: torch.Tensor) -> weakref.ref[torch.Tensor] | None:
    """Return a weak reference to a tensor whose writes can be counted."""
    return None if t.is_inference() else weakref.ref(t)


def _current(entry: _Storage, key: tuple[int, int], held: _Held, t: torch.Tensor) -> Record | Ended:
    """Return a record whose bytes were not written since, as far as counters tell; else end it.

    `.data` gives a tensor a counter of its own: a smaller count is another counter, and tells nothing.
    """
    record = held.record
    if record.version is None:
        return record
    owner = held.owner() if held.owner is not None else None
    counts = [version_of(x) for x in (owner, t) if x is not None]
    if any(count is not None and count > record.version for count in counts):
        ended = Ended(record.layout, "its bytes were written since")
        with _LOCK:
            entry.ranges[key] = ended
        return ended
    return record


def _end_all(entry: _Storage, start: int, size: int, why: str) -> Ended | None:
    """End every record of a storage, and return the end of the one that a range had."""
    with _LOCK:
        for key, held in entry.ranges.items():
            if isinstance(held, _Held):
                entry.ranges[key] = Ended(held.record.layout, why)
        found = entry.ranges.get((start, size)) or next(iter(entry.ranges.values()), None)
    return found if isinstance(found, Ended) else None


def _inherited(entry: _Storage, t: torch.Tensor, start: int, size: int) -> Record | Ended | None:
    """Return the record of whole batch items of a recorded range."""
    if not t.is_contiguous() or not size:
        return None
    for key, held in list(entry.ranges.items()):
        begin, length = key
        if start < begin or start + size > begin + length:
            continue
        if isinstance(held, Ended):
            return held
        item = held.record.item_bytes
        if not held.record.batch or (start - begin) % item or size % item:
            return None
        current = _current(entry, key, held, t)
        if isinstance(current, Ended):
            return current
        inner = current.extents[current.batch :]
        return replace(current, extents=(size // item, *inner), batch=1, nbytes=size, content=None)
    return None
