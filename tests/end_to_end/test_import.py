"""`mono-gen import` as a user runs it: what it prints and writes, its exit codes, and the layout in use."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.conftest import load_generated
from tests.end_to_end.test_command import mono_gen
from tests.infer import functions

FUNCTIONS = Path(functions.__file__)


def test_an_imported_layout_is_generated_and_packs_what_the_function_packs(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    written = tmp_path / "specs" / "scales.layout"
    target = (f"{FUNCTIONS}:scale_shuffle_ones", "--shape", "64,5", "--dtype", "uint8")
    ran = mono_gen("import", *target, "-o", "specs/scales.layout", "--name", "scales", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "wrote specs/scales.layout\n"), ran.stderr
    assert "layout scales: found at 64 x 24" in ran.stderr
    assert 'the same as shuffle_scale_a16w4 of aiter.layout: `import "aiter.layout"` instead' in ran.stderr
    text = written.read_text()
    assert text.startswith("## Imported from functions.py:scale_shuffle_ones.\nspec scales\n")
    assert str(tmp_path) not in text and str(FUNCTIONS.parent) not in text

    assert mono_gen("fmt", "--check", cwd=tmp_path).returncode == 0
    ran = mono_gen("generate", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    module = load_generated(tmp_path / "generated" / "scales.py")
    source = torch.randint(0, 255, (3, 96, 13), dtype=torch.uint8)
    expected = torch.stack([functions.scale_shuffle_ones(item) for item in source])
    assert torch.equal(module.pack_scales(source), expected)
    assert torch.equal(module.unpack_scales(expected, source.shape), source)

    ran = mono_gen("import", *target, "-o", "specs/scales.layout", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "is there already; give another name, or --force" in ran.stderr
    assert written.read_text() == text


def test_the_text_goes_to_the_standard_output_alone(tmp_path: Path) -> None:
    (tmp_path / "talks.py").write_text("def talks(x):\n    print('hello')\n    return x.t().contiguous()\n")
    ran = mono_gen("import", "talks:talks", "--shape", "8,12", "--dtype", "bf16", "--axes", "tok,d", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == (
        "## Imported from talks:talks.\n"
        "spec talks\n"
        "\n"
        "## The order of talks:talks, found by running it on bfloat16.\n"
        "layout talks(tok, d) {\n"
        "    store d tok\n"
        "    same as torch view(tok, d).permute(1, 0)\n"
        "}\n"
    )
    assert "checked at 8 x 12, 1 x 1, 5 x 4," in ran.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["talks.py"]


def test_what_is_no_layout_ends_with_1(tmp_path: Path) -> None:
    ran = mono_gen("import", f"{FUNCTIONS}:flips_one_byte", "--shape", "64,128", "--dtype", "uint8", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(
        "not a layout: on a tensor of 64 x 128 uint8, output byte 1234 holds a value that is no"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.py:f", "--shape", "8,8", "--dtype", "uint8"), "error: no such file: 'nowhere.py'"),
        (("fine.py:f", "--shape", "8,a", "--dtype", "uint8"), "error: --shape '8,a': expected extents such as 64,128"),
        (("fine.py:f", "--shape", "0,8", "--dtype", "uint8"), "an extent of 0"),
        (("fine.py:f", "--shape", "8,8", "--shape", "8", "--dtype", "uint8"), "have 1 and 2 axes"),
        (("fine.py:f", "--shape", "8,8", "--dtype", "uint8", "-o", "x.txt"), "does not end in .layout"),
        (("fine.py:f", "--shape", "8,8", "--dtype", "uint8", "-o", "no/x.layout"), "there is no folder 'no'"),
        (
            ("fine.py:f", "--shape", "8,8", "--dtype", "uint8"),
            "fine.py:f raised KeyError on a tensor of 8 x 8 uint8, at line 2 of fine.py: 'weight'",
        ),
    ],
)
def test_a_wrong_command_ends_with_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "fine.py").write_text("def f(x):\n    return {}['weight']\n")
    ran = mono_gen("import", *arguments, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr and "Traceback" not in ran.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["fine.py"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for arguments in ((), ("x:y",), ("x:y", "--shape", "8,8")):
        ran = mono_gen("import", *arguments, cwd=tmp_path)
        assert ran.returncode == 2
        assert "Missing" in ran.stderr
