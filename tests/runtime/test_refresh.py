"""refresh: new values under the same addresses, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.frozen import replace
from tests.runtime.made import E8M0, FN, SMALL, U8, made, numbers, ramp, refused, small_layer, whats

FIELDS = ("g", "table", "cache", "w", "s", "odd", "parts", "pairs", "q", "qs")
PACKED = {"w": "shuffle_16x16", "s": "e8m0_shuffle", "cache": "small_page"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return made(tmp_path_factory.mktemp("small"), SMALL, "small")


def raw(t: torch.Tensor) -> bytes:
    return bytes(t.detach().reshape(-1).view(U8).tolist())


def contents(of: Any, names: tuple[str, ...] = FIELDS) -> dict[str, tuple[int, bytes]]:
    """Return address and bytes of each tensor."""
    return {name: (getattr(of, name).data_ptr(), raw(getattr(of, name))) for name in names}


@pytest.mark.parametrize("inference", [False, True])
def test_new_values_under_the_same_addresses(small: ModuleType, inference: bool) -> None:
    with torch.inference_mode(inference):
        old_layer, new_layer = (small_layer(small, flags=True, plus=plus) for plus in (0, 1))
        struct = small.Small.from_layer(old_layer)
        wanted = small.Small.from_layer(new_layer)
        before, sources = contents(struct), contents(new_layer)
        struct.refresh(new_layer)
        after = contents(struct)
        assert {n: a for n, (a, _) in after.items()} == {n: a for n, (a, _) in before.items()}
        assert {n: b for n, (_, b) in after.items()} == {n: b for n, (_, b) in contents(wanted).items()}
        assert all(after[name][1] != before[name][1] for name in FIELDS if name != "q")
        assert contents(new_layer) == sources, "sources are read, never written"
        assert runtime.recheck(struct, content=True) == "verified"


@pytest.mark.parametrize("made_in_inference", [False, True])
def test_either_mode_refreshes_what_the_other_made(small: ModuleType, made_in_inference: bool) -> None:
    with torch.inference_mode(made_in_inference):
        struct = small.Small.from_layer(small_layer(small, flags=True))
    with torch.inference_mode(not made_in_inference):
        new_layer = small_layer(small, flags=True, plus=1)
        struct.refresh(new_layer)
        assert raw(struct.g) == raw(new_layer.g)
    assert struct.q.is_inference() == made_in_inference


def test_ids_records_and_tables_stay(small: ModuleType) -> None:
    struct = small.Small.from_layer(small_layer(small, flags=True))
    table = struct.k1(torch.zeros(64, dtype=U8))
    ids = {name: runtime.record_of(getattr(struct, name)) for name in FIELDS}
    struct.refresh(small_layer(small, flags=True, plus=1))
    assert runtime.recheck(struct) == "unverified" and runtime.recheck_table(table)
    for name in FIELDS:
        was, now = ids[name], runtime.record_of(getattr(struct, name))
        assert was is not None and now is not None and (was.layout_id, was.field_id) == (now.layout_id, now.field_id)


def test_pads_are_written_too(small: ModuleType) -> None:
    struct = small.Small.from_layer(small_layer(small, flags=True))
    for name in ("odd", "parts", "pairs"):
        getattr(struct, name).data.view(U8).fill_(0xEE)
    struct.refresh(small_layer(small, flags=True, plus=1))
    assert runtime.recheck(struct, content=True) == "verified"


def test_parameters_that_were_bound_anew(small: ModuleType) -> None:
    """A loader that replaces `.data`: the struct's views keep the old addresses and get the new values."""
    source = small_layer(small, flags=True)
    for name in ("g", "w", "s"):
        parameter = torch.nn.Parameter(getattr(source, name), requires_grad=False)
        parameter.is_shuffled = True  # type: ignore[attr-defined]
        setattr(source, name, parameter)
    struct = small.Small.from_layer(source)
    before = contents(struct)
    other = small_layer(small, flags=True, plus=1)
    for name in ("g", "w", "s"):
        getattr(source, name).data = getattr(other, name)
    assert contents(struct) == before, "the struct still reads the old memory"
    struct.refresh(source)
    for name in ("g", "w", "s"):
        assert getattr(struct, name).data_ptr() == before[name][0] != getattr(source, name).data_ptr()
        assert raw(getattr(struct, name)) == raw(getattr(other, name))


def test_views_written_in_place_by_their_owner(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    struct = small.Small.from_layer(source)
    source.g.copy_(torch.ones(64))
    source.table.data.fill_(3)
    assert whats(refused(runtime.recheck, struct)) == [("g", "overwritten")]
    struct.refresh(source)
    assert runtime.recheck(struct, content=True) == "verified" and struct.g.data_ptr() == source.g.data_ptr()


def test_shuffled_views_written_in_place_need_a_promise_anew(small: ModuleType) -> None:
    source = small_layer(small, flags=True)
    struct = small.Small.from_layer(source)
    source.w.copy_(small_layer(small, flags=True, plus=1).w)
    assert whats(refused(struct.refresh, source)) == [("w", "layout")]
    runtime.attest(source.w, "shuffle_16x16")
    struct.refresh(source)
    assert runtime.recheck(struct, content=True) == "verified"


def nan_scale(source: Any) -> None:
    source.qs.view(U8)[3, 1] = 255


def nan_code(source: Any) -> None:
    source.q.view(U8)[3, 1] = 0x7F


def too_large(source: Any) -> None:
    source.qs.view(U8)[3, 1] = 254


def no_w(source: Any) -> None:
    del source.w


def none_odd(source: Any) -> None:
    source.odd = None


def other_dtype(source: Any) -> None:
    source.g = source.g.to(torch.float32)


def other_shape(source: Any) -> None:
    source.q = numbers(48, 64)


def strided(source: Any) -> None:
    source.table = torch.zeros(3, 32, dtype=torch.bfloat16)[:, :16]


def flag_lost(source: Any) -> None:
    source.odd = source.odd.clone()


def shuffled_source(source: Any) -> None:
    source.q.is_shuffled = True


def on_meta(source: Any) -> None:
    source.qs = source.qs.to("meta")


REFUSALS = (
    nan_scale,
    nan_code,
    too_large,
    no_w,
    none_odd,
    other_dtype,
    other_shape,
    strided,
    flag_lost,
    shuffled_source,
    on_meta,
)


@pytest.mark.parametrize("spoil", REFUSALS)
def test_a_layer_that_no_longer_fits_changes_nothing(small: ModuleType, spoil: Callable[[Any], None]) -> None:
    struct = small.Small.from_layer(small_layer(small, flags=True))
    before = contents(struct)
    source = small_layer(small, flags=True, plus=1)
    spoil(source)
    assert refused(struct.refresh, source)
    assert contents(struct) == before
    assert runtime.recheck(struct, content=True) == "verified"


def test_another_number_of_experts_or_positions_changes_nothing(small: ModuleType) -> None:
    struct = small.Small.from_layer(small_layer(small, flags=True))
    before = contents(struct)
    found = whats(refused(struct.refresh, small_layer(small, flags=True, plus=1, experts=3)))
    assert found == [("w", "shape"), ("s", "shape"), ("odd", "shape")]
    found = whats(refused(struct.refresh, small_layer(small, flags=True, plus=1, pos=4)))
    assert found == [("table", "shape"), ("cache", "shape")]
    assert contents(struct) == before


def test_another_container_is_another_dtype(small: ModuleType) -> None:
    struct = small.Small.from_layer(small_layer(small, flags=True))
    source = small_layer(small, flags=True, plus=1)
    source.odd = source.odd.view(U8)
    before = contents(struct)
    assert whats(refused(struct.refresh, source)) == [("odd", "shape")]
    assert contents(struct) == before


def test_tensors_of_another_device_are_not_copied(small: ModuleType) -> None:
    struct, new = (small.Small.from_layer(small_layer(small, flags=True, plus=plus)) for plus in (0, 1))
    before = contents(struct)
    elsewhere = tuple(
        replace(one, tensor=one.tensor.to("meta")) if one.info.name in ("g", "w") else one for one in new._seal
    )
    object.__setattr__(new, "_seal", elsewhere)
    found = refused(runtime.refresh, struct, new)
    assert [(p.field, p.what, p.expected, p.found) for p in found] == [
        ("g", "device", "cpu", "meta"),
        ("w", "device", "cpu", "meta"),
    ]
    assert contents(struct) == before


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("how", ["freed", "moved", "shrunk"])
def test_memory_of_the_struct_that_is_gone_is_not_written(small: ModuleType, name: str, how: str) -> None:
    struct = small.Small.from_layer(small_layer(small, flags=True))
    t = getattr(struct, name)
    match how:
        case "freed":
            t.untyped_storage().resize_(0)
        case "moved":
            t.data = t.clone()
        case "shrunk":
            t.untyped_storage().resize_(t.nbytes - 1)
    others = tuple(other for other in FIELDS if other != name)
    before = contents(struct, others)
    found = whats(refused(struct.refresh, small_layer(small, flags=True, plus=1)))
    assert found == [(name, "freed" if how == "freed" else "moved")]
    assert contents(struct, others) == before


def test_parts_that_overlap_are_refused(small: ModuleType) -> None:
    """Half old memory, half new: the copy would read what it has written."""
    room = torch.arange(128).to(torch.bfloat16)
    source = small_layer(small, flags=True)
    source.g = room[:64]
    struct = small.Small.from_layer(source)
    source.g = room[32:96]
    before = contents(struct)
    assert whats(refused(struct.refresh, source)) == [("g", "overlap")]
    assert contents(struct) == before


def two_norms(tmp: Any) -> ModuleType:
    text = (
        "spec norms\narch gfx950\nstruct N(layer) { a : bf16[64] { view layer.a }\n b : bf16[64] { view layer.b } }\n"
    )
    return made(tmp, text, "norms")


def test_two_parameters_that_changed_places_are_refused(tmp_path: Any) -> None:
    module = two_norms(tmp_path)
    a, b = torch.ones(64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)
    source = small_source(a, b)
    struct = module.N.from_layer(source)
    found = whats(refused(struct.refresh, small_source(b, a)))
    assert found == [("a", "overlap"), ("b", "overlap")]
    assert struct.a[0] == 1 and struct.b[0] == 0
    struct.refresh(small_source(a, a))
    assert struct.a[0] == struct.b[0] == 1 and struct.b.data_ptr() == b.data_ptr()


def small_source(a: torch.Tensor, b: torch.Tensor) -> Any:
    return type("Norms", (), {"a": a, "b": b})()


def test_one_parameter_for_two_fields(tmp_path: Any) -> None:
    """Shared memory that becomes two values: one of them would be lost."""
    module = two_norms(tmp_path)
    a, b = torch.ones(64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)
    struct = module.N.from_layer(small_source(a, a))
    assert whats(refused(struct.refresh, small_source(a + 1, b))) == [("a", "overlap"), ("b", "overlap")]
    assert struct.a[0] == 1


def test_present_and_absent_parts_do_not_replace_each_other(tmp_path: Any) -> None:
    text = """
spec maybe
arch gfx950
struct M(layer) {
    dim E
    a : bf16[E, 16] { tile row_major view layer.a }
    optional more when E == 2 { b : bf16[64] { view layer.b } }
}
"""
    module = made(tmp_path, text, "maybe")

    def source(e: int) -> Any:
        return type("L", (), {"a": torch.zeros(e, 16, dtype=torch.bfloat16), "b": torch.ones(64, dtype=torch.bfloat16)})

    with_b, without = module.M.from_layer(source(2)), module.M.from_layer(source(3))
    assert with_b.b is not None and without.b is None
    assert whats(refused(with_b.refresh, source(3))) == [("a", "shape"), ("b", "presence")]
    assert whats(refused(without.refresh, source(2))) == [("a", "shape"), ("b", "presence")]


def test_fresh_values_are_packed_for_real(small: ModuleType) -> None:
    """Not the source's bytes: their packed form."""
    struct = small.Small.from_layer(small_layer(small, flags=True))
    source = small_layer(small, flags=True)
    source.q = ramp(32, 64, below=61).view(FN)
    source.qs = torch.full((32, 2), 127, dtype=U8).view(E8M0)
    struct.refresh(source)
    q, _ = runtime.mxfp8_to_ptpc_fp8("q", source.q, source.qs, dtype=FN)
    assert raw(small.unpack_shuffle_16x16(struct.q, (32, 64))) == raw(q) and raw(struct.q) != raw(q)
