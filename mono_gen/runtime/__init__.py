"""What generated modules call: checks, byte moves, numerics, gathers and pointer tables. Needs torch alone."""

from mono_gen.runtime.dims import MISSING, Dim, times
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.fields import FieldInfo
from mono_gen.runtime.gather import gather
from mono_gen.runtime.load import Load
from mono_gen.runtime.moves import element_bits, extents, pack, require_legal, shape_extents, unpack
from mono_gen.runtime.numerics import cast_bf16, dequantize_mxfp8, fn_to_fnuz, mxfp8_to_ptpc_fp8, quantize_ptpc_fp8
from mono_gen.runtime.segments import pad_segments
from mono_gen.runtime.tables import address_table, nbytes

__all__ = [
    "MISSING",
    "RUNTIME_ABI",
    "Dim",
    "FieldInfo",
    "Load",
    "MonoUnsupported",
    "Problem",
    "address_table",
    "cast_bf16",
    "dequantize_mxfp8",
    "element_bits",
    "extents",
    "fn_to_fnuz",
    "gather",
    "mxfp8_to_ptpc_fp8",
    "nbytes",
    "pack",
    "pad_segments",
    "quantize_ptpc_fp8",
    "require_abi",
    "require_legal",
    "shape_extents",
    "times",
    "unpack",
]

RUNTIME_ABI = 1  # raised with every change that a module generated before it would not survive


def require_abi(wanted: int, spec: str) -> None:
    """Return nothing where the runtime is the one that the module of `spec` was generated for.

    Raises: ImportError, with both numbers and what to do.
    """
    if wanted != RUNTIME_ABI:
        action = "generate the module again" if wanted < RUNTIME_ABI else "upgrade mono-gen"
        raise ImportError(f"{spec}: generated for runtime ABI {wanted}, this mono-gen has {RUNTIME_ABI}: {action}")
