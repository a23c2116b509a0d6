"""New values into the same pointers: a weight update under captured graphs."""

from __future__ import annotations

from typing import Any

import torch

from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.recheck import Struct, seal


def refresh(struct: Struct, new: Struct) -> None:
    """Copy every tensor of `new`, a struct freshly loaded from the updated layer, into the memory of `struct`.

    Every check comes before the first byte: when it refuses, the old bytes are intact. Pads are part of the bytes.
    Views of the layer whose memory is the struct's own have their new values already.
    Raises: MonoUnsupported, with every tensor that moved or no longer fits.
    """
    old = {one.info.name: one for one in struct._seal}
    fresh = {one.info.name: one for one in new._seal}
    subject = type(struct).__name__
    problems: list[Problem] = []
    for name in (*old, *(n for n in fresh if n not in old)):
        problems += _unfit(name, old.get(name), fresh.get(name))
    if problems:
        raise MonoUnsupported(subject, problems)
    for name, one in old.items():
        target, source = one.tensor, fresh[name].tensor
        if target.data_ptr() != source.data_ptr():
            with torch.inference_mode(target.is_inference()), torch.no_grad():
                target.view(torch.uint8).copy_(source.view(torch.uint8))
    object.__setattr__(struct, "_seal", seal(struct, {one.info.name: one.info for one in struct._seal}))


def _unfit(name: str, old: Any, new: Any) -> list[Problem]:
    """Return why new values cannot go where the old ones are."""
    if old is None or new is None:
        was, now = ("absent" if x is None else "present" for x in (old, new))
        return [Problem(name, "presence", f"{was}, as at load", now, "load the layer again and capture anew")]
    problems = []
    if old.tensor.data_ptr() != old.address:
        problems.append(Problem(name, "moved", f"tensor at {old.address:#x}", f"tensor at {old.tensor.data_ptr():#x}"))
    if old.shape != new.shape or old.tensor.dtype != new.tensor.dtype:
        expected = f"{old.tensor.dtype} {tuple(old.shape)}, as at load"
        problems.append(Problem(name, "shape", expected, f"{new.tensor.dtype} {tuple(new.shape)}"))
    if old.tensor.device != new.tensor.device:
        problems.append(Problem(name, "device", str(old.tensor.device), str(new.tensor.device)))
    begin, end = new.address, new.address + new.tensor.nbytes
    if old.address != begin and old.address < end and begin < old.address + old.tensor.nbytes:
        problems.append(Problem(name, "overlap", "memory apart from the old", f"{begin:#x} to {end:#x} overlaps it"))
    return problems
