"""Names of dtypes, as torch and as specs have them."""

from __future__ import annotations

from difflib import get_close_matches

import torch

from mono_gen.formats import ELEMENTS
from mono_gen.infer.errors import CannotRun

_SHORT = {"fp8": "float8_e4m3fn", "fp4": "float4_e2m1fn_x2", "float": "float32", "half": "float16"}
_TORCH = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "float8_e5m2")


def find_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a name: torch's own, or that of a format of the language.

    Raises: CannotRun, with the names that there are.
    """
    known = {n: n for n in _TORCH} | {h: h for e in ELEMENTS for h in e.holders}
    known |= {e.name: e.holders[0] for e in ELEMENTS} | _SHORT
    plain = name.removeprefix("torch.")
    if plain not in known:
        near = get_close_matches(plain, known, n=3)
        help = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
        raise CannotRun(f"--dtype {name}: no such dtype; {help}")
    found = getattr(torch, known[plain], None)
    if not isinstance(found, torch.dtype):
        raise CannotRun(f"--dtype {name}: this torch, {torch.__version__}, has no {known[plain]}")
    return found
