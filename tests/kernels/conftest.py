"""The layer at reduced sizes, loaded once a session, and the kernels that were compiled for its header."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mono_gen.kernels import Kernels, load
from tests.kernels import small
from tests.reference.stages import Weights


@dataclass(frozen=True, slots=True)
class Layer:
    """A loaded layer, and what it was loaded from."""

    loaded: Any  # a generated SparseMoeLayer
    weights: Weights
    sizes: small.Sizes


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep compiled kernels in one folder of this run, which all its processes share."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["MONO_GEN_CACHE"] = str(folder / "kernels")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what the reduced spec makes."""
    return small.generated(small.Sizes(), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def module(folder: Path) -> ModuleType:
    """Return the generated module of the reduced spec."""
    return small.loaded_module(folder, "small_minimax_m3")


@pytest.fixture(scope="session")
def layers(module: ModuleType) -> Callable[[bool], Layer]:
    """Return the layer, its shared expert fused or separate."""
    src = small.sources(small.Sizes(), seed=11)
    made: dict[bool, Layer] = {}

    def layer(is_fused: bool) -> Layer:
        if is_fused not in made:
            loaded = module.SparseMoeLayer.from_layer(small.decoder_layer(src, is_fused, module))
            made[is_fused] = Layer(loaded, small.weights(src, is_fused), src.sizes)
        return made[is_fused]

    return layer


@pytest.fixture(scope="session")
def host(folder: Path, kernel_cache: None) -> Kernels:
    """Return the host build: MFMA, waves of 64."""
    return load("host", header=folder / "minimax_m3.hpp")
