"""`mono-gen draw`, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRONG = "spec wrong\n\nlayout t(row, k) {\n    split k = K b:8\n    store row K\n}\n"


def mono_gen(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    command = [sys.executable, "-m", "mono_gen", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False)


def test_a_picture_is_written_and_is_the_same_every_time(tmp_path: Path) -> None:
    path = tmp_path / "tiles.svg"
    ran = mono_gen("draw", "minimax_m3", "mxfp8_a_tiles", "-o", str(path))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"wrote {path}: mxfp8_a_tiles, {path.stat().st_size:,} bytes\n"
    ET.parse(path)
    for seed in ("1", "2"):
        again = mono_gen("draw", "specs/minimax_m3.layout", "mxfp8_a_tiles", "-o", "-", PYTHONHASHSEED=seed)
        assert again.stdout == path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["tiles.svg"]


def test_without_a_file_a_table_is_printed() -> None:
    ran = mono_gen("draw", "minimax_m3", "w13", "--at", "752,0", "--rows", "32", COLUMNS="100")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(
        "w13: shuffle_16x16\n  1,536 x 6,144 fp4_e2m1, 4 bits each; shown: 32 x 64 from row 752"
    )
    assert "\nup" not in ran.stdout.partition("row \\ k")[0]
    assert "gate 767" in ran.stdout
    assert "up 768   2359296.0–2359311.1 L0 " in ran.stdout


def test_a_terminal_without_the_dash_gets_another() -> None:
    ran = mono_gen("draw", "aiter", "shuffle_16x16", PYTHONIOENCODING="ascii")
    assert "256-271 L16" in ran.stdout
    assert "\\u" not in ran.stdout


def test_two_stand_beside_each_other() -> None:
    ran = mono_gen("draw", "minimax_m3", "w_qkv", "row_major")
    assert ran.stdout.endswith("elements lie at other bytes; the first: row 0, k 16, at byte 256 and at 16.\n")
    assert "w_qkv: shuffle_16x16\n  2,560 x 6,144 fp8_e4m3fn" in ran.stdout
    assert "\nrow_major\n  2,560 x 6,144 elements of 8 bits" in ran.stdout
    turned = mono_gen("draw", "aiter", "shuffle_16x16", "shuffle_weight_gfx1250_3d")
    assert turned.stdout.endswith("Each of the 512 elements that both show lies at the same byte.\n")


def test_rows_that_are_counted_only_at_load() -> None:
    ran = mono_gen("draw", "minimax_m3", "cos_sin", "--at", "100,0", "--rows", "2")
    assert "POS x 64 bf16, 16 bits each; shown: 2 x 64 from row 100, k 0" in ran.stdout
    assert ran.stdout.endswith("    100   12800–12927\n    101   12928–13055\n")


def test_a_param_takes_another_value() -> None:
    ran = mono_gen("draw", "minimax_m3", "w13", "--set", "minimax_m3.TP=2")
    assert "3,072 x 6,144" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["minimax", "w13"], "no spec `minimax`: no such file, and none of that name"),
        (["specs/minimax.layout", "w13"], "did you mean `minimax_m3.layout`?"),
        (["specs", "w31"], "there is no layout or tensor `w31` in `minimax_m3` or `aiter`; did you mean `w13`"),
        (["minimax_m3", "w13", "w2", "w_o"], "one layout or two beside each other, not 3"),
        (["minimax_m3", "w13", "--bits", "8"], "--bits is for layouts alone: w13 has its own"),
        (["minimax_m3", "w13", "--shape", "32,64"], "--shape is for layouts alone: w13 has its own"),
        (["minimax_m3", "w13", "--at", "3"], "--at wants a number for each of row, k: 2 numbers"),
        (["minimax_m3", "w13", "--at", "-3,0"], "--at -3,0: expected numbers such as 16,64"),
        (["minimax_m3", "w13", "--at", "1536,0"], "row 1536 is outside the tensor, whose row is 1536"),
        (["aiter", "shuffle_16x16", "--bits", "12"], "give --bits one of 4, 8, 16, 32, 64"),
        (["aiter", "shuffle_16x16", "--shape", "20,64"], "not a multiple of the 16 that `r` make"),
        (["aiter", "shuffle_16x16", "--shape", "16,x"], "--shape 16,x: expected numbers such as 16,64"),
        (["minimax_m3", "w13", "--rows", "100", "--cols", "100"], "too many for a picture"),
        (["minimax_m3", "w13", "--set", "minimax_m3.PT=2"], "has no param `PT`"),
        (["aiter", "shuffle_16x16", "--shape", "0,64"], "cannot have row 0: at least 1"),
        (["aiter", "shuffle_16x16", "--shape", "16"], "2 numbers expected, found 1"),
        (["aiter", "shuffle_16x16", "prepack_nchw_to_cblocked"], "c, h, w: not to be compared"),
        (["minimax_m3", "w13", "-o", "w13.layout"], "pictures are .svg files"),
        (["minimax_m3", "w13", "-o", "nowhere/w13.svg"], "there is no folder 'nowhere'"),
        (["minimax_m3", "w13", "-o", "folder.svg"], "that is a folder"),
        (["minimax_m3", "w13", "-o", "/dev/null/w13.svg"], "there is no folder '/dev/null'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "specs").symlink_to(ROOT / "specs")
    (tmp_path / "folder.svg").mkdir()
    ran = mono_gen("draw", *arguments, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")
    assert message in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.svg", "specs"]


def test_a_wrong_spec_leaves_the_picture_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "wrong.layout").write_text(WRONG)
    (tmp_path / "t.svg").write_text("mine")
    ran = mono_gen("draw", "wrong.layout", "t", "-o", "t.svg", cwd=tmp_path)
    assert ran.returncode == 1
    assert "error[digit-dropped]" in ran.stderr
    assert (tmp_path / "t.svg").read_text() == "mine"


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mono_gen", "draw", "aiter", "shuffle_16x16", "-o", "-"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 2
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_neither_torch_nor_numpy_is_imported() -> None:
    script = (
        "import sys; from mono_gen.cli import main; sys.argv = ['mono-gen', 'draw', 'aiter', 'e8m0_shuffle']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
