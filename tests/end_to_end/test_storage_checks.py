"""What a pointer does not say, asked of every tensor of SparseMoeLayer: stride 0, storage, kind, alignment, device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from mono_gen.runtime import MonoUnsupported
from tests.end_to_end.light_layer import CONVERTED, PATHS, at, drop, empty, light_layer, put, specimens
from tools.demo import sources as s

VIEWS = tuple(name for name in PATHS if name not in CONVERTED)
ALONE = ("k_scale", "v_scale")  # of one element: no stride of theirs says anything


class Wrapper(torch.Tensor):
    """A tensor whose bytes are elsewhere, as DTensor's are."""

    @staticmethod
    def __new__(cls, like: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype)  # type: ignore[no-any-return,attr-defined]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("nothing is computed with it")


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return specimens(s.ROUTED)


def refusal(module: ModuleType, tensors: dict[str, torch.Tensor], **changed: Any) -> list[tuple[str, str]]:
    """Return (field, what) of every problem of a layer that holds these tensors, some of them changed."""
    layer = light_layer(tensors)
    for name, t in changed.items():
        put(layer, PATHS[name], t)
    for name in ("w13", "w2"):
        at(layer, PATHS[name]).is_shuffled = True
    with pytest.raises(MonoUnsupported) as refused:
        module.SparseMoeLayer.from_layer(layer)
    return [(p.field, p.what) for p in refused.value.problems]


@pytest.mark.parametrize("name", [n for n in PATHS if n not in ALONE])
def test_one_row_expanded_to_all(minimax_module: ModuleType, tensors: dict[str, torch.Tensor], name: str) -> None:
    t = tensors[name]
    expanded = empty((1, *t.shape[1:]), t.dtype).expand(t.shape)
    assert refusal(minimax_module, tensors, **{name: expanded}) == [(name, "strides"), (name, "storage")]


@pytest.mark.parametrize("name", PATHS)
def test_storage_that_ends_early(minimax_module: ModuleType, tensors: dict[str, torch.Tensor], name: str) -> None:
    t = tensors[name]
    short, gone = empty(tuple(t.shape), t.dtype), empty(tuple(t.shape), t.dtype)
    short.untyped_storage().resize_(min(16, t.nbytes - 1))
    gone.untyped_storage().resize_(0)
    for spoiled in (short, gone):
        assert refusal(minimax_module, tensors, **{name: spoiled}) == [(name, "storage")]


@pytest.mark.parametrize("name", PATHS)
def test_a_wrapper_of_another_tensor(minimax_module: ModuleType, tensors: dict[str, torch.Tensor], name: str) -> None:
    assert refusal(minimax_module, tensors, **{name: Wrapper(tensors[name])}) == [(name, "kind")]


def test_a_source_that_is_not_at_a_multiple_of_its_element(
    minimax_module: ModuleType, tensors: dict[str, torch.Tensor]
) -> None:
    t = tensors["gate"]
    odd = torch.frombuffer(bytearray(t.nbytes + 1), dtype=t.dtype, offset=1).view(t.shape)
    assert refusal(minimax_module, tensors, gate=odd) == [("gate", "alignment")]


@pytest.mark.parametrize("name", ["index_cache", "w13", "s13", "w2", "s2"])
def test_every_batch_item_begins_where_a_wide_load_may(tensors: dict[str, torch.Tensor], name: str) -> None:
    """The shapes that the spec fixes keep it so; other shapes are refused: tests/runtime/test_load.py."""
    assert tensors[name][0].nbytes % 16 == 0


def test_every_tensor_that_is_spoiled_stands_in_one_refusal(
    minimax_module: ModuleType, tensors: dict[str, torch.Tensor]
) -> None:
    spoiled = {name: torch.empty(t.shape, dtype=t.dtype, device="meta") for name, t in tensors.items()}
    found = refusal(minimax_module, tensors, **{n: t for n, t in spoiled.items() if not n.startswith("sh_")})
    assert found == [(name, "kind") for name in PATHS if not name.startswith("sh_")], "E is bound by nothing"
    shared = {name: t for name, t in spoiled.items() if name not in ("w13", "s13", "w2", "s2")}
    found = refusal(minimax_module, tensors, **shared)
    assert found == [(name, "kind") for name in PATHS if name in shared]


def test_every_tensor_that_is_missing_stands_in_one_refusal(
    minimax_module: ModuleType, tensors: dict[str, torch.Tensor]
) -> None:
    layer = light_layer(tensors)
    missing = [name for name in PATHS if name != "w13"]
    for name in missing:
        drop(layer, PATHS[name])
    with pytest.raises(MonoUnsupported) as refused:
        minimax_module.SparseMoeLayer.from_layer(layer)
    assert [(p.field, p.what) for p in refused.value.problems] == [(name, "attribute") for name in missing]
