"""One run of the function: bytes in, bytes of the result's storage out, in memory that was poisoned before."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mono_gen.infer.errors import FunctionRaised, NotALayout, Shape, shape_text

_ALLOCATORS = {
    torch.ops.aten.empty,
    torch.ops.aten.empty_like,
    torch.ops.aten.empty_strided,
    torch.ops.aten.new_empty,
    torch.ops.aten.new_empty_strided,
}

VIEW = (
    "the result is a view of the source, in another order of its axes: the layout is that of `result.contiguous()`, "
    "since nothing moves in memory"
)
TRANSPOSED = (
    "the result is not contiguous: the layout is that of its memory, which a kernel reads, not of the order in which "
    "torch indexes it"
)


@dataclass(slots=True)
class Probe:
    """A function with the dtype it is run on, and what its runs brought to light.

    bits:  of one element; a `float4_e2m1fn_x2` holds two of 4.
    runs:  how often it was called.
    notes: what a reader should know of its results, each once.
    """

    name: str
    call: Callable[[torch.Tensor], Any]
    dtype: torch.dtype
    runs: int = 0
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def bits(self) -> int:
        """Return the bits of an element."""
        return 4 if self.dtype == torch.float4_e2m1fn_x2 else 8 * self.dtype.itemsize

    @property
    def dtype_name(self) -> str:
        """Return the dtype as messages show it."""
        return str(self.dtype).removeprefix("torch.")

    def tensor_text(self, shape: Shape) -> str:
        """Return what it is run on, as messages show it: `a tensor of 64 x 128 uint8`."""
        return f"a tensor of {shape_text(shape)} {self.dtype_name}"

    def bytes_of(self, shape: Shape) -> int:
        """Return the bytes of a tensor of this shape."""
        return prod(shape) * int(self.dtype.itemsize)


class _Poisoned(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, memory that torch hands out uninitialised holds one byte throughout."""

    def __init__(self, byte: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.byte = byte

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # else torch imports its compiler here, a second that nothing needs
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in _ALLOCATORS and isinstance(result, torch.Tensor) and result.device.type == "cpu":
            _storage(result).fill_(self.byte)
        return result


def run(probe: Probe, shape: Shape, data: torch.Tensor, poison: int) -> torch.Tensor:
    """Return the bytes that the function makes of these, given as a tensor of this shape.

    data:   uint8, as many as such a tensor has; the function gets a copy.
    poison: what memory from `torch.empty` holds before the function writes it.
    Raises: FunctionRaised; NotALayout, where it does not return one dense tensor.
    """
    probe.runs += 1
    given = data.clone().view(probe.dtype).view(shape)
    try:
        with contextlib.redirect_stdout(io.StringIO()), _Poisoned(poison), torch.no_grad():
            result = probe.call(given)
    except (Exception, SystemExit) as error:  # the function is anybody's code: whatever it raises is its own error
        raise FunctionRaised(_raised(probe, shape, error)) from error
    return _stored(probe, _one_tensor(probe, result), given)


def _raised(probe: Probe, shape: Shape, error: BaseException) -> str:
    """Return what the function raised, where, and at which shape."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in frames if "/torch/" not in f.filename and "mono_gen" not in f.filename]
    where = f", at line {own[-1].lineno} of {own[-1].filename.rpartition('/')[2]}" if own else ""
    said = " ".join(str(error).split()) or "no message"
    return f"{probe.name} raised {type(error).__name__} on {probe.tensor_text(shape)}{where}: {said[:400]}"


def _one_tensor(probe: Probe, result: Any) -> torch.Tensor:
    """Return the tensor that a function returned, alone or in a sequence of one."""
    if isinstance(result, (tuple, list)):
        tensors = sum(isinstance(r, torch.Tensor) for r in result)
        if len(result) != 1 or tensors != 1:
            raise NotALayout(
                f"{probe.name} returns a {type(result).__name__} of {len(result)} values, {tensors} of them tensors, "
                "and a layout describes one: wrap it in a function that returns the one you mean"
            )
        result = result[0]
    if not isinstance(result, torch.Tensor):
        more = "; a function that writes into its argument has to return it" if result is None else ""
        raise NotALayout(f"{probe.name} returns {type(result).__name__}, where a tensor is expected{more}")
    if result.layout != torch.strided:
        raise NotALayout(f"{probe.name} returns a {result.layout} tensor, and a layout describes a strided one")
    return result.detach()


def _stored(probe: Probe, result: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a result: of its elements in order, or of its memory where it is transposed."""
    if not result.is_contiguous():
        is_view = result.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
        if is_view or 0 in result.stride() or result.device.type != "cpu":
            probe.notes.setdefault(VIEW)
            result = result.contiguous()
        else:
            probe.notes.setdefault(TRANSPOSED)
            return _storage(result)[result.storage_offset() * result.element_size() :].clone()
    flat = result.cpu().reshape(-1)
    return _storage(flat)[flat.storage_offset() * flat.element_size() :][: flat.numel() * flat.element_size()].clone()


def _storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return all bytes of a tensor's storage, as a tensor that shares them."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
