"""No edit is passed over: where the generated files say another thing, the comparison does, and the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mono_gen.compare.specs import compare_specs
from mono_gen.diagnostics.model import SpecError
from mono_gen.emit.hip import emit_hip
from mono_gen.emit.python import emit_python
from mono_gen.plan.model import SpecPlan
from tests.compare.specs import plans
from tests.compare.test_structs import PADDED, SPEC

WHOLE = f"""## The spec.
spec s
arch gfx950
{SPEC}
{PADDED}
## Another struct.
struct Z(layer, group) {{
    z, z_s : mxfp8[12, 64] {{
        segments row = a:5 b:7 pad each
        tile p
        scale s
        convert mxfp8 row_major layer.z, layer.z_s
    }}
    q, q_s : ptpc_fp8[48, 64] {{
        segments row = x:16 y:32
        gather y over group
        tile t
        convert mxfp8 row_major layer.q, layer.q_s via bf16
        attest not layer.q.is_shuffled
    }}
    r : bf16[4, 16] {{ tile row_major  view layer.r as [64] }}
}}
"""
FEWEST = 150


def edits(text: str) -> Iterator[tuple[str, str]]:
    """Return edits of a spec by what was done: lines dropped and exchanged, numbers and names replaced."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        yield f"{i}: dropped {line}", "\n".join([*lines[:i], *lines[i + 1 :]])
        if i + 1 < len(lines):
            yield f"{i}: exchanged {line}", "\n".join([*lines[:i], lines[i + 1], line, *lines[i + 2 :]])
    for match in re.finditer(r"\b\w+\b", text):
        word = match[0]
        for new in (str(int(word, 0) * 2), str(int(word, 0) // 2)) if word[0].isdigit() else (f"{word}_x",):
            changed = f"{text[: match.start()]}{new}{text[match.end() :]}"
            yield f"{text[: match.start()].count(chr(10))}: {word} -> {new}", changed
            if not word[0].isdigit():
                yield f"every {word} -> {new}", re.sub(rf"\b{word}\b", new, text)
    for match in re.finditer(r"(\w+)( +)(\w+)", text):
        yield f"{match[0]} exchanged", f"{text[: match.start()]}{match[3]}{match[2]}{match[1]}{text[match.end() :]}"


def meaning(plan: SpecPlan) -> str:
    """Return the generated files without their stamps and the lines of the spec."""
    text = "\n".join(file.text for file in (*emit_python(plan), *emit_hip(plan)))
    return re.sub(r"\.layout:\d+", ".layout", text.replace(plan.digest, ""))


def ids(plan: SpecPlan) -> list[int]:
    return [
        *(p.id for p in plan.layouts),
        *(s.id for s in plan.structs),
        *(f.id for s in plan.structs for f in s.fields),
    ]


def test_where_generated_files_differ_the_comparison_does(tmp_path: Path) -> None:
    (old,) = plans(tmp_path, WHOLE)
    before = meaning(old)
    looked = 0
    silent, loud = [], []
    for what, text in dict(edits(WHOLE)).items():
        try:
            (new,) = plans(tmp_path, text)
        except SpecError:
            continue
        looked += 1
        found = compare_specs((old,), (new,))
        classes = {c.kind for item in found for c in item.changes}
        if meaning(new) != before:
            silent += [] if found else [what]
        elif classes:  # a constant is in no generated file
            loud += [] if classes <= {"checks", "name", "doc"} else [what]
        if ids(old) != ids(new):
            assert "abi" in classes, what
        moved = [t.layout_id for s in new.structs for f in s.fields for t in f.tensors]
        if moved != [t.layout_id for s in old.structs for f in s.fields for t in f.tensors]:
            assert classes & {"bytes", "abi"}, what
    assert not silent
    assert not loud
    assert looked > FEWEST
