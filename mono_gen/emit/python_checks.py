"""The first half of from_layer: lets, conditions, and the checks of every source, in the order of the spec."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.algebra.template import padded_extent
from mono_gen.emit.python_text import call, quoted, tuple_text
from mono_gen.formats import Element
from mono_gen.model import (
    AttestModel,
    Attribute,
    AxisExtent,
    ConditionModel,
    ConvertModel,
    DimModel,
    FieldModel,
    GatherModel,
    LetModel,
    Operand,
    SourceModel,
    TensorModel,
    ViewModel,
)
from mono_gen.plan.build import needs_pack
from mono_gen.plan.model import FieldPlan, TensorPlan

Lines = list[str]


def path_text(path: Attribute) -> str:
    """Return a path as the runtime takes it: the root's value, and the whole path for messages."""
    return f"({path.root}, {quoted(str(path))})"


def let_lines(let: LetModel, indent: int) -> Lines:
    """Return the line that reads a let."""
    return [f"# {let.place}", *call(f"{let.name} = load.let", [quoted(let.name), *map(path_text, let.paths)], indent)]


def dim_lines(dim: DimModel, indent: int) -> Lines:
    """Return the line that declares a run-time dim."""
    values = [tuple_text([str(v) for v in dim.values])] if dim.values is not None else []
    return [f"# {dim.place}", *call(f"{dim.name} = load.dim", [quoted(dim.name), *values], indent)]


def condition_args(condition: ConditionModel) -> list[str]:
    """Return value, operator and operand of a condition."""
    args = [_operand(condition.left), quoted(condition.op)]
    if condition.op in ("in", "not in"):
        args.append(tuple_text([_operand(o) for o in condition.right]))
    elif condition.right:
        args.append(_operand(condition.right[0]))
    return args


def _operand(operand: Operand) -> str:
    """Return an operand: a value read from the layer, a dim's local, or a number."""
    if not isinstance(operand, Attribute):
        return str(operand)
    if not operand.names:
        return operand.root
    return f"load.read({operand.root}, {quoted(str(operand))})"


def require_lines(condition: ConditionModel, indent: int) -> Lines:
    """Return the line that requires a condition."""
    return [
        f"# {condition.place}",
        *call("load.require", [quoted(condition.text), *condition_args(condition)], indent),
    ]


def dtypes_text(element: Element) -> str:
    """Return the torch dtypes that may hold an element, as a tuple."""
    return tuple_text([f"torch.{name}" for name in element.holders])


def shape_text(extents: Sequence[AxisExtent | str]) -> str:
    """Return extents as a tuple: numbers, and the locals of run-time dims."""
    return tuple_text([str(n) for n in extents])


def field_check_lines(plan: FieldPlan, indent: int) -> Lines:
    """Return the checks of a field's sources and of what promises their order."""
    model = plan.model
    names = ", ".join(t.name for t in model.tensors)
    lines = [f"# {model.place}  {names} : {model.format.name}", f"# {'; '.join(plan.steps)}"]
    match model.origin:
        case ViewModel(sources, _):
            for tensor, source in zip(plan.tensors, sources, strict=True):
                lines += _view_lines(tensor, source, indent)
        case ConvertModel() as convert:
            lines += _source_lines(model, convert, indent)
    return lines + _attest_lines(model, indent)


def _view_lines(plan: TensorPlan, source: SourceModel, indent: int) -> Lines:
    """Return the check of a tensor that the kernel reads as it is."""
    tensor = plan.model
    args = [
        quoted(tensor.name),
        path_text(source.path),
        f"dtypes={dtypes_text(tensor.element)}",
        f"shape={shape_text(plan.kernel_shape)}",
        f"bits={tensor.element.bits}",
        *([f"batch={tensor.batch}"] if tensor.batch else []),
        f"layout=({quoted(tensor.layout_name)}, 0x{plan.layout_id:016X})",
        *_as_shape(source),
    ]
    return call(f"{tensor.name} = load.view", args, indent)


def _as_shape(source: SourceModel) -> list[str]:
    """Return the argument for a source of another shape."""
    if source.shape is None:
        return []
    dims = [str(d[0]) if len(d) == 1 else f"runtime.times({', '.join(str(f) for f in d)})" for d in source.shape]
    return [f"as_shape={tuple_text(dims)}"]


def source_names(model: FieldModel) -> tuple[str, ...]:
    """Return the locals of a converted field's sources: `<tensor>_source`; a scale that the field has not, too."""
    convert = model.origin
    names = [t.name for t in model.tensors]
    if len(convert.sources) > len(names):
        names.append(f"{names[0]}_scale")
    return tuple(f"{name}_source" for name in names[: len(convert.sources)])


def source_extents(model: FieldModel, convert: ConvertModel) -> list[tuple[AxisExtent, ...]]:
    """Return the logical extents of each source, in elements."""
    data = model.tensors[0].extents
    extents = [data]
    if convert.format.scale is not None:
        last = data[-1]
        assert isinstance(last, int), "resolve refuses a run-time last axis under a scale"
        extents.append((*data[:-1], last // convert.format.block))
    return extents


def _source_lines(model: FieldModel, convert: ConvertModel, indent: int) -> Lines:
    """Return the checks of the tensors that a converter reads."""
    lines: Lines = []
    elements = [convert.format.data, *([convert.format.scale] if convert.format.scale is not None else [])]
    extents: list[Sequence[AxisExtent]] = list(source_extents(model, convert))
    if convert.order is not None:
        extents = [_stored_extents(model.tensors[0], convert)]
    if model.gather is not None:
        lines, extents = _gathered(model, model.gather, convert, indent)
    for local, element, shape, source in zip(source_names(model), elements, extents, convert.sources, strict=True):
        args = [
            quoted(local.removesuffix("_source")),
            path_text(source.path),
            f"dtypes={dtypes_text(element)}",
            f"shape={shape_text(shape)}",
            f"bits={element.bits}",
            *([f"order={quoted(convert.order.name)}"] if convert.order is not None else []),
            *_as_shape(source),
        ]
        lines += call(f"{local} = load.source", args, indent)
    return lines


def _stored_extents(tensor: TensorModel, convert: ConvertModel) -> tuple[AxisExtent, ...]:
    """Return the extents in storage of a source in another order."""
    assert convert.order is not None, "called for an order"
    axes = convert.order.template.axes
    batch = len(tensor.extents) - len(axes)
    inner = [n for n in tensor.extents[batch:] if isinstance(n, int)]
    padded = [padded_extent(a, n, convert.format.data.bits) for a, n in zip(axes, inner, strict=True)]
    return (*tensor.extents[:batch], *padded)


def gather_units(model: FieldModel, gather: GatherModel, convert: ConvertModel) -> list[tuple[int, int, int, int]]:
    """Return per source the dim, the gathered segment's begin and length, and the rest of the dim, in elements."""
    axis = model.tensors[0].segment_axis
    units = []
    for index, extents in enumerate(source_extents(model, convert)):
        whole = extents[axis]
        assert isinstance(whole, int), "segments stand on fixed axes"
        per = convert.format.block if index and axis == len(extents) - 1 else 1
        begin, end = gather.segment.begin // per, gather.segment.end // per
        units.append((axis, begin, end - begin, whole - (end - begin)))
    return units


def _gathered(
    model: FieldModel, gather: GatherModel, convert: ConvertModel, indent: int
) -> tuple[Lines, list[Sequence[AxisExtent]]]:
    """Return the lines that work out this rank's extents, and the sources' shapes with them in place."""
    lines: Lines = []
    shapes: list[Sequence[AxisExtent]] = []
    known: dict[tuple[int, int], str] = {}
    units = gather_units(model, gather, convert)
    for local, extents, (axis, _, length, rest) in zip(
        source_names(model), source_extents(model, convert), units, strict=True
    ):
        if (length, rest) not in known:
            name = f"{local.removesuffix('_source')}_extent"
            known[length, rest] = name
            args = [
                quoted(model.name),
                gather.group,
                f"segment={quoted(gather.segment.name)}",
                f"elements={length}",
                f"rest={rest}",
                f"world={gather.world}",
            ]
            lines += [f"# {gather.place}", *call(f"{name} = load.gathered", args, indent)]
        shapes.append([known[length, rest] if i == axis else n for i, n in enumerate(extents)])
    return lines, shapes


def _attest_lines(model: FieldModel, indent: int) -> Lines:
    """Return the check of the producer's flag; a source in a layout that nobody promises is refused always."""
    attest = model.attest
    match model.origin:
        case ViewModel():
            order = next((t.layout_name for t in model.tensors if needs_pack(t)), "")
            names = [t.name for t in model.tensors if needs_pack(t)]
        case ConvertModel(_, layout, _, _, _):
            order = layout.name if layout is not None else ""
            names = [local.removesuffix("_source") for local in source_names(model)]
    claimed = f"tensors={tuple_text([quoted(n) for n in names])}" if names else "tensors=()"
    if attest is None:
        return call("load.unattested", [quoted(model.name), quoted(order), claimed], indent) if order else []
    return _flag_lines(model.name, attest, claimed, indent)


def _flag_lines(field: str, attest: AttestModel, claimed: str, indent: int) -> Lines:
    if attest.layout:
        return call("load.attest", [quoted(field), quoted(attest.layout), path_text(attest.path), claimed], indent)
    return call("load.attest_absent", [quoted(field), path_text(attest.path), claimed], indent)
