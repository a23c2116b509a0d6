"""Fingerprints: a hash of a tensor's bytes, keyed by position, the same on every device, with no synchronisation.

The hash of word w at index i is a mix of w and i; the fingerprint is the sum of the hashes, so that devices may add in
any order. A byte changed, two words exchanged, a tile moved: each changes it, but for a chance of 2^-64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

SAMPLE_ABOVE_BYTES = 64 << 20
"""CPU tensors above this are sampled: reading them whole takes seconds a layer."""

SAMPLES_AN_ITEM = 64
SAMPLE_WORDS = 64
_CHUNK_WORDS = 1 << 18
_KEY = -7046029254386353131  # odd, 2^64 / golden ratio
_MIX = -4417276706812531889  # odd


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The hash of a tensor's bytes.

    value:   an int64 tensor of no axes on the tensor's device; reading it synchronises.
    sampled: whether it covers samples of every batch item, not every byte.
    nbytes:  of the tensor.
    """

    value: torch.Tensor
    sampled: bool
    nbytes: int


def fingerprint(t: torch.Tensor, items: int = 1, *, whole: bool = False) -> Fingerprint:
    """Return the fingerprint of a dense tensor; work is enqueued, nothing waits.

    items: the batch items in it, each of which is sampled at least 64 times where the tensor is sampled.
    whole: every byte, however large the tensor is.
    Law:   tests/runtime/test_content.py
    """
    flat = t.detach().view(-1).view(torch.uint8)
    sampled = not whole and t.device.type == "cpu" and t.nbytes > SAMPLE_ABOVE_BYTES
    body = flat.numel() // 8 * 8
    words = _words(flat[:body])
    value = _sampled(words, items) if sampled else _whole(words)
    if body < flat.numel():
        tail = torch.zeros(8, dtype=torch.uint8, device=t.device)
        tail[: flat.numel() - body] = flat[body:]
        word = tail.view(torch.int64)
        value = value + _mixed(word, torch.full_like(word, _wrapped(body // 8 * _KEY))).sum()
    return Fingerprint(value, sampled, t.nbytes)


def _wrapped(value: int) -> int:
    """Return an integer as int64 arithmetic wraps it."""
    return (value + 2**63) % 2**64 - 2**63


def _words(flat: torch.Tensor) -> torch.Tensor:
    """Return bytes as int64, copied where they do not begin at a multiple of eight."""
    if flat.storage_offset() % 8 or flat.data_ptr() % 8:
        flat = flat.clone()
    return flat.view(torch.int64)


def _whole(words: torch.Tensor) -> torch.Tensor:
    """Return the sum of the hashes of all words."""
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    keys = _keys(words.device)
    for start in range(0, words.numel(), _CHUNK_WORDS):
        part = words[start : start + _CHUNK_WORDS]
        total = total + _mixed(part, keys[: part.numel()] + _wrapped(start * _KEY)).sum()
    return total


def _sampled(words: torch.Tensor, items: int) -> torch.Tensor:
    """Return the sum of the hashes of words spread evenly over every item, its ends among them."""
    per_item = words.numel() // max(items, 1)
    last = max(per_item - SAMPLE_WORDS, 0)
    starts = torch.arange(SAMPLES_AN_ITEM, device=words.device) * last // (SAMPLES_AN_ITEM - 1)
    run = torch.arange(min(SAMPLE_WORDS, per_item), device=words.device)
    item = torch.arange(max(items, 1), device=words.device) * per_item
    index = (item[:, None, None] + starts[None, :, None] + run).reshape(-1)
    return _mixed(words[index], index * _KEY).sum()


def _mixed(words: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the hash of each word under its key."""
    x = words ^ keys
    x = (x ^ (x >> 29)) * _MIX
    return x ^ (x >> 32)


@lru_cache(maxsize=8)
def _keys(device: torch.device) -> torch.Tensor:
    """Return the keys of the first chunk of words."""
    return torch.arange(_CHUNK_WORDS, dtype=torch.int64, device=device) * _KEY
