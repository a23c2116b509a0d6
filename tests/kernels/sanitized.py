"""Every stage once, on a host build with address and undefined-behaviour checks: a process of its own.

`python -m tests.kernels.sanitized FOLDER TOKENS [short]` under LD_PRELOAD of libasan and libubsan; FOLDER holds what
the reduced spec makes. A bad access ends it. `short` makes one: w_o is a tile shorter than the spec says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mono_gen.kernels import Kernels
from mono_gen.kernels.build import Build, build_library
from mono_gen.kernels.library import Library
from tests.kernels import runs, small

CHECKS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def main(folder: Path, tokens: int, is_short: bool) -> None:
    """Run the stages, the shared expert fused and separate, and hold that each gives what the reference says."""
    header = folder / "minimax_m3.hpp"
    kernels = Kernels("host", header, Library(build_library(Build("host", header, "SparseMoeLayer", options=CHECKS))))
    module, src = small.loaded_module(folder, "sanitized_minimax_m3"), small.sources(small.Sizes(), seed=11)
    for is_fused, stages in ((True, ("qkv", "head", "o_proj", "router", "moe")), (False, ("moe", "shared"))):
        layer = module.SparseMoeLayer.from_layer(small.decoder_layer(src, is_fused, module))
        weights = small.weights(src, is_fused)
        if is_short:
            object.__setattr__(layer, "w_o", layer.w_o[:-16].clone())
        for name in stages:
            errors = runs.STAGES[name](kernels, layer, weights, tokens, seed=5)
            assert max(errors.values()) <= runs.BOUND, (name, errors)
            print(name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["short"])
