"""What the generated pack and unpack do to aiter's inputs, against the digests of what aiter made of them."""

from __future__ import annotations

import hashlib
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.conformance.rows import COVERED, VECTORS, source


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="session")
def modules(aiter_module: ModuleType, minimax_module: ModuleType, caches_module: ModuleType) -> dict[str, ModuleType]:
    return {"aiter": aiter_module, "minimax_m3": minimax_module, "caches": caches_module}


@pytest.mark.parametrize("case", COVERED)
def test_generated_pack_gives_aiters_bytes_and_unpack_the_input(modules: dict[str, ModuleType], case: str) -> None:
    row, covered, units = VECTORS[case], COVERED[case], source(case)
    assert _sha256(units.tobytes()) == row["in_sha256"]
    module = modules[covered.module]
    pack, unpack = getattr(module, f"pack_{covered.layout}"), getattr(module, f"unpack_{covered.layout}")
    dtype = getattr(torch, row["in_dtype"])
    given = torch.from_numpy(units.view(np.uint8)).view(dtype)
    assert given.shape == units.shape
    if covered.inverse:
        logical = unpack(given, units.shape)
        assert _sha256(_bytes(logical)) == row["storage_sha256"]
        assert _bytes(pack(logical)) == units.tobytes()
        return
    storage = pack(given)
    assert storage.dtype == dtype
    assert _bytes(storage)[:64].hex() == row["storage_first64_hex"]
    assert _sha256(_bytes(storage)) == row["storage_sha256"]
    assert storage.numel() * storage.element_size() == row["out_nbytes"]
    back = unpack(storage, units.shape)
    assert back.shape == units.shape and back.dtype == dtype
    assert _bytes(back) == units.tobytes()
