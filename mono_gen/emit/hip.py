"""Plan to the HIP header: views of finished text, laid out by templates/header.hpp.j2."""

from __future__ import annotations

from mono_gen.emit.environment import environment
from mono_gen.emit.hip_axes import wave_parameter
from mono_gen.emit.hip_layouts import layout_view
from mono_gen.emit.hip_structs import struct_view
from mono_gen.emit.hip_text import comment
from mono_gen.emit.stamp import stamp
from mono_gen.outputs import OutputFile
from mono_gen.plan.model import SpecPlan


def emit_hip(plan: SpecPlan) -> tuple[OutputFile, ...]:
    """Return the header of a spec: one file that compiles alone."""
    name = plan.model.name
    text = (
        environment()
        .get_template("header.hpp.j2")
        .render(
            stamp=comment(stamp(plan), 0),
            doc=comment(plan.model.doc.split("\n"), 0) if plan.model.doc else (),
            spec=name,
            file=plan.model.file,
            digest=plan.digest,
            wave=wave_parameter(plan),
            layouts=[layout_view(layout) for layout in plan.layouts],
            structs=[struct_view(struct, plan) for struct in plan.structs],
        )
    )
    return (OutputFile(f"{name}.hpp", text, plan.model.file),)
