"""Names that generated code defines itself, and names that would meet in one generated scope."""

from __future__ import annotations

from mono_gen.diagnostics.model import Label
from mono_gen.resolve.report import Report
from mono_gen.syntax.nodes import Name

MEMBERS = frozenset(
    (
        *("offset", "inner", "base", "lane", "tile", "digits", "select", "bytes", "item", "shape", "bits", "out"),
        *("runtime", "torch", "load", "cls", "self", "fields", "nbytes", "from_layer", "struct_id", "field_ids"),
        *("segments", "tensors", "refresh", "timeout_s", "LAYOUTS", "dataclass", "kBytes", "kId", "kLanes", "kBits"),
        *("kLaneBytes", "kTileBytes", "kElements", "kFill", "kFieldIds", "kStructId", "kFieldCount"),
        *("MonoUnsupported", "RUNTIME_ABI", "Any", "ClassVar", "staticmethod", "classmethod", "property"),
        *("mono", "detail", "std", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t"),
        *("uint64_t", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "wave_fold", "row_fold"),
    )
)
"""What a generated class or module defines under its own names (design: member names are refused in a spec)."""

PREFIXES = (
    "kStep_",
    "kSize_",
    "kStride_",
    "kBegin_",
    "kEnd_",
    "kExtent_",
    "kPadded",
    "pack_",
    "unpack_",
    "offset_",
    "storage_",
    "MONO_",
)


NAMESPACES = frozenset(("mono", "std", "detail", "torch", "runtime"))
"""What a spec, whose name only makes a namespace and a module, cannot be called."""


def check_member_name(name: Name, what: str, report: Report) -> None:
    """Report a name that generated code defines itself."""
    prefix = next((p for p in PREFIXES if name.text.startswith(p)), None)
    taken = NAMESPACES if what == "a spec" else MEMBERS
    if name.text in taken or prefix is not None:
        why = f"names that begin with `{prefix}`" if prefix else f"`{name.text}`"
        report.error(
            "member-name",
            name.span,
            f"`{name.text}` cannot name {what}: generated code defines {why} itself",
            label="would collide in generated code",
            help="choose another name",
        )


def claim(names: dict[str, tuple[Name, str]], name: Name, what: str, report: Report, scope: str) -> bool:
    """Enter a name in a scope; report one that stands there already. Return whether it was free."""
    taken = names.get(name.text)
    if taken is not None:
        first, kind = taken
        report.error(
            "duplicate-name",
            name.span,
            f"`{name.text}` names {what}, and already {kind}" + ("" if " of " in kind else f" of {scope}"),
            label="the second one",
            also=(Label(first.span, f"{kind}, first here"),),
            help="generated code has one scope for both: rename one",
        )
        return False
    names[name.text] = (name, what)
    return True
