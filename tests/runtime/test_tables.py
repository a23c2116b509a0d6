"""A pointer table: int64 addresses in order, which keep what they point at."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported


def test_addresses_stand_in_order() -> None:
    a, b = torch.zeros(4, 8), torch.nn.Parameter(torch.zeros(3))
    table = runtime.address_table("args", (("a", a), ("extra", 0x1230), ("b", b), ("null", 0)))
    assert table.dtype == torch.int64
    assert table.tolist() == [a.data_ptr(), 0x1230, b.data_ptr(), 0]
    assert table.device == a.device


class Guard:
    """Something to watch: it dies with the storage that it hangs on."""


def watched(count: int) -> tuple[torch.Tensor, weakref.ref[Guard]]:
    t = torch.zeros(count)
    guard = Guard()
    t.untyped_storage().guard = guard  # type: ignore[attr-defined]
    return t, weakref.ref(guard)


@pytest.mark.parametrize("through", ["table", "view of the table", "detached"])
def test_the_table_keeps_its_tensors_alive(through: str) -> None:
    t, alive = watched(64)
    table = runtime.address_table("args", (("t", t), ("u", t[16:])))
    kept = {"table": table, "view of the table": table[1:], "detached": table.detach()}[through]
    del t, table
    gc.collect()
    assert alive() is not None
    assert kept.numel()
    del kept
    gc.collect()
    assert alive() is None


def test_the_table_keeps_the_bytes_and_not_the_parameter() -> None:
    """`.data = ...` moves a Parameter elsewhere; the bytes that the table names stay."""
    t, alive = watched(64)
    parameter = torch.nn.Parameter(t)
    table = runtime.address_table("args", (("p", parameter),))
    del t
    parameter.data = torch.ones(64)
    gc.collect()
    assert alive() is not None
    assert table.tolist() != [parameter.data_ptr()]


BAD: list[tuple[Any, str]] = [
    (torch.zeros(8, 4).t(), "x: strides"),
    (torch.zeros(9)[1:], "x: alignment: expected data_ptr % 16 == 0, found data_ptr % 16 == 4"),
    (torch.zeros(0), "x: extent"),
    (torch.zeros(4, device="meta"), "x: kind"),
    (None, "x: address: expected a tensor, or an address from 0 to 2\\^63 - 1, found None"),
    (-1, "x: address"),
    (1 << 63, "x: address"),
    (True, "x: address"),
    (1.0, "x: address"),
]


@pytest.mark.parametrize(("entry", "text"), BAD)
def test_an_entry_that_a_kernel_must_not_get(entry: Any, text: str) -> None:
    with pytest.raises(MonoUnsupported, match=text):
        runtime.address_table("args", (("good", torch.zeros(4)), ("x", entry)))


def test_all_entries_are_checked() -> None:
    with pytest.raises(MonoUnsupported) as refusal:
        runtime.address_table("args", (("a", None), ("b", torch.zeros(4)), ("c", -1)))  # type: ignore[arg-type]
    assert [p.field for p in refusal.value.problems] == ["a", "c"]


def test_another_device_is_refused() -> None:
    with pytest.raises(MonoUnsupported, match="x: device: expected cuda:0, found cpu"):
        runtime.address_table("args", (("x", torch.zeros(4)),), device="cuda:0")


def test_addresses_alone_need_a_device() -> None:
    with pytest.raises(MonoUnsupported, match="args: device: expected a tensor among the entries, or device="):
        runtime.address_table("args", (("a", 1), ("b", 2)))
    assert runtime.address_table("args", (("a", 1), ("b", 2)), device="cpu").tolist() == [1, 2]


@pytest.mark.gpu
def test_a_table_on_a_gpu_waits_for_nothing() -> None:
    t = torch.zeros(64, device="cuda")
    torch.cuda.synchronize()
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        table = runtime.address_table("args", (("t", t), ("extra", 7)))
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    assert table.device == t.device
    assert table.tolist() == [t.data_ptr(), 7]


def test_nbytes_counts_what_is_present() -> None:
    pairs = torch.zeros(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert runtime.nbytes(torch.zeros(3, 4, dtype=torch.bfloat16), None, pairs) == 24 + 6
    assert runtime.nbytes() == 0
