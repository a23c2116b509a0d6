"""New values into the same pointers: a weight update under captured graphs."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.recheck import Sealed, Struct, seal, structure_problems


def refresh(struct: Struct, new: Struct) -> None:
    """Copy every tensor of `new`, a struct freshly loaded from the updated layer, into the memory of `struct`.

    Every check comes before the first byte: when it refuses, the old bytes are intact. Pads are part of the bytes.
    Views of the layer whose memory is the struct's own have their new values already.
    Raises: MonoUnsupported, with every tensor that moved or no longer fits.
    Law:    tests/runtime/test_refresh.py
    """
    old = {one.info.name: one for one in struct._seal}
    fresh = {one.info.name: one for one in new._seal}
    problems: list[Problem] = []
    for name in (*old, *(n for n in fresh if n not in old)):
        problems += _unfit(name, old.get(name), fresh.get(name))
    written = {name: one for name, one in old.items() if name in fresh and fresh[name].address != one.address}
    for name, one in written.items() if not problems else ():  # freed memory may be anybody's
        problems += _shared(name, one, "new", fresh.values())
        problems += _shared(name, one, "old", (other for other in old.values() if other is not one))
    if problems:
        raise MonoUnsupported(type(struct).__name__, problems)
    for name, one in written.items():
        with torch.inference_mode(one.tensor.is_inference()), torch.no_grad():
            one.tensor.view(torch.uint8).copy_(fresh[name].tensor.view(torch.uint8))
    object.__setattr__(struct, "_seal", seal(struct, {one.info.name: one.info for one in struct._seal}))


def _unfit(name: str, old: Sealed | None, new: Sealed | None) -> list[Problem]:
    """Return why new values cannot go where the old ones are."""
    if old is None or new is None:
        was, now = ("absent" if x is None else "present" for x in (old, new))
        return [Problem(name, "presence", f"{was}, as at load", now, _AGAIN)]
    problems = structure_problems(old, changing=True)
    if old.shape != new.shape or old.dtype != new.dtype:
        expected, found = f"{old.dtype} {tuple(old.shape)}, as at load", f"{new.dtype} {tuple(new.shape)}"
        problems.append(Problem(name, "shape", expected, found, _AGAIN))
    if old.tensor.device != new.tensor.device:
        problems.append(Problem(name, "device", str(old.tensor.device), str(new.tensor.device), _AGAIN))
    return problems


_AGAIN = "load the layer again and capture anew"


def _shared(name: str, target: Sealed, which: str, others: Iterable[Sealed]) -> list[Problem]:
    """Return the tensors whose bytes would change when the target's are written."""
    end = target.address + target.tensor.nbytes
    return [
        Problem(name, "overlap", "memory that nothing else reads", f"memory of the {which} {other.info.name}", _AGAIN)
        for other in others
        if other.address < end
        and target.address < other.address + other.tensor.nbytes
        and other.tensor.device == target.tensor.device
    ]
