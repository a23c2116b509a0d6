"""Fingerprints: the hash of mono_gen.runtime.content, which defines it, and counts of bad codes in the same pass."""

import triton
import triton.language as tl

LOW = tl.constexpr(0xFFFFFFFF)


@triton.jit
def mixed(words, position, KEY: tl.constexpr, MULTIPLIER: tl.constexpr):
    """Return the hash of each word under the two keys of its position. Shifts of int64 copy the sign: masked."""
    added = (position.to(tl.int64) + 1) * KEY
    x = (added ^ ((added >> 31) & 0x1FFFFFFFF)) * MULTIPLIER
    factor = (x ^ ((x >> 29) & 0x7FFFFFFFF)) | 1
    x = words ^ added
    x = (x ^ ((x >> 32) & LOW)) * factor
    return x ^ ((x >> 32) & LOW)


@triton.jit
def carried(exponent, CARRY: tl.constexpr, BITS: tl.constexpr):
    """Return CARRY to the power of an exponent of so many bits, as int64 wraps it."""
    result = exponent * 0 + 1
    base = result * CARRY
    for _ in tl.static_range(BITS):
        result = tl.where(exponent % 2 == 1, result * base, result)
        base = base * base
        exponent = exponent // 2
    return result


@triton.jit
def counted(words, MASK: tl.constexpr, PATTERN: tl.constexpr, BITS: tl.constexpr, ONES: tl.constexpr):
    """Return how many elements of BITS bits in each word are the pattern under the mask."""
    low = ONES * ((1 << (BITS - 1)) - 1)
    odd = (words & MASK) ^ PATTERN
    zero = ~((((odd & low) + low) | odd) | low)  # the top bit of the elements that were the pattern
    return (((zero >> (BITS - 1)) & ONES) * ONES) >> (64 - BITS)


@triton.jit
def fingerprint(
    words,
    tail,
    total,
    count,
    tail_bytes,
    chunks,
    CHUNK: tl.constexpr,
    PART: tl.constexpr,
    STEP: tl.constexpr,
    KEY: tl.constexpr,
    MULTIPLIER: tl.constexpr,
    CARRY: tl.constexpr,
    CARRY_BITS: tl.constexpr,
    COUNTS: tl.constexpr,
    MASK: tl.constexpr,
    PATTERN: tl.constexpr,
    BITS: tl.constexpr,
    ONES: tl.constexpr,
):
    """Add the hash of PART words to total[0], carried past the chunks behind them, and their bad codes to total[1]."""
    first = tl.program_id(0).to(tl.int64) * PART
    inside = (first % CHUNK).to(tl.int32)
    sums = tl.zeros([STEP], tl.int64)
    bad = tl.zeros([STEP], tl.int64)
    for start in tl.static_range(0, PART, STEP):
        at = start + tl.arange(0, STEP)
        held = first + at < count
        w = tl.load(words + first + at, mask=held, other=0)
        sums += tl.where(held, mixed(w, inside + at, KEY, MULTIPLIER), 0)
        if COUNTS:
            bad += counted(w, MASK, PATTERN, BITS, ONES)
    value = tl.sum(sums, axis=0) * carried(chunks - 1 - first // CHUNK, CARRY, CARRY_BITS)
    wrong = tl.sum(bad, axis=0)
    if tl.program_id(0) == 0:
        if tail_bytes > 0:
            place = tl.arange(0, 8)
            codes = tl.load(tail + place, mask=place < tail_bytes, other=0).to(tl.int64)
            word = tl.sum(codes << (8 * place).to(tl.int64), axis=0)
            value += mixed(word, tl.program_id(0) * 0, KEY, MULTIPLIER)
            if COUNTS:
                wrong += counted(word, MASK, PATTERN, BITS, ONES)
    tl.atomic_add(total, value, sem="relaxed")
    if COUNTS:
        tl.atomic_add(total + 1, wrong, sem="relaxed")


@triton.jit
def samples(
    data,
    total,
    items,
    item_bytes,
    item_words,
    run,
    SAMPLES: tl.constexpr,
    RUN: tl.constexpr,
    ALIGNED: tl.constexpr,
    KEY: tl.constexpr,
    MULTIPLIER: tl.constexpr,
    CARRY: tl.constexpr,
    CARRY_BITS: tl.constexpr,
):
    """Add the hash of SAMPLES runs of words, spread over an item, to total[0], carried past the items behind it.

    `data` are int64 words where every item begins at one (ALIGNED), else bytes.
    """
    item = tl.program_id(0).to(tl.int64)
    sample = tl.arange(0, SAMPLES)
    inside = tl.arange(0, RUN)
    begin = sample.to(tl.int64) * (item_words - run) // (SAMPLES - 1)
    at = begin[:, None] + inside[None, :]
    held = (inside < run)[None, :] & (sample >= 0)[:, None]
    if ALIGNED:
        words = tl.load(data + item * (item_bytes // 8) + at, mask=held, other=0)
    else:
        words = at * 0
        for byte in tl.static_range(8):
            code = tl.load(data + item * item_bytes + at * 8 + byte, mask=held, other=0)
            words |= code.to(tl.int64) << (8 * byte)
    position = sample[:, None] * run + inside[None, :]
    hashes = tl.where(held, mixed(words, position, KEY, MULTIPLIER), 0)
    value = tl.sum(tl.sum(hashes, axis=1), axis=0) * carried(items - 1 - item, CARRY, CARRY_BITS)
    tl.atomic_add(total, value, sem="relaxed")
