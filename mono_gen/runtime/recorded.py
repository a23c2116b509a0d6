"""Byte moves that the ledger follows: what is packed is recorded, and nothing is packed twice."""

from __future__ import annotations

import torch

from mono_gen.algebra.ids import layout_id
from mono_gen.frozen import frozen, replace
from mono_gen.runtime import ledger
from mono_gen.runtime.content import fingerprint
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse
from mono_gen.runtime.layouts import LayoutRef, Storage, layout_named, layouts_named, row_major_id
from mono_gen.runtime.ledger import Ended, Record
from mono_gen.runtime.moves import element_bits, extents, pack, unpack
from mono_gen.runtime.numerics import mxfp8_to_ptpc_fp8
from mono_gen.runtime.tensors import dtype_bits

ROW_MAJOR = "row_major"


def pack_recorded(
    subject: str, layout: str, t: torch.Tensor, storage: Storage, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the elements of a row-major tensor in a layout's storage order, recorded as that.

    Raises: MonoUnsupported, where the tensor is recorded in this or another layout: its elements would move twice.
    """
    found = ledger.record_of(t)
    if found is not None and found.layout != ROW_MAJOR and not is_overwritten(t, found):
        again = "again would move its bytes a second time" if found.layout == layout else "needs row-major bytes"
        help = f"use the tensor as it is, or unpack it from {found.layout} first: packing {again}"
        raise refuse(subject, "layout", "a row_major source", found.layout, help)
    result = pack(
        subject,
        t,
        padded=storage.padded,
        fill=storage.fill,
        view=storage.view,
        permute=storage.permute,
        out=out,
    )
    _enter(result, layout, storage, tuple(t.shape[: t.dim() - len(storage.extents)]), "pack")
    return result


def unpack_recorded(
    subject: str, layout: str, t: torch.Tensor, shape: tuple[int, ...], storage: Storage
) -> torch.Tensor:
    """Return the logical tensor of a torch shape whose elements lie in a layout's storage order.

    Raises: MonoUnsupported, where the tensor is recorded in another layout, or in this one at other extents.
    """
    found = ledger.record_of(t)
    bits = element_bits(subject, t)
    if found is not None and not _is_same(found, layout, storage.id_at(bits), bits):
        expected, is_in = f"{layout} at {storage.extents}", f"{found.layout} at {found.extents}"
        raise refuse(subject, "layout", expected, is_in)
    return unpack(subject, t, shape, padded=storage.padded, view=storage.view, permute=storage.permute)


def mxfp8_to_packed_ptpc_fp8(
    field: str,
    layout: LayoutRef,
    data: torch.Tensor,
    scale: torch.Tensor,
    *,
    dtype: torch.dtype,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what packing mxfp8_to_ptpc_fp8's values gives, recorded as that, and the scales: one pass on a GPU.

    Shapes: as of mxfp8_to_ptpc_fp8; the layout's axes are the rows and k.
    """
    storage = layout.storage(field, 8, *extents(field, data, layout.axes))
    q, q_scale = mxfp8_to_ptpc_fp8(field, data, scale, dtype=dtype, storage=storage, out=out)
    _enter(q, layout.name, storage, tuple(data.shape[:-2]), "pack")
    return q, q_scale


def attest(t: torch.Tensor, layout: LayoutRef | str, *, logical: tuple[int, ...] | None = None) -> Record:
    """Return the record of a tensor that the caller promises to be in a layout; it replaces what was known of it.

    Shapes:  t [..., the layout's axes], as stored.
    layout:  a layout of a generated module, its name, or "row_major".
    logical: the extents of the layout's axes, in elements, where its pads are live; None: t has no pads.
    Raises:  MonoUnsupported, where the name is unknown or means different layouts, or the shape is not legal.
    Law:     tests/runtime/test_ledger.py
    """
    subject = "attest"
    bits = element_bits(subject, t)
    if layout == ROW_MAJOR:
        whole = extents(subject, t, tuple(f"axis {i}" for i in range(t.dim())))
        if logical is not None and logical != whole:
            raise refuse(subject, "logical", f"{whole}: row_major has no pads", str(logical))
        return _recorded(t, Record(ROW_MAJOR, row_major_id(whole, bits), 0, "", bits, whole, 0, t.nbytes, "attest"))
    ref = layout_named(layout) if isinstance(layout, str) else layout
    stored = extents(subject, t, ref.axes)
    if logical is not None and len(logical) != len(ref.axes):
        raise refuse(subject, "logical", f"an extent for each of {', '.join(ref.axes)}", str(logical))
    storage = ref.storage(subject, bits, *(stored if logical is None else logical))
    if storage.padded != stored:
        what = f"the padded extents of {ref.name} at {storage.extents}: {storage.padded}"
        raise refuse(subject, "shape", what, str(stored), "say logical=... where the layout's pads are live")
    return _enter(t, ref.name, storage, tuple(t.shape[: t.dim() - len(ref.axes)]), "attest")


def _enter(t: torch.Tensor, layout: str, storage: Storage, batch: tuple[int, ...], origin: str) -> Record:
    """Return the record of a dense tensor whose bytes now are in a layout."""
    bits = dtype_bits(t.dtype)
    place = storage.id_at(bits)
    return _recorded(t, Record(layout, place, 0, "", bits, (*batch, *storage.extents), len(batch), t.nbytes, origin))


def _recorded(t: torch.Tensor, record: Record) -> Record:
    """Return a record as kept, with samples of the content: nothing waits for the device."""
    return ledger.enter(t, replace(record, content=fingerprint(t, record.items, sampled=True)))


def is_overwritten(t: torch.Tensor, record: Record) -> bool:
    """Return whether a tensor's content is no longer what was recorded; reads it and waits for its device."""
    content = record.content
    if content is None:
        return False
    return bool(fingerprint(t, record.items, sampled=content.sampled).value != content.value)


@frozen
class Claim:
    """What the ledger says of a tensor that should be in an order: nothing, that it is, or what is the matter.

    record: the record that agrees; its content is still to be compared, where the layout moves bytes at all.
    """

    record: Record | None = None
    problem: Problem | None = None

    @property
    def speaks(self) -> bool:
        """Return whether the ledger knows the bytes."""
        return self.record is not None or self.problem is not None


def claim_source(t: torch.Tensor, order: str) -> Claim:
    """Return what the ledger says of a source that a converter reads in an order.

    A record that ended by a write says nothing: the bytes may have been loaded anew.
    """
    found = ledger.record_of(t)
    if found is None or found.layout == order:
        return Claim(found)
    if is_overwritten(t, found):
        return Claim()
    help = f"the bytes are in {found.layout} already ({found.origin}): converting would move them a second time"
    return Claim(None, Problem("", "layout", f"a source in {order}", f"{found.layout} at {found.extents}", help))


def claim(t: torch.Tensor, layout: str, wanted_id: int, bits: int) -> Claim:
    """Return what the ledger says of a tensor of `bits` an element that should be in a layout.

    A problem where the record names another layout, or ended while the memory lived on. For row_major, which needs no
    promise, a record that ended says nothing: the owner of the bytes has written them.
    """
    found = ledger.look_up(t)
    match found:
        case None:
            return Claim()
        case Ended(was, why):
            return Claim() if layout == ROW_MAJOR else Claim(None, ended_problem(layout, was, why))
        case Record():
            if _is_same(found, layout, wanted_id, bits):
                return Claim(found)
            if layout == ROW_MAJOR and is_overwritten(t, found):
                return Claim()
            expected = f"{layout}, id {wanted_id:016x}"
            is_in = f"{found.layout} at {found.extents}, id {found.layout_id:016x} ({found.origin})"
            help = f"a kernel that expects {layout} would read other elements"
            return Claim(None, Problem("", "layout", expected, is_in, help))


def ended_problem(layout: str, was: str, why: str) -> Problem:
    """Return the problem of bytes that were in a layout until something happened to them."""
    help = f"attest the bytes anew with runtime.attest(tensor, {layout!r}), or convert them again"
    return Problem("", "layout", f"bytes that still are in {layout}", f"recorded in {was}, but {why}", help)


def _is_same(found: Record, layout: str, wanted_id: int, bits: int) -> bool:
    """Return whether a record says that bytes lie as a layout has them for elements of `bits` bits.

    Row-major bytes are row-major at any extents. 4-bit elements may have been recorded by the bytes that hold two of
    them, and the other way about: these are the same map where each byte's pair stays together. A tensor that its owner
    padded on one axis, segment by segment too, was recorded with that axis whole.
    """
    if found.layout_id == wanted_id or found.layout == layout == ROW_MAJOR:
        return True
    inner = found.extents[found.batch :]
    refs = layouts_named(layout)
    match found.bits, bits:
        case 8, 4:
            return any(_pairs_id(ref, inner, found.layout_id) == wanted_id for ref in layouts_named(found.layout))
        case 4, 8:
            held = (*inner[:-1], inner[-1] // 2)
            return any(_pairs_id(ref, held, wanted_id) == found.layout_id for ref in refs)
        case _ if found.layout == layout and found.bits == bits:
            return any(_is_padded_by_owner(ref, inner, bits, found.layout_id, wanted_id) for ref in refs)
    return False


def _is_padded_by_owner(ref: LayoutRef, whole: tuple[int, ...], bits: int, whole_id: int, wanted_id: int) -> bool:
    """Return whether a shorter axis, padded to what was recorded as whole, makes the id that is wanted."""
    try:
        storage = ref.storage(ref.name, bits, *whole)
    except MonoUnsupported:
        return False
    if storage.id_at(bits) != whole_id:
        return False
    return any(
        layout_id(replace(storage, extents=(*whole[:axis], n, *whole[axis + 1 :])).bound(), bits) == wanted_id
        for axis, extent in enumerate(whole)
        if extent == storage.padded[axis]
        for n in range(1, extent)
    )


def _pairs_id(ref: LayoutRef, held: tuple[int, ...], bytes_id: int) -> int | None:
    """Return the id of the 4-bit elements in bytes that a layout stores, where `bytes_id` is the id of these bytes."""
    try:
        storage = ref.storage(ref.name, 8, *held)
    except MonoUnsupported:
        return None
    fill = storage.fill
    if storage.id_at(8) != bytes_id or (fill is not None and fill >> 4 != fill & 15):
        return None
    pairs = Storage(
        extents=(*storage.extents[:-1], 2 * storage.extents[-1]),
        padded=(*storage.padded[:-1], 2 * storage.padded[-1]),
        view=(*storage.view, 2),
        permute=(*storage.permute, len(storage.view)),
        fill=None if fill is None else fill & 15,
    )
    return pairs.id_at(4)
