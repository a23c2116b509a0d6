"""Byte moves that the ledger follows: what is packed is recorded, and nothing is packed twice."""

from __future__ import annotations

import torch

from mono_gen.algebra.ids import layout_id
from mono_gen.runtime import ledger
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.layouts import LayoutRef, Storage, layout_named, row_major_id
from mono_gen.runtime.ledger import Ended, Record
from mono_gen.runtime.moves import element_bits, extents, pack, unpack
from mono_gen.runtime.tensors import kind_problem


def pack_recorded(
    subject: str, layout: str, t: torch.Tensor, storage: Storage, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the elements of a row-major tensor in a layout's storage order, recorded as that.

    Raises: MonoUnsupported, where the tensor is recorded in this or another layout: its elements would move twice.
    """
    found = ledger.record_of(t)
    if found is not None and found.layout != "row_major":
        again = "again would move its bytes a second time" if found.layout == layout else "needs row-major bytes"
        help = f"use the tensor as it is, or unpack it from {found.layout} first: packing {again}"
        raise MonoUnsupported(subject, (Problem(subject, "layout", "a row_major source", found.layout, help),))
    result = pack(
        subject,
        t,
        padded=storage.padded,
        fill=storage.fill,
        view=storage.view,
        permute=storage.permute,
        out=out,
    )
    batch = tuple(t.shape[: t.dim() - len(storage.extents)])
    enter(result, layout, storage, batch, "pack")
    return result


def unpack_recorded(
    subject: str, layout: str, t: torch.Tensor, shape: tuple[int, ...], storage: Storage
) -> torch.Tensor:
    """Return the logical tensor of a torch shape whose elements lie in a layout's storage order.

    Raises: MonoUnsupported, where the tensor is recorded in another layout, or in this one at other extents.
    """
    found = ledger.record_of(t)
    wanted = layout_id(storage.bound(), element_bits(subject, t))
    if found is not None and found.layout_id != wanted:
        expected, is_in = f"{layout} at {storage.extents}", f"{found.layout} at {found.extents}"
        raise MonoUnsupported(subject, (Problem(subject, "layout", expected, is_in),))
    return unpack(subject, t, shape, padded=storage.padded, view=storage.view, permute=storage.permute)


def enter(t: torch.Tensor, layout: str, storage: Storage, batch: tuple[int, ...], origin: str) -> Record:
    """Return the record of a dense tensor whose bytes now are in a layout."""
    bits = element_bits(layout, t)
    record = Record(
        layout=layout,
        layout_id=layout_id(storage.bound(), bits),
        field_id=0,
        format="",
        bits=bits,
        extents=(*batch, *storage.extents),
        batch=len(batch),
        nbytes=t.nbytes,
        origin=origin,
    )
    return ledger.enter(t, record)


def attest(t: torch.Tensor, layout: LayoutRef | str) -> Record:
    """Return the record of a tensor that the caller promises to be in a layout, which ends what was known of it.

    Shapes: t [..., the layout's axes], as stored: where the layout pads, the extents are taken as the padded ones.
    layout: a layout of a generated module, its name, or "row_major".
    Raises: MonoUnsupported, where the name is unknown or means different layouts, or the shape is not legal.
    Law:    tests/runtime/test_ledger.py
    """
    subject = "attest"
    odd = kind_problem(subject, t)
    if odd is not None:
        raise MonoUnsupported(subject, (odd,))
    if not t.is_contiguous():
        raise MonoUnsupported(subject, (Problem(subject, "strides", "a dense tensor", f"strides {t.stride()}"),))
    bits = element_bits(subject, t)
    if layout == "row_major":
        all_extents = extents(subject, t, tuple(f"axis {i}" for i in range(t.dim())))
        record = Record("row_major", row_major_id(all_extents, bits), 0, "", bits, all_extents, 0, t.nbytes, "attest")
        return ledger.enter(t, record)
    ref = layout_named(layout) if isinstance(layout, str) else layout
    storage = ref.storage(subject, bits, *extents(subject, t, ref.axes))
    if storage.padded != storage.extents:
        raise MonoUnsupported(
            subject,
            (Problem(subject, "shape", f"the padded extents of {ref.name}: {storage.padded}", str(storage.extents)),),
        )
    return enter(t, ref.name, storage, tuple(t.shape[: t.dim() - len(ref.axes)]), "attest")


def claim_source(t: torch.Tensor, order: str) -> str | Problem | None:
    """Return what the ledger says of a source that a converter reads in an order: "" where it agrees, None if silent.

    A record that ended by a write says nothing: the bytes may have been loaded anew.
    """
    found = ledger.record_of(t)
    if found is None:
        return None
    if found.layout == order:
        return ""
    help = f"the bytes are in {found.layout} already ({found.origin}): converting would move them a second time"
    return Problem("", "layout", f"a source in {order}", f"{found.layout} at {found.extents}", help)


def claim(t: torch.Tensor, layout: str, wanted_id: int) -> str | Problem | None:
    """Return what the ledger says of a tensor that should be in a layout: "" where it agrees, None where it is silent.

    A problem where the record names another layout, or ended while the memory lived on.
    """
    found = ledger.look_up(t)
    match found:
        case None:
            return None
        case Ended(was, why):
            help = f"attest the bytes anew with runtime.attest(tensor, {layout!r}), or convert them again"
            return Problem("", "layout", f"bytes that still are in {layout}", f"recorded in {was}, but {why}", help)
        case Record():
            if found.layout_id == wanted_id:
                return ""
            expected = f"{layout}, id {wanted_id:016x}"
            is_in = f"{found.layout} at {found.extents}, id {found.layout_id:016x} ({found.origin})"
            return Problem("", "layout", expected, is_in, f"a kernel that expects {layout} would read other elements")
