"""A struct in the Python module: ids, from_layer, tables, offsets."""

from __future__ import annotations

from mono_gen.emit.python_checks import (
    Lines,
    condition_args,
    dim_lines,
    field_check_lines,
    let_lines,
    require_lines,
    source_names,
)
from mono_gen.emit.python_steps import step_lines
from mono_gen.emit.python_text import assignment, call, quoted, returned, safe, tuple_text, wrapped
from mono_gen.formats import Format
from mono_gen.frozen import frozen
from mono_gen.model import OptionalModel, TableModel, TensorModel
from mono_gen.plan.build import shape_text
from mono_gen.plan.model import FieldPlan, StructPlan, TensorPlan

INDENT = 8


@frozen
class StructView:
    """A struct as final lines, indented inside the class."""

    name: str
    doc: tuple[str, ...]
    struct_id: str
    field_ids: tuple[str, ...]
    segments: tuple[str, ...]
    infos: tuple[str, ...]
    tensors: tuple[str, ...]
    members: tuple[str, ...]
    signature: str
    body: tuple[str, ...]
    refresh: tuple[str, ...]
    nbytes: tuple[str, ...]
    tables: tuple[tuple[str, ...], ...]
    offsets: tuple[tuple[str, ...], ...]
    aliases: tuple[str, ...]


def struct_view(plan: StructPlan, spec_file: str, digest: str, earlier: dict[str, StructPlan]) -> StructView:
    """Return the class of a struct; offsets that it inherits are the base's own."""
    model = plan.model
    doc = tuple(model.doc.splitlines()) or (f"The tensors of {model.name}, as its kernels read them.",)
    args = ", ".join(("cls", *_parameters(plan)))
    base = earlier.get(model.base)
    own = [f for f in plan.fields if base is None or f.model.name in model.declares]
    return StructView(
        name=model.name,
        doc=tuple(_indented(docstring(doc), 4)),
        struct_id=f"0x{plan.id:016X}",
        field_ids=(
            *_inherited("field_ids", base),
            *(line for f in own for line in _id_lines(f)),
        ),
        segments=tuple(_segments(plan, own, base)),
        infos=tuple(line for f in plan.fields for line in _info_lines(f)),
        tensors=(
            *_inherited("tensors", base),
            *(line for f in own for t in f.tensors for line in _tensor_lines(t)),
        ),
        members=tuple(_members(plan)),
        signature=f"def from_layer({args}) -> {model.name}:",
        body=tuple(_indented(_from_layer(plan, spec_file, digest), 8)),
        refresh=tuple(_refresh(plan)),
        nbytes=tuple(_nbytes(plan)),
        tables=tuple(tuple(_table(plan, t)) for t in plan.tables),
        offsets=tuple(tuple(_offset(plan, f, t, earlier)) for f in plan.fields for t in f.tensors),
        aliases=tuple(
            f"offset_{t.model.name} = {model.name}.offset_{t.model.name}"
            for f in plan.fields
            for t in f.tensors
            if t.model.name in plan.first
        ),
    )


def _indented(lines: Lines, columns: int) -> Lines:
    """Return lines moved right, empty ones left empty."""
    return [f"{' ' * columns}{line}" if line else "" for line in lines]


def _inherited(attribute: str, base: StructPlan | None) -> Lines:
    """Return the entry that takes over what the base of the same module says."""
    return [f"**{base.model.name}.{attribute},"] if base is not None else []


def _segments(plan: StructPlan, own: list[FieldPlan], base: StructPlan | None) -> Lines:
    """Return the class attribute that names the ranges of each tensor."""
    start = "segments: ClassVar[dict[str, dict[str, tuple[int, int]]]] = {"
    if all(t.model.segments for f in own for t in f.tensors):
        lines = [*_inherited("segments", base), *(x for f in own for t in f.tensors for x in _segment_lines(t.model))]
    else:  # an override without segments must not keep the base's
        lines = [line for f in plan.fields for t in f.tensors for line in _segment_lines(t.model)]
    return [start, *_indented(lines, 4), "}"] if lines else [f"{start}}}"]


def _segment_lines(tensor: TensorModel) -> Lines:
    """Return the entry of a tensor in `segments`: name to logical begin and end."""
    if not tensor.segments:
        return []
    ranges = [f"{quoted(s.name)}: ({s.begin}, {s.end})" for s in tensor.segments]
    line = f"{quoted(tensor.name)}: {{{', '.join(ranges)}}},"
    if INDENT + len(line) <= 120:
        return [line]
    return [f"{quoted(tensor.name)}: {{", *(f"    {r}," for r in ranges), "},"]


def _info_lines(plan: FieldPlan) -> Lines:
    """Return the entry of a field in `fields`."""
    tensors = plan.model.tensors
    layouts = [t.layout_name for t in tensors if len(t.extents) > 1] or ["row_major"]
    args = [
        quoted(", ".join(t.name for t in tensors)),
        quoted(_format_text(plan.model.format)),
        quoted(shape_text(tensors[0].extents)),
        quoted(", ".join(layouts)),
        quoted("; ".join(plan.steps)),
    ]
    lines = call("runtime.FieldInfo", args, INDENT + 1)
    return [*lines[:-1], lines[-1] + ","]


def _id_lines(plan: FieldPlan) -> Lines:
    """Return the entry of a field's tensors in `field_ids`: its id, once."""
    names = [quoted(t.name) for t in plan.model.tensors]
    if len(names) == 1:
        return [f"{names[0]}: 0x{plan.id:016X},"]
    return [f"**dict.fromkeys({tuple_text(names)}, 0x{plan.id:016X}),"]


def _tensor_lines(plan: TensorPlan) -> Lines:
    """Return the entry of a tensor in `tensors`."""
    tensor = plan.model
    args = [
        quoted(tensor.name),
        quoted(tensor.element.name),
        str(tensor.element.bits),
        quoted(tensor.layout_name),
        f"0x{plan.layout_id:016X}",
        f"field_ids[{quoted(tensor.name)}]",
        *([f"batch={tensor.batch}"] if tensor.batch else []),
    ]
    if tensor.bound.live_pads:
        pads = tuple_text([_pad_text(tensor, axis) for axis in tensor.bound.live_pads])
        fill = f"0x{tensor.bound.fill:02X}" if tensor.bound.fill is not None else "None"
        args += [f"fill={fill}", f"pads={pads}", f"storage=storage_{tensor.layout_name}"]
    lines = call(f"{quoted(tensor.name)}: runtime.TensorInfo", args, INDENT + 1)
    return [*lines[:-1], lines[-1] + ","]


def _pad_text(tensor: TensorModel, axis: int) -> str:
    """Return a padded axis (counted with the batch axes) and its ranges that are not pads."""
    at = tensor.batch + axis
    ranges = [f"(0, {tensor.bound.extents[axis]})"]
    if tensor.pad_each and tensor.segment_axis == at:
        ranges = [f"({s.padded_begin}, {s.padded_begin + s.end - s.begin})" for s in tensor.segments]
    return f"({at}, {tuple_text(ranges)})"


def _parameters(plan: StructPlan) -> Lines:
    """Return the parameters of from_layer: the struct's arguments, and a timeout where ranks wait for each other."""
    waits = ["*", "timeout_s: float = runtime.GATHER_TIMEOUT_S"] if gathers(plan) else []
    return [*(f"{a}: Any" for a in plan.model.args), *waits]


def gathers(plan: StructPlan) -> list[FieldPlan]:
    """Return the fields that ranks bring together."""
    return [f for f in plan.fields if f.model.gather is not None]


def _refresh(plan: StructPlan) -> Lines:
    """Return the method that reads a layer's sources again into the same memory."""
    args = ", ".join(("self", *_parameters(plan)))
    given = ", ".join((*plan.model.args, *(["timeout_s=timeout_s"] if gathers(plan) else [])))
    return [
        f"def refresh({args}) -> None:",
        '    """Read the layer again into the same memory, pads included; when refused, nothing is written."""',
        f"    runtime.refresh(self, type(self).from_layer({given}))",
    ]


def _agree_lines(plan: StructPlan, digest: str) -> Lines:
    """Return the lines in which ranks tell each other what they bring; each group once."""
    lines: Lines = []
    groups = dict.fromkeys(f.model.gather.group for f in gathers(plan) if f.model.gather is not None)
    for group in groups:
        sources = [
            f"({quoted(name.removesuffix('_source'))}, {name}),"
            for f in gathers(plan)
            if f.model.gather is not None and f.model.gather.group == group
            for name in source_names(f.model)
        ]
        lines += [
            "load.agree(",
            f"    {group},",
            f"    digest={quoted(digest)},",
            "    struct_id=cls.struct_id,",
            "    sources=(",
            *(f"        {source}" for source in sources),
            "    ),",
            "    timeout_s=timeout_s,",
            ")",
        ]
    return lines


def _format_text(form: Format) -> str:
    """Return a format's name; ptpc_fp8 with the dialect that the arch gives it."""
    return f"{form.name} ({form.data.dialect})" if form.name == "ptpc_fp8" else form.name


def _members(plan: StructPlan) -> Lines:
    """Return the dataclass fields: run-time dims, then tensors."""
    lines = [f"{d.name}: int" for d in plan.model.dims]
    for field in plan.fields:
        maybe = " | None" if field.model.optional else ""
        for tensor in field.tensors:
            extents = shape_text(tensor.kernel_shape)
            remark = f"  # {tensor.model.element.name} [{extents}], {tensor.model.layout_name}"
            lines.append(f"{tensor.model.name}: torch.Tensor{maybe}{remark}")
    return lines


def _from_layer(plan: StructPlan, spec_file: str, digest: str) -> Lines:
    """Return the body of from_layer: all checks, one refusal, all conversions, the struct."""
    model = plan.model
    lines: Lines = [f"load = runtime.Load({quoted(model.name)}, {quoted(spec_file)})"]
    for let in model.lets:
        lines += let_lines(let, INDENT)
    for dim in model.dims:
        lines += dim_lines(dim, INDENT)
    for condition in model.requires:
        lines += require_lines(condition, INDENT)
    plain = [f for f in plan.fields if not f.model.optional]
    for field in plain:
        lines += field_check_lines(field, INDENT)
    for optional in model.optionals:
        lines += _optional_checks(plan, optional)
    lines += [*_agree_lines(plan, digest), "load.check()", ""]
    for field in plain:
        lines += step_lines(field, INDENT)
    for optional in model.optionals:
        lines += _optional_steps(plan, optional)
    lines += ["load.check()", "return cls("]
    lines += [f"    {d.name}={d.name}.value," for d in model.dims]
    lines += [f"    {t.model.name}={t.model.name}," for f in plan.fields for t in f.tensors]
    return [*lines, ")"]


def _in_optional(plan: StructPlan, optional: OptionalModel) -> list[FieldPlan]:
    return [f for f in plan.fields if f.model.optional == optional.name]


def _optional_checks(plan: StructPlan, optional: OptionalModel) -> Lines:
    """Return the checks of an optional block, under its condition; its tensors are None without it."""
    fields = _in_optional(plan, optional)
    conditions = ", ".join(f"({', '.join(condition_args(c))})" for c in optional.conditions)
    conditions += "," if len(optional.conditions) == 1 else ""
    lines = ["", f"# {optional.place}", f"{optional.name} = load.when({quoted(optional.name)}, ({conditions}))"]
    names = [t.model.name for f in fields for t in f.tensors]
    lines += [f"{name} = None" for name in names]
    body: Lines = []
    for let in optional.lets:
        body += let_lines(let, INDENT + 4)
    for condition in optional.requires:
        body += require_lines(condition, INDENT + 4)
    for field in fields:
        body += field_check_lines(field, INDENT + 4)
    return [*lines, f"if {optional.name}:", *_indented(body, 4)] if body else lines


def _optional_steps(plan: StructPlan, optional: OptionalModel) -> Lines:
    """Return the conversions of an optional block."""
    body = [line for f in _in_optional(plan, optional) for line in step_lines(f, INDENT + 4)]
    return [f"if {optional.name}:", *(f"    {line}" for line in body)] if body else []


def _nbytes(plan: StructPlan) -> Lines:
    """Return the body of nbytes."""
    args = [f"self.{t.model.name}" for f in plan.fields for t in f.tensors]
    return call("return runtime.nbytes", args, INDENT)


def _table(plan: StructPlan, table: TableModel) -> Lines:
    """Return a method that gives a pointer table."""
    maybe = " | None" if table.optional else ""
    args = ", ".join(("self", *(f"{e}: torch.Tensor | int" for e in table.extras)))
    doc = table.doc.splitlines() or [f"Return the addresses that kernels take as {table.name}, in this order."]
    lines = [f"def {table.name}({args}) -> torch.Tensor{maybe}:", *_docstring(doc)]
    if table.optional:
        optional = {t.model.name for f in plan.fields if f.model.optional == table.optional for t in f.tensors}
        first = next(m for m in table.members if m in optional)
        lines += [f"    if self.{first} is None:", "        return None"]
    entries = [f"({quoted(m)}, {m if m in table.extras else f'self.{m}'})," for m in table.members]
    lines += ["    return runtime.address_table(", f"        {quoted(table.name)},", "        ("]
    return [*lines, *(f"            {e}" for e in entries), "        ),", "    )"]


def _docstring(doc: list[str]) -> Lines:
    """Return a docstring of some lines, indented once."""
    doc = wrapped(doc)
    if len(doc) == 1:
        return [f'    """{safe(doc[0])}"""']
    return [f'    """{safe(doc[0])}', *(f"    {safe(line)}".rstrip() for line in doc[1:]), '    """']


def docstring(doc: tuple[str, ...]) -> Lines:
    """Return a docstring of some lines, without indent."""
    return [line.removeprefix("    ") for line in _docstring(list(doc))]


def _offset(plan: StructPlan, field: FieldPlan, tensor: TensorPlan, earlier: dict[str, StructPlan]) -> Lines:
    """Return a tensor's offset function, or the base's where the field is inherited."""
    name = tensor.model.name
    base = earlier.get(plan.model.base)
    if base is not None and name not in plan.model.declares:
        return [f"offset_{name} = staticmethod({base.model.name}.offset_{name})"]
    what = "byte and nibble" if tensor.nibble is not None else "byte"
    axes = ", ".join(tensor.model.axes)
    lines = [
        "@staticmethod",
        f"def offset_{name}({axes}):",
        f'    """Return the {what} of {name}[{axes}]: {tensor.model.layout_name}, {field.model.place}."""',
    ]
    if tensor.nibble is None:
        return lines + [f"    {line}" for line in returned(tensor.byte, INDENT)]
    taken = set(tensor.model.axes)
    byte, nibble = ("byte", "nibble") if not taken & {"byte", "nibble"} else ("byte_", "nibble_")
    body = [*assignment(byte, tensor.byte, INDENT), *assignment(nibble, tensor.nibble, INDENT)]
    return lines + [f"    {line}" for line in (*body, f"return {byte}, {nibble}")]
