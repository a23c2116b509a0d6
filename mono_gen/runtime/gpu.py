"""Whether a tensor's work goes to the Triton kernels: it lies on a GPU, and Triton is there. Else torch does it all."""

from __future__ import annotations

from functools import lru_cache

import torch

OLDEST_TRITON = (3, 4)
"""The first one whose kernels take tuples of numbers and constants."""


def has_kernels(t: torch.Tensor) -> bool:
    """Return whether the Triton kernels can take `t`."""
    return t.is_cuda and _has_triton()


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    try:
        return triton_version() >= OLDEST_TRITON
    except ImportError:
        return False


def triton_version() -> tuple[int, ...]:
    """Return Triton's version, two numbers. Raises: ImportError, where there is none."""
    import triton

    return tuple(int(n) for n in triton.__version__.split(".")[:2])


@lru_cache(maxsize=16)
def converts_fp8(device: torch.device) -> bool:
    """Return whether a GPU has NVIDIA's instructions between fp8 and wider numbers; others convert by integers."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9)


def written(t: torch.Tensor | None) -> None:
    """Return nothing; count a write that no torch operation made, as torch counts its own."""
    if t is not None and not t.is_inference():
        torch.autograd.graph.increment_version(t)
