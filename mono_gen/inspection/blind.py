"""The blind check of a tensor in a file, on a bounded sample: which orders its bytes cannot be in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import NoReturn

import torch

from mono_gen.algebra.ids import template_id
from mono_gen.algebra.layout import Layout, canonical, row_major
from mono_gen.algebra.template import bind
from mono_gen.checkpoint.shards import Entry, Shard
from mono_gen.frozen import frozen
from mono_gen.model import LayoutModel
from mono_gen.plan.layouts import is_legal
from mono_gen.runtime.errors import MonoUnsupported, refuse
from mono_gen.runtime.guess import Guess, guess_layout
from mono_gen.runtime.layouts import LayoutRef, Storage

SAMPLE_BYTES = 1 << 20
"""Bytes of data that are read of one tensor."""

_DTYPES = {"F8_E4M3": torch.float8_e4m3fn, "F8_E4M3FNUZ": torch.float8_e4m3fnuz}
_ROWS = 64  # a multiple of the rows that tiles have, and two tiles of most
_TELLING = 1e-3  # a chance to pass above this says nothing

_NAMES = (
    ("weight", "weight_scale"),
    ("weight", "weight_scale_inv"),
    ("weight", "scale"),
    ("", "_scale"),
    ("", "_scales"),
)


@frozen
class Blind:
    """What the bytes of a sample say.

    read:     what was read: `all 2560 rows`, `rows 0 to 127 of 2560`, with the scale that it was read under.
    plain:    of row_major.
    possible: layouts that the bytes do not exclude; of equal ones the first. Never proof.
    excluded: layouts that they exclude.
    """

    read: str
    plain: Guess
    possible: tuple[str, ...]
    excluded: tuple[str, ...]

    @property
    def is_telling(self) -> bool:
        """Return whether the sample is large enough that a layout which mixes blocks would hardly pass."""
        return self.plain.excluded or self.plain.pass_chance <= _TELLING

    def __str__(self) -> str:
        if not self.is_telling:
            return "too few blocks to tell"
        fits = ", ".join(self.possible)
        if self.plain.excluded:
            tail = f"may be {fits}" if fits else "fits no layout that is known: another order, or scaled otherwise"
            few = f"{self.plain.violations} of {self.plain.blocks} blocks have no large code"
            return f"not row_major: {few}; {tail}"
        return f"may be row_major{f', {fits}' if fits else ''}: every block has a large code"


def blind_check(file: Shard, entry: Entry, scale: Entry | None, layouts: Sequence[LayoutModel]) -> Blind | None:
    """Return what a sample of an fp8 weight's bytes says; None where the check has nothing to go by.

    The sample is whole leading rows of storage, of the first batch item: layouts of which these are no part are left
    out, and so are copies of row_major.
    scale: the tensor of e8m0 or fp32 scales; None is no check, for then a block is not known.
    Law:   tests/end_to_end/test_inspect.py
    """
    if entry.dtype not in _DTYPES or len(entry.shape) < 2 or scale is None or not prod(entry.shape):
        return None
    rows, k = entry.shape[-2:]
    count = rows if rows * k <= SAMPLE_BYTES else max(SAMPLE_BYTES // k // _ROWS, 1) * _ROWS
    count = min(count, rows)
    data = _part(file.path, entry.begin, count * k).view(_DTYPES[entry.dtype]).view(count, k)
    scales = _part(file.path, scale.begin, count * (k // 32)).view(count, k // 32) if scale.dtype != "F32" else None
    whole = f"all {rows} rows" if count == rows else f"rows 0 to {count - 1} of {rows} as stored"
    item = ", of the first item" if len(entry.shape) > 2 else ""
    read = f"{whole}{item}, scale {scale.name}{' taken as row_major' if scales is not None else ''}"
    (plain,) = guess_layout(data, ("row_major",), scale=scales)
    guesses = [g for ref in _fitting(layouts, (count, k), (rows, k)) for g in _guesses(data, ref, scales)]
    possible = tuple(g.layout for g in guesses if not g.excluded)
    return Blind(read, plain, possible, tuple(g.layout for g in guesses if g.excluded))


def scale_beside(entry: Entry, entries: Mapping[str, Entry], fields: Mapping[str, str]) -> Entry | None:
    """Return the tensor of scales that goes with an fp8 weight: of the same recorded field, or by name and shape.

    fields: the recorded field id of a tensor, by name.
    """
    mine = fields.get(entry.name)
    same = [name for name, field in fields.items() if field == mine and name != entry.name] if mine else []
    names = [*same, *(f"{entry.name.removesuffix(end)}{more}" for end, more in _NAMES if entry.name.endswith(end))]
    found = (entries[name] for name in names if name in entries)
    return next((scale for scale in found if _is_scale(entry, scale)), None)


def _is_scale(entry: Entry, scale: Entry) -> bool:
    """Return whether a tensor has the type and shape of the scales of another."""
    *batch, k = entry.shape
    if scale.dtype == "F32":
        return scale.shape in (tuple(batch), (*batch, 1))
    blocks = scale.dtype in ("U8", "F8_E8M0") and k % 32 == 0 and scale.shape == (*batch, k // 32)
    return blocks and entry.dtype == "F8_E4M3"


def _part(path: Path, begin: int, count: int) -> torch.Tensor:
    """Return bytes of a file."""
    with path.open("rb") as file:
        file.seek(begin)
        return torch.frombuffer(bytearray(file.read(count)), dtype=torch.uint8)


def _guesses(data: torch.Tensor, ref: LayoutRef, scales: torch.Tensor | None) -> tuple[Guess, ...]:
    """Return what the bytes say of one layout, nothing where it is not legal at the sample's shape."""
    try:
        return guess_layout(data, (ref,), scale=scales)
    except MonoUnsupported:
        return ()


def _fitting(layouts: Iterable[LayoutModel], sample: tuple[int, int], whole: tuple[int, int]) -> list[LayoutRef]:
    """Return the layouts for which the sample is a part of storage; of equal ones the first, and row_major not."""
    seen = {canonical(row_major(whole))}
    refs = []
    for layout in layouts:
        if len(layout.axes) != 2 or layout.axes[0] == "k" or layout.template.pitches or 8 not in layout.widths:
            continue
        if not is_legal(layout, whole, 8) or not is_legal(layout, sample, 8):
            continue
        part, full = bind(layout.template, sample, 8), bind(layout.template, whole, 8)
        form = canonical(full)
        if form in seen or not _is_part(part, full):
            continue
        seen.add(form)
        refs.append(_ref(layout))
    return refs


def _is_part(part: Layout, full: Layout) -> bool:
    """Return whether a layout of fewer rows is the beginning of a layout of more: all its strides are the same."""
    (rows, k), (all_rows, all_k) = canonical(part), canonical(full)
    if k != all_k or rows[1:] != all_rows[1:]:
        return False
    (_, stride), (_, whole_stride) = rows[0], all_rows[0]
    return stride == whole_stride and (part.padded == full.padded or stride > max(s for _, s in k))


def _ref(model: LayoutModel) -> LayoutRef:
    """Return a layout as the runtime's checks take it."""
    factors = [factor.name for axis in model.template.axes for factor in axis.factors]

    def storage(subject: str, bits: int, *extents: int) -> Storage:
        """Return how the layout stores a tensor of the extents."""
        if not is_legal(model, extents, bits):
            raise refuse(subject, "size", f"extents that {model.name} allows", str(extents))
        bound = bind(model.template, extents, bits)
        sizes = {digit.name: digit.size for digit in bound.digits}
        permute = tuple(factors.index(name) for name in model.template.order)
        return Storage(extents, bound.padded, tuple(sizes[name] for name in factors), permute, bound.fill)

    return LayoutRef(model.name, model.place.file, template_id(model.template), model.axes, storage, _no_unpack)


def _no_unpack(t: torch.Tensor, shape: tuple[int, ...]) -> NoReturn:
    """Raise: a check unpacks by the storage alone."""
    raise AssertionError(f"unpack of {tuple(t.shape)} to {shape} in a check")
