"""What the user names, and every way in which that can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mono_gen.infer.dtypes import find_dtype
from mono_gen.infer.errors import CannotRun
from mono_gen.infer.imported import Names, check_names, import_layout
from mono_gen.infer.names import free_name
from mono_gen.infer.target import find_target, parse_arguments

MODULE = """\
import torch
NUMBER = 3


def tiles(x, rows, columns=4):
    return x.view(x.shape[0] // rows, rows, x.shape[1] // columns, columns).transpose(1, 2).contiguous()


class Packer:
    @staticmethod
    def pack(x):
        return x.t().contiguous()
"""

NOTES = """\
The kernel wants w.view(N // 16, 16, K // 32, 2,
    16).permute(0, 2, 3, 1, 4).contiguous(), its scales
s.view(x.shape[0] // 32, 2, 16, x.size(1) // 8, 2, 4).permute((0, 3, 5, 2, 4, 1)), and
e.reshape(-1, N/16, 16, K/P, P).transpose(2, 3) for experts; in bytes
b.view(row/16, 16, k/16B, 16B).permute(0, 2, 1, 3).
Two on one line: f.view(N, K).permute(1, 0), f.view(N, K).permute(0, 1).
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a module and a text in it."""
    (tmp_path / "packers.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import torch\n\n\nraise ValueError('no\\nluck')\n")
    (tmp_path / "needs.py").write_text("import surely_not_installed\n")
    (tmp_path / "notes.txt").write_text(NOTES)
    (tmp_path / "one.txt").write_text(NOTES[: NOTES.index("its scales")])
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00view(")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def clauses(target: str, shape: tuple[int, ...], dtype: str = "uint8", **arguments: Any) -> list[str]:
    found = find_target(target, arguments, len(shape))
    text = import_layout(found, [find_dtype(dtype)], [shape], Names()).text
    return [line.strip() for line in text.partition("\nlayout ")[2].splitlines()[1:-2]]


@pytest.mark.usefixtures("folder")
def test_a_function_is_found_by_module_by_file_and_in_a_class() -> None:
    tiles = ["split row = R r:8", "split k   = K b:4", "store R K r b"]
    assert clauses("packers:tiles", (16, 8), rows=8) == tiles
    assert clauses("packers.py:tiles", (16, 8), rows=8) == tiles
    assert clauses("./packers.py:Packer.pack", (16, 8)) == ["store n k"]
    assert find_target("packers.py:tiles", {"rows": 8}, 2).shown == "packers.py:tiles(rows=8)"


@pytest.mark.usefixtures("folder")
def test_a_line_with_a_view_and_a_permute_is_a_function() -> None:
    tiles = ["split row = R r:16", "split k   = K b:16", "store tile R K | lane r | byte b"]
    assert clauses("one.txt", (64, 128)) == ["require k % 32 == 0", *tiles]
    assert clauses("notes.txt:1", (64, 128)) == ["require k % 32 == 0", *tiles]
    assert clauses("notes.txt:3", (64, 16)) == [
        "split row = R rh:2 r:16",
        "split k   = K kh:2 g:4",
        "store tile R K | lane g r | byte kh rh",
    ]
    assert clauses("notes.txt:4", (64, 16), P=8) == [
        "split row = R r:16",
        "split k   = K b:8",
        "store tile R K | lane r | byte b",
    ]
    assert clauses("notes.txt:5", (64, 128), "bf16")[1] == "split k   = K b:8"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("packers", {}, "neither a file nor MODULE:FUNCTION"),
        ("nowhere.py:f", {}, "no such file: 'nowhere.py'"),
        ("./:f", {}, "is a folder"),
        ("no.module:f", {}, "there is no module 'no.module' here"),
        ("needs:f", {}, r"cannot import module 'needs': ModuleNotFoundError: .*surely_not_installed.* \(needs.py:1\)"),
        ("broken.py:f", {}, r"cannot import 'broken.py': ValueError: no luck \(broken.py:4\)"),
        ("notes.txt:f", {}, "is not a .py file"),
        ("packers.py:tile", {}, "has no function 'tile'; did you mean tiles?"),
        ("packers.py:Packer.unpack", {}, "has no function 'unpack'; did you mean pack?"),
        ("packers.py:NUMBER", {}, "'NUMBER' of 'packers.py' is of type int"),
        ("packers.py:tiles", {}, "give it as --arg rows=..."),
        ("packers.py:tiles", {"rows": 8, "row": 1}, "unexpected keyword argument 'row'"),
        ("notes.txt", {}, r"has 6 lines .*\(1, 3, 4, 5, 6, 6\): name one as FILE:LINE"),
        ("notes.txt:6", {}, "line 6 of 'notes.txt' has 2 views with a permute"),
        ("notes.txt:2", {}, "line 2, has no view"),
        ("one.txt", {"M": 3}, "--arg M: line 1 of 'one.txt' names only N, K"),
        ("notes.txt:4", {}, "names the extents N, K, P, and --shape has 2"),
        ("binary.txt", {}, "is not UTF-8 text"),
    ],
)
def test_what_cannot_be_found_is_said(target: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotRun, match=message):
        find_target(target, arguments, 2)


@pytest.mark.usefixtures("folder")
def test_the_function_s_own_error_is_shown_with_its_shape() -> None:
    with pytest.raises(
        CannotRun, match=r"tiles\(rows=8\) raised RuntimeError on a tensor of 17 x 8 uint8, at line 6 of"
    ):
        clauses("packers.py:tiles", (17, 8), rows=8)


def test_arguments_are_literals() -> None:
    assert parse_arguments(["layout=(16, 16)", "gate_up=True", "arch='a=b'"]) == {
        "layout": (16, 16),
        "gate_up": True,
        "arch": "a=b",
    }
    for texts in (["x"], ["=3"], ["x=torch.uint8"], ["x=__import__('os')"], ["x=1", "x=2"]):
        with pytest.raises(CannotRun, match="--arg"):
            parse_arguments(texts)


def test_dtypes_have_torch_s_names_and_the_language_s() -> None:
    assert find_dtype("torch.bfloat16") == find_dtype("bf16") == torch.bfloat16
    assert find_dtype("e8m0") == torch.float8_e8m0fnu
    with pytest.raises(CannotRun, match=r"did you mean bf16\?"):
        find_dtype("bf61")


def test_names_are_checked_and_made_up_names_are_free() -> None:
    check_names(Names("spec", "tiles", ("row", "k")))
    for names in (Names(layout="lane"), Names(layout="pack_x"), Names(axes=("row", "row")), Names(axes=("shape", "k"))):
        with pytest.raises(CannotRun):
            check_names(names)
    assert [free_name(n, "imported") for n in ("pack_tiles", "_pack", "lane", "row_major", "9x", "", "a__b")] == [
        "tiles",
        "pack",
        "lane_layout",
        "row_major_layout",
        "imported_9x",
        "imported",
        "a_b",
    ]
