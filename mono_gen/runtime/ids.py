"""A kernel and a loader that were built from one spec: the ids that the kernel's header exported are the loader's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mono_gen.runtime.errors import MonoUnsupported, Problem


def require_ids(struct: Any, kernel: str, *, struct_id: int, field_ids: Sequence[int]) -> None:
    """Return nothing where a kernel was compiled for this struct.

    struct:    a generated class, or an object of it.
    kernel:    its name, for messages.
    struct_id: `kStructId` of the header that it was compiled with; `field_ids` are its `kFieldIds`, in order.
    Raises:    MonoUnsupported, with every field that the kernel would read in another way.
    Law:       tests/runtime/test_ids.py
    """
    name = struct.__name__ if isinstance(struct, type) else type(struct).__name__
    subject = f"{kernel} for {name}"
    mine = [(info.name, struct.field_ids[info.name.partition(",")[0]]) for info in struct.fields]
    problems = []
    if len(mine) != len(field_ids):
        problems.append(Problem(name, "fields", f"{len(mine)} fields", f"{len(field_ids)} in the kernel", _HELP))
    else:
        for (field, wanted), found in zip(mine, field_ids, strict=True):
            if wanted != found:
                problems.append(Problem(field, "field id", f"{wanted:016x}", f"{found:016x} in the kernel", _HELP))
    if not problems and struct.struct_id != struct_id:
        what = f"{struct.struct_id:016x}", f"{struct_id:016x} in the kernel: names, or the order of a table, differ"
        problems.append(Problem(name, "struct id", *what, _HELP))
    if problems:
        raise MonoUnsupported(subject, problems)


_HELP = "generate from one spec, and compile the kernel again"
