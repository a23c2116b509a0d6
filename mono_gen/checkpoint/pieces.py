"""The tensors of a checkpoint that make one field of one layer: found by the map, and checked without being read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import torch

from mono_gen.checkpoint.folder import Checkpoint
from mono_gen.checkpoint.names import LAYER, Map, Part
from mono_gen.checkpoint.problems import joined
from mono_gen.checkpoint.shards import DTYPES, Entry
from mono_gen.checkpoint.target import Field, Source
from mono_gen.frozen import frozen

_WIDENED = (torch.bfloat16, torch.float16)


@frozen
class Share:
    """One rank's part of a tensor-parallel model."""

    rank: int
    world: int


@frozen
class Piece:
    """Tensors of the checkpoint that fill a range of a source.

    names:  one, or one an item of the first axis.
    axis:   the axis of an item along which the range lies, -1 where it is all; `begin` and `length` count its elements.
    cut:    the axis of an item of which a rank has its share; -1 where it has the whole.
    shape:  of an item as the checkpoint has it, whole.
    dtype:  as the checkpoint has it.
    Units:  torch's: pairs of 4-bit elements on the last axis.
    """

    names: tuple[str, ...]
    axis: int
    begin: int
    length: int
    cut: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def item_bytes(self) -> int:
        """Return the bytes of an item as the checkpoint has it."""
        return prod(self.shape) * self.dtype.itemsize


@frozen
class Job:
    """A field of a layer.

    names:  of the tensors that are made, in the output.
    items:  the length of the first axis where it counts items, else 1.
    pieces: of each source.
    shapes: torch's, of each source; of one item where the first axis counts items.
    made:   torch's shapes of what is made.
    """

    layer: int
    field: Field
    names: tuple[str, ...]
    items: int
    pieces: tuple[tuple[Piece, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    made: tuple[tuple[int, ...], ...]

    @property
    def consumed(self) -> Iterator[str]:
        """Yield the names of the checkpoint's tensors that go into the field."""
        for pieces in self.pieces:
            for piece in pieces:
                yield from piece.names

    def nbytes(self, index: int) -> int:
        """Return the bytes of one of the tensors that are made."""
        return prod(self.made[index]) * self.field.made[index].dtype.itemsize


@dataclass(slots=True)
class Search:
    """Where a layer's tensors are looked for.

    dims:  the run-time extents that were found.
    wrong: what is in the way, a line a problem.
    fits:  for each shape that is wrong, the number of ranks that it would fit.
    """

    checkpoint: Checkpoint
    names: Map
    share: Share
    prefix: str
    layer: int
    dims: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    fits: list[int] = field(default_factory=list)

    def full(self, part: Part, name: str, item: int = 0) -> str:
        """Return a name of a part as the checkpoint has it."""
        return f"{self.prefix.replace(LAYER, str(self.layer))}.{part.named(name, item)}"

    def at(self, part: Part, text: str) -> None:
        """Note what is wrong with a line of the map."""
        self.wrong.append(f"{text} ({self.names.path.name}:{part.line})")


def find_job(search: Search, struct: str, one: Field) -> Job | None:
    """Return the job of a field; None where something is wrong, which is noted."""
    before = len(search.wrong)
    pieces = []
    for source in one.sources:
        parts = next(search.names.sources[path] for path in source.paths if path in search.names.sources)
        ranges = _ranges(search, source, parts)
        pieces.append([_piece(search, one, source, part, *ranges[part]) for part in parts if part in ranges])
    if len(search.wrong) > before:
        return None
    first = one.sources[0].extents[0]
    length = first if isinstance(first, int) else search.dims[first]
    prefix = search.prefix.replace(LAYER, str(search.layer))
    return Job(
        layer=search.layer,
        field=one,
        names=tuple(f"{prefix}.{struct}.{m.info.name}" for m in one.made),
        items=length if one.items else 1,
        pieces=tuple(tuple(p for p in found if p is not None) for found in pieces),
        shapes=tuple(tuple(_torch(source, _item(search, one, source))) for source in one.sources),
        made=tuple(tuple(length if isinstance(n, str) else n for n in m.shape) for m in one.made),
    )


def _item(search: Search, one: Field, source: Source) -> list[int]:
    """Return the extents of an item of a source, in elements."""
    return [search.dims.get(n, 0) if isinstance(n, str) else n for n in source.extents[one.items :]]


def _torch(source: Source, extents: list[int]) -> list[int]:
    """Return extents in elements as torch counts them."""
    return [*extents[:-1], extents[-1] // 2] if source.element.bits == 4 else extents


def _ranges(search: Search, source: Source, parts: tuple[Part, ...]) -> dict[Part, tuple[int, int, int]]:
    """Return the range of each part: the axis of the source, -1 for all of it, begin and length in elements."""
    said = [part.segment for part in parts]
    known = {name: (source.axis, begin, end - begin) for name, begin, end in source.segments}
    if said == [""]:
        if source.segments and parts[0].cut == source.axes[source.axis]:
            expected = f"a line for each of {', '.join(known)}"
            search.at(parts[0], f"cut {parts[0].cut} would cut across the segments of {source.local}: {expected}")
            return {}
        return {parts[0]: (-1, 0, 0)}
    if sorted(said) == sorted(known):
        return {part: known[part.segment] for part in parts}
    expected = f"segments {', '.join(known)}" if known else "one line without a segment"
    search.at(parts[0], f"{source.local} is made of {expected}, found {', '.join(s or 'no segment' for s in said)}")
    return {}


def _piece(search: Search, one: Field, source: Source, part: Part, axis: int, begin: int, length: int) -> Piece | None:
    """Return the piece of a part, every tensor of it compared with what the struct takes; or None."""
    axes = source.axes[one.items :]
    if part.cut and part.cut not in axes:
        search.at(part, f"cut {part.cut}: {source.local} has the axes {', '.join(axes)}")
        return None
    gathered = bool(part.segment) and part.segment == one.gathered  # all ranks' shares, in rank order: the whole
    cut = axes.index(part.cut) if part.cut and not gathered else -1
    names = _names(search, one, source, part)
    if not names:
        return None
    axis -= one.items if axis >= 0 else 0
    shape = _item(search, one, source)
    if axis >= 0:
        shape[axis] = length
    share = _torch(source, shape)[cut]
    if cut >= 0:
        shape[cut] *= search.share.world
    whole = tuple(_torch(source, shape))
    entry = search.checkpoint.entry(names[0])
    wanted = whole if part.is_stacked or not one.items else (_length(search, source), *whole)
    for name in names:
        _check_dtype(search, source, part, search.checkpoint.entry(name), entry)
    unlike = [e for e in map(search.checkpoint.entry, names) if e.torch_shape != wanted]
    if unlike:
        found = unlike[0].torch_shape
        more = f", and {len(unlike) - 1} more" if len(unlike) > 1 else ""
        text = f"shape: expected {joined(wanted)}, found {joined(found)} (torch){more}"
        search.wrong.append(f"{unlike[0].name}: {text}")
        search.fits += _fitting(whole, found[len(found) - len(whole) :], cut, share)
    unit = 2 if source.element.bits == 4 and axis == len(shape) - 1 else 1
    dtype = DTYPES[entry.dtype][0] if entry.dtype in DTYPES else torch.uint8
    return Piece(names, axis, begin // unit, length // unit, cut, whole, dtype)


def _length(search: Search, source: Source) -> int:
    first = source.extents[0]
    return first if isinstance(first, int) else search.dims[first]


def _fitting(wanted: tuple[int, ...], found: tuple[int, ...], cut: int, share: int) -> list[int]:
    """Return the number of ranks that a shape would fit, where there is one."""
    rests = [[n for i, n in enumerate(shape) if i != cut] for shape in (wanted, found)]
    if cut < 0 or len(wanted) != len(found) or rests[0] != rests[1] or found[cut] % share:
        return []
    return [found[cut] // share]


def _names(search: Search, one: Field, source: Source, part: Part) -> tuple[str, ...]:
    """Return the tensors of a part, one or one an item; binds a run-time first axis to their number."""
    there = [name for name in part.names if search.checkpoint.has(search.full(part, name))]
    if not there:
        search.at(part, f"missing: {' or '.join(search.full(part, name) for name in part.names)}")
        return ()
    name, first = there[0], source.extents[0]
    if not part.is_stacked:
        if isinstance(first, str):
            shape = search.checkpoint.entry(search.full(part, name)).shape
            _bind(search, first, shape[0] if shape else 0, search.full(part, name))
        return (search.full(part, name),)
    if not one.items:
        search.at(part, f"{source.local} has no first axis that counts items")
        return ()
    count = 0
    while search.checkpoint.has(search.full(part, name, count)):
        count += 1
    length = first if isinstance(first, int) else search.dims.get(first)
    if (length is not None and count < length) or search.checkpoint.has(search.full(part, name, count + 1)):
        search.at(part, f"missing: {search.full(part, name, count)}, of {length or 'several'} items")
        return ()
    if length is None:
        search.dims[str(first)] = count
    elif count > length:
        search.at(part, f"{search.full(part, name, length)}: beyond the {length} items of {source.local}")
    return tuple(search.full(part, name, item) for item in range(count))


def _bind(search: Search, dim: str, found: int, name: str) -> None:
    """Give a run-time dim its length, or compare it."""
    known = search.dims.setdefault(dim, found)
    if known != found:
        search.wrong.append(f"{name}: {dim} is {known} elsewhere in the layer, and {found} here")


def _check_dtype(search: Search, source: Source, part: Part, found: Entry, first: Entry) -> None:
    """Note a dtype that cannot hold the source's elements, or is not that of the part's other tensors."""
    holders = [getattr(torch, name) for name in source.element.holders]
    if part.widened and torch.float32 in holders:
        holders += _WIDENED
    dtype = DTYPES[found.dtype][0] if found.dtype in DTYPES else None
    if dtype not in holders:
        expected = " or ".join(str(holder).removeprefix("torch.") for holder in holders)
        search.wrong.append(f"{found.name}: dtype: expected {expected}, found {found.dtype}")
    elif found.dtype != first.dtype:
        search.wrong.append(f"{found.name}: dtype: expected {first.dtype}, as {first.name}, found {found.dtype}")
