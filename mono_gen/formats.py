"""The closed table of formats: how numbers are encoded over one or two tensors."""

from __future__ import annotations

from mono_gen.frozen import frozen


@frozen
class Element:
    """An element's encoding.

    bits:    width of one element.
    holders: names of the torch dtypes that may hold it; 4-bit elements lie two a byte, the even one in the low nibble.
    dialect: `fn` or `fnuz` for fp8, which an arch must have; empty elsewhere.
    """

    name: str
    bits: int
    holders: tuple[str, ...]
    dialect: str = ""


@frozen
class Format:
    """A format: the data's element and, where there are two tensors, the scale's.

    block: elements of the last axis that share a scale; 0 is the whole last axis (one scale a row).
    """

    name: str
    data: Element
    scale: Element | None = None
    block: int = 0


BF16 = Element("bf16", 16, ("bfloat16",))
FP32 = Element("fp32", 32, ("float32",))
FP8_FN = Element("fp8_e4m3fn", 8, ("float8_e4m3fn",), "fn")
FP8_FNUZ = Element("fp8_e4m3fnuz", 8, ("float8_e4m3fnuz",), "fnuz")
E8M0 = Element("e8m0", 8, ("float8_e8m0fnu", "uint8"))
FP4 = Element("fp4_e2m1", 4, ("float4_e2m1fn_x2", "uint8"))

ELEMENTS = (
    BF16,
    Element("fp16", 16, ("float16",)),
    FP32,
    Element("int8", 8, ("int8",)),
    Element("uint8", 8, ("uint8",)),
    Element("int32", 32, ("int32",)),
    Element("int64", 64, ("int64",)),
    FP8_FN,
    FP8_FNUZ,
    E8M0,
    FP4,
)

_FIXED = {element.name: Format(element.name, element) for element in ELEMENTS} | {
    # OCP Microscaling Formats 1.0, sections 5.2 and 5.3: one e8m0 per 32 elements along the last axis.
    "mxfp4": Format("mxfp4", FP4, E8M0, 32),
    "mxfp8": Format("mxfp8", FP8_FN, E8M0, 32),
}

NAMES = (*_FIXED, "ptpc_fp8")


def find_format(name: str, fp8_dialect: str) -> Format | None:
    """Return the format of a name; `ptpc_fp8` takes the arch's fp8 dialect. None for an unknown name."""
    if name == "ptpc_fp8":
        return Format(name, FP8_FNUZ if fp8_dialect == "fnuz" else FP8_FN, FP32)
    return _FIXED.get(name)
