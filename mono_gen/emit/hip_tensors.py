"""A field's tensors as C++: a class a tensor, derived from its layout at its extents."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.emit.hip_axes import tensor_axes
from mono_gen.emit.hip_layouts import padded_axes
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
from mono_gen.model import AxisExtent, FieldModel, TensorModel
from mono_gen.plan.model import FieldPlan, LayoutPlan, Sample, TensorPlan
from mono_gen.terms import Num, Term, variables

INDENT = 8


@frozen
class TensorView:
    """A tensor's class, in finished lines."""

    name: str
    doc: tuple[str, ...]
    head: tuple[str, ...]
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
        head=_head(model, layout),
        constants=_constants(field, tensor, layout),
        segments=_segments(model),
        steps=(*_steps(model, layout), *tensor_axes(tensor, inner_type(model), INDENT)),
        functions=(*_sizes(tensor), *_offsets(tensor, layout)),
        samples=_samples(f"{struct}::{model.name}", tensor, layout),
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


def _head(model: TensorModel, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the head of the class, which takes the map of the layout at the tensor's extents.

    Padded extents are given where they do not follow.
    """
    if layout is None:
        return (f"    struct {model.name} {{",)
    numbers = [*(literal(n) for n in model.bound.extents), str(model.element.bits)]
    if model.pad_each:
        padded = {axis.name for axis in padded_axes(layout)}
        numbers += [literal(n) for name, n in zip(layout.model.axes, model.bound.padded, strict=True) if name in padded]
    return listed(f"struct {model.name} : {layout.model.name}<", numbers, "> {", INDENT - 4)


def _constants(field: FieldPlan, tensor: TensorPlan, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return id, width, extents and bytes: of a layout's tensor, what the layout at its extents does not say."""
    model = tensor.model
    data = field.model.tensors[0]
    lines = [
        *constant("unsigned long long", "kId", id_literal(field.id) if model is data else f"{data.name}::kId", INDENT)
    ]
    if layout is None:
        lines += constant("int", "kBits", str(model.element.bits), INDENT)
        lines += _extents(model.axes, model.extents)
    else:
        lines += _extents(model.axes[: model.batch], model.extents[: model.batch])
        lines += _inner_extents(model, layout)
    runtime = model.runtime_dim
    remark = f"of one step of {runtime}: bytes(n) is the whole" if runtime is not None else ""
    if layout is None or model.batch:
        lines += constant("long long", "kBytes", literal(tensor.total_bytes), INDENT, remark)
    return tuple(lines)


def _extents(axes: Sequence[str], extents: Sequence[AxisExtent]) -> list[str]:
    """Return the extents that are known."""
    return [
        line
        for name, n in zip(axes, extents, strict=True)
        if isinstance(n, int)
        for line in constant("long long", f"kExtent_{name}", literal(n), INDENT)
    ]


def _inner_extents(model: TensorModel, layout: LayoutPlan) -> list[str]:
    """Return the extents of a layout's axes that the tensor calls otherwise, or that are not the layout's own."""
    lines: list[str] = []
    named = zip(model.axes[model.batch :], layout.model.axes, strict=True)
    sizes = zip(model.extents[model.batch :], model.bound.extents, strict=True)
    for (name, axis), (n, stored) in zip(named, sizes, strict=True):
        if n != stored:
            lines += _extents([name], [n])
        elif name != axis:
            lines += constant("long long", f"kExtent_{name}", f"kExtent_{axis}", INDENT)
        if name != axis:
            lines += constant("long long", f"kPadded_{name}", f"kPadded_{axis}", INDENT)
    return lines


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


def _steps(model: TensorModel, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the bytes of one step of each axis in row-major order, where it moves whole bytes."""
    if layout is not None:
        return ()
    lines: list[str] = []
    for name, digit in zip(model.axes[model.batch :], model.bound.digits, strict=True):
        stride = model.bound.span if model.runtime_row and digit.axis == 0 else digit.stride
        if stride * model.element.bits % 8 == 0:
            lines += constant(inner_type(model), f"kStep_{name}", literal(stride * model.element.bits // 8), INDENT)
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
    lines += _inner(tensor, layout, kind)
    inner = f"inner({', '.join(axes)})"
    whole = f"base({', '.join(batch)}) + {inner}" if batch else inner
    if not batch and model.element.bits < 8 and kind == "int":
        whole = f"0LL + {inner}"
    parameters = [*(f"long long {name}" for name in batch), *(f"{kind} {name}" for name in axes)]
    lines += function(_place_type(model, "long long"), "offset", parameters, whole, INDENT)
    return tuple(lines)


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


def _samples(name: str, tensor: TensorPlan, layout: LayoutPlan | None) -> tuple[str, ...]:
    """Return the assertions that elements lie where the algebra puts them, and of bytes that the layout counts."""
    is_counted = layout is not None and not tensor.model.batch
    whole = sampled(f"{name}::kBytes == {literal(tensor.total_bytes)}", 0) if is_counted else ()
    return (*whole, *(line for s in tensor.samples for line in _sampled(name, s)))


def _sampled(name: str, sample: Sample) -> tuple[str, ...]:
    """Return the assertion that an element lies where the algebra puts it."""
    place = f"{name}::offset({', '.join(literal(c) for c in sample.coordinates)})"
    if sample.nibble is None:
        return sampled(f"{place} == {literal(sample.byte)}", 0)
    return sampled(f"{place} == detail::Nibble<long long>{{{literal(sample.byte)}, {sample.nibble}}}", 0)
