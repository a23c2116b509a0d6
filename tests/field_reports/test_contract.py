"""N: what header and module owe each other, and what a build may not mix up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from typer.testing import CliRunner

from mono_gen.cli.app import app
from tests.conftest import ROOT
from tests.field_reports.product import BF16, asserted, layer, made, not_compiled, refused, spec_refused

TABLE = """
struct S(layer) {
    w : bf16[16] { view layer.w }
    s : fp32[16] { view layer.s }
    args table(n) { w n s }
}
"""


def test_n1_mirror_of_a_struct_with_a_narrower_member(tmp_path: Path) -> None:
    product = made(tmp_path, TABLE, name="mirror")
    asserted(
        product,
        "sizeof(S::table) == 24",
        "__builtin_offsetof(S::table, w) == 0",
        "__builtin_offsetof(S::table, n) == 8",
        "__builtin_offsetof(S::table, s) == 16",
    )
    struct = product.module.S.from_layer(layer(w=torch.zeros(16, dtype=BF16), s=torch.zeros(16)))
    table = struct.table((1 << 40) + 5)
    assert table.dtype is torch.int64 and table.nbytes == 24
    assert table.tolist() == [struct.w.data_ptr(), (1 << 40) + 5, struct.s.data_ptr()]
    assert "        void* n;\n" in product.header
    (tmp_path / "mirror.hpp").write_text(product.header.replace("        void* n;\n", "        int n;\n"))
    assert "sizeof" in not_compiled(product), "padding hides it from every offset"


ROWS = """
layout rows(row, k) {
    require k % 128 == 0
    split row = R r:16
    store R k r
}
"""


def test_n3_build_cache_trusts_file_times(tmp_path: Path) -> None:
    specs, out = tmp_path / "specs", tmp_path / "out"
    specs.mkdir()
    (specs / "timed.layout").write_text(f"spec timed\n{ROWS}")
    command = [str(specs), "--out", str(out)]
    assert CliRunner().invoke(app, ["generate", *command]).exit_code == 0
    assert CliRunner().invoke(app, ["check", *command]).exit_code == 0
    (specs / "timed.layout").write_text(f"spec timed\n{ROWS.replace('r:16', 'r:32')}")
    for path in (specs / "timed.layout", *out.iterdir()):
        os.utime(path, (1, 1))
    checked = CliRunner().invoke(app, ["check", *command])
    assert checked.exit_code == 3 and "timed.py" in checked.output and "timed.hpp" in checked.output


def test_n4_two_headers_under_one_include_guard(tmp_path: Path) -> None:
    one = made(tmp_path / "one", ROWS, name="twice")
    two = made(tmp_path / "two", ROWS.replace("r:16", "r:32"), name="twice")
    other = made(tmp_path / "other", ROWS, name="once")
    asserted(one, "true", others=(other, one))
    said = not_compiled(one, "true", others=(two,))
    assert "two versions of mono::twice in one translation unit" in said


def test_n5_rule_of_the_docs_is_not_the_rule_of_the_code(tmp_path: Path) -> None:
    field = "struct S(layer) {{ w : bf16[16, {}] {{ tile rows  convert bf16 row_major layer.w }} }}"
    said = spec_refused(tmp_path, ROWS + field.format(1296), "layout-rule")
    assert "k % 128 == 0" in said and "1296" in said
    product = made(tmp_path, ROWS + field.format(1280))
    (problem,) = refused(product.module.pack_rows, torch.zeros(16, 1296, dtype=BF16))
    assert (problem.expected, problem.found) == ("k % 128 == 0", "k = 1296")
    assert "rows: k % 128 == 0" in not_compiled(product, "rows<16, 1296, 16>::kBytes > 0")
    assert "k % 128 == 0" in (product.folder / "symptom.py").read_text()


def test_n6_constants_in_the_type_of_a_literal(tmp_path: Path) -> None:
    product = made(tmp_path, "struct S(layer) { w : uint8[49152, 65536] { tile row_major  view layer.w } }")
    assert "= 3221225472LL;" in product.header
    asserted(product, "S::w::kBytes == 3221225472LL", "sizeof(S::w::kBytes) == 8")


def test_n7_contract_in_assert_statements(tmp_path: Path) -> None:
    made(tmp_path, TABLE, name="optimised")
    text = """
import types, torch, optimised
assert False, "stripped"
bad = types.SimpleNamespace(w=torch.zeros(8), s=torch.zeros(32)[::2])
try:
    optimised.S.from_layer(bad)
except optimised.MonoUnsupported as refusal:
    print(len(refusal.problems), "problems")
"""
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-O", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "3 problems\n", done.stderr
