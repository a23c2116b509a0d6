"""Fingerprints: every single change of bytes and of their places is seen; samples reach every batch item."""

from __future__ import annotations

import random

import pytest
import torch

from mono_gen.runtime import content
from mono_gen.runtime.content import Fingerprint, fingerprint, read_all
from tests.runtime.made import FP4, U8

CHUNK = content._CHUNK_WORDS * 8


def value(t: torch.Tensor, **options: int | bool) -> int:
    return int(fingerprint(t, **options).value)  # type: ignore[arg-type]


def noise(nbytes: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (nbytes,), dtype=U8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("source", ["noise", "zeros", "ones"])
def test_every_single_bit(source: str) -> None:
    t = {"noise": noise(203), "zeros": torch.zeros(203, dtype=U8), "ones": torch.full((203,), 255, dtype=U8)}[source]
    seen = {value(t)}
    for place in range(t.numel()):
        for bit in range(8):
            t[place] ^= 1 << bit
            seen.add(value(t))
            t[place] ^= 1 << bit
    assert len(seen) == 1 + 8 * t.numel()


@pytest.mark.parametrize("nbytes", [CHUNK - 8, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 13, 3 * CHUNK + 8])
def test_the_edges_of_chunks(nbytes: int) -> None:
    t = noise(nbytes)
    before = value(t)
    places = {p for edge in range(0, nbytes + 1, CHUNK) for p in range(edge - 9, edge + 9)} | set(
        range(nbytes - 9, nbytes)
    )
    found = set()
    for place in places & set(range(nbytes)):
        t[place] ^= 0x80
        found.add(value(t))
        t[place] ^= 0x80
    assert len(found | {before}) == 1 + len(places & set(range(nbytes)))
    assert value(t) == before


def test_a_word_and_its_complement_are_two() -> None:
    """An arithmetic shift makes them one: zeros written over by 0xFF would pass."""
    for nbytes in (8, 64, CHUNK, CHUNK + 8):
        t = torch.zeros(nbytes, dtype=U8)
        before = value(t)
        t[-8:] = 0xFF
        assert value(t) != before
        t[:] = 0xFF
        assert value(t) != before


def test_two_words_exchanged() -> None:
    t = noise(2 * CHUNK + 64).view(torch.int64)
    before, rng = value(t), random.Random(5)
    pairs = [(0, 1), (0, t.numel() - 1), (0, content._CHUNK_WORDS), (content._CHUNK_WORDS - 1, content._CHUNK_WORDS)]
    pairs += [tuple(rng.sample(range(t.numel()), 2)) for _ in range(40)]  # type: ignore[misc]
    for a, b in pairs:
        moved = t.clone()
        moved[a], moved[b] = t[b], t[a]
        assert value(moved) != before, (a, b)


def test_flips_of_the_same_bit_in_two_words_do_not_cancel() -> None:
    """Top bits matter: a plain sum of products would lose pairs of them."""
    t = noise(8 * 64).view(torch.int64)
    before = value(t)
    for bit in (63, 62, 55, 32, 31, 7, 0):
        mask = -(2**63) if bit == 63 else 1 << bit
        for a in range(0, 64, 7):
            for b in range(a + 1, 64, 5):
                changed = t.clone()
                changed[a] ^= mask
                changed[b] ^= mask
                assert value(changed) != before, (bit, a, b)


def test_many_flips_of_top_bits() -> None:
    """The sign bit of every word in a random half, many times over: sums of equal differences would meet."""
    t = torch.zeros(64, dtype=torch.int64)
    seen = set()
    for seed in range(2000):
        changed = t.clone()
        changed[torch.rand(64, generator=torch.Generator().manual_seed(seed)) < 0.5] ^= -(2**63)
        seen.add(value(changed))
    assert len(seen) == 2000


def test_moved_tiles_and_exchanged_chunks() -> None:
    t = noise(4 * CHUNK).view(4, -1)
    before = value(t)
    for order in ((1, 0, 2, 3), (3, 1, 2, 0), (1, 2, 3, 0)):
        assert value(t[list(order)].contiguous()) != before
    tiles = noise(64 * 256).view(64, 256)
    before = value(tiles)
    for a in range(0, 64, 9):
        order = list(range(64))
        order[a], order[(a + 13) % 64] = order[(a + 13) % 64], order[a]
        assert value(tiles[order].contiguous()) != before
    rows = tiles.view(4, 16, 16, 16).permute(0, 2, 1, 3).contiguous()
    assert value(rows) != before


@pytest.mark.parametrize("skip", [1, 2, 4, 7, 8, 16])
@pytest.mark.parametrize("sampled", [False, True])
def test_an_address_changes_nothing(skip: int, sampled: bool) -> None:
    t = noise(2 * 4096 + 24)
    room = torch.empty(t.numel() + 16, dtype=U8)
    room[skip : skip + t.numel()] = t
    moved = room[skip : skip + t.numel()]
    assert value(moved, items=1, sampled=sampled) == value(t, items=1, sampled=sampled)
    moved[0] ^= 1
    assert value(moved, items=1, sampled=sampled) != value(t, items=1, sampled=sampled)


def test_dtype_and_shape_are_not_content() -> None:
    t = noise(4096)
    assert value(t) == value(t.view(64, 64)) == value(t.view(torch.bfloat16)) == value(t.view(FP4))
    assert value(torch.zeros((), dtype=torch.float32)) == value(torch.zeros(1, dtype=torch.float32))


def test_samples_reach_every_batch_item_at_least_64_times() -> None:
    items, per_item = 5, 1 << 17
    t = torch.zeros(items * per_item, dtype=U8)
    before = value(t, items=items, sampled=True)
    for item in range(items):
        hit = 0
        for place in range(64):
            where = place * (per_item // 8 - 32) // 63  # a word of this sample, by the rule
            t.view(torch.int64)[item * per_item // 8 + where] = 1
            hit += value(t, items=items, sampled=True) != before
            t.zero_()
        assert hit == 64, item
    for first_or_last in (0, per_item - 1):
        t[3 * per_item + first_or_last] = 1
        assert value(t, items=items, sampled=True) != before
        t.zero_()


def test_samples_tell_items_apart() -> None:
    t = noise(4 * 65536).view(4, -1)
    before = value(t, items=4, sampled=True)
    assert value(t[[1, 0, 2, 3]].contiguous(), items=4, sampled=True) != before
    many = noise(600 * 8 * 512, 1).view(600, -1)  # more items than are hashed together
    before = value(many, items=600, sampled=True)
    for a, b in ((0, 599), (127, 128), (63, 64), (5, 6)):
        order = list(range(600))
        order[a], order[b] = b, a
        assert value(many[order].contiguous(), items=600, sampled=True) != before


def test_samples_are_few() -> None:
    """At most an eighth of an item of 4 KiB or more is read, and 32 KiB of any."""
    t = torch.zeros(1 << 16, dtype=torch.int64)
    before, seen = value(t, sampled=True), 0
    for place in range(0, t.numel(), 16):
        t[place] = 1
        seen += value(t, sampled=True) != before
        t[place] = 0
    assert 64 * 64 / 16 / 2 < seen <= 64 * 64 / 16 * 2


def test_only_large_cpu_tensors_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert content.SAMPLE_ABOVE_BYTES == 64 << 20
    monkeypatch.setattr(content, "SAMPLE_ABOVE_BYTES", 4096)
    t = noise(4096)
    assert not fingerprint(t).sampled
    assert fingerprint(noise(4097)).sampled
    assert not fingerprint(noise(4097), sampled=False).sampled
    assert fingerprint(t, sampled=True).sampled


def test_items_that_are_smaller_than_a_word() -> None:
    for nbytes, items in ((0, 1), (5, 5), (24, 3), (17, 1), (7, 1)):
        assert isinstance(fingerprint(torch.zeros(nbytes, dtype=U8), items, sampled=True), Fingerprint)


def test_verdicts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [torch.tensor([i, -i]) for i in range(40)]
    calls = []
    real = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda t: calls.append(t.shape) or real(t))
    assert read_all(rows) == [[i, -i] for i in range(40)]
    assert calls == [(40, 2)] and read_all([]) == []


def test_inference_mode_makes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    content._keys.cache_clear()
    content._carries.cache_clear()
    t = noise(3 * CHUNK)
    with torch.inference_mode():
        first = value(t)
    assert value(t) == first, "keys made in inference mode serve outside it"


@pytest.mark.parametrize("nbytes", [0, 1, 7, 8, 4099, 8 * CHUNK, 8 * CHUNK + 5, 40 * CHUNK + 9])
def test_pieces_have_the_fingerprint_of_the_whole(nbytes: int) -> None:
    whole = noise(nbytes)
    for seed in range(4):
        sizes = random.Random(seed)
        running, at = content.Running(), 0
        while at < nbytes:
            size = sizes.choice((1, 3, 8, 4096, 8 * CHUNK, 11 * CHUNK + 1))
            running.add(whole[at : at + size])
            at += size
        assert (running.value() - value(whole)) % 2**64 == 0
        assert running.value() == running.value()


def test_a_tensor_that_outlives_what_was_unread_is_refused() -> None:
    t = noise(1 << 14)
    with content.unread():
        unread = fingerprint(t)
        assert unread.sampled and int(unread.value) == 0
    assert value(t) != 0 and int(fingerprint(t, sampled=True).value) != 0
