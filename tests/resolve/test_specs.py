"""Files: constants and params, imports, the one spec that uses everything, every code explained and shown."""

from __future__ import annotations

import gc
import re
import time
from pathlib import Path

import pytest

from mono_gen.diagnostics import SpecError
from mono_gen.diagnostics.codes import CODES
from mono_gen.pipeline import generate, plan_specs
from mono_gen.resolve.report import Report
from mono_gen.resolve.specs import resolve_spec
from mono_gen.syntax.parse import parse
from mono_gen.syntax.source import Source
from tests.resolve.texts import codes_of, spec_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0x10 + 2 * 3", 22),
        ("2 - 3 - 4", -5),
        ("-3 * -2", 6),
        ("100 / 5 / 4", 5),
        ("17 % 5 * 2", 4),
        ("(1 + 2) * (3 + 4)", 21),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775807", -(2**63 - 1)),
    ],
)
def test_constants_are_exact(expression: str, value: int) -> None:
    assert spec_of(f"spec x\nconst A = {expression}\n").constants[0].value == value


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("7 / 2", "inexact-division"),
        ("7 / 0", "zero-divisor"),
        ("7 % 0", "zero-divisor"),
        ("-7 / 7", "negative-operand"),
        ("7 % -7", "negative-operand"),
        ("9223372036854775807 + 1", "overflow"),
        ("9223372036854775807 + 1 - 1", "overflow"),
        ("4294967296 * 4294967296 / 4294967296", "overflow"),
        ("9223372036854775808", "overflow"),
        ("16B", "byte-count-here"),
        ("a.b", "attribute-in-integer"),
        ("A", "unknown-name"),
        ("Z", "unknown-name"),
    ],
)
def test_constants_that_have_no_value(expression: str, code: str) -> None:
    assert codes_of(f"spec x\nconst A = {expression}\nconst B = 2 * A\n") == [code]


def test_a_param_is_overridden_and_consts_follow() -> None:
    text = "spec x\n## Ranks.\nparam TP = 4\nconst N = 8 / TP\n"
    assert [c.value for c in spec_of(text, TP=2).constants] == [2, 4]
    assert [(c.is_param, c.doc) for c in spec_of(text).constants] == [(True, "Ranks."), (False, "")]
    assert codes_of(text, TP=3) == ["inexact-division"]


def test_the_real_spec_is_refused_at_tp_8_where_4_over_8_is_not_exact() -> None:
    with pytest.raises(SpecError) as refused:
        plan_specs([ROOT / "specs" / "minimax_m3.layout"], {"minimax_m3.TP": 8})
    found = [d for d in refused.value.diagnostics if d.code == "inexact-division"]
    assert {d.span.source.line(d.span.line).split()[1] for d in found if d.span} == {"KV_HEADS", "IQ_HEADS"}
    assert "4 / 8 is not exact" in found[0].message


def test_a_library_needs_no_arch() -> None:
    assert spec_of("spec x\nlayout a(row, k) { store k row }\n").arch is None
    assert codes_of("spec x\nstruct S(l) { w : bf16[4] { view l.w } }\n") == ["arch-missing"]


def test_one_spec_uses_everything_that_is_built() -> None:
    made = generate([HERE / "everything.layout"], {})
    assert made.warnings == ()
    model = plan_specs([HERE / "everything.layout"], {})[0][-1].model
    layer, wide = model.structs
    assert model.doc == "Layouts and a layer that use every clause."
    assert (layer.doc, layer.fields[0].doc, layer.optionals[0].doc) == (
        "One layer.",
        "Norm weights.",
        "Absent where it is fused.",
    )
    assert [t.doc for t in layer.tables] == ["Addresses in order.", "The first kernel's pointers."] or len(
        layer.tables
    ) == 2
    assert len(wide.fields) == len(layer.fields) + 1
    for file in made.files:
        if file.path.endswith(".py"):
            compile(file.text, file.path, "exec")


def test_imported_files_keep_their_names_apart(tmp_path: Path) -> None:
    (tmp_path / "base.layout").write_text(
        "spec base\nconst N = 4\nlayout a(row, k) { split k = K b:N  store K row b }\n"
    )
    (tmp_path / "top.layout").write_text(
        'spec top\nimport "base.layout"\nconst N = 8\nlayout b(row, k) { store k row }\n'
    )
    top = plan_specs([tmp_path / "top.layout"], {})[0][-1].model
    assert [layout.name for layout in top.layouts] == ["b"]
    assert [c.value for c in top.constants] == [8]


def test_what_an_import_imports_does_not_come_over(tmp_path: Path) -> None:
    (tmp_path / "low.layout").write_text("spec low\nlayout a(row, k) { store k row }\n")
    (tmp_path / "mid.layout").write_text('spec mid\nimport "low.layout"\n')
    use = "struct S(l) { w : bf16[4, 4] { tile a  view l.w  attest a when l.f } }\n"
    (tmp_path / "top.layout").write_text('spec top\narch gfx950\nimport "mid.layout"\n' + use)
    with pytest.raises(SpecError) as refused:
        plan_specs([tmp_path / "top.layout"], {})
    assert {d.code for d in refused.value.diagnostics} == {"unknown-name"}


@pytest.mark.parametrize(
    "name", ["a" * 300 + ".layout", "aiter.layout/x.layout", "", ".layout", "/etc/x.layout", "x/../y.layout"]
)
def test_strange_names_of_imports_are_refused(name: str) -> None:
    assert codes_of(f'spec x\nimport "{name}"\n')[0] in ("bad-import", "import-not-found")


def test_long_chains_of_imports_are_refused(tmp_path: Path) -> None:
    for i in range(60):
        (tmp_path / f"f{i}.layout").write_text(f"spec s{i}\n" + (f'import "f{i + 1}.layout"\n' if i < 59 else ""))
    with pytest.raises(SpecError) as refused:
        plan_specs([tmp_path / "f0.layout"], {})
    assert [d.code for d in refused.value.diagnostics] == ["import-cycle"]


def test_every_code_in_the_source_is_explained() -> None:
    literals = {
        literal
        for path in (ROOT / "mono_gen").rglob("*.py")
        if path.parent.name in ("resolve", "syntax") or path.name in ("loading.py", "pipeline.py")
        for literal in re.findall(
            r'(?:error\(|Diagnostic\(|_refuse\()\s*(?:[a-z_. ]+,\s*)?"([a-z0-9-]+)"', path.read_text()
        )
    }
    assert len(literals) > 70
    assert sorted(literals - set(CODES)) == []


def test_explanations_say_what_to_do() -> None:
    for code, text in CODES.items():
        assert 80 < len(" ".join(text.split())) < 700, code


def many_fields(count: int) -> str:
    """Return a struct of `count` fields, each overridden by another one, with as many lets and a table of all."""
    clauses = "segments row = a:32 b:32  tile t  scale row_major  convert mxfp8 row_major"
    fields = [f"let l{i} = layer.x{i}\nw{i}, s{i} : mxfp8[64, 64] {{ {clauses} l{i}.w, l{i}.s }}" for i in range(count)]
    again = [f"w{i}, s{i} : mxfp8[64, 64] {{ {clauses} l{i}.w, l{i}.s }}" for i in range(count)]
    table = "args t1 {\n" + "\n".join(f"w{i} s{i}" for i in range(count)) + "\n}"
    layout = "layout t(row, k) { split row = R r:16  split k = K b:16  store R K r b }\n"
    join = "\n".join
    return (
        f"spec x\narch gfx950\n{layout}struct A(layer) {{\n{join(fields)}\n{table}\n}}\n"
        f"struct B(layer) extends A {{\n{join(again)}\n}}\n"
    )


def resolve_seconds(count: int) -> float:
    tree, problems = parse(Source("x.layout", many_fields(count)))
    report = Report(list(problems))
    gc.collect()
    gc.disable()
    began = time.process_time()
    resolved = resolve_spec(tree, (), {}, report)
    took = time.process_time() - began
    gc.enable()
    assert resolved.model is not None
    return took


def test_the_time_to_resolve_grows_with_the_number_of_fields() -> None:
    ratios = [resolve_seconds(1000) / resolve_seconds(100) for _ in range(3)]
    assert min(ratios) <= 12
