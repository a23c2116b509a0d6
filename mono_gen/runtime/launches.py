"""Launches of Triton kernels: what hangs on shapes alone is worked out once and kept, as is the compiled kernel.

A launch through Triton's own front end, with views and arguments made anew, costs the host more than small tensors
take on the device.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from mono_gen.runtime.gpu import triton_version, written

DIRECT = ((3, 4), (3, 6))
"""The first and the last Triton whose compiled kernels are known to take the arguments of the kernel, all of them."""


@dataclass(slots=True)
class Launch:
    """A kernel with all that it takes but its tensors, which are its first arguments.

    dtypes:   what it takes them as, each flat.
    rest:     the arguments behind them, in order.
    compiled: by the device and by which tensors begin at multiples of 16 bytes: beside dtypes and `rest`, that is what
              Triton compiles for.
    """

    kernel: Any
    programs: int
    dtypes: tuple[torch.dtype, ...]
    rest: tuple[Any, ...]
    warps: int = 4
    compiled: dict[tuple[int, ...], Any] = field(default_factory=dict)


def planned(
    kernel: Any,
    programs: int,
    dtypes: tuple[torch.dtype, ...],
    numbers: tuple[Any, ...],
    constants: dict[str, Any],
    warps: int = 4,
) -> Launch:
    """Return the launch of a kernel of so many tensors, then numbers, then constants, which are given by name."""
    names = list(inspect.signature(kernel.fn).parameters)
    rest = (*numbers, *(constants[name] for name in names[len(dtypes) + len(numbers) :]))
    if len(names) != len(dtypes) + len(numbers) + len(constants):
        raise AssertionError(f"{kernel.fn.__name__} takes {', '.join(names)}")
    return Launch(kernel, programs, dtypes, rest, warps)


def launch(work: Launch, *tensors: torch.Tensor) -> None:
    """Return nothing; launch on the device of the first tensor, on that device's current stream.

    Requires: tensors dense; their dtypes may be others, if no less aligned.
    """
    device = tensors[0].get_device()
    if device < 0 or device == torch.cuda.current_device():  # below 0: Triton's interpreter, on the CPU
        _launch(work, device, tensors)
    else:
        with torch.cuda.device(device):
            _launch(work, device, tensors)


def _launch(work: Launch, device: int, tensors: tuple[torch.Tensor, ...]) -> None:
    key = (device, *[t.data_ptr() % 16 == 0 for t in tensors])
    compiled = work.compiled.get(key)
    if compiled is not None:
        compiled[(work.programs, 1, 1)](*tensors, *work.rest)
        return
    flat = [t.view(-1).view(torch.uint8).view(dtype) for t, dtype in zip(tensors, work.dtypes, strict=True)]
    compiled = work.kernel[(work.programs,)](*flat, *work.rest, num_warps=work.warps)
    if compiled is not None and _is_direct():
        work.compiled[key] = compiled


@lru_cache(maxsize=1)
def _is_direct() -> bool:
    """Return whether compiled kernels are called; on AMD's, Triton compiles for the size of storages too."""
    first, last = DIRECT
    return torch.version.hip is None and first <= triton_version() <= last


_FREE: dict[bool, list[torch.Tensor]] = {False: [], True: []}
_MADE: list[torch.Tensor] = []  # a wait that is interrupted leaves a kernel behind that may still write


def ask(work: Launch, *tensors: torch.Tensor, outputs: tuple[torch.Tensor, ...] = ()) -> tuple[bool, bool]:
    """Return whether a kernel set each of the two words that are its last tensor, after one wait for its stream.

    The words are pinned memory of the host, which the kernel writes itself: none is filled before it, or copied behind
    it. They are one call's own until its wait is over, whatever its stream and thread; those that are free are 0.

    outputs: what the kernel writes, counted as writes while it runs.
    """
    on_gpu = tensors[0].is_cuda
    try:
        words = _FREE[on_gpu].pop()
    except IndexError:
        with torch.inference_mode(False):
            words = torch.zeros(2, dtype=torch.int32, device="cpu", pin_memory=on_gpu)
        _MADE.append(words)
    stream = torch.cuda.current_stream(tensors[0].device) if on_gpu else None
    launch(work, *tensors, words)
    for t in outputs:
        written(t)
    if stream is not None:
        stream.synchronize()
    first, second = words.tolist()
    if first or second:
        words.zero_()
    _FREE[on_gpu].append(words)
    return bool(first), bool(second)
