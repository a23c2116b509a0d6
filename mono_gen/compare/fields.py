"""Two fields of one name: what moves of each tensor, ids and members, what a layer must have, names, docs."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.compare.maps import map_of_tensor
from mono_gen.compare.model import Change, Item, Move
from mono_gen.compare.moves import move
from mono_gen.compare.words import hex_id, percent_sentence, plural, share
from mono_gen.model import AttestModel, ConvertModel, DimModel, FieldModel, GatherModel, TensorModel, ViewModel
from mono_gen.plan.model import FieldPlan, TensorPlan

Dims = dict[str, DimModel]


def compare_fields(old: FieldPlan, new: FieldPlan, struct: str, dims: Dims) -> Item | None:
    """Return what is different about a field, None where nothing is.

    dims: run-time dims by name, for the extents to count with.
    """
    moves, changes = _bytes(old, new, dims)
    changes += _abi(old, new, changes)
    changes += [Change("checks", text) for text in _checks(old.model, new.model)]
    names = zip(_names(old.model), _names(new.model), strict=False)
    changes += [Change("name", f"{a} -> {b}") for a, b in names if a != b]
    changes += [Change("name", text) for text in _renamed_parts(old, new)]
    if old.model.doc != new.model.doc:
        changes.append(Change("doc", "doc comment changed"))
    if not changes:
        return None
    name = f"{struct}.{', '.join(_names(new.model))}"
    return Item("", "field", name, old.model.place, new.model.place, tuple(changes), moves)


def _names(field: FieldModel) -> tuple[str, ...]:
    return tuple(t.name for t in field.tensors)


# --- bytes ---


def _bytes(old: FieldPlan, new: FieldPlan, dims: Dims) -> tuple[tuple[tuple[str, Move], ...], list[Change]]:
    """Return what moves of each tensor, and that in words."""
    moves: list[tuple[str, Move]] = []
    changes: list[Change] = []
    for a, b in zip(old.tensors, new.tensors, strict=False):
        found, words = _tensor(a, b, dims)
        changes += words
        if found is not None:
            moves.append((b.model.name, found))
    for extra in old.tensors[len(new.tensors) :]:
        changes.append(Change("bytes", f"{extra.model.name} is gone: {plural(extra.total_bytes, 'byte')}"))
    for extra in new.tensors[len(old.tensors) :]:
        changes.append(Change("bytes", f"{extra.model.name} is new: {plural(extra.total_bytes, 'byte')}"))
    return tuple(moves), changes


def _tensor(old: TensorPlan, new: TensorPlan, dims: Dims) -> tuple[Move | None, list[Change]]:
    """Return what moves of a tensor, and that in words; nothing where each byte stays what it is."""
    a, b = old.model, new.model
    edits = _tensor_edits(a, b)
    if a.element.bits == b.element.bits and a.element != b.element:
        text = f"{b.name}: each element is another number, {a.element.name} -> {b.element.name}"
        edits = [e for e in edits if not e.startswith("elements")]
        return None, [Change("bytes", text), *(Change("bytes", f"{b.name}: {e}") for e in edits)]
    if len(a.extents) != len(b.extents) or a.batch != b.batch:
        return None, [Change("bytes", f"{b.name}: {edit}") for edit in edits]
    runtime = _runtime(b, dims)
    found = move(map_of_tensor(old, runtime), map_of_tensor(new, runtime), _at(a, b, runtime))
    if found.is_still:
        return None, []
    sentence = percent_sentence(found)
    if edits:
        return found, [Change("bytes", f"{b.name}: {'; '.join(edits)}; {sentence}")]
    return found, [Change("bytes", short_move(b.name, found), f"layout {b.layout_name}")]


def short_move(name: str, found: Move) -> str:
    """Return `w_o: 93.75 % of 12,582,912 bytes`, for what follows from a change of the layout."""
    if found.moved == 0:
        kinds = f"storage {found.sizes[0]:,} -> {found.sizes[1]:,} bytes"
        pads = f"{plural(found.refilled, 'pad byte')} with another value"
        return f"{name}: {kinds if found.sizes[0] != found.sizes[1] else pads}"
    grown = f", storage {found.sizes[0]:,} -> {found.sizes[1]:,} bytes" if found.sizes[0] != found.sizes[1] else ""
    return f"{name}: {share(found)} of {plural(found.elements * found.bits // 8, 'byte')}{grown}"


def _tensor_edits(old: TensorModel, new: TensorModel) -> list[str]:
    """Return what the spec says otherwise about a tensor and where it lies."""
    found = []
    if old.element != new.element:
        found.append(f"elements {old.element.name} -> {new.element.name}")
    if old.extents != new.extents:
        found.append(f"[{extents_text(old)}] -> [{extents_text(new)}]")
    if old.batch != new.batch:
        found.append(f"{plural(old.batch, 'batch dim')} -> {new.batch}")
    if old.layout_name != new.layout_name:
        found.append(f"layout {old.layout_name} -> {new.layout_name}")
    if old.pad_each != new.pad_each:
        found.append(f"segments {'padded each' if new.pad_each else 'padded together'}")
    elif new.pad_each and _ranges(old) != _ranges(new):
        found.append(f"segments {_segments(old)} -> {_segments(new)}")
    return found


def extents_text(tensor: TensorModel) -> str:
    """Return extents as the spec has them: `E, 1536, 6144`."""
    return ", ".join(str(n) for n in tensor.extents)


def _runtime(tensor: TensorModel, dims: Dims) -> int:
    """Return an extent to count with where it is known at run time only: the largest that is legal, or two."""
    dim = dims.get(tensor.runtime_dim or "")
    return max(2, *dim.values) if dim is not None and dim.values else 2


def _at(old: TensorModel, new: TensorModel, runtime: int) -> str:
    """Return the extents that are compared."""
    pairs = zip(old.extents, new.extents, strict=True)
    shared = [b if a == b or isinstance(a, str) or isinstance(b, str) else min(a, b) for a, b in pairs]
    text = ", ".join(f"{n} = {runtime}" if isinstance(n, str) else str(n) for n in shared)
    return f"[{text}]"


# --- ids and members ---


def _abi(old: FieldPlan, new: FieldPlan, bytes_changes: Sequence[Change]) -> list[Change]:
    """Return the id, and the parts of it that are no bytes: segments, dims, the number of tensors."""
    found: list[Change] = []
    for a, b in zip(old.tensors[:1], new.tensors[:1], strict=True):
        if [s.name for s in a.model.segments] != [s.name for s in b.model.segments] or _ranges(a.model) != _ranges(
            b.model
        ):
            found.append(Change("abi", f"segments {_segments(a.model)} -> {_segments(b.model)}"))
        if a.model.batch != b.model.batch or len(a.model.extents) != len(b.model.extents):
            found.append(Change("abi", f"[{extents_text(a.model)}] -> [{extents_text(b.model)}]"))
    if old.id != new.id:
        causes = {c.because for c in bytes_changes}
        because = causes.pop() if len(causes) == 1 and not found else ""
        found.append(Change("abi", f"field id {hex_id(old.id)} -> {hex_id(new.id)}", because))
    return found


def _ranges(tensor: TensorModel) -> list[tuple[int, int, int]]:
    """Return where segments begin and end, on which axis, and where storage has them."""
    return [(tensor.segment_axis, s.begin, s.padded_begin) for s in tensor.segments] + [
        (tensor.segment_axis, s.end, s.padded_end) for s in tensor.segments
    ]


def _segments(tensor: TensorModel) -> str:
    """Return segments as the spec has them."""
    each = " pad each" if tensor.pad_each else ""
    return " ".join(f"{s.name}:{s.end - s.begin}" for s in tensor.segments) + each or "none"


def _renamed_parts(old: FieldPlan, new: FieldPlan) -> list[str]:
    """Return segments that have another name and are the same range."""
    a, b = old.tensors[0].model, new.tensors[0].model
    if _ranges(a) != _ranges(b):
        return []
    pairs = zip(a.segments, b.segments, strict=True)
    return [f"segment {x.name} -> {y.name}" for x, y in pairs if x.name != y.name]


# --- checks ---


def _checks(old: FieldModel, new: FieldModel) -> list[str]:
    """Return what a layer must have now and had not to, and the other way round."""
    found = []
    if old.format != new.format:
        found.append(f"format {_format(old)} -> {_format(new)}")
    for a, b in zip(old.tensors, new.tensors, strict=False):
        if a.extents != b.extents:
            found.append(f"{b.name} has extents [{extents_text(b)}], not [{extents_text(a)}]")
    found += _origin(old, new)
    found += _changed("attest", _attest(old.attest), _attest(new.attest))
    found += _changed("gather", _gather(old.gather), _gather(new.gather))
    if old.optional != new.optional:
        here, there = old.optional or "always there", new.optional or "always there"
        found.append(f"optional: {here} -> {there}")
    return found


def _format(field: FieldModel) -> str:
    return f"{field.format.name} ({field.tensors[0].element.name})"


def _origin(old: FieldModel, new: FieldModel) -> list[str]:
    """Return what is different about the sources."""
    if _order_text(old) != _order_text(new):
        return [f"source: {_origin_text(old)} -> {_origin_text(new)}"]
    pairs = list(zip(old.origin.sources, new.origin.sources, strict=False))
    found = [f"source {a.path} -> {b.path}" for a, b in pairs if a.path != b.path]
    for a, b in pairs:
        if a.shape != b.shape:
            found.append(f"source {b.path}: as [{_shape(a.shape)}] -> [{_shape(b.shape)}]")
    if len(old.origin.sources) != len(new.origin.sources):
        found.append(f"{plural(len(old.origin.sources), 'source')} -> {len(new.origin.sources)}")
    return found


def _order_text(field: FieldModel) -> str:
    """Return how a field's sources become it: `view`, or `convert FORMAT ORDER via bf16`."""
    match field.origin:
        case ViewModel():
            return "view"
        case ConvertModel(form, order, _, via, _):
            steps = f" via {via}" if via else ""
            return f"convert {form.name} {order.name if order is not None else 'row_major'}{steps}"


def _origin_text(field: FieldModel) -> str:
    return f"{_order_text(field)} {', '.join(str(s.path) for s in field.origin.sources)}"


def _shape(shape: tuple[tuple[int | str, ...], ...] | None) -> str:
    """Return the source's own shape as the spec has it."""
    return ", ".join("*".join(map(str, dim)) for dim in shape) if shape is not None else "its own dims"


def _changed(word: str, old: str, new: str) -> list[str]:
    """Return what became of a clause."""
    if old == new:
        return []
    if not old:
        return [f"{word} {new} is asked now"]
    return [f"{word} {old} -> {new}" if new else f"{word} {old} is no longer asked"]


def _attest(attest: AttestModel | None) -> str:
    if attest is None:
        return ""
    return f"{attest.layout} when {attest.path}" if attest.layout else f"not {attest.path}"


def _gather(gather: GatherModel | None) -> str:
    if gather is None:
        return ""
    world = f" of {gather.world}" if gather.world is not None else ""
    return f"{gather.segment.name} over {gather.group}{world}"
