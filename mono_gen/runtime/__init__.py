"""What generated modules call: checks, byte moves, numerics, gathers and pointer tables. Needs torch alone."""

from mono_gen.runtime.dims import MISSING, Dim, times
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.exchange import GATHER_TIMEOUT_S
from mono_gen.runtime.fields import FieldInfo, TensorInfo
from mono_gen.runtime.files import load as _load_file
from mono_gen.runtime.files import save
from mono_gen.runtime.gather import gather
from mono_gen.runtime.guess import Guess, guess_layout
from mono_gen.runtime.ids import require_ids
from mono_gen.runtime.layouts import LayoutRef, Storage, layout_named, register_layout
from mono_gen.runtime.ledger import Record, record_of
from mono_gen.runtime.load import Load
from mono_gen.runtime.moves import element_bits, extents, pack, require_legal, shape_extents, unpack
from mono_gen.runtime.numerics import cast_bf16, dequantize_mxfp8, fn_to_fnuz, mxfp8_to_ptpc_fp8, quantize_ptpc_fp8
from mono_gen.runtime.recheck import Seal, described, recheck, seal, verify_all
from mono_gen.runtime.recorded import attest, mxfp8_to_packed_ptpc_fp8, pack_recorded, unpack_recorded
from mono_gen.runtime.refresh import refresh
from mono_gen.runtime.segments import pad_segments
from mono_gen.runtime.tables import address_table, nbytes, recheck_table

__all__ = [
    "GATHER_TIMEOUT_S",
    "MISSING",
    "RUNTIME_ABI",
    "Dim",
    "FieldInfo",
    "Guess",
    "LayoutRef",
    "Load",
    "MonoUnsupported",
    "Problem",
    "Record",
    "Seal",
    "Storage",
    "TensorInfo",
    "address_table",
    "attest",
    "cast_bf16",
    "dequantize_mxfp8",
    "described",
    "element_bits",
    "extents",
    "fn_to_fnuz",
    "gather",
    "guess_layout",
    "layout_named",
    "load",
    "mxfp8_to_packed_ptpc_fp8",
    "mxfp8_to_ptpc_fp8",
    "nbytes",
    "pack",
    "pack_recorded",
    "pad_segments",
    "quantize_ptpc_fp8",
    "recheck",
    "recheck_table",
    "record_of",
    "refresh",
    "register_layout",
    "require_abi",
    "require_ids",
    "require_legal",
    "save",
    "seal",
    "shape_extents",
    "times",
    "unpack",
    "unpack_recorded",
    "verify_all",
]

load = _load_file  # bound last: importing the submodule of this name binds it, too

RUNTIME_ABI = 1  # raised with every change that a module generated before it would not survive


def require_abi(wanted: int, spec: str) -> None:
    """Return nothing where the runtime is the one that the module of `spec` was generated for.

    Raises: ImportError, with both numbers and what to do.
    """
    if wanted != RUNTIME_ABI:
        action = "generate the module again" if wanted < RUNTIME_ABI else "upgrade mono-gen"
        raise ImportError(f"{spec}: generated for runtime ABI {wanted}, this mono-gen has {RUNTIME_ABI}: {action}")
