"""On a GPU: structure waits for nothing, content for one verdict, and a fingerprint is the CPU's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import content
from mono_gen.runtime.content import fingerprint
from tests.runtime.made import SMALL, U8, made, refused, small_layer, whats

pytestmark = pytest.mark.gpu
CHUNK = content._CHUNK_WORDS * 8
SIZES = (0, 1, 7, 8, 203, CHUNK - 8, CHUNK, CHUNK + 13, 128 * CHUNK, 131 * CHUNK + 5, 300 * CHUNK)
FIELDS = ("g", "table", "cache", "w", "s", "odd", "parts", "pairs", "q", "qs")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return made(tmp_path_factory.mktemp("small"), SMALL, "small")


def gpu_layer(module: ModuleType, *, flags: bool = True, plus: int = 0) -> Any:
    """Return a layer of `Small` on the GPU, its producer's flags on the tensors that are there."""
    layer = small_layer(module, flags=False, plus=plus)
    for name in FIELDS:
        t = getattr(layer, name).cuda()
        if flags and name != "q":
            t.is_shuffled = t.is_paged = t.is_tiled = True
        setattr(layer, name, t)
    return layer


@contextmanager
def no_waiting() -> Iterator[None]:
    """Return a context in which a wait for the device is an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_structure_waits_for_nothing(small: ModuleType) -> None:
    loaded = small.Small.from_layer(gpu_layer(small))
    scratch = torch.zeros(64, dtype=U8, device="cuda")
    table = loaded.k1(scratch)
    with no_waiting():
        assert runtime.recheck(loaded) == "unverified"
        assert runtime.recheck(loaded, changing=("cache",)) == "unverified"
        k1, k2 = loaded.k1(scratch), loaded.k2()
        assert runtime.recheck_table(k1) < runtime.recheck_table(k2)
        assert runtime.record_of(loaded.w) is not None and runtime.record_of(loaded.w[1:]) is not None
        runtime.attest(loaded.w, "shuffle_16x16")
        runtime.seal(loaded, loaded.tensors)
    assert k1.tolist() == table.tolist()


def test_first_fingerprints_wait_for_nothing() -> None:
    content._keys.cache_clear()
    content._carries.cache_clear()
    t = torch.zeros(3 * CHUNK + 13, dtype=U8, device="cuda")
    with no_waiting():
        fingerprint(t)
        fingerprint(t, 3, sampled=True)


@pytest.mark.parametrize("nbytes", SIZES)
def test_fingerprints_are_the_cpus(nbytes: int) -> None:
    t = torch.randint(0, 256, (nbytes + 16,), dtype=U8, generator=torch.Generator().manual_seed(nbytes))
    for skip in (0, 1, 8):
        here, there = t[skip : skip + nbytes], t.cuda()[skip : skip + nbytes]
        assert int(fingerprint(here, sampled=False).value) == int(fingerprint(there).value)
        for items in (1, 3, 600):
            mine, theirs = (fingerprint(x, items, sampled=True).value for x in (here, there))
            assert int(mine) == int(theirs), (skip, items)


def test_a_large_tensor_is_read_whole_there() -> None:
    t = torch.zeros((64 << 20) + 8, dtype=U8, device="cuda")
    before = fingerprint(t)
    assert not before.sampled
    t[12345678] = 1
    assert int(fingerprint(t).value) != int(before.value)


def test_one_wait_for_all_verdicts(small: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    structs = [small.Small.from_layer(gpu_layer(small, plus=plus)) for plus in (0, 1, 2)]
    waits = []
    real = content.read_all

    def counted(measured: Any) -> Any:
        torch.cuda.set_sync_debug_mode("default")
        waits.append(len(measured))
        return real(measured)

    monkeypatch.setattr(sys.modules["mono_gen.runtime.recheck"], "read_all", counted)
    with no_waiting():  # up to the one place that reads
        assert runtime.verify_all(structs) == "verified"
    assert waits == [30]
    structs[1].w.data.view(U8)[1, 2, 3] ^= 1
    structs[2].odd.data.view(U8)[0, 0, 0] ^= 1
    assert whats(refused(runtime.verify_all, structs)) == [
        ("Small 1: w", "overwritten"),
        ("Small 2: odd", "overwritten"),
    ]


def test_records_inherit_and_end_there(small: ModuleType) -> None:
    packed = small.pack_shuffle_16x16(torch.zeros(4, 32, 64, dtype=U8, device="cuda"))
    record = runtime.record_of(torch.nn.Parameter(packed[1:3], requires_grad=False))
    assert record is not None and record.extents == (2, 32, 64)
    assert whats(refused(small.pack_shuffle_16x16, packed)) == [("pack_shuffle_16x16", "layout")]
    packed.add_(1)
    assert runtime.record_of(packed) is None


def test_a_write_through_data_is_found_at_load(small: ModuleType) -> None:
    source = gpu_layer(small)
    small.Small.from_layer(source)
    source.w.data.view(U8)[0].fill_(7)
    assert whats(refused(small.Small.from_layer, source)) == [("w", "layout")]


def test_refresh_under_the_same_pointers(small: ModuleType) -> None:
    struct = small.Small.from_layer(gpu_layer(small))
    addresses = [getattr(struct, name).data_ptr() for name in FIELDS]
    new = gpu_layer(small, plus=1)
    wanted = small.Small.from_layer(new)
    struct.refresh(new)
    assert [getattr(struct, name).data_ptr() for name in FIELDS] == addresses
    for name in FIELDS:
        assert torch.equal(getattr(struct, name).view(-1).view(U8), getattr(wanted, name).view(-1).view(U8))
    assert runtime.recheck(struct, content=True) == "verified"
    on_cpu = small_layer(small, flags=True, plus=2)
    assert {what for _, what in whats(refused(struct.refresh, on_cpu))} == {"device"}
    assert runtime.recheck(struct, content=True) == "verified"


def test_files_from_there(small: ModuleType, tmp_path: Path) -> None:
    struct = small.Small.from_layer(gpu_layer(small))
    runtime.save(struct, tmp_path / "x.safetensors")
    found = runtime.load(tmp_path / "x.safetensors")
    for name in FIELDS:
        assert torch.equal(found[name].view(-1).view(U8), getattr(struct, name).cpu().view(-1).view(U8)), name


def test_freed_memory_is_found_without_reading_it(small: ModuleType) -> None:
    struct = small.Small.from_layer(gpu_layer(small))
    table = struct.k1(0x1000)
    struct.w.untyped_storage().resize_(0)
    assert whats(refused(runtime.recheck, struct)) == [("w", "freed")]
    assert whats(refused(runtime.recheck, struct, content=True)) == [("w", "freed")]
    assert whats(refused(runtime.recheck_table, table)) == [("w", "freed")]


def test_the_blind_check_reads_there(small: ModuleType) -> None:
    codes = torch.full((32, 64), 0x7E, dtype=U8, device="cuda").view(torch.float8_e4m3fn)
    (found,) = runtime.guess_layout(codes, ("row_major",), scale=torch.full((32, 2), 120, dtype=U8, device="cuda"))
    assert found.blocks == 64 and not found.excluded
