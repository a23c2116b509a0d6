"""pack and unpack: the view/permute form, moved in the widest unit that layout, offset and pointers allow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch

from mono_gen.frozen import frozen
from mono_gen.runtime import cpu_moves
from mono_gen.runtime.cpu_moves import UNITS
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse, show
from mono_gen.runtime.gpu import has_kernels, written
from mono_gen.runtime.layouts import Storage
from mono_gen.runtime.pieces import pieces, windows
from mono_gen.runtime.tensors import bytes_problems, dtype_bits, dtype_name, joined, kind_problem, plain, shape_text

PIECE_BYTES = 1 << 20
"""Bytes of a padded item that go through the scratch at once."""


@frozen
class _Permute:
    """A view and a permute of one batch item, in units of `unit_bytes`: size-1 digits dropped, neighbours joined."""

    unit_bytes: int
    view: tuple[int, ...]
    permute: tuple[int, ...]

    def packed(self) -> tuple[int, ...]:
        """Return the sizes in storage order."""
        return tuple(self.view[axis] for axis in self.permute)

    def inverse(self) -> tuple[int, ...]:
        """Return the permute that takes storage order back to logical order."""
        return tuple(sorted(range(len(self.permute)), key=self.permute.__getitem__))


def element_bits(subject: str, t: torch.Tensor) -> int:
    """Return the bits of one element of `t`: 4 for float4_e2m1fn_x2, else 8 * itemsize (uint8 pairs are bytes here)."""
    _raise(subject, kind_problem(subject, t))
    return dtype_bits(t.dtype)


def extents(subject: str, t: torch.Tensor, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the last len(names) extents of `t` in elements; earlier axes are batch."""
    _raise(subject, *bytes_problems(subject, t))
    return _named_extents(subject, tuple(t.shape), names, dtype_bits(t.dtype))


def shape_extents(subject: str, t: torch.Tensor, shape: Sequence[int], names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the last len(names) extents, in elements, of the logical torch shape that `t` is unpacked to."""
    _raise(subject, *bytes_problems(subject, t))
    odd = [n for n in shape if not isinstance(n, int) or isinstance(n, bool) or n < 1]
    if odd:
        raise refuse(subject, "shape", "whole numbers from 1", f"{show(odd[0])} in the shape asked for")
    return _named_extents(subject, tuple(shape), names, dtype_bits(t.dtype))


def _named_extents(subject: str, shape: tuple[int, ...], names: tuple[str, ...], bits: int) -> tuple[int, ...]:
    if len(shape) < len(names):
        wanted = f"at least {len(names)} axes, the last ones {', '.join(names)}"
        raise refuse(subject, "rank", wanted, f"torch {joined(shape)}")
    last = shape[len(shape) - len(names) :]
    return (*last[:-1], 2 * last[-1]) if bits == 4 else last


def require_legal(subject: str, conditions: Iterable[tuple[bool, str, str]]) -> None:
    """Return nothing where every (holds, expected, found) holds.

    Raises: MonoUnsupported, with every condition that does not.
    """
    _raise(subject, *(Problem(subject, "size", expected, found) for holds, expected, found in conditions if not holds))


def pack(
    subject: str,
    t: torch.Tensor,
    *,
    padded: tuple[int, ...],
    fill: int | None = None,
    view: tuple[int, ...],
    permute: tuple[int, ...],
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return pad(t).view(*view).permute(*permute), in storage order: t's dtype, batch axes, then the padded extents.

    Units:    `padded`, `view` and `permute` are one batch item's, in elements.
    Requires: `t` dense row-major. Pads are written on every call; `fill` None (undefined) writes 0x00.
    Raises:   MonoUnsupported; nothing of `out` is written then.
    Law:      tests/runtime/test_moves.py::test_unpack_is_the_inverse
    """
    _raise(subject, *bytes_problems(subject, t))
    source = plain(t)
    batch, torch_padded = _shapes(subject, source, padded)
    if out is not None:
        check_out(subject, source, out, (*batch, *torch_padded), source.dtype)
    target = plain(out) if out is not None else torch.empty((*batch, *torch_padded), dtype=t.dtype, device=t.device)
    if _by_kernels(source, source, target, len(batch), padded, view, permute, fill, unpacks=False):
        written(out)
        return target if out is None else out
    flat_target = _flat_bytes(target).view(math.prod(batch), -1)
    with _writable(target):
        if tuple(source.shape[len(batch) :]) == torch_padded:
            flat_source = _flat_bytes(source).view(math.prod(batch), -1)
            moved = _movable(subject, view, permute, source.dtype, flat_source, flat_target)
            _pack_bytes(moved, flat_source, flat_target)
        else:
            _pack_padded(subject, source, flat_target, torch_padded, fill, view, permute)
    return target if out is None else out


def unpack(
    subject: str,
    t: torch.Tensor,
    shape: Sequence[int],
    *,
    padded: tuple[int, ...],
    view: tuple[int, ...],
    permute: tuple[int, ...],
) -> torch.Tensor:
    """Return the row-major tensor of torch shape `shape` that `pack` made `t` of, bit for bit.

    Units:    `shape` is torch's, batch axes included; `padded`, `view` and `permute` as for `pack`.
    Raises:   MonoUnsupported, unless `t` is dense row-major and has exactly the batch and padded extents.
    """
    _raise(subject, *bytes_problems(subject, t))
    packed = plain(t)
    shape = tuple(shape)
    batch = shape[: len(shape) - len(padded)]
    torch_padded = _torch_extents(subject, packed.dtype, padded)
    if tuple(packed.shape) != (*batch, *torch_padded):
        bits = dtype_bits(packed.dtype)
        wanted = f"{shape_text((*batch, *torch_padded), bits)}, the packed form of torch {joined(shape)}"
        raise refuse(subject, "shape", wanted, shape_text(tuple(packed.shape), bits))
    result = torch.empty(shape, dtype=packed.dtype, device=packed.device)
    if _by_kernels(packed, result, result, len(batch), padded, view, permute, None, unpacks=True):
        return result
    flat_packed = _flat_bytes(packed).view(math.prod(batch), -1)
    if shape[len(batch) :] == torch_padded:
        flat_result = _flat_bytes(result).view(math.prod(batch), -1)
        _unpack_bytes(
            _movable(subject, view, permute, packed.dtype, flat_packed, flat_result), flat_packed, flat_result
        )
        return result
    scratch = _scratch(flat_packed)
    moved = _movable(subject, view, permute, packed.dtype, flat_packed, scratch)
    for _, digits, places, found in _in_pieces(moved, result, flat_packed, torch_padded, scratch):
        _copy(digits, places)
        for inside, window in found:
            window.copy_(inside)
    return result


def _by_kernels(
    source: torch.Tensor,
    logical: torch.Tensor,
    target: torch.Tensor,
    batch_axes: int,
    padded: tuple[int, ...],
    view: tuple[int, ...],
    permute: tuple[int, ...],
    fill: int | None,
    *,
    unpacks: bool,
) -> bool:
    """Return whether a GPU's kernels moved `source` to `target`, one of which is `logical`; else nothing is done."""
    if not has_kernels(source):
        return False
    from mono_gen.runtime import gpu_moves

    bits = dtype_bits(source.dtype)
    shape = tuple(logical.shape)
    extents = (*shape[batch_axes:-1], shape[-1] * (2 if bits == 4 else 1))
    storage = Storage(extents, padded, view, permute, fill)
    batch = math.prod(shape[:batch_axes])
    return gpu_moves.convert(source, target, batch=batch, storage=storage, bits=bits, unpacks=unpacks)


def _pack_padded(
    subject: str,
    source: torch.Tensor,
    flat_target: torch.Tensor,
    torch_padded: tuple[int, ...],
    fill: int | None,
    view: tuple[int, ...],
    permute: tuple[int, ...],
) -> None:
    """Return nothing; write the padded items, piece by piece through a scratch in which pads are filled."""
    dtype, pattern = _fill(subject, 0 if fill is None else fill, dtype_bits(source.dtype))
    scratch = _scratch(flat_target)
    moved = _movable(subject, view, permute, source.dtype, scratch, flat_target)
    for part, digits, places, found in _in_pieces(moved, source, flat_target, torch_padded, scratch):
        if sum(window.numel() for _, window in found) < part.numel():
            part.view(dtype).fill_(pattern)
        for inside, window in found:
            inside.copy_(window)
        _copy(places, digits)


def _in_pieces(
    moved: _Permute,
    logical: torch.Tensor,
    flat_packed: torch.Tensor,
    torch_padded: tuple[int, ...],
    scratch: torch.Tensor,
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]]:
    """Yield pieces of padded items: (bytes of the scratch, these as digits, the digits' places among the packed ones,
    (bytes of the scratch, the bytes of `logical` that belong there) for all that is no pad)."""
    unit, dtype = moved.unit_bytes, dict(UNITS)[moved.unit_bytes]
    axes = len(torch_padded)
    padded = (*torch_padded[:-1], torch_padded[-1] * logical.itemsize)
    extents = (*logical.shape[-axes:-1], logical.shape[-1] * logical.itemsize)
    for item, flat_item in zip(_flat_bytes(logical).view(-1, *extents), flat_packed, strict=True):
        packed = flat_item.view(dtype).view(moved.packed()).permute(moved.inverse())
        for piece in pieces(moved.view, PIECE_BYTES // unit):
            places, part = packed[piece.place], scratch[0, : piece.count * unit]
            found = []
            for window in windows(extents, padded, piece.start * unit, (piece.start + piece.count) * unit):
                whole = part[window.start : window.start + math.prod(window.box)].view(window.box)
                inside = item[window.place]
                found.append((whole[tuple(slice(0, n) for n in inside.shape)], inside))
            yield part, part.view(dtype).view(places.shape), places, found


def _movable(
    subject: str,
    view: tuple[int, ...],
    permute: tuple[int, ...],
    dtype: torch.dtype,
    source: torch.Tensor,
    target: torch.Tensor,
) -> _Permute:
    """Return the map in the widest unit that divides its innermost run, both addresses and both storage offsets."""
    sizes, order = _coalesce(view, permute)
    kept = bool(order) and order[-1] == len(sizes) - 1  # the fastest digit stays fastest: whole runs move
    run_bits = (sizes[-1] if kept else 1) * dtype_bits(dtype)
    if run_bits % 8:
        raise refuse(
            subject,
            "unit",
            "an innermost run of whole bytes: 4-bit elements move two at a time",
            f"a run of {run_bits // 4} elements of 4 bits",
        )
    run_bytes = run_bits // 8
    places = (
        run_bytes,
        *(n for flat in (source, target) for n in (flat.data_ptr(), flat.storage_offset(), flat.stride(0))),
    )
    unit = next(size for size, _ in UNITS if all(n % size == 0 for n in places))
    units = run_bytes // unit
    if kept:
        return _Permute(unit, (*sizes[:-1], units), order)
    return _Permute(unit, (*sizes, units), (*order, len(sizes)))


def _coalesce(view: tuple[int, ...], permute: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the same map with the digits of size 1 dropped and the digits that stay neighbours joined."""
    groups: list[list[int]] = []
    for axis in (axis for axis in permute if view[axis] != 1):
        last = groups[-1][-1] if groups else None
        if last is not None and last < axis and all(view[between] == 1 for between in range(last + 1, axis)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    logical = sorted(groups)
    sizes = tuple(math.prod(view[axis] for axis in group) for group in logical)
    return sizes, tuple(logical.index(group) for group in groups)


def _pack_bytes(moved: _Permute, source: torch.Tensor, target: torch.Tensor) -> None:
    """Return nothing; write `target` [items, bytes] from `source` [items, bytes]."""
    rows, columns = _in_units(moved, source, target)
    logical = rows.view(-1, *moved.view).permute(0, *(axis + 1 for axis in moved.permute))
    _copy(columns.view(-1, *moved.packed()), logical)


def _unpack_bytes(moved: _Permute, source: torch.Tensor, target: torch.Tensor) -> None:
    """Return nothing; write `target` [items, bytes] from the packed `source` [items, bytes]."""
    rows, columns = _in_units(moved, source, target)
    logical = rows.view(-1, *moved.packed()).permute(0, *(axis + 1 for axis in moved.inverse()))
    _copy(columns.view(-1, *moved.view), logical)


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Return nothing; write a strided target from a strided source of the same shape."""
    if target.is_cpu:
        cpu_moves.move(target, source)
    else:
        target.copy_(source)


def _in_units(moved: _Permute, source: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = dict(UNITS)[moved.unit_bytes]
    return source.view(dtype), target.view(dtype)


def _shapes(subject: str, t: torch.Tensor, padded: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch axes of `t` and the padded extents in torch units."""
    torch_padded = _torch_extents(subject, t.dtype, padded)
    axes = len(torch_padded)
    short = t.dim() < axes or any(
        have > room for have, room in zip(t.shape[t.dim() - axes :], torch_padded, strict=True)
    )
    if short:
        raise refuse(subject, "shape", f"at most torch {joined(torch_padded)}", f"torch {joined(t.shape)}")
    return tuple(t.shape[: t.dim() - axes]), torch_padded


def _torch_extents(subject: str, dtype: torch.dtype, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return extents in elements as torch extents: the last axis of a 4-bit tensor counts pairs."""
    if dtype_bits(dtype) != 4:
        return extents
    if extents[-1] % 2:
        raise refuse(subject, "size", "an even last axis: 4-bit elements stand two a byte", f"{extents[-1]} elements")
    return (*extents[:-1], extents[-1] // 2)


def check_out(
    subject: str, source: torch.Tensor, out: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Return nothing where `out` can take a result of this torch shape and dtype, made of `source`.

    Raises: MonoUnsupported, with everything that is in the way.
    """
    problems = bytes_problems("out", out)
    if not problems or kind_problem("out", out) is None:
        if out.dtype is not dtype:
            problems.append(Problem("out", "dtype", dtype_name(dtype), dtype_name(out.dtype)))
        if tuple(out.shape) != shape:
            wanted, found = shape_text(shape, dtype_bits(dtype)), shape_text(tuple(out.shape), dtype_bits(out.dtype))
            problems.append(Problem("out", "shape", wanted, found))
        if out.device != source.device:
            problems.append(Problem("out", "device", str(source.device), str(out.device)))
        elif out.data_ptr() < source.data_ptr() + source.nbytes and source.data_ptr() < out.data_ptr() + out.nbytes:
            problems.append(Problem("out", "memory", "apart from the source", "bytes shared with the source"))
    _raise(subject, *problems)


def _scratch(flat: torch.Tensor) -> torch.Tensor:
    """Return scratch [1, bytes] for the pieces of flat items [items, bytes]."""
    return torch.empty((1, min(flat.shape[1], PIECE_BYTES)), dtype=torch.uint8, device=flat.device)


def _fill(subject: str, pattern: int, bits: int) -> tuple[torch.dtype, int]:
    """Return the dtype and the number that fill bytes with the pattern of one element, little endian."""
    if not 0 <= pattern < 1 << bits:
        raise refuse(subject, "fill", f"a pattern of {bits} bits", hex(pattern))
    if bits == 4:
        pattern, bits = pattern * 0x11, 8
    signed = pattern - (1 << bits) if bits > 8 and pattern >> (bits - 1) else pattern
    return dict(UNITS)[bits // 8], signed


def _flat_bytes(t: torch.Tensor) -> torch.Tensor:
    return t.view(-1).view(torch.uint8)


@contextmanager
def _writable(target: torch.Tensor) -> Iterator[None]:
    """Return a context in which `target` may be written, an inference tensor outside inference mode too."""
    with torch.inference_mode(torch.is_inference_mode_enabled() or target.is_inference()):
        yield


def _raise(subject: str, *problems: Problem | None) -> None:
    found = tuple(problem for problem in problems if problem is not None)
    if found:
        raise MonoUnsupported(subject, found)
