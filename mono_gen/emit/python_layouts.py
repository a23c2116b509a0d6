"""A layout in the Python module: pack, unpack and offset functions."""

from __future__ import annotations

from mono_gen.emit.python_text import assignment, call, quoted, safe, tuple_text, wrapped
from mono_gen.frozen import frozen
from mono_gen.plan.model import LayoutPlan
from mono_gen.terms import PYTHON, Assign, Term, rename, text, variables

WIDTHS = (4, 8, 16, 32, 64)
STORAGE_LOCALS = frozenset(("subject", "bits"))


@frozen
class LayoutView:
    """A layout's functions as final lines; `moves` is empty for a layout with gaps, which has an offset alone."""

    name: str
    moves: tuple[tuple[str, ...], ...]
    reference: tuple[str, ...]
    offset: tuple[str, ...]


def layout_view(plan: LayoutPlan, spec_file: str) -> LayoutView:
    """Return the functions of a layout."""
    moves = (tuple(_storage(plan)), tuple(_pack(plan)), tuple(_unpack(plan))) if plan.has_pack else ()
    reference = tuple(_reference(plan, spec_file)) if plan.has_pack else ()
    return LayoutView(plan.model.name, moves, reference, tuple(_offset(plan)))


def _storage(plan: LayoutPlan) -> list[str]:
    """Return the function that gives the view and permute of a layout at legal extents."""
    name = plan.model.name
    names = _extent_locals(plan)
    axes = ", ".join(f"{names[f'extent_{a}']}: int" for a in plan.model.axes)
    lines = [
        f"def storage_{name}(subject: str, bits: int, {axes}) -> runtime.Storage:",
        f'    """Return how {name} stores elements of `bits` bits.',
        "",
        *_documented(plan),
        "    Raises: MonoUnsupported, with every size that is not legal.",
        '    """',
    ]
    return lines + [f"    {line}" for line in (*_legal(plan, names), *_stored(plan, names))]


def _pack(plan: LayoutPlan) -> list[str]:
    """Return the pack function."""
    name, axes = plan.model.name, ", ".join(plan.model.axes)
    shape = ", ".join(f"padded {a}" if p is not None else a for a, p in zip(plan.model.axes, plan.padded, strict=True))
    subject = quoted(f"pack_{name}")
    return [
        f"def pack_{name}(t: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:",
        f'    """Return the elements of t in the storage order of {name}, in `out` if given.',
        "",
        f"    Shapes: t [..., {axes}], row-major; the result [..., {shape}], of t's dtype.",
        '    """',
        *(f"    {line}" for line in _given(plan, subject, "extents", "t")),
        *_returned("runtime.pack_recorded", [subject, quoted(name), "t", "storage", "out=out"]),
    ]


def _unpack(plan: LayoutPlan) -> list[str]:
    """Return the unpack function."""
    name, axes = plan.model.name, ", ".join(plan.model.axes)
    subject = quoted(f"unpack_{name}")
    return [
        f"def unpack_{name}(t: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:",
        f'    """Return the tensor of logical torch shape `shape` [..., {axes}] that was packed into t."""',
        *(f"    {line}" for line in _given(plan, subject, "shape_extents", "t, shape")),
        *_returned("runtime.unpack_recorded", [subject, quoted(name), "t", "shape", "storage"]),
    ]


def _returned(function: str, args: list[str]) -> list[str]:
    """Return the statement that gives what a call gives, inside a function."""
    return [f"    {line}" for line in call(f"return {function}", args, 4)]


def _given(plan: LayoutPlan, subject: str, function: str, args: str) -> list[str]:
    """Return the line that works out a layout's storage from a tensor or a shape."""
    axes = tuple_text([quoted(a) for a in plan.model.axes])
    given = f"*runtime.{function}({subject}, {args}, {axes})"
    return call(f"storage = storage_{plan.model.name}", [subject, f"runtime.element_bits({subject}, t)", given], 4)


def _reference(plan: LayoutPlan, spec_file: str) -> list[str]:
    """Return the call that enters a layout under its name."""
    name = plan.model.name
    axes = tuple_text([quoted(a) for a in plan.model.axes])
    args = [quoted(name), quoted(spec_file), f"0x{plan.id:016X}", axes, f"storage_{name}", f"unpack_{name}"]
    lines = call(f"{quoted(name)}: runtime.register_layout", args, 5)
    return [*lines[:-1], lines[-1] + ","]


def _documented(plan: LayoutPlan) -> list[str]:
    """Return the doc comment of the spec, and where the layout stands."""
    doc = [f"    {safe(line)}".rstrip() for line in wrapped(plan.model.doc.splitlines())]
    return [
        *doc,
        *([""] if doc else []),
        f"    Source: {plan.model.place}, {plan.store_text}",
    ]


def _extent_locals(plan: LayoutPlan) -> dict[str, str]:
    """Return the local variable of each logical extent: the axis' name, where the function has no other use for it."""
    taken = STORAGE_LOCALS | {assign.name for assign in plan.sizes}
    return {f"extent_{axis}": axis if axis not in taken else f"extent_{axis}" for axis in plan.model.axes}


def _legal(plan: LayoutPlan, names: dict[str, str]) -> list[str]:
    """Return the padded extents, and the check of every condition on sizes."""
    axes = plan.model.axes
    lines: list[str] = []
    for axis, padded in zip(axes, plan.padded, strict=True):
        if padded is not None:
            lines.extend(assignment(f"padded_{axis}", rename(padded, names), 4))
    conditions = []
    if plan.model.widths != WIDTHS:
        widths = tuple_text([str(w) for w in plan.model.widths])
        conditions.append((f"bits in {widths}", f"elements of {_listed(plan.model.widths)} bits", "{bits} bits"))
    for rule in plan.rules:
        left_text = text(rename(rule.condition.left, names), PYTHON)
        right_text = text(rename(rule.condition.right, names), PYTHON)
        found = ", ".join(
            f"{_spoken(v)} = {{{names.get(v, v)}}}" for v in sorted(variables(rule.condition.left)) if v != "bits"
        )
        conditions.append((f"{left_text} {rule.condition.op} {right_text}", rule.text, found))
    if conditions:
        checks = [f"({condition}, {quoted(expected)}, f{quoted(found)})," for condition, expected, found in conditions]
        lines += ["runtime.require_legal(", "    subject,"]
        lines += [f"    ({checks[0]})," if len(checks) == 1 else "    ("]
        lines += [*(f"        {check}" for check in checks), "    ),"] if len(checks) > 1 else []
        lines += [")"]
    needed = variables_of(plan.view)
    return lines + [line for s in plan.sizes if s.name in needed for line in _size(s, names)]


def variables_of(terms: tuple[Term, ...]) -> frozenset[str]:
    """Return the variables of several terms."""
    return frozenset().union(*(variables(t) for t in terms))


def _spoken(variable: str) -> str:
    """Return how messages name an extent."""
    return variable.replace("extent_", "", 1).replace("padded_", "padded ", 1)


def _listed(widths: tuple[int, ...]) -> str:
    return ", ".join(str(w) for w in widths)


def _size(assign: Assign, names: dict[str, str]) -> list[str]:
    """Return the line that names a size."""
    remark = f"  # {assign.remark}" if assign.remark else ""
    return [line + remark for line in assignment(assign.name, rename(assign.value, names), 4)]


def _stored(plan: LayoutPlan, names: dict[str, str]) -> list[str]:
    """Return the statement that gives the storage."""
    logical = [names[f"extent_{a}"] for a in plan.model.axes]
    padded = [
        f"padded_{a}" if p is not None else n for a, p, n in zip(plan.model.axes, plan.padded, logical, strict=True)
    ]
    template = plan.model.template
    fill = [f"fill=0x{template.fill:02X}"] if template.has_pads and template.fill is not None else []
    arguments = [
        f"extents={tuple_text(logical)}",
        f"padded={tuple_text(padded)}",
        f"view={tuple_text([text(t, PYTHON) for t in plan.view])}",
        f"permute={tuple_text([str(i) for i in plan.permute])}",
        *fill,
    ]
    return ["return runtime.Storage(", *(f"    {a}," for a in arguments), ")"]


def _offset(plan: LayoutPlan) -> list[str]:
    """Return the offset function: pure integer arithmetic, valid under tracing."""
    axes = plan.model.axes
    needed = set(variables(plan.element)) | {v for a in plan.assigns for v in variables(a.value)}
    sizes: list[Assign] = []
    for assign in reversed(plan.sizes):
        if assign.name in needed:
            sizes.insert(0, assign)
            needed |= variables(assign.value)
    lines = [
        f"def offset_{plan.model.name}({', '.join(axes)}, shape, bits):",
        f'    """Return the byte of element ({", ".join(axes)}) of logical shape [..., {", ".join(axes)}] in elements;',
        "    for 4-bit elements the byte and the nibble, 0 the low one.",
        "",
        f"    Source: {plan.model.place}{'' if plan.has_pack else f', {plan.store_text}'}",
        '    """',
    ]
    body: list[str] = []
    padded_needed = [a for a, p in zip(axes, plan.padded, strict=True) if p is not None and f"padded_{a}" in needed]
    for index, axis in enumerate(axes):
        if f"extent_{axis}" in needed or axis in padded_needed:
            body.append(f"extent_{axis} = shape[{index - len(axes)}]")
    for axis, padded in zip(axes, plan.padded, strict=True):
        if padded is not None and axis in padded_needed:
            body.extend(assignment(f"padded_{axis}", padded, 4))
    body += [line for s in sizes for line in _size(s, {})]
    body += [line for a in plan.assigns for line in assignment(a.name, a.value, 4)]
    element = "element" if "element" not in needed | set(axes) else "element_"
    body += assignment(element, plan.element, 4)
    body += ["if bits == 4:", f"    return {element} // 2, {element} % 2"]
    body += ["else:", f"    return {element} * (bits // 8)"]  # `else`, so that a tracer sees one return type
    return lines + [f"    {line}" for line in body]
