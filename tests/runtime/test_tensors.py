"""Only a plain tensor with bytes of its own is taken; Parameters and vLLM's subclasses of them are plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported
from mono_gen.runtime.tensors import bytes_problems, kind_problem, plain


class VllmParameter(torch.nn.Parameter):
    """A Parameter as vLLM makes them: __torch_function__ of its own, and a loader on it."""

    def __new__(cls, data: torch.Tensor, weight_loader: Callable[..., None]) -> VllmParameter:
        return super().__new__(cls, data, requires_grad=False)  # type: ignore[return-value]

    def __init__(self, data: torch.Tensor, weight_loader: Callable[..., None]) -> None:
        self.weight_loader = weight_loader

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """A wrapper subclass: a shape without bytes, and everything answered by __torch_dispatch__."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined,no-any-return]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(func)


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.zeros(4, 4)


ODD: list[tuple[str, Callable[[], Any], str]] = [
    ("a list", lambda: [1, 2], "an object of type list"),
    ("an int", lambda: 7, "7 (int)"),
    ("numbers of numpy", lambda: torch.zeros(2).numpy(), "an object of type ndarray"),
    ("meta", lambda: torch.zeros(4, 4, device="meta"), "a meta tensor"),
    ("fake", fake, "FakeTensor, a wrapper"),
    ("wrapper", lambda: Wrapper(torch.zeros(4, 4)), "Wrapper, a wrapper"),
    ("functional", lambda: torch._to_functional_tensor(torch.zeros(4)), "a functional tensor"),
    ("lazy", lambda: torch.nn.UninitializedParameter(), "UninitializedParameter, which has no shape yet"),
    ("sparse", lambda: torch.eye(4).to_sparse(), "a tensor of layout torch.sparse_coo"),
    ("csr", lambda: torch.eye(4).to_sparse_csr(), "a tensor of layout torch.sparse_csr"),
    ("mkldnn", lambda: torch.zeros(4, 4).to_mkldnn(), "a tensor of layout torch._mkldnn"),
    ("conj", lambda: torch.zeros(4, dtype=torch.complex64).conj(), "a view with the conj or neg bit"),
    ("neg", lambda: torch.zeros(4, dtype=torch.complex64).conj().imag, "a view with the conj or neg bit"),
    ("quantized", lambda: torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.quint8), "a quantized tensor"),
    ("nested", lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "a nested tensor"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "found"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_a_kind_that_has_no_plain_bytes(make: Callable[[], Any], found: str) -> None:
    problem = kind_problem("w", make())
    assert problem is not None
    assert problem.found.startswith(found)
    with pytest.raises(MonoUnsupported, match="kind"):
        runtime.element_bits("pack_x", make())
    with pytest.raises(MonoUnsupported, match="kind"):
        runtime.extents("pack_x", make(), ("row",))


def test_a_tensor_inside_a_transform() -> None:
    seen = []

    def look(t: torch.Tensor) -> torch.Tensor:
        seen.append(kind_problem("w", t))
        return t

    torch.func.vmap(look)(torch.zeros(2, 3))
    assert seen[0] is not None
    assert "functorch" in seen[0].found


PLAIN: list[tuple[str, Callable[[], torch.Tensor]]] = [
    ("tensor", lambda: torch.zeros(4)),
    ("parameter", lambda: torch.nn.Parameter(torch.zeros(4))),
    ("buffer", lambda: torch.nn.Buffer(torch.zeros(4))),
    ("vllm", lambda: VllmParameter(torch.zeros(4), lambda: None)),
]


@pytest.mark.parametrize("make", [row[1] for row in PLAIN], ids=[row[0] for row in PLAIN])
def test_a_plain_kind_becomes_a_tensor_of_the_same_bytes(make: Callable[[], torch.Tensor]) -> None:
    t = make()
    assert kind_problem("w", t) is None
    alias = plain(t)
    assert type(alias) is torch.Tensor
    assert alias.data_ptr() == t.data_ptr()
    assert not alias.requires_grad


def test_an_inference_tensor_is_plain() -> None:
    with torch.inference_mode():
        t = torch.zeros(4)
    assert kind_problem("w", t) is None
    assert plain(t).data_ptr() == t.data_ptr()


def test_bytes_are_asked_for_everything_at_once() -> None:
    short = torch.zeros(4, 8)
    short.untyped_storage().resize_(64)
    expanded = torch.zeros(1, 8).expand(4, 8)
    assert bytes_problems("w", torch.zeros(4, 8)) == []
    assert [p.what for p in bytes_problems("w", short)] == ["storage"]
    assert [p.what for p in bytes_problems("w", expanded)] == ["strides", "storage"]
    assert [p.what for p in bytes_problems("w", torch.zeros(4, 0))] == ["extent"]
    assert [p.what for p in bytes_problems("w", torch.zeros(4, 8, device="meta"))] == ["kind"]
