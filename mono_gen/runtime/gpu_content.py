"""Fingerprints on a GPU: what the Triton kernels are launched with. content.py defines what they compute."""

from __future__ import annotations

from functools import lru_cache

import torch

from mono_gen.runtime.launches import Launch, launch, planned

PART_WORDS = 8192
"""Words that one program hashes; a divisor of a chunk."""

STEP_WORDS = 1024
WARPS = 4


def whole(
    flat: torch.Tensor,
    key: int,
    multiplier: int,
    carry: int,
    chunk_words: int,
    codes: tuple[int, int, int] | None,
) -> torch.Tensor:
    """Return (fingerprint, codes) of flat bytes that begin at a multiple of 8, as an int64 tensor on the device.

    codes: (bits, mask, pattern) of the elements that are counted: those that are the pattern under the mask.
    """
    total = torch.zeros(2, dtype=torch.int64, device=flat.device)
    count, rest = divmod(flat.numel(), 8)
    if not flat.numel():
        return total
    work = _whole(count, rest, key, multiplier, carry, chunk_words, codes, PART_WORDS, STEP_WORDS, WARPS)
    launch(work, flat[: count * 8] if rest else flat, flat[count * 8 :], total)
    return total


@lru_cache(maxsize=1024)
def _whole(
    count: int,
    rest: int,
    key: int,
    multiplier: int,
    carry: int,
    chunk_words: int,
    codes: tuple[int, int, int] | None,
    part: int,
    step: int,
    warps: int,
) -> Launch:
    """Return the launch for so many words, and bytes behind them."""
    from mono_gen.runtime.triton_kernels.hashes import fingerprint as kernel

    chunks = -(-count // chunk_words) + (rest > 0)
    bits, mask, pattern = codes or (8, 0, 0)
    constants = {
        "CHUNK": chunk_words,
        "PART": part,
        "STEP": step,
        "KEY": key,
        "MULTIPLIER": multiplier,
        "CARRY": carry,
        "CARRY_BITS": _rounded_bits(chunks),
        "COUNTS": codes is not None,
        "MASK": _repeated(mask, bits),
        "PATTERN": _repeated(pattern, bits),
        "BITS": bits,
        "ONES": _repeated(1, bits),
    }
    dtypes = (torch.int64, torch.uint8, torch.int64)
    return planned(kernel, max(-(-count // part), 1), dtypes, (count, rest, chunks), constants, warps)


def sampled(
    flat: torch.Tensor, items: int, item_words: int, run: int, samples: int, key: int, multiplier: int, carry: int
) -> torch.Tensor:
    """Return the fingerprint of so many runs of words of every item of flat bytes, as an int64 tensor of no axes."""
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    item_bytes = flat.numel() // items
    aligned = item_bytes % 8 == 0 and flat.data_ptr() % 8 == 0 and flat.storage_offset() % 8 == 0
    work = _sampled(items, item_bytes, item_words, run, samples, aligned, key, multiplier, carry)
    held = items * item_bytes
    launch(work, flat if held == flat.numel() else flat[:held], total)
    return total


@lru_cache(maxsize=1024)
def _sampled(
    items: int,
    item_bytes: int,
    item_words: int,
    run: int,
    samples: int,
    aligned: bool,
    key: int,
    multiplier: int,
    carry: int,
) -> Launch:
    """Return the launch for so many items."""
    from mono_gen.runtime.triton_kernels.hashes import samples as kernel

    constants = {
        "SAMPLES": samples,
        "RUN": 1 << (run - 1).bit_length(),
        "ALIGNED": aligned,
        "KEY": key,
        "MULTIPLIER": multiplier,
        "CARRY": carry,
        "CARRY_BITS": _rounded_bits(items),
    }
    dtypes = (torch.int64 if aligned else torch.uint8, torch.int64)
    return planned(kernel, items, dtypes, (items, item_bytes, item_words, run), constants)


def _rounded_bits(n: int) -> int:
    """Return the bits of n, rounded up so that few kernels are compiled."""
    return -(-n.bit_length() // 8) * 8


def _repeated(pattern: int, bits: int) -> int:
    """Return a pattern of one element in all elements of a word, as int64."""
    word = sum(pattern << at for at in range(0, 64, bits))
    return word - (1 << 64) if word >> 63 else word
