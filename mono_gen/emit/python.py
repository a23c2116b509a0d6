"""Plan to the Python module."""

from __future__ import annotations

from mono_gen.emit.environment import environment
from mono_gen.emit.python_layouts import layout_view
from mono_gen.emit.python_structs import docstring, struct_view
from mono_gen.emit.python_text import quoted
from mono_gen.emit.stamp import stamp
from mono_gen.outputs import OutputFile
from mono_gen.plan.model import SpecPlan, StructPlan

RUNTIME_ABI = 1
"""The runtime that generated modules are written for; it equals mono_gen.runtime.RUNTIME_ABI."""


def emit_python(plan: SpecPlan) -> tuple[OutputFile, ...]:
    """Return the Python module of a spec."""
    earlier: dict[str, StructPlan] = {}
    structs = []
    for struct in plan.structs:
        structs.append(struct_view(struct, plan.model.file, plan.digest, earlier))
        earlier[struct.model.name] = struct
    doc = tuple(plan.model.doc.splitlines()) or (f"The layouts of {plan.model.file}.",)
    layouts = [layout_view(layout, plan.model.file) for layout in plan.layouts]
    text = (
        environment()
        .get_template("module.py.j2")
        .render(
            stamp=stamp(plan),
            doc=docstring(doc),
            abi=str(RUNTIME_ABI),
            file=quoted(plan.model.file),
            layouts=layouts,
            references=[line for layout in layouts for line in layout.reference],
            structs=structs,
            has_structs=bool(structs),
        )
    )
    return (OutputFile(f"{plan.model.name}.py", text, plan.model.file),)
