"""A field's tensors as C++: a class a tensor, its numbers folded in, its map that of the layout's template."""

from __future__ import annotations

from mono_gen.algebra.layout import Digit
from mono_gen.emit.hip_axes import tensor_axes
from mono_gen.emit.hip_layouts import has_select, padded_axes
from mono_gen.emit.hip_text import (
    INT_LIMIT,
    comment,
    constant,
    expression,
    function,
    id_literal,
    listed,
    literal,
    sampled,
)
from mono_gen.frozen import frozen
from mono_gen.model import FieldModel, TensorModel
from mono_gen.plan.model import FieldPlan, LayoutPlan, Sample, TensorPlan
from mono_gen.terms import CPP, Num, Term, text, variables

INDENT = 8


@frozen
class TensorView:
    """A tensor's class, in finished lines."""

    name: str
    doc: tuple[str, ...]
    layout: tuple[str, ...]
    constants: tuple[str, ...]
    segments: tuple[str, ...]
    steps: tuple[str, ...]
    functions: tuple[str, ...]
    samples: tuple[str, ...]


def tensor_view(struct: str, field: FieldPlan, tensor: TensorPlan, layout: LayoutPlan | None) -> TensorView:
    """Return the view of a tensor of a field of a struct; `layout` is None for row-major order."""
    model = tensor.model
    return TensorView(
        name=model.name,
        doc=comment([*_doc(field.model, model), f"{field.model.place}  {_title(field.model, model)}"], INDENT - 4),
        layout=_layout(model, layout),
        constants=_constants(field, tensor, layout),
        segments=_segments(model),
        steps=(*_steps(model, layout), *tensor_axes(tensor, inner_type(model), INDENT)),
        functions=(*_sizes(tensor), *_offsets(tensor, layout), *_fold(model, layout)),
        samples=tuple(line for s in tensor.samples for line in _sampled(f"{struct}::{model.name}", s)),
    )


def _doc(field: FieldModel, tensor: TensorModel) -> list[str]:
    """Return the field's doc lines, at its data alone."""
    return field.doc.split("\n") if field.doc and tensor is field.tensors[0] else []


def _title(field: FieldModel, tensor: TensorModel) -> str:
    """Return what a tensor is: `fp4_e2m1[E, 1536, 6144] in shuffle_16x16, of mxfp4 w13, s13`."""
    extents = ", ".join(str(n) for n in tensor.extents)
    order = f" in {tensor.layout_name}" if len(tensor.extents) > 1 or tensor.layout is not None else ""
    whole = f", of {field.format.name} {', '.join(t.name for t in field.tensors)}" if len(field.tensors) > 1 else ""
    absent = f", optional {field.optional}" if field.optional else ""
    return f"{tensor.element.name}[{extents}]{order}{whole}{absent}"


def _layout(model: TensorModel, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the alias of the layout at the tensor's extents; padded ones are given where they do not follow."""
    if layout is None:
        return ()
    numbers = [*(literal(n) for n in model.bound.extents), str(model.element.bits)]
    if model.pad_each:
        padded = {axis.name for axis in padded_axes(layout)}
        numbers += [literal(n) for name, n in zip(layout.model.axes, model.bound.padded, strict=True) if name in padded]
    return listed(f"using layout = {layout.model.name}<", numbers, ">;", INDENT)


def _constants(field: FieldPlan, tensor: TensorPlan, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return id, width, extents and bytes."""
    model = tensor.model
    lines = [
        *constant("unsigned long long", "kId", id_literal(field.id), INDENT),
        *constant("int", "kBits", str(model.element.bits), INDENT),
    ]
    for name, n in zip(model.axes, model.extents, strict=True):
        if isinstance(n, int):
            lines += constant("long long", f"kExtent_{name}", literal(n), INDENT)
    if layout is not None:
        for name, axis in zip(model.axes[model.batch :], layout.model.axes, strict=True):
            lines += constant("long long", f"kPadded_{name}", f"layout::kPadded_{axis}", INDENT)
        if padded_axes(layout) and layout.model.template.fill is not None:
            lines += constant("unsigned long long", "kFill", "layout::kFill", INDENT, "of a pad")
    runtime = model.runtime_dim
    remark = f"of one step of {runtime}: bytes(n) is the whole" if runtime is not None else ""
    lines += constant("long long", "kBytes", literal(tensor.total_bytes), INDENT, remark)
    return tuple(lines)


def _segments(model: TensorModel) -> tuple[str, ...]:
    """Return where each segment begins and ends, and where storage has it if segments are padded each."""
    lines: list[str] = []
    for segment in model.segments:
        lines += constant("long long", f"kBegin_{segment.name}", literal(segment.begin), INDENT)
        lines += constant("long long", f"kEnd_{segment.name}", literal(segment.end), INDENT)
        if model.pad_each:
            lines += constant("long long", f"kPaddedBegin_{segment.name}", literal(segment.padded_begin), INDENT)
            lines += constant("long long", f"kPaddedEnd_{segment.name}", literal(segment.padded_end), INDENT)
    return tuple(lines)


def inner_type(model: TensorModel) -> str:
    """Return the type of offsets inside an item: int only where no element number and no byte reaches 2^31."""
    elements = model.bound.span
    fits = not model.runtime_row and max(elements, elements * model.element.bits // 8) < INT_LIMIT
    return "int" if fits else "long long"


def _place_type(model: TensorModel, kind: str) -> str:
    """Return what an offset is: bytes, or byte and nibble."""
    return kind if model.element.bits >= 8 else f"detail::Nibble<{kind}>"


def _is_whole(model: TensorModel, elements: int) -> bool:
    """Return whether so many elements are whole bytes."""
    return elements * model.element.bits % 8 == 0


def _group(model: TensorModel, layout: LayoutPlan | None, label: str) -> tuple[Digit, ...]:
    """Return the digits of a group of the store, empty where it is not named."""
    digits = {digit.name: digit for digit in model.bound.digits}
    groups = layout.groups if layout is not None else ()
    return next((tuple(digits[name] for name in g.digits) for g in groups if g.label == label), ())


def _inside(digits: tuple[Digit, ...]) -> int:
    """Return the elements that digits span; 1 for none."""
    return digits[0].size * digits[0].stride if digits else 1


def _has_tile(model: TensorModel, layout: LayoutPlan | None) -> bool:
    """Return whether the store names a tile, and its steps are whole bytes."""
    tile, lane, byte = (_group(model, layout, label) for label in ("tile", "lane", "byte"))
    return bool(tile) and all(_is_whole(model, n) for n in (_inside((*lane, *byte)), *(d.stride for d in tile)))


def _has_lane(model: TensorModel, layout: LayoutPlan | None) -> bool:
    """Return whether the store names lanes, and each holds whole bytes."""
    lane, byte = (_group(model, layout, label) for label in ("lane", "byte"))
    return bool(lane) and all(_is_whole(model, n) for n in (_inside(byte), *(d.stride for d in lane)))


def _steps(model: TensorModel, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the bytes of one step of each digit that moves whole bytes, and the sizes of the groups."""
    kind = inner_type(model)
    lines: list[str] = []
    if layout is None:
        for name, digit in zip(model.axes[model.batch :], model.bound.digits, strict=True):
            stride = model.bound.span if model.runtime_row and digit.axis == 0 else digit.stride
            if _is_whole(model, stride):
                lines += constant(kind, f"kStep_{name}", literal(stride * model.element.bits // 8), INDENT)
        return tuple(lines)
    for digit in model.bound.digits:
        if _is_whole(model, digit.stride):
            lines += constant(kind, f"kStep_{digit.name}", f"layout::kStep_{digit.name}", INDENT)
    if _has_tile(model, layout):
        lines += constant(kind, "kTileBytes", "layout::kTileBytes", INDENT)
    if _has_lane(model, layout):
        lines += constant("int", "kLanes", "layout::kLanes", INDENT)
        lines += constant(kind, "kLaneBytes", "layout::kLaneBytes", INDENT)
    return tuple(lines)


def _sizes(tensor: TensorPlan) -> tuple[str, ...]:
    """Return `bytes(n)` where an extent is known at run time only."""
    dim = tensor.model.runtime_dim
    if dim is None:
        return ()
    return (
        *comment([f"Bytes of the whole, for n = {dim}."], INDENT),
        *function("long long", "bytes", ["long long n"], "n * kBytes", INDENT),
    )


def _offsets(tensor: TensorPlan, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the functions from coordinates to bytes: base of an item, inner, and the whole."""
    model, kind = tensor.model, inner_type(tensor.model)
    batch, axes = model.axes[: model.batch], model.axes[model.batch :]
    lines: list[str] = []
    if batch:
        value = " + ".join(
            name if stride == 1 else f"{name} * {literal(stride)}"
            for name, stride in zip(batch, tensor.strides, strict=True)
        )
        lines += comment(["Byte offset of an item, in 64 bits."], INDENT)
        lines += function("long long", "base", [f"long long {name}" for name in batch], value, INDENT)
    lines += comment([_formula(tensor)], INDENT)
    lines += _inner(tensor, layout, kind)
    inner = f"inner({', '.join(axes)})"
    whole = f"base({', '.join(batch)}) + {inner}" if batch else inner
    if not batch and model.element.bits < 8 and kind == "int":
        whole = f"0LL + {inner}"
    parameters = [*(f"long long {name}" for name in batch), *(f"{kind} {name}" for name in axes)]
    lines += function(_place_type(model, "long long"), "offset", parameters, whole, INDENT)
    if layout is not None:
        digits = [digit.name for digit in layout.digits]
        lines += function(
            _place_type(model, kind),
            "digits",
            [f"{kind} {name}" for name in digits],
            f"layout::digits({', '.join(digits)})",
            INDENT,
        )
    return tuple(lines)


def _formula(tensor: TensorPlan) -> str:
    """Return the inner offset with all numbers folded, for readers."""
    nibble = f", nibble {text(tensor.nibble, CPP)}" if tensor.nibble is not None else ""
    return f"Byte {text(tensor.inner_byte, CPP)}{nibble}"


def _inner(tensor: TensorPlan, layout: LayoutPlan | None, kind: str) -> tuple[str, ...]:
    """Return the offset inside one item: the layout's, or the plain formula of row-major order."""
    model = tensor.model
    axes = model.axes[model.batch :]
    result = _place_type(model, kind)
    if layout is None:
        used = variables(tensor.inner_byte) | (variables(tensor.nibble) if tensor.nibble is not None else frozenset())
        parameters = [f"{kind} {name}" if name in used else f"{kind} /* {name} */" for name in axes]
        value = expression(tensor.inner_byte, {})
        if tensor.nibble is not None:
            value = f"{result}{{{value}, {_as_int(tensor.nibble, kind)}}}"
        return function(result, "inner", parameters, value, INDENT)
    arguments = [
        expression(tensor.shift, {}) if tensor.shift is not None and model.batch + i == model.segment_axis else name
        for i, name in enumerate(axes)
    ]
    return function(
        result, "inner", [f"{kind} {name}" for name in axes], f"layout::offset({', '.join(arguments)})", INDENT
    )


def _as_int(term: Term, kind: str) -> str:
    """Return a nibble as an int."""
    value = expression(term, {})
    return value if kind == "int" or isinstance(term, Num) else f"static_cast<int>({value})"


def _fold(model: TensorModel, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the layout's fold, where the store names its groups."""
    kind = inner_type(model)
    lines: list[str] = []
    if _has_tile(model, layout):
        tile = [digit.name for digit in _group(model, layout, "tile")]
        lines += function(kind, "tile", [f"{kind} {name}" for name in tile], f"layout::tile({', '.join(tile)})", INDENT)
    if _has_lane(model, layout):
        lines += function(kind, "lane", [f"{kind} l"], "layout::lane(l)", INDENT)
    if layout is not None and model.element.bits == 8 and has_select(layout):
        byte = [digit.name for digit in _group(model, layout, "byte")]
        lines += function(
            "int", "select", [f"int {name}" for name in byte], f"layout::select({', '.join(byte)})", INDENT
        )
    return tuple(lines)


def _sampled(name: str, sample: Sample) -> tuple[str, ...]:
    """Return the assertion that an element lies where the algebra puts it."""
    place = f"{name}::offset({', '.join(literal(c) for c in sample.coordinates)})"
    if sample.nibble is None:
        return sampled(f"{place} == {literal(sample.byte)}", 0)
    return sampled(f"{place} == detail::Nibble<long long>{{{literal(sample.byte)}, {sample.nibble}}}", 0)
