"""What is kept between launches of Triton's kernels, on a kernel that stands in for one: no Triton, no GPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mono_gen.runtime import Storage, gpu_moves, launches
from mono_gen.runtime.boxes import plan_boxes
from mono_gen.runtime.launches import Launch, ask, launch, planned

Call = tuple[str, tuple[int, ...], tuple[Any, ...]]


def stand_in(calls: list[Call], effect: Callable[..., object] = lambda *_: None) -> Any:
    """Return a kernel of two tensors and two constants, which notes how it was called; so does what it compiles to."""

    def kernel(source: Any, words: Any, number: int, FIRST: int, SECOND: int) -> None: ...

    class Noted:
        def __init__(self, name: str) -> None:
            self.name, self.fn = name, kernel

        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                calls.append((self.name, grid, args))
                effect(*args)
                return Noted("compiled")

            return call

    return Noted("kernel")


def work_of(kernel: Any) -> Launch:
    return planned(kernel, 3, (torch.int32, torch.int32), (7,), {"SECOND": 2, "FIRST": 1})


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "_is_direct", lambda: True)


@pytest.mark.usefixtures("direct")
def test_a_compiled_kernel_is_called_with_the_same_arguments() -> None:
    calls: list[Call] = []
    work = work_of(stand_in(calls))
    t, words = torch.zeros(16, dtype=torch.uint8), torch.zeros(2, dtype=torch.int32)
    for _ in range(3):
        launch(work, t, words)
    assert [name for name, _, _ in calls] == ["kernel", "compiled", "compiled"]
    assert [grid for _, grid, _ in calls] == [(3,), (3, 1, 1), (3, 1, 1)]
    for _, _, args in calls:
        assert [a.data_ptr() for a in args[:2]] == [t.data_ptr(), words.data_ptr()]
        assert args[2:] == (7, 1, 2)
    assert calls[0][2][0].dtype is torch.int32  # what is compiled is compiled for the kernel's dtypes


@pytest.mark.usefixtures("direct")
def test_other_alignments_are_compiled_anew() -> None:
    calls: list[Call] = []
    work = work_of(stand_in(calls))
    room, words = torch.zeros(64, dtype=torch.uint8), torch.zeros(2, dtype=torch.int32)
    for first in (0, 4, 16, 8):  # Triton tells multiples of 16 from others
        launch(work, room[first : first + 16], words)
    assert [name for name, _, _ in calls] == ["kernel", "kernel", "compiled", "compiled"]


def test_of_an_unknown_triton_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, hip, holds in (
        ((3, 4), None, True),
        ((3, 6), None, True),
        ((3, 7), None, False),
        ((3, 6), "7", False),
    ):
        monkeypatch.setattr(launches, "triton_version", lambda v=version: v)
        monkeypatch.setattr(torch.version, "hip", hip)
        launches._is_direct.cache_clear()
        assert launches._is_direct() is holds
    calls: list[Call] = []
    work = work_of(stand_in(calls))
    for _ in range(2):
        launch(work, torch.zeros(16, dtype=torch.uint8), torch.zeros(2, dtype=torch.int32))
    launches._is_direct.cache_clear()
    assert [name for name, _, _ in calls] == ["kernel", "kernel"]


def test_constants_have_to_be_the_kernels() -> None:
    with pytest.raises(KeyError):
        planned(stand_in([]), 1, (torch.int32, torch.int32), (7,), {"FIRST": 1, "THIRD": 2})
    with pytest.raises(AssertionError, match="kernel takes source, words, number, FIRST, SECOND"):
        planned(stand_in([]), 1, (torch.int32, torch.int32), (7,), {"FIRST": 1, "SECOND": 2, "THIRD": 3})


@pytest.mark.usefixtures("direct")
def test_words_are_one_calls_own_and_0_when_free() -> None:
    t, seen = torch.zeros(16, dtype=torch.uint8), []

    def effect(_: torch.Tensor, words: torch.Tensor, *rest: object) -> None:
        assert words.tolist() == [0, 0]
        seen.append(words.data_ptr())
        if len(seen) == 1:  # another call, from another thread say, before the wait of this one is over
            assert ask(work, t) == (False, True)
            words[0] = 1
        else:
            words[1] = 1

    work = work_of(stand_in([], effect))
    version = t._version
    with torch.inference_mode():
        assert ask(work, t) == (True, False)
    assert ask(work, t, outputs=(t,)) == (False, True)
    assert t._version == version + 1
    assert len(set(seen[:2])) == 2 and seen[2] in seen[:2]


@pytest.mark.usefixtures("direct")
def test_words_of_a_wait_that_failed_are_not_used_again() -> None:
    seen = []

    def effect(_: torch.Tensor, words: torch.Tensor, *rest: object) -> None:
        seen.append(words.data_ptr())
        if len(seen) == 1:
            raise KeyboardInterrupt

    work = work_of(stand_in([], effect))
    with pytest.raises(KeyboardInterrupt):
        ask(work, torch.zeros(16, dtype=torch.uint8))
    ask(work, torch.zeros(16, dtype=torch.uint8))
    assert len(set(seen)) == 2


def test_a_grid_is_cut_where_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[SimpleNamespace] = []
    monkeypatch.setattr(gpu_moves, "MOST_PROGRAMS", 100)
    monkeypatch.setattr(gpu_moves, "planned", lambda *args: taken.append(args))
    monkeypatch.setattr(gpu_moves, "arguments", lambda boxes, unpacks: ((), {}))
    monkeypatch.setitem(__import__("sys").modules, "mono_gen.runtime.triton_kernels.move", SimpleNamespace(move=None))
    boxes = plan_boxes(1, Storage((4096, 512), (4096, 512), (4096, 512), (1, 0)), 8, 16, False)
    assert boxes is not None
    gpu_moves.launches(boxes, 0, False)
    assert [(args[1], args[3][0]) for args in taken] == [(100, 0), (100, 100), (56, 200)]
    gpu_moves.launches.cache_clear()
