"""Fingerprints: a hash of a tensor's bytes, keyed by position, the same on every device, with no synchronisation.

Word w at index i of a chunk is mixed with two keys of i, by steps that lose nothing of w: a changed word always changes
its hash. A chunk's hashes are summed, in any order, and the sums of chunks are carried into each other in theirs. Two
changed words, exchanged words or moved tiles cancel with a chance of about 2^-31 where only their top bits differ, and
of 2^-64 where they are unlike. It is no defence against somebody who wants to be missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime.gpu import has_kernels

SAMPLE_ABOVE_BYTES = 64 << 20
"""CPU tensors above this are sampled: reading them whole takes seconds a layer."""

_unread: ContextVar[bool] = ContextVar("unread", default=False)


@contextmanager
def unread() -> Iterator[None]:
    """Return a context in which fingerprints read no byte: for callers who read all of them, and keep no tensor.

    A tensor that is kept all the same is refused when its content is compared: it has another fingerprint.
    """
    token = _unread.set(True)
    try:
        yield
    finally:
        _unread.reset(token)


SAMPLES_AN_ITEM = 64
SAMPLE_WORDS = 64
"""Words a sample, at most; fewer where samples of this length would read more than an eighth of an item."""

_CHUNK_WORDS = 1 << 15
"""Words hashed together: what one CPU thread works through without waking others."""

_LAUNCH_CHUNKS = 128
"""Chunks that a device hashes in one launch; their sums are carried into each other together."""

_KEY = -7046029254386353131  # odd, 2^64 / golden ratio
_MULTIPLIER = -4417276706812531889  # odd
_CARRY = 6364136223846793005  # odd
_UPPER = 1 if sys.byteorder == "little" else 0  # the place of a word's upper half among its two


@frozen
class Fingerprint:
    """The hash of a tensor's bytes.

    value:   an int64 tensor of no axes on the tensor's device; reading it synchronises.
    sampled: whether it covers samples of every batch item, not every byte.
    """

    value: torch.Tensor
    sampled: bool


def fingerprint(t: torch.Tensor, items: int = 1, *, sampled: bool | None = None) -> Fingerprint:
    """Return the fingerprint of a dense tensor; work is enqueued, nothing waits.

    items:   the batch items in it, each of which is sampled 64 times where the tensor is sampled.
    sampled: samples of every item, or every byte; None: every byte, but for CPU tensors above 64 MiB.
    Law:     tests/runtime/test_content.py
    """
    if _unread.get():
        return Fingerprint(torch.zeros((), dtype=torch.int64, device=t.device), True)
    flat = t.detach().view(-1).view(torch.uint8)
    if sampled is None:
        sampled = t.device.type == "cpu" and t.nbytes > SAMPLE_ABOVE_BYTES
    if has_kernels(flat):
        return Fingerprint(_sampled_by_kernels(flat, items) if sampled else counted(t, None)[0], sampled)
    body = flat.numel() // 8 * 8
    if sampled:
        return Fingerprint(_sampled(flat[:body], items), True)
    return Fingerprint(_ended(_whole(_words(flat[:body])), flat[body:]), False)


@frozen
class Codes:
    """Elements of `bits` bits that a kernel counts: those that are `pattern` under `mask`."""

    bits: int
    mask: int
    pattern: int


def counted(t: torch.Tensor, codes: Codes | None) -> torch.Tensor:
    """Return (fingerprint of every byte, codes) of a dense tensor on a GPU with kernels, read once, as int64 there."""
    from mono_gen.runtime import gpu_content

    flat = t.detach().view(-1).view(torch.uint8)
    pattern = (codes.bits, codes.mask, codes.pattern) if codes is not None else None
    return gpu_content.whole(_aligned(flat), _KEY, _MULTIPLIER, _CARRY, _CHUNK_WORDS, pattern)


def _sampled_by_kernels(flat: torch.Tensor, items: int) -> torch.Tensor:
    """Return what `_sampled` does, in one launch."""
    from mono_gen.runtime import gpu_content

    body = flat.numel() // 8 * 8
    items, per_item, run = _samples(body, items)
    if not run:
        return torch.zeros((), dtype=torch.int64, device=flat.device)
    flat = flat if body == flat.numel() else flat[:body]
    return gpu_content.sampled(flat, items, per_item, run, SAMPLES_AN_ITEM, _KEY, _MULTIPLIER, _CARRY)


class Running:
    """The fingerprint of every byte of CPU tensors that come one behind the other: that of all in one tensor.

    It is made for a thread of its own, whose torch uses one thread: it makes few calls, which others have to wait for.
    Law: tests/runtime/test_content.py::test_pieces_have_the_fingerprint_of_the_whole
    """

    def __init__(self) -> None:
        self._total = torch.zeros((), dtype=torch.int64)
        self._held = torch.empty(8 * _CHUNK_WORDS, dtype=torch.uint8)  # what is not a whole chunk yet
        self._count = 0

    def add(self, piece: torch.Tensor) -> None:
        """Take the bytes of a dense tensor, which come behind all that were taken."""
        flat = piece.detach().view(-1).view(torch.uint8)
        if self._count:
            taken = min(flat.numel(), self._held.numel() - self._count)
            self._hold(flat[:taken])
            flat = flat[taken:]
            if self._count == self._held.numel():
                self._total = _whole(self._held.view(torch.int64), self._total)
                self._count = 0
        body = flat.numel() // self._held.numel() * self._held.numel()
        if body:
            self._total = _whole(_words(flat[:body]), self._total, together=2)
        self._hold(flat[body:])

    def _hold(self, flat: torch.Tensor) -> None:
        self._held[self._count : self._count + flat.numel()] = flat
        self._count += flat.numel()

    def value(self) -> int:
        """Return the fingerprint of the bytes so far."""
        body = self._count // 8 * 8
        return int(_ended(_whole(self._held[:body].view(torch.int64), self._total), self._held[body : self._count]))


def _ended(value: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Return the hash of all words with that of the last bytes, fewer than eight, behind it."""
    if not tail.numel():
        return value
    word = torch.zeros(8, dtype=torch.uint8, device=tail.device)
    word[: tail.numel()] = tail
    return value * _CARRY + _mixed(word.view(torch.int64), _keys(tail.device)[:, :1]).sum()


def read_all(measured: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the numbers of int64 tensors of one length each, after one wait a device."""
    by_device: dict[torch.device, list[int]] = {}
    for index, m in enumerate(measured):
        by_device.setdefault(m.device, []).append(index)
    values: list[list[int]] = [[] for _ in measured]
    for indices in by_device.values():
        for index, row in zip(indices, torch.stack([measured[i] for i in indices]).tolist(), strict=True):
            values[index] = row
    return values


def _wrapped(value: int) -> int:
    """Return an integer as int64 arithmetic wraps it."""
    return (value + 2**63) % 2**64 - 2**63


def _words(flat: torch.Tensor) -> torch.Tensor:
    """Return bytes as int64, copied where they do not begin at a multiple of eight."""
    return _aligned(flat).view(torch.int64)


def _aligned(flat: torch.Tensor) -> torch.Tensor:
    return flat.clone() if flat.storage_offset() % 8 or flat.data_ptr() % 8 else flat


def _whole(words: torch.Tensor, before: torch.Tensor | None = None, together: int = 1) -> torch.Tensor:
    """Return the hash of all words: the sums of the chunks, each carried into the next by a multiplication.

    before:   the hash of whole chunks that stand before these words.
    together: chunks that a CPU hashes in one call.
    """
    total = torch.zeros((), dtype=torch.int64, device=words.device) if before is None else before
    chunks = words.numel() // _CHUNK_WORDS
    whole, rest = words[: chunks * _CHUNK_WORDS].view(chunks, _CHUNK_WORDS), words[chunks * _CHUNK_WORDS :]
    keys = _keys(words.device)
    step = together if words.device.type == "cpu" else _LAUNCH_CHUNKS
    x = torch.empty(min(step, max(chunks, 1)), _CHUNK_WORDS, dtype=torch.int64, device=words.device)
    sums = torch.empty(min(_LAUNCH_CHUNKS, chunks), dtype=torch.int64, device=words.device)
    for start in range(0, chunks, _LAUNCH_CHUNKS):
        count = min(_LAUNCH_CHUNKS, chunks - start)
        for at in range(0, count, step):
            part = whole[start + at : start + min(at + step, count)]
            torch.sum(_mix(part, keys, x[: part.shape[0]]), -1, out=sums[at : at + part.shape[0]])
        total = total * _wrapped(_CARRY**count) + (sums[:count] * _carries(words.device)[-count:]).sum()
    if rest.numel():
        total = total * _CARRY + _mixed(rest, keys[:, : rest.numel()]).sum()
    return total


def _mix(words: torch.Tensor, keys: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the hash of each word under its two keys, in x. One to one for given keys.

    Twice, the upper half of a word is mixed into the lower one: w ^= w >> 32, the shift being unsigned.
    """
    halves = x.view(torch.int32)
    upper, lower = halves[..., _UPPER::2], halves[..., 1 - _UPPER :: 2]
    torch.bitwise_xor(words, keys[0], out=x)
    lower.bitwise_xor_(upper)
    x.mul_(keys[1])
    lower.bitwise_xor_(upper)
    return x


def _mixed(words: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the hash of each word under its two keys."""
    return _mix(words, keys, torch.empty(words.shape, dtype=torch.int64, device=words.device))


def _sampled(flat: torch.Tensor, items: int) -> torch.Tensor:
    """Return the hash of words spread evenly over every item, its ends among them; at most an eighth of large items."""
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    items, per_item, run = _samples(flat.numel(), items)
    if not run:
        return total
    starts = torch.arange(SAMPLES_AN_ITEM, device=flat.device) * (per_item - run) // (SAMPLES_AN_ITEM - 1)
    index = (starts[:, None] + torch.arange(run, device=flat.device)).view(-1)
    keys = _keys(flat.device)[:, : index.numel()]
    item_bytes = flat.numel() // items
    aligned = item_bytes % 8 == 0 and flat.storage_offset() % 8 == 0 and flat.data_ptr() % 8 == 0
    rows = flat[: items * item_bytes].view(items, item_bytes)
    step = min(max(_CHUNK_WORDS // index.numel(), 1), _LAUNCH_CHUNKS)
    for start in range(0, items, step):
        part = rows[start : start + step]
        if aligned:
            words = part.view(torch.int64).index_select(1, index)
        else:
            places = (index[:, None] * 8 + torch.arange(8, device=flat.device)).view(-1)
            words = part.index_select(1, places).view(torch.int64)
        sums = _mixed(words, keys[:, None, :].expand(2, words.shape[0], -1)).sum(-1)
        total = total * _wrapped(_CARRY ** len(sums)) + (sums * _carries(flat.device)[-len(sums) :]).sum()
    return total


def _samples(nbytes: int, items: int) -> tuple[int, int, int]:
    """Return the items, from 1, the words of each, and the words of a sample."""
    items = max(items, 1)
    per_item = nbytes // items // 8
    return items, per_item, min(max(per_item // (8 * SAMPLES_AN_ITEM), 1), SAMPLE_WORDS, per_item)


@lru_cache(maxsize=8)
def _keys(device: torch.device) -> torch.Tensor:
    """Return the two keys of each word of a chunk: what is mixed in, and an odd multiplier, unlike for all words."""
    with torch.inference_mode(False):
        added = torch.arange(1, _CHUNK_WORDS + 1, dtype=torch.int64, device=device) * _KEY
        x = (added ^ ((added >> 31) & ((1 << 33) - 1))) * _MULTIPLIER
        return torch.stack((added, (x ^ ((x >> 29) & ((1 << 35) - 1))) | 1))


@lru_cache(maxsize=8)
def _carries(device: torch.device) -> torch.Tensor:
    """Return what the sums of a launch's chunks are multiplied by: the last by 1, each before by one carry more."""
    powers = [_wrapped(_CARRY**n) for n in reversed(range(_LAUNCH_CHUNKS))]
    with torch.inference_mode(False):
        host = torch.tensor(powers, dtype=torch.int64, device="cpu", pin_memory=device.type == "cuda")
        return host.to(device, non_blocking=True)
