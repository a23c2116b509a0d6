"""What a struct is made of, one field at a time: its sources in row-major order, and a generated loader for each.

Layouts and steps are the generator's alone. A field's loader is the generated `from_layer` of a struct of that one
field, whose source is the checkpoint's row-major tensor: a view becomes a conversion from row-major, a gathered segment
is read whole, and a first batch axis may have any length, so that experts go some at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from hashlib import blake2b
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mono_gen.checkpoint.problems import WRONG_INPUT, Refused
from mono_gen.emit.python import emit_python
from mono_gen.emit.python_checks import source_extents, source_names
from mono_gen.formats import Element
from mono_gen.frozen import frozen, replace
from mono_gen.model import (
    Attribute,
    ConvertModel,
    DimModel,
    FieldModel,
    LetModel,
    OptionalModel,
    SourceModel,
    StructModel,
    ViewModel,
)
from mono_gen.pipeline import plan_specs
from mono_gen.plan.build import build_plan
from mono_gen.plan.model import FieldPlan, SpecPlan
from mono_gen.runtime.fields import TensorInfo

_NUMBER = count()


@frozen
class Source:
    """A tensor that a field is made of, in row-major order.

    local:    the loader's attribute.
    paths:    what the spec calls it: a path for each way that its lets can go.
    extents:  logical elements; the first is the name of a dim where it is found at load.
    axes:     a name an extent.
    segments: (name, begin, end) along `axis`.
    """

    local: str
    paths: tuple[str, ...]
    element: Element
    extents: tuple[int | str, ...]
    axes: tuple[str, ...]
    axis: int
    segments: tuple[tuple[str, int, int], ...]

    @property
    def dtype(self) -> torch.dtype:
        """Return the torch dtype in which the loader is handed the source."""
        found: torch.dtype = getattr(torch, self.element.holders[0])
        return found


@frozen
class Made:
    """A tensor of a field as kernels read it. `shape` is torch's; its first extent may be a dim's name."""

    info: TensorInfo
    dtype: torch.dtype
    shape: tuple[int | str, ...]


@frozen
class Field:
    """A field that may be converted.

    items:    whether the first axis counts items that can be converted one by one.
    gathered: the segment of which each rank has every rank's share; empty where there is none.
    loader:   the generated struct of this field alone.
    """

    model: FieldModel
    sources: tuple[Source, ...]
    made: tuple[Made, ...]
    items: bool
    gathered: str
    loader: Any

    @property
    def name(self) -> str:
        """Return the field's name."""
        return self.model.name


@frozen
class Target:
    """A struct of a spec.

    struct:    the generated class: infos, offsets.
    dims:      the lengths that each run-time dim may have; None is any.
    optionals: the blocks of optional fields, by name.
    elsewhere: paths that other structs of the spec read.
    digest:    of everything that is generated from the spec.
    """

    name: str
    file: str
    struct: Any
    fields: tuple[Field, ...]
    dims: dict[str, tuple[int, ...] | None]
    optionals: dict[str, OptionalModel]
    elsewhere: frozenset[str]
    digest: str


def find_target(spec: Path, struct: str, overrides: Mapping[str, int]) -> Target:
    """Return the struct of a spec.

    Raises: SpecError, OverrideError; Refused, where the spec has no such struct.
    """
    plans, _ = plan_specs([spec], overrides)
    plan = next(p for p in reversed(plans) if p.model.file == spec.name)
    found = next((s for s in plan.structs if s.model.name == struct), None)
    if found is None:
        names = ", ".join(s.model.name for s in plan.structs) or "no struct at all"
        raise Refused(str(spec), [f"no struct {struct!r}; the spec has {names}"])
    single = tuple(_single(found.model, field.model) for field in found.fields)
    alone = build_plan(replace(plan.model, structs=single), plan.digest, plan.overrides)
    whole_text, alone_text = _text(plan), _text(alone)
    whole, loaders = _imported(whole_text, plan.model.file), _imported(alone_text, plan.model.file)
    fields = tuple(
        _field(found.model, field, made.fields[0], getattr(loaders, made.model.name), getattr(whole, struct))
        for field, made in zip(found.fields, alone.structs, strict=True)
    )
    digest = blake2b((whole_text + alone_text).encode(), digest_size=16).hexdigest()
    dims = {dim.name: dim.values for dim in found.model.dims}
    optionals = {optional.name: optional for optional in found.model.optionals}
    others = frozenset(path for s in plan.structs for f in s.model.fields for path in _paths(s.model, f))
    return Target(struct, plan.model.file, getattr(whole, struct), fields, dims, optionals, others, digest)


def _single(struct: StructModel, field: FieldModel) -> StructModel:
    """Return a struct of one field, converted from row-major tensors that are the layer's own attributes."""
    origin = field.origin
    form = field.format if isinstance(origin, ViewModel) else origin.format
    via = "" if isinstance(origin, ViewModel) else origin.via
    convert = ConvertModel(form, None, origin.sources, via, origin.place)
    locals_ = [name.removesuffix("_source") for name in source_names(replace(field, origin=convert))]
    sources = tuple(SourceModel(Attribute("layer", (name,)), None, field.place) for name in locals_)
    tensors = tuple(
        replace(t, extents=("items", *t.extents[1:])) if t.batch and not isinstance(t.extents[0], str) else t
        for t in field.tensors
    )
    alone = replace(
        field, origin=replace(convert, sources=sources), tensors=tensors, attest=None, gather=None, optional=""
    )
    dims = dict.fromkeys(n for t in tensors for n in t.extents if isinstance(n, str))
    return StructModel(
        name=f"{struct.name}_{field.name}",
        args=("layer",),
        base="",
        lets=(),
        requires=(),
        dims=tuple(DimModel(name, None, field.place) for name in dims),
        fields=(alone,),
        optionals=(),
        tables=(),
        declares=frozenset(t.name for t in tensors),
        doc=field.doc,
        place=field.place,
    )


def _text(plan: SpecPlan) -> str:
    (file,) = emit_python(plan)
    return file.text


def _imported(text: str, file: str) -> ModuleType:
    """Return a generated module that was never written."""
    module = ModuleType(f"mono_gen.checkpoint.made{next(_NUMBER)}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(text, f"<generated from {file}>", "exec"), module.__dict__)
    return module


def _field(struct: StructModel, plan: FieldPlan, alone: FieldPlan, loader: Any, whole: Any) -> Field:
    """Return a field with what it reads and what it makes."""
    model = plan.model
    convert = alone.model.origin
    assert isinstance(convert, ConvertModel), "made by _single"
    lets = _lets(struct, model)
    elements = [convert.format.data, *([convert.format.scale] if convert.format.scale is not None else [])]
    data = model.tensors[0]
    sources = []
    for index, (local, extents) in enumerate(
        zip(source_names(alone.model), source_extents(model, convert), strict=True)
    ):
        per = convert.format.block if index and data.segment_axis == len(data.extents) - 1 else 1
        sources.append(
            Source(
                local=local.removesuffix("_source"),
                paths=tuple(_written_out(model.origin.sources[index].path, lets)),
                element=elements[index],
                extents=tuple(extents),
                axes=_axis_names(len(extents), data.axes),
                axis=data.segment_axis,
                segments=tuple((s.name, s.begin // per, s.end // per) for s in data.segments),
            )
        )
    made = tuple(
        Made(
            info=whole.tensors[t.model.name],
            dtype=getattr(torch, t.model.element.holders[0]),
            shape=_torch_shape(t.kernel_shape, t.model.element.bits),
        )
        for t in plan.tensors
    )
    gathered = model.gather.segment.name if model.gather is not None else ""
    return Field(model, tuple(sources), made, data.batch > 0, gathered, loader)


def _lets(struct: StructModel, field: FieldModel) -> dict[str, LetModel]:
    """Return the lets that a field's paths may begin with."""
    own = [let for o in struct.optionals if o.name == field.optional for let in o.lets]
    return {let.name: let for let in (*struct.lets, *own)}


def _paths(struct: StructModel, field: FieldModel) -> list[str]:
    """Return every path that a field may be read from."""
    lets = _lets(struct, field)
    return [path for source in field.origin.sources for path in _written_out(source.path, lets)]


def _axis_names(rank: int, axes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a source's axes; a vector's one axis is `row`."""
    return axes if rank > 1 else ("row",)


def _torch_shape(extents: tuple[int | str, ...], bits: int) -> tuple[int | str, ...]:
    """Return a shape in elements as torch counts it."""
    last = extents[-1]
    return (*extents[:-1], last // 2) if bits == 4 and isinstance(last, int) else extents


def _written_out(path: Attribute, lets: Mapping[str, LetModel]) -> list[str]:
    """Return a path from the struct's argument on, once for each way that its lets can go."""
    roots = [path.root]
    if path.root in lets:
        roots = [text for way in lets[path.root].paths for text in _written_out(way, lets)]
    return [".".join((root, *path.names)) for root in roots]


def require_map(target: Target, path: Path, known: Mapping[str, int]) -> None:
    """Return nothing where a map, its paths with their lines, fits a struct.

    Raises: Refused, with every path that nothing reads, and every field of which it names one source of two.
    """
    read = [path for field in target.fields for source in field.sources for path in source.paths]
    lines = []
    for name, line in known.items():
        if name not in read and name not in target.elsewhere:
            near = get_close_matches(name, read, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            lines.append(f"line {line}: no field of {target.name} reads {name}{hint}")
    if not set(known) & set(read):
        lines.append(f"it names no source of {target.name}, whose fields read {', '.join(read)}")
    for field in target.fields:
        here = [[name for name in source.paths if name in known] for source in field.sources]
        lines += [f"line {known[two[1]]}: {two[1]} is the same source as {two[0]}" for two in here if len(two) > 1]
        if any(here) and not all(here):
            there, lost = next(h[0] for h in here if h), field.sources[[bool(h) for h in here].index(False)]
            lines.append(f"field {field.name}: it names {there}, and not {' or '.join(lost.paths)}, which goes with it")
    if lines:
        raise Refused(str(path), lines, WRONG_INPUT)
