"""The ledger: who inherits a record, what ends it, and what from_layer makes of it."""

from __future__ import annotations

import copy
import gc
import threading
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import ledger
from mono_gen.runtime.ledger import Ended
from mono_gen.runtime.recorded import is_overwritten
from tests.runtime.made import E8M0, FN, FP4, SMALL, U8, flagged, layer, made, ramp, refused, small_layer, whats


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return made(tmp_path_factory.mktemp("small"), SMALL, "small")


def attested(*shape: int) -> torch.Tensor:
    """Return a tensor that is recorded in shuffle_16x16."""
    t = ramp(*shape)
    runtime.attest(t, "shuffle_16x16")
    return t


def layout_of(t: torch.Tensor) -> str | None:
    """Return the layout that a tensor's record names."""
    record = runtime.record_of(t)
    return None if record is None else record.layout


# --- who inherits ---


def test_exactly_that_range_and_whole_batch_items_inherit(small: ModuleType) -> None:
    t = attested(4, 32, 64)
    record = runtime.record_of(t)
    assert record is not None and (record.layout, record.bits, record.extents) == ("shuffle_16x16", 8, (4, 32, 64))
    assert (record.batch, record.origin, record.nbytes) == (1, "attest", 4 * 32 * 64)
    for same in (t, t.detach(), t.view(-1), t.view(2, 2, 32, 64), t[:], t.data, t.view(FN), t.view(64, 128)):
        assert layout_of(same) == "shuffle_16x16"
    for first, count in ((1, 1), (0, 2), (2, 2), (3, 1)):
        item = runtime.record_of(t[first : first + count])
        assert item is not None and item.extents == (count, 32, 64) and item.nbytes == count * 2048
        assert item.layout_id == record.layout_id
    assert layout_of(t[2]) == "shuffle_16x16"


def test_looking_up_many_slices_keeps_a_bounded_number(small: ModuleType) -> None:
    t = attested(64, 16, 32)
    for first in range(64):
        for last in range(first + 1, 65):
            record = runtime.record_of(t[first:last])
            assert record is not None and record.extents == (last - first, 16, 32)
    (entry,) = [e for e in ledger._STORAGES.values() if e.address == t.data_ptr()]
    assert entry.ranges[0].parts is not None and 0 < len(entry.ranges[0].parts) <= ledger._PARTS
    t[3].add_(1)
    assert runtime.record_of(t[3:5]) is None, "what is remembered of parts ends with the whole"


def test_anything_else_inherits_nothing(small: ModuleType) -> None:
    t = attested(4, 32, 64)
    parts = (t[0, :16], t[:, :16], t[::2], t.view(-1)[1:], t.view(-1)[:-1], t.transpose(1, 2), t.view(-1)[1024:3072])
    assert [runtime.record_of(part) for part in parts] == [None] * len(parts)
    assert [runtime.record_of(copied) for copied in (t.clone(), t.to(torch.int16), t + 0)] == [None] * 3
    flat = attested(64, 64)
    assert runtime.record_of(flat[:32]) is None, "half of a layout without batch items is no whole"
    room = torch.zeros(4096 + 64, dtype=U8)
    runtime.attest(room[:4096].view(64, 64), "shuffle_16x16")
    assert runtime.record_of(room) is None, "a larger tensor is more than what is known"
    assert runtime.record_of(room[64:].view(64, 64)) is None
    assert runtime.record_of(room[4096:]) is None


def test_the_same_bytes_in_another_shape_inherit_by_range_alone(small: ModuleType) -> None:
    """A transposed view has the same range; it is not dense, and says nothing."""
    t = attested(64, 64)
    assert runtime.record_of(t.t()) is None
    assert layout_of(t.t().t()) == "shuffle_16x16"


def test_two_ranges_of_a_storage_are_apart(small: ModuleType) -> None:
    room = torch.zeros(2, 64, 64, dtype=U8)
    runtime.attest(room[0], "shuffle_16x16")
    runtime.attest(room[1], "row_major")
    assert (layout_of(room[0]), layout_of(room[1]), layout_of(room)) == ("shuffle_16x16", "row_major", None)
    runtime.attest(room, "row_major")
    assert layout_of(room) == "row_major"
    assert runtime.record_of(room[0]) is None, "a record of the whole, which has no batch items, replaced it"


# --- what keeps it, what ends it ---


class WeightParameter(torch.nn.Parameter):
    """vLLM's: a Parameter with a loader, by torch function alone."""

    def __new__(cls, data: torch.Tensor, **_: Any) -> WeightParameter:
        return torch.Tensor._make_subclass(cls, data, False)  # type: ignore[return-value]

    def weight_loader(self, loaded: torch.Tensor) -> None:
        self.data.copy_(loaded)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def test_wrapping_keeps_the_record(small: ModuleType) -> None:
    packed = small.pack_shuffle_16x16(ramp(32, 64))
    parameter = torch.nn.Parameter(packed, requires_grad=False)
    assert layout_of(parameter) == layout_of(parameter.data) == layout_of(WeightParameter(packed)) == "shuffle_16x16"
    assert layout_of(torch.nn.Parameter(parameter, requires_grad=False)) == "shuffle_16x16"
    module = torch.nn.Module()
    module.register_buffer("w", packed)
    assert layout_of(module.w) == "shuffle_16x16"


def test_bytes_in_another_storage_are_unknown(small: ModuleType, tmp_path: Path) -> None:
    packed = small.pack_shuffle_16x16(ramp(32, 64))
    parameter = torch.nn.Parameter(packed, requires_grad=False)
    torch.save(packed, tmp_path / "w.pt")
    elsewhere = (copy.deepcopy(packed), copy.deepcopy(parameter), torch.load(tmp_path / "w.pt"), packed.clone())
    assert [runtime.record_of(t) for t in elsewhere] == [None] * 4
    assert layout_of(packed) == "shuffle_16x16"


def test_a_loader_on_a_parameter_subclass_is_seen_by_content(small: ModuleType) -> None:
    parameter = WeightParameter(small.pack_shuffle_16x16(ramp(32, 64)))
    parameter.weight_loader(ramp(32, 64, below=89))
    record = runtime.record_of(parameter)
    assert record is not None, ".data has a counter of its own: structure sees nothing"
    (problem,) = refused(small.Shuffled.from_layer, layer(w=flagged(parameter)))
    assert (problem.field, problem.what) == ("w", "layout") and "content" in problem.found


WRITES = {
    "copy_": lambda t: t.copy_(torch.ones_like(t)),
    "fill_": lambda t: t.fill_(1),
    "a view": lambda t: t.view(-1)[3:5].fill_(1),
    "detached": lambda t: t.detach().add_(1),
    "another dtype": lambda t: t.view(FN).view(U8).add_(1),
    "a parameter": lambda t: torch.nn.Parameter(t, requires_grad=False).add_(1),
    "a parameter's view": lambda t: WeightParameter(t).view(-1)[1:].add_(1),
    "indexing": lambda t: t.__setitem__((0, 0), 7),
    "out=": lambda t: torch.add(torch.ones_like(t), 1, out=t),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_in_place_write_through_any_alias_ends_it(small: ModuleType, write: str) -> None:
    t = attested(32, 64)
    alias = torch.nn.Parameter(t, requires_grad=False)
    WRITES[write](t)
    for seen in (t, alias, t.view(-1), t.data):
        found = ledger.look_up(seen)
        assert isinstance(found, Ended) and found.layout == "shuffle_16x16" and "written" in found.why
        assert runtime.record_of(seen) is None


def test_a_write_is_seen_when_the_tensor_that_was_packed_is_gone(small: ModuleType) -> None:
    packed = small.pack_shuffle_16x16(ramp(32, 64))
    parameter = torch.nn.Parameter(packed, requires_grad=False)
    del packed
    gc.collect()
    parameter.copy_(ramp(32, 64))
    assert isinstance(ledger.look_up(parameter), Ended)


def test_a_record_made_through_data_is_found_by_a_parameter_that_was_written_before(small: ModuleType) -> None:
    """Its counter is another one, and higher: that is no write since."""
    parameter = torch.nn.Parameter(torch.zeros(32, 64, dtype=U8), requires_grad=False)
    parameter.copy_(ramp(32, 64))
    parameter.copy_(ramp(32, 64))
    runtime.attest(parameter.data, "shuffle_16x16")
    assert layout_of(parameter) == "shuffle_16x16"


def test_a_write_elsewhere_in_the_storage_ends_it_too(small: ModuleType) -> None:
    """The counter is one for all views: that is on the safe side."""
    room = torch.zeros(2, 32, 64, dtype=U8)
    runtime.attest(room[0], "shuffle_16x16")
    room[1].fill_(1)
    assert isinstance(ledger.look_up(room[0]), Ended)


def test_what_structure_cannot_see_content_does(small: ModuleType) -> None:
    t = attested(32, 64)
    t.data.copy_(ramp(32, 64, below=89))
    record = runtime.record_of(t)
    assert record is not None
    assert is_overwritten(t, record)
    assert small.pack_shuffle_16x16(t) is not None, "raw bytes again: nothing is packed twice"


def test_resize_of_the_storage_ends_it(small: ModuleType) -> None:
    t = attested(32, 64)
    storage = t.untyped_storage()
    storage.resize_(0)
    found = ledger.look_up(t)
    assert isinstance(found, Ended) and "resized" in found.why
    storage.resize_(32 * 64)
    assert runtime.record_of(t) is None, "memory that came back is not the memory that went"


def test_resize_of_the_tensor_ends_it(small: ModuleType) -> None:
    t = attested(32, 64)
    t.resize_(64, 64)
    assert runtime.record_of(t) is None
    t = attested(32, 64)
    t.resize_(16, 64)
    assert runtime.record_of(t) is None


def test_rebinding_takes_the_record_of_the_other_storage(small: ModuleType) -> None:
    for rebind in (lambda t, other: setattr(t, "data", other), lambda t, other: t.set_(other)):
        t, other = attested(32, 64), ramp(32, 64)
        keeper = t.detach()
        rebind(t, other)
        assert runtime.record_of(t) is None
        assert layout_of(keeper) in ("shuffle_16x16", None), "the old bytes are still there, or set_ counted as a write"
        t, other = ramp(32, 64), attested(32, 64)
        rebind(t, other)
        assert layout_of(t) == "shuffle_16x16"


def test_inference_tensors_have_no_counter_and_content_tells(small: ModuleType) -> None:
    with torch.inference_mode():
        source = ramp(32, 64)
        packed = small.pack_shuffle_16x16(source)
        assert packed.is_inference()
        record = runtime.record_of(packed)
        assert record is not None and record.version is None
        assert whats(refused(small.pack_shuffle_16x16, packed)) == [("pack_shuffle_16x16", "layout")]
        packed.copy_(source)
        assert runtime.record_of(packed) is not None
        assert small.pack_shuffle_16x16(packed).numel(), "the content says that these are other bytes"
    normal = attested(32, 64)
    with torch.inference_mode():
        assert layout_of(normal) == layout_of(normal.detach()) == "shuffle_16x16"
        normal.add_(1)
    assert isinstance(ledger.look_up(normal), Ended)


def test_tensors_without_bytes_are_unknown() -> None:
    assert runtime.record_of(torch.zeros(4, device="meta")) is None
    assert runtime.record_of(torch.zeros(4, 4).to_sparse()) is None
    assert runtime.record_of(torch.zeros(0)) is None


# --- nothing leaks ---


def test_records_die_with_their_storage(small: ModuleType) -> None:
    gc.collect()
    before = ledger.sweep()
    most = 0
    for _ in range(10_000):
        runtime.attest(torch.zeros(16, 32, dtype=U8), "shuffle_16x16")
        most = max(most, len(ledger._STORAGES))
    assert most < 2 * before + 2 * ledger._SWEEP_AT, "dead records are swept as they come, not at the end"
    assert ledger.sweep() == before


def test_a_record_keeps_no_memory_alive(small: ModuleType) -> None:
    """1 GiB in 16 pieces, each dropped before the next: the peak stays where it was."""
    import resource

    runtime.attest(torch.ones(1024, 64 << 10, dtype=U8), "shuffle_16x16")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(15):
        runtime.attest(torch.ones(1024, 64 << 10, dtype=U8), "shuffle_16x16")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_ten_thousand_records_cost_ten_megabytes_at_most(small: ModuleType) -> None:
    live = [torch.zeros(16, 32, dtype=U8) for _ in range(10_000)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for t in live:
            runtime.attest(t, "shuffle_16x16")
        cost = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert cost <= 10_000_000
    assert all(layout_of(t) == "shuffle_16x16" for t in live)


def test_many_threads(small: ModuleType) -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        for turn in range(200):
            t = torch.full((16, 32), (seed + turn) % 251, dtype=U8)
            if turn % 2:
                runtime.attest(t, "shuffle_16x16")
            if (layout_of(t) is not None) != bool(turn % 2):
                wrong.append(f"{seed} {turn}")
            if turn % 3 == 0:
                t.add_(1)
                if layout_of(t) is not None:
                    wrong.append(f"{seed} {turn} written")
            if turn % 16 == 0:
                ledger.sweep()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- attest ---


def test_attest_takes_a_name_an_object_and_row_major(small: ModuleType) -> None:
    t = ramp(3, 32, 64)
    by_name = runtime.attest(t, "shuffle_16x16")
    by_object = runtime.attest(t, runtime.layout_named("shuffle_16x16"))
    assert by_name.layout_id == by_object.layout_id and by_object.extents == (3, 32, 64) and by_object.batch == 1
    assert runtime.attest(t, "row_major").layout == layout_of(t) == "row_major"


def test_attest_refuses_what_cannot_be(small: ModuleType) -> None:
    t = ramp(32, 64)
    assert whats(refused(runtime.attest, t, "no_such")) == [("no_such", "layout")]
    assert whats(refused(runtime.attest, t[:15], "shuffle_16x16")) == [("attest", "size")]
    assert whats(refused(runtime.attest, ramp(2048), "shuffle_16x16")) == [("attest", "rank")]
    assert whats(refused(runtime.attest, t.t(), "shuffle_16x16")) == [("attest", "strides")]
    assert [w for _, w in whats(refused(runtime.attest, torch.empty(32, 64, device="meta"), "row_major"))] == ["kind"]
    freed = ramp(32, 64)
    freed.untyped_storage().resize_(0)
    assert [w for _, w in whats(refused(runtime.attest, freed, "shuffle_16x16"))] == ["storage"]
    assert all(runtime.record_of(x) is None for x in (t, t[:15], freed))


def test_one_name_for_two_layouts_must_be_told_apart(tmp_path: Path) -> None:
    for name, order in (("one_of_two", "d tok"), ("two_of_two", "tok d")):
        lonely = f"layout lonely_{name}(tok, d) {{ store {order} }}"
        made(tmp_path, f"spec {name}\nlayout of_two(tok, d) {{ store {order} }}\n{lonely}\n", name)
    t = ramp(16, 32)
    (problem,) = refused(runtime.attest, t, "of_two")
    assert problem.what == "layout" and "one_of_two.layout" in problem.found and "two_of_two.layout" in problem.found
    refs = {ref.spec: ref for ref in runtime.layouts.layouts_named("of_two")}
    ids = {spec: runtime.attest(t, ref).layout_id for spec, ref in refs.items()}
    assert len(set(ids.values())) == 2
    lonely_id = runtime.attest(t, "lonely_one_of_two").layout_id
    assert lonely_id == ids["one_of_two.layout"], "the id is of the map, not of the name"


def test_attest_of_padded_bytes(small: ModuleType) -> None:
    stored = torch.zeros(2, 256, 8, dtype=U8)
    padded = runtime.attest(stored, "e8m0_shuffle", logical=(40, 5))
    packed = small.pack_e8m0_shuffle(ramp(2, 40, 5))
    assert padded.extents == (2, 40, 5)
    record = runtime.record_of(packed)
    assert record is not None and record.layout_id == padded.layout_id
    assert runtime.attest(stored, "e8m0_shuffle").extents == (2, 256, 8)
    for logical in ((300, 5), (40, 9), (40,), (1, 40, 5)):
        assert refused(runtime.attest, stored, "e8m0_shuffle", logical=logical)
    assert whats(refused(runtime.attest, ramp(2, 40, 5), "e8m0_shuffle")) == [("attest", "shape")]
    assert whats(refused(runtime.attest, stored, "row_major", logical=(2, 40, 5))) == [("attest", "logical")]


# --- pack and unpack ---


def test_packing_twice_is_refused(small: ModuleType) -> None:
    packed = small.pack_shuffle_16x16(ramp(2, 32, 64))
    (problem,) = refused(small.pack_shuffle_16x16, packed)
    assert (problem.what, problem.found) == ("layout", "shuffle_16x16") and "second time" in problem.help
    assert whats(refused(small.pack_shuffle_16x16, packed[1])) == [("pack_shuffle_16x16", "layout")]
    assert whats(refused(small.pack_small_page, packed.view(64, 64))) == [("pack_small_page", "layout")]
    out = torch.empty_like(packed)
    assert refused(small.pack_shuffle_16x16, packed, out=out) and runtime.record_of(out) is None
    assert torch.equal(small.unpack_shuffle_16x16(packed, (2, 32, 64)), ramp(2, 32, 64))


def test_out_is_recorded_and_replaces_what_was_known(small: ModuleType) -> None:
    out = torch.empty(32, 64, dtype=U8)
    runtime.attest(out, "row_major")
    assert small.pack_shuffle_16x16(ramp(32, 64), out=out) is out
    record = runtime.record_of(out)
    assert record is not None and (record.layout, record.origin) == ("shuffle_16x16", "pack")
    small.pack_small_page(ramp(32, 64), out=out)
    assert layout_of(out) == "small_page"


def test_unpacking_another_record_is_refused(small: ModuleType) -> None:
    packed = small.pack_shuffle_16x16(ramp(32, 64))
    assert whats(refused(small.unpack_small_page, packed, (32, 64))) == [("unpack_small_page", "layout")]
    assert whats(refused(small.unpack_shuffle_16x16, packed.view(64, 32), (64, 32))) == [
        ("unpack_shuffle_16x16", "layout")
    ], "the same bytes at other extents are other elements"
    raw = ramp(32, 64)
    runtime.attest(raw, "row_major")
    assert refused(small.unpack_shuffle_16x16, raw, (32, 64))
    assert small.unpack_shuffle_16x16(ramp(32, 64), (32, 64)) is not None, "nothing is known of these"


def test_four_bit_elements_by_the_bytes_that_hold_them(small: ModuleType) -> None:
    """Experts in uint8: packed or attested as bytes, they are the field's 4-bit elements; another map is not."""
    w = small.pack_shuffle_16x16(ramp(2, 32, 128))
    nibbles = small.unpack_shuffle_16x16(w.view(FP4), (2, 32, 128))
    assert torch.equal(nibbles.view(U8), ramp(2, 32, 128))
    as_pairs = small.pack_shuffle_16x16(ramp(2, 32, 128).view(FP4))
    assert torch.equal(small.unpack_shuffle_16x16(as_pairs.view(U8), (2, 32, 128)), ramp(2, 32, 128))
    tiles = small.pack_small_halves(ramp(32, 64).view(FP4))
    assert refused(small.unpack_small_halves, tiles.view(U8), (32, 64)), "64 elements a tile: 32 bytes here, 64 there"


# --- from_layer ---


def test_a_record_stands_for_the_flag(small: ModuleType) -> None:
    loaded = small.Small.from_layer(small_layer(small, flags=False))
    assert loaded.E == 2
    for as_uint8 in (True, False):
        source = small_layer(small, flags=False)
        w = ramp(2, 32, 128)
        source.w = small.pack_shuffle_16x16(w if as_uint8 else w.view(FP4))
        small.Small.from_layer(source)


def test_bytes_that_nobody_spoke_of_need_the_flag(small: ModuleType) -> None:
    source = small_layer(small, flags=False)
    for name in ("w", "odd", "parts", "pairs", "cache"):
        setattr(source, name, getattr(source, name).clone())
    found = whats(refused(small.Small.from_layer, source))
    assert found == [(name, "attest") for name in ("cache", "w", "odd", "parts", "pairs")]


def test_a_record_of_another_layout_is_refused_although_the_flag_is_true(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    source.w = flagged(small.pack_small_page(ramp(2, 32, 128)))
    (problem,) = refused(small.Small.from_layer, source)
    assert (
        (problem.field, problem.what) == ("w", "layout") and "small_page" in problem.found and "pack" in problem.found
    )
    source.w = flagged(ramp(2, 32, 128))
    runtime.attest(source.w, "row_major")
    assert whats(refused(small.Small.from_layer, source)) == [("w", "layout")]


def test_a_record_that_a_write_ended_is_refused_although_the_flag_is_true(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    small.Small.from_layer(source)
    source.w.copy_(ramp(2, 32, 128))
    assert source.w.is_shuffled
    (problem,) = refused(small.Small.from_layer, source)
    assert (problem.field, problem.what) == ("w", "layout")
    assert "written" in problem.found and "runtime.attest" in problem.help
    runtime.attest(source.w, "shuffle_16x16")
    small.Small.from_layer(source)


def test_a_record_whose_content_changed_is_refused_although_the_flag_is_true(small: ModuleType) -> None:
    """Each layer's load left a record; a loader writes raw bytes through `.data`, which counts nothing."""
    source = small_layer(small, flags=True)
    small.Small.from_layer(source)
    source.w.data.copy_(ramp(2, 32, 128, below=31))
    source.odd.data.view(U8)[1, 3, 3] ^= 1
    found = refused(small.Small.from_layer, source)
    assert whats(found) == [("w", "layout"), ("odd", "layout")] and all("content" in p.found for p in found)


def test_row_major_views_may_be_written_by_their_owner(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    small.Small.from_layer(source)
    source.g.copy_(torch.ones(64))
    source.table.data.fill_(2)
    assert small.Small.from_layer(source).g[0] == 1


def test_row_major_bytes_are_row_major_at_any_extents(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    runtime.attest(source.table, "row_major")
    runtime.attest(source.g.view(8, 8), "row_major")
    small.Small.from_layer(source)
    source.table = small.pack_small_page(source.table)
    assert whats(refused(small.Small.from_layer, source)) == [("table", "layout")]
    source.table.data.fill_(1)
    small.Small.from_layer(source)


def test_padded_fields_take_what_pack_recorded(small: ModuleType) -> None:
    source = small_layer(small, flags=False)
    assert layout_of(source.odd) == "e8m0_shuffle"
    runtime.attest(source.odd, "e8m0_shuffle", logical=(40, 5))
    small.Small.from_layer(source)
    runtime.attest(source.s, "e8m0_shuffle")
    small.Small.from_layer(source)
    runtime.attest(source.odd, "e8m0_shuffle", logical=(41, 5))
    (problem,) = refused(small.Small.from_layer, source)
    assert (problem.field, problem.what) == ("odd", "layout") and "(2, 41, 5)" in problem.found


def test_a_source_that_is_recorded_as_shuffled_is_refused(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    row_major = source.q
    source.q = small.pack_shuffle_16x16(row_major)
    (problem,) = refused(small.Small.from_layer, source)
    assert (problem.field, problem.what) == ("q", "layout") and "second time" in problem.help
    source.q.copy_(row_major)
    small.Small.from_layer(source)
    source.q = small.pack_shuffle_16x16(row_major)
    source.q.data.copy_(row_major)
    small.Small.from_layer(source)


def test_a_record_that_rests_on_a_flag_does_not_outlive_the_flag(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    source.w = flagged(source.w.clone())  # in the layout, but only the flag says so
    loaded = small.Small.from_layer(source)
    record = runtime.record_of(loaded.w)
    assert record is not None and record.origin == "load"
    small.Small.from_layer(source)
    source.w.is_shuffled = False
    (problem,) = refused(small.Small.from_layer, source)
    assert (problem.field, problem.what) == ("w", "attest")
    del source.w.is_shuffled
    (problem,) = refused(small.Small.from_layer, source)
    assert (problem.field, problem.what) == ("w", "attest")
    runtime.attest(source.w.view(torch.float4_e2m1fn_x2), "shuffle_16x16")
    small.Small.from_layer(source)


def test_a_struct_leaves_records_of_its_fields(small: ModuleType) -> None:
    loaded = small.Small.from_layer(small_layer(small, flags=True))
    for name, info in loaded.tensors.items():
        record = runtime.record_of(getattr(loaded, name))
        assert record is not None and record.layout == info.layout
        assert record.origin in ("pack", "load")
        assert record.field_id == loaded.field_ids[name] and record.format == info.element
    odd, w = runtime.record_of(loaded.odd), runtime.record_of(loaded.w)
    assert odd is not None and odd.extents == (2, 40, 5)
    assert w is not None and w.extents == (2, 32, 256) and w.bits == 4


def test_e8m0_by_either_dtype(small: ModuleType) -> None:
    packed = small.pack_e8m0_shuffle(ramp(2, 40, 5).view(E8M0))
    assert layout_of(packed.view(U8)) == "e8m0_shuffle"
    source = small_layer(small, flags=False)
    source.odd = packed.view(U8)
    small.Small.from_layer(source)
