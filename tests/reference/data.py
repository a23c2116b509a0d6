"""Test data in which every byte depends on its position."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def position_coded(nbytes: int) -> Bytes:
    """Return byte i = (i * 2654435761 >> 13) & 0xff, the input of the aiter digests.

    It repeats after 2 MiB (2^21 bytes), so larger data need `mixed` or a digest of the permutation as well.
    """
    i = np.arange(nbytes, dtype=np.int64)
    return ((i * 2654435761 >> 13) & 0xFF).astype(np.uint8)


def mixed(nbytes: int, seed: int, *, below: int = 256, plus: int = 0, never: Collection[int] = ()) -> Bytes:
    """Return bytes plus + (hash(seed, i) mod below); the values in `never` give way to value ^ 1.

    The hash is the splitmix64 finaliser, so no shift, stride or swap of the data looks like the data.
    """
    out = np.empty(nbytes, dtype=np.uint8)
    chunk = 1 << 20
    for begin in range(0, nbytes, chunk):
        x = np.arange(begin, min(begin + chunk, nbytes), dtype=np.uint64)
        x += np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        out[begin : begin + len(x)] = (plus + x % np.uint64(below)).astype(np.uint8)
    for value in never:
        out[out == value] = value ^ 1
    return out
