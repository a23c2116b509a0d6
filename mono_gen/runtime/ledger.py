"""The ledger: which bytes of which storage are in which layout. Kept beside tensors, not on them.

A record belongs to a range of bytes of one StorageImpl, which is held weakly: it goes when the last view goes. A tensor
finds a record only where it is exactly that range, or whole batch items of it. A Python attribute would be lost by
`Parameter()`, `clone` and `.data`, and would stay true under `copy_`; a record does neither.

What structure can see of a write: torch counts in-place writes, one counter for a tensor and all its views, `detach()`
and `Parameter()` aliases. A write through any of them ends the records, wherever in the storage it goes. `.data` makes
an alias with a counter of its own, kernels count nothing, and inference tensors have no counter: such writes change
the content alone, which `Load` compares with the record's, and `recheck(content=True)` with the struct's.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import prod

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from mono_gen.frozen import frozen, replace
from mono_gen.runtime.content import Fingerprint


@frozen
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
    origin:    who said so: pack, attest, file, or load: a producer's flag at that time, which is asked again.
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
    def items(self) -> int:
        """Return the number of batch items; 1 where there are no batch axes."""
        return prod(self.extents[: self.batch])


@frozen
class Ended:
    """A record that ended while its storage lived, and why: the bytes are unknown, and were not always."""

    layout: str
    why: str


@dataclass(slots=True)
class _Range:
    """What is known of a range of bytes, with the counter of the tensor that it was said of.

    parts: the records of batch items that were looked up: an expert is asked for at every step.
    """

    start: int
    size: int
    known: Record | Ended
    counter: torch.Tensor | None
    parts: dict[tuple[int, int], Record] | None = None

    def overlaps(self, start: int, size: int) -> bool:
        """Return whether two ranges have a byte in common."""
        return self.start < start + size and start < self.start + self.size


@dataclass(slots=True)
class _Storage:
    """The ranges of one storage, none overlapping; `address` and `nbytes` as they were when it was entered."""

    weak: StorageWeakRef
    address: int
    nbytes: int
    ranges: tuple[_Range, ...] = ()


_LOCK = threading.RLock()
_NO_BYTES: dict[torch.device, torch.Tensor] = {}
_STORAGES: dict[int, _Storage] = {}
_SWEEP_AT = 256
_PARTS = 1024  # of one range; beyond it they are forgotten and worked out anew
_next_sweep = _SWEEP_AT


def enter(t: torch.Tensor, record: Record) -> Record:
    """Return the record as kept: for exactly the bytes of t, in place of all that overlaps them.

    Requires: t is an ordinary tensor, dense in row-major order.
    """
    global _next_sweep
    with torch._C.DisableTorchFunctionSubclass():
        storage = t.untyped_storage()
        start, size = _range_of(t)
        counter = _counter_of(t)
    kept = replace(record, version=None if counter is None else counter._version, nbytes=size)
    mine = _Range(start, size, kept, counter)
    with _LOCK:
        entry = _STORAGES.get(storage._cdata)
        if entry is None or entry.address != storage.data_ptr() or entry.nbytes != storage.nbytes():
            weak = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            entry = _STORAGES[storage._cdata] = _Storage(weak, storage.data_ptr(), storage.nbytes())
        entry.ranges = (*(r for r in entry.ranges if not r.overlaps(start, size)), mine)
        if len(_STORAGES) > _next_sweep:
            sweep()
            _next_sweep = max(_SWEEP_AT, 2 * len(_STORAGES))
    return kept


def look_up(t: torch.Tensor) -> Record | Ended | None:
    """Return the record of a tensor's bytes, why it ended, or None where nothing was ever known of them.

    Reads pointers and counters alone: no byte of the tensor, no device. Where records of several ranges meet in the
    tensor, one that ended is what is known; else nothing is.
    """
    with torch._C.DisableTorchFunctionSubclass():
        if t.layout is not torch.strided:
            return None
        storage = t.untyped_storage()
        entry = _STORAGES.get(storage._cdata)  # a storage that is held weakly keeps its address for itself
        if entry is None:
            return None
        if entry.address != storage.data_ptr() or entry.nbytes != storage.nbytes():
            _end_all(entry, "its storage was resized, replaced or unmapped")
        start, size = _range_of(t)
        found: list[tuple[_Range, Record]] = []
        for one in entry.ranges:
            if one.overlaps(start, size):
                known = _current(one)
                if isinstance(known, Ended):
                    return known
                found.append((one, known))
        return _part(found[0][1], found[0][0], start, size) if len(found) == 1 and t.is_contiguous() else None


def record_of(t: torch.Tensor) -> Record | None:
    """Return what is known of the layout of a tensor's bytes; None is unknown, never row-major.

    Law: tests/runtime/test_ledger.py
    """
    found = look_up(t)
    return found if isinstance(found, Record) else None


def sweep() -> int:
    """Return how many storages are live, after dropping the records of those that died."""
    with _LOCK:
        for key in [k for k, entry in _STORAGES.items() if entry.weak.expired()]:  # type: ignore[no-untyped-call]
            del _STORAGES[key]
        return len(_STORAGES)


def version_of(t: torch.Tensor) -> int | None:
    """Return torch's count of in-place writes; None for inference tensors, which keep none."""
    return None if t.is_inference() else t._version


def _counter_of(t: torch.Tensor) -> torch.Tensor | None:
    """Return an alias of t that has its counter of writes and none of its bytes; None where nothing is counted.

    It counts on after t is gone, and keeps no memory of t.
    """
    if t.is_inference():
        return None
    nothing = _NO_BYTES.get(t.device)
    if nothing is None:
        with torch.inference_mode(False):
            nothing = _NO_BYTES.setdefault(t.device, torch.empty(0, dtype=torch.uint8, device=t.device))
    counter = t.detach()
    counter.data = nothing
    return counter


def _range_of(t: torch.Tensor) -> tuple[int, int]:
    """Return where a dense tensor's bytes begin in its storage, and how many they are."""
    return int(t.storage_offset()) * t.element_size(), t.nbytes


def _current(one: _Range) -> Record | Ended:
    """Return what is known of a range, after ending a record whose bytes were written since, as far as is counted."""
    known = one.known
    if isinstance(known, Record) and one.counter is not None and one.counter._version != known.version:
        known = one.known = Ended(known.layout, "its bytes were written since")
    return known


def _end_all(entry: _Storage, why: str) -> None:
    """End every record of a storage."""
    for one in entry.ranges:
        if isinstance(one.known, Record):
            one.known = Ended(one.known.layout, why)


def _part(record: Record, one: _Range, start: int, size: int) -> Record | None:
    """Return the record of a range that overlaps a recorded one: itself, or whole batch items of it; else None."""
    if (start, size) == (one.start, one.size):
        return record
    known = one.parts.get((start, size)) if one.parts is not None else None
    if known is not None:
        return known
    item = record.nbytes // record.items
    inside = one.start <= start and start + size <= one.start + one.size
    if not inside or not record.batch or (start - one.start) % item or size % item:
        return None
    inner = record.extents[record.batch :]
    found = replace(record, extents=(size // item, *inner), batch=1, nbytes=size, content=None)
    if one.parts is None or len(one.parts) >= _PARTS:
        one.parts = {}
    one.parts[start, size] = found
    return found
