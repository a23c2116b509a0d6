"""The second half of from_layer: each converted field, from its sources to what the kernel reads."""

from __future__ import annotations

from mono_gen.emit.python_checks import Lines, gather_units, source_extents, source_names
from mono_gen.emit.python_text import call, quoted, tuple_text
from mono_gen.model import ConvertModel, FieldModel, GatherModel, TensorModel
from mono_gen.plan.build import needs_pack
from mono_gen.plan.model import FieldPlan


def step_lines(plan: FieldPlan, indent: int) -> Lines:
    """Return the block that converts a field; nothing for a view."""
    model = plan.model
    convert = model.origin
    if not isinstance(convert, ConvertModel):
        return []
    inner = indent + 4
    body: Lines = []
    sources = list(source_names(model))
    if model.gather is not None:
        body += _gather_lines(model, model.gather, convert, sources, inner)
    if convert.order is not None:
        shape = tuple_text([str(n) for n in _torch_shape(source_extents(model, convert)[0], convert.format.data.bits)])
        body.append(
            f"{sources[0]} = unpack_{convert.order.name}({_four_bit(sources[0], convert.format.data.bits)}, {shape})"
        )
    if _is_one_pass(model, convert):
        body += _one_pass_lines(model, sources, inner)
    else:
        body += _value_lines(model, convert, sources, inner)
        for tensor in model.tensors:
            body += _storage_lines(tensor, inner)
    return [f"with load.step({quoted(model.name)}):", *(f"    {line}" for line in body)]


def _torch_shape(extents: tuple[int | str, ...], bits: int) -> tuple[int | str, ...]:
    """Return extents in torch's units: pairs of 4-bit elements; run-time dims as their bound values."""
    numbers = [f"{n}.value" if isinstance(n, str) else n for n in extents]
    last = numbers[-1]
    if bits == 4 and isinstance(last, int):
        numbers[-1] = last // 2
    return tuple(numbers)


def _gather_lines(
    model: FieldModel, gather: GatherModel, convert: ConvertModel, sources: list[str], indent: int
) -> Lines:
    """Return the line that brings the ranks' slices together."""
    units = gather_units(model, gather, convert)
    halves = [
        2 if index == 0 and convert.format.data.bits == 4 and axis == len(model.tensors[0].extents) - 1 else 1
        for index, (axis, _, _, _) in enumerate(units)
    ]
    args = [
        quoted(model.name),
        tuple_text(sources),
        gather.group,
        f"axes={tuple_text([str(u[0]) for u in units])}",
        f"begins={tuple_text([str(u[1] // h) for u, h in zip(units, halves, strict=True)])}",
        f"lengths={tuple_text([str(u[2] // h) for u, h in zip(units, halves, strict=True)])}",
        "timeout_s=timeout_s",
    ]
    targets = ", ".join(sources) + ("," if len(sources) == 1 else "")
    return call(f"{targets} = runtime.gather", args, indent)


def _is_one_pass(model: FieldModel, convert: ConvertModel) -> bool:
    """Return whether the runtime has one function that changes a field's values and packs them."""
    data, *scales = model.tensors
    return (
        (convert.format.name, model.format.name) == ("mxfp8", "ptpc_fp8")
        and needs_pack(data)
        and len(data.bound.extents) == 2
        and not any(needs_pack(t) or t.pad_each for t in scales)
        and not data.pad_each
    )


def _one_pass_lines(model: FieldModel, sources: list[str], indent: int) -> Lines:
    """Return the line that makes a field of values that are changed and packed at once."""
    names = ", ".join(t.name for t in model.tensors)
    layout = f"LAYOUTS[{quoted(model.tensors[0].layout_name)}]"
    args = [quoted(model.name), layout, *sources, f"dtype={_dtype(model)}"]
    return call(f"{names} = runtime.mxfp8_to_packed_ptpc_fp8", args, indent)


def _value_lines(model: FieldModel, convert: ConvertModel, sources: list[str], indent: int) -> Lines:
    """Return the lines that change values, or name the sources as the field's tensors."""
    names = [t.name for t in model.tensors]
    field = quoted(model.name)
    match convert.format.name, model.format.name:
        case "fp32", "bf16":
            return call(f"{names[0]} = runtime.cast_bf16", [field, sources[0]], indent)
        case "mxfp8", "bf16":
            return call(f"{names[0]} = runtime.dequantize_mxfp8", [field, *sources], indent)
        case "mxfp8", "ptpc_fp8":
            args = [field, *sources, f"dtype={_dtype(model)}"]
            return call(f"{', '.join(names)} = runtime.mxfp8_to_ptpc_fp8", args, indent)
        case "bf16", "ptpc_fp8":
            args = [field, sources[0], _dtype(model)]
            return call(f"{', '.join(names)} = runtime.quantize_ptpc_fp8", args, indent)
    lines: Lines = []
    for tensor, source in zip(model.tensors, sources, strict=True):
        moved = needs_pack(tensor) or tensor.pad_each or convert.order is not None
        value = _four_bit(source, tensor.element.bits)
        lines.append(f"{tensor.name} = {value if moved else f'{source}.clone()'}")
    return lines


def _dtype(model: FieldModel) -> str:
    """Return the torch dtype of the field's data."""
    return f"torch.{model.format.data.holders[0]}"


def _four_bit(source: str, bits: int) -> str:
    """Return a source as the dtype of 4-bit elements, which `uint8` may hold as well."""
    return f"{source}.view(torch.float4_e2m1fn_x2)" if bits == 4 else source


def _storage_lines(tensor: TensorModel, indent: int) -> Lines:
    """Return the lines that bring a tensor into its storage order, or copy bytes that are in it already."""
    name = tensor.name
    lines: Lines = []
    if tensor.pad_each:
        ranges = tuple_text([f"({s.end - s.begin}, {s.padded_end - s.padded_begin})" for s in tensor.segments])
        fill = tensor.bound.fill or 0
        args = [quoted(name), name, f"axis={tensor.segment_axis}", f"segments={ranges}", f"fill=0x{fill:02X}"]
        lines += call(f"{name} = runtime.pad_segments", args, indent)
    if needs_pack(tensor):
        lines.append(f"{name} = pack_{tensor.layout_name}({name})")
    return lines
