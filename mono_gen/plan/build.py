"""A spec's model to its plan."""

from __future__ import annotations

from mono_gen.algebra.ids import digest64
from mono_gen.algebra.layout import is_row_major
from mono_gen.model import AxisExtent, ConvertModel, FieldModel, SpecModel, StructModel, TensorModel, ViewModel
from mono_gen.plan.layouts import plan_layout
from mono_gen.plan.model import FieldPlan, SpecPlan, StructPlan, TensorPlan
from mono_gen.plan.tensors import plan_tensor


def build_plan(model: SpecModel, digest: str, overrides: tuple[str, ...]) -> SpecPlan:
    """Return the plan of a spec: every layout that it declares or uses, every struct."""
    fields: dict[int, FieldPlan] = {}
    seen: set[str] = set()
    structs = []
    for struct in model.structs:
        for field in struct.fields:
            if id(field) not in fields:
                fields[id(field)] = plan_field(field)
        plans = tuple(fields[id(field)] for field in struct.fields)
        structs.append(_plan_struct(struct, plans, frozenset(struct.declares - seen)))
        seen |= struct.declares
    return SpecPlan(model, digest, overrides, tuple(plan_layout(layout) for layout in model.layouts), tuple(structs))


def plan_field(model: FieldModel) -> FieldPlan:
    """Return the plan of a field."""
    tensors = tuple(plan_tensor(t) for t in model.tensors)
    return FieldPlan(model, digest64(_field_text(model, tensors)), tensors, _steps(model))


def _plan_struct(model: StructModel, fields: tuple[FieldPlan, ...], first: frozenset[str]) -> StructPlan:
    """Return the plan of a struct with its id: the field ids by name, and the order of each table."""
    named = sorted((field.model.name, field.id) for field in fields)
    ids = ",".join(f"{name}={number:016x}" for name, number in named)
    tables = ";".join(f"{t.name}({','.join(t.extras)})={','.join(t.members)}" for t in model.tables)
    return StructPlan(model, digest64(f"struct fields={ids} tables={tables}"), fields, model.tables, first)


def _field_text(model: FieldModel, tensors: tuple[TensorPlan, ...]) -> str:
    """Return the canonical text of a field: format, extents, batch dims, segments in order, layouts."""
    form, data = model.format, model.tensors[0]
    scale = f"+{form.scale.name}/{form.block}" if form.scale is not None else ""
    layouts = ",".join(f"{t.layout_id:016x}" for t in tensors)
    return (
        f"field format={form.name}:{form.data.name}{scale} extents={_extents(data)} batch={data.batch} "
        f"segments={_segments(data)} layouts={layouts}"
    )


def _extents(tensor: TensorModel) -> str:
    """Return logical extents, run-time ones as `?`."""
    return ",".join("?" if isinstance(n, str) else str(n) for n in tensor.extents)


def _segments(tensor: TensorModel) -> str:
    """Return the segments of a tensor with names, in order, and where storage puts them."""
    if not tensor.segments:
        return ""
    ranges = ",".join(f"{s.name}={s.begin}:{s.end}@{s.padded_begin}" for s in tensor.segments)
    return f"{tensor.segment_axis}:{ranges}"


def _steps(model: FieldModel) -> tuple[str, ...]:
    """Return the steps from source to field, in order."""
    match model.origin:
        case ViewModel():
            return ("view",)
        case ConvertModel(source, order, _, via, _):
            steps = [f"gather {model.gather.segment.name}"] if model.gather is not None else []
            if order is not None:
                steps.append(f"unpack {order.name}")
            steps.extend(_value_steps(source.name, model.format.name, via))
            for tensor in model.tensors:
                if needs_pack(tensor):
                    steps.append(f"pack {tensor.layout_name}")
            return tuple(steps) or ("copy",)


def _value_steps(source: str, target: str, via: str) -> list[str]:
    """Return how values change between formats."""
    match source, target, via:
        case "fp32", "bf16", _:
            return ["cast bf16"]
        case "mxfp8", "bf16", _:
            return ["dequantize bf16"]
        case "mxfp8", "ptpc_fp8", "bf16":
            return ["dequantize bf16", "quantize ptpc_fp8"]
        case "bf16", "ptpc_fp8", _:
            return ["quantize ptpc_fp8"]
    return []


def needs_pack(tensor: TensorModel) -> bool:
    """Return whether storage order differs from row-major order."""
    return tensor.layout is not None and not is_row_major(tensor.bound)


def shape_text(extents: tuple[AxisExtent, ...]) -> str:
    """Return extents as `E x 1536 x 6144`."""
    return " x ".join(str(n) for n in extents)
