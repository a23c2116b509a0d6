"""`mono-gen where` as a user runs it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.commands import ROOT, Ran, run_all
from tests.reference import layouts as reference

LIMIT_S = 0.5  # of processor time, beyond the interpreter's own start

WRONG = """\
spec wrong
layout t(row, k) {
    split k = K b:8
    store row K
}
"""
NAMED = """\
spec named
arch gfx950
layout t(set, json) {
    split json = J b:8
    store tile set J | lane b
}
layout halves(row, k) {
    split k = K half:2 g:2 b:8
    store tile row K | lane g | byte half b
}
struct S(layer) {
    y : fp4_e2m1[4, 32] { tile halves  convert fp4_e2m1 row_major layer.y }
    x : uint8[4, 16] { tile t  convert uint8 row_major layer.x }
}
"""


def where(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *python, "-m", "mono_gen", "where", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_chain_from_coordinates() -> None:
    ran = where("minimax_m3", "w_qkv", "--row", "3", "--k", "70")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[0] == "SparseMoeLayer.w_qkv[row 3, k 70]: byte 1078"
    for line in (
        "coordinates  row 3 of 2560, k 70 of 6144",
        "segment      q, row 0..2047: row 3 - 0 = 3 of it",
        "r = 3 % 16 = 3       of 16",
        "element      0*98304 + 2*512 + 0*256 + 3*16 + 6 = 1078",
        "lane         g 0*16 + r 3 = lane 3 of 32",
        "register     byte 6 of the lane's 16: dword 1, byte select 2",
        "row = 0*16 + 3 = 3, k = 2*32 + 0*16 + 6 = 70",
        "scale        s_qkv[row 3]: byte 12",
        "source       attn.qkv_proj.weight[3, 70], mxfp8 row_major, byte 18502",
        "with attn = layer.self_attn",
    ):
        assert line in ran.stdout, ran.stdout


def test_torch_and_numpy_are_not_imported_and_it_is_quick() -> None:
    ran = where("minimax_m3", "w13", "--byte", "23593499", python=("-X", "importtime"))
    assert ran.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    assert "mono_gen" in imported
    assert not imported & {"torch", "numpy", "safetensors", "triton"}
    assert min(
        _seconds("-m", "mono_gen", "where", "minimax_m3", "w13", "--byte", "9") for _ in range(3)
    ) < LIMIT_S + min(_seconds("-c", "pass") for _ in range(3))


def _seconds(*words: str) -> float:
    """Return the processor time of a run of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- many commands, one process ---

QUESTIONS = {
    "element": ("minimax_m3", "w_qkv", "--row", "3", "--k", "70", "--json"),
    "options first": ("--row=3", "--json", "--k", "0x46", "specs", "SparseMoeLayer.w_qkv"),
    "at": ("specs/minimax_m3.layout", "w_qkv", "--at", "row=3,k=70", "--json"),
    "nibble": ("minimax_m3", "w13", "--e", "5", "--row", "800", "--k", "71", "--json"),
    "byte of two": ("minimax_m3", "w13", "--byte", "23593499", "--json"),
    "inside an element": ("minimax_m3", "gate", "--byte", "12289", "--json"),
    "scale": ("minimax_m3", "s13", "--e", "5", "--row", "800", "--block", "2", "--json"),
    "lane": ("minimax_m3", "sh_w13", "--lane", "17", "--tile", "1,2", "--json"),
    "lane of an expert": ("minimax_m3", "s13", "--lane", "5", "--e", "3", "--json"),
    "other sizes": ("minimax_m3", "w_o", "--row", "17", "--k", "70", "--set", "minimax_m3.TP=2", "--json"),
    "pad": ("tests/generated/specs/corners.layout", "Derived.s", "--n", "3", "--row", "40", "--block", "7", "--json"),
    "byte of a pad": ("tests/generated/specs/corners.layout", "Derived.s", "--byte", "6626", "--json"),
    "pad between": ("tests/generated/specs/corners.layout", "apart_s", "--byte", "1276", "--json"),
    "lane as text": ("minimax_m3", "s13", "--lane", "5", "--tile", "1,2"),
    "byte as text": ("minimax_m3", "w13", "--byte", "23593499"),
    "of both specs": ("tests/generated/specs/corners.layout", "w", "--n", "3", "--row", "1", "--k", "2", "--json"),
    "pad as text": ("tests/generated/specs/corners.layout", "Derived.s", "--byte", "6626"),
    "open dim as text": ("minimax_m3", "index_cache", "--blocks", "123456", "--row", "1", "--k", "2"),
    "last of E as text": ("minimax_m3", "w13", "--e", "128", "--row", "1", "--k", "2"),
    "gather as text": ("minimax_m3", "CpSparseMoeLayer.w_qkv", "--row", "2500", "--k", "70"),
}

WRONG_COMMANDS = (
    (("minimax_m3", "w_qkv", "--rwo", "3"), "`rwo`: w_qkv has the axes row (2560), k (6144); did you mean `row`"),
    (("minimax_m3", "w_qkv", "--row", "3"), "`k` missing: w_qkv has the axes row (2560), k (6144)"),
    (("minimax_m3", "w_qkv"), "`row` and `k` missing"),
    (("minimax_m3", "w_qkv", "--row", "2560", "--k", "0"), "row of w_qkv is 2560, 0 to 2559"),
    (("minimax_m3", "w_qkv", "--row", "-1", "--k", "0"), "row -1 is not there"),
    (("minimax_m3", "w_qkv", "--row", "three", "--k", "0"), "--row three: expected an integer"),
    (("minimax_m3", "w_qkv", "--row", "3", "--k"), "--k: expected a number after it"),
    (("minimax_m3", "w_qkv", "--row", "3", "--k", "5", "--jsn"), "--jsn: no such option; did you mean --json?"),
    (("minimax_m3", "w_qkv", "--bite", "3"), "--bite: no such option; did you mean --byte?"),
    (("minimax_m3", "w_qkv", "--row", "3", "--row", "4", "--k", "0"), "--row is given twice"),
    (("minimax_m3", "w_qkv", "--at", "row3"), "expected coordinates such as row=3,k=70"),
    (("minimax_m3", "w_qkv", "--row", "3", "--byte", "5"), "--row and --byte are two questions"),
    (("minimax_m3", "w_qkv", "--lane", "3", "--byte", "5"), "--byte and --lane are two questions"),
    (("minimax_m3", "w_qkv", "--lane", "3", "--row", "5"), "--row and --lane are two questions"),
    (("minimax_m3", "w_qkv", "--row", "3", "--k", "5", "--tile", "1,1"), "--tile goes with --lane"),
    (("minimax_m3", "w_qkv", "--lane", "3", "--tile", "1,x"), "--tile x: expected an integer"),
    (("minimax_m3", "w_qkv", "--lane", "33"), "0 to 31"),
    (("minimax_m3", "g_in", "--lane", "3"), "row_major, whose store order names no lanes"),
    (("minimax_m3", "w_qkv", "--byte", "99999999"), "15728640 bytes, 0 to 15728639"),
    (("minimax_m3", "w_qkv", "--byte", "99999999", "--json"), "15728640 bytes, 0 to 15728639"),
    (("minimax_m3", "w_qvk", "--row", "3"), "no tensor `w_qvk` in spec `minimax_m3`; did you mean `w_qkv`"),
    (("minimax_m3", "SparseLayer.w_qkv"), "did you mean `SparseMoeLayer`"),
    (("minimax_m3", "k1_args"), "is a table of pointers"),
    (("aiter", "shuffle_16x16", "--row", "3"), "`shuffle_16x16` is a layout"),
    (("aiter", "w_qkv", "--row", "3"), "spec `aiter` has layouts alone"),
    (("minimax_m2", "w_qkv"), "in specs or in the library; did you mean `minimax_m3`?"),
    (("specs/minimax.layout", "x"), "no such file or folder: 'specs/minimax.layout'; did you mean `minimax_m3.layout`"),
    (("specs/README.md", "w_qkv"), "is not a .layout file"),
    (("tests", "w_qkv"), "no spec found"),
    (("minimax_m3",), "expected SPEC and FIELD, found minimax_m3"),
    (("minimax_m3", "w_qkv", "3", "70"), "expected SPEC and FIELD, found minimax_m3 w_qkv 3 70"),
    ((), "expected SPEC and FIELD"),
    (("minimax_m3", "w_qkv", "--byte", "5", "--set", "minimax_m3.TPP=2"), "has no param `TPP`"),
)  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Return what each question was answered."""
    commands = [("where", *words) for words in QUESTIONS.values()]
    ran = run_all(commands, ROOT, tmp_path_factory.mktemp("where"))
    assert [one.code for one in ran] == [0] * len(ran), [one.err for one in ran if one.code]
    return dict(zip(QUESTIONS, ran, strict=True))


def test_what_json_fixes(answers: dict[str, Ran]) -> None:
    want = {"byte": reference.byte_offset("shuffle_16x16", (3, 70), (2560, 6144), 8), "row": 3, "k": 70}
    for name in ("element", "options first", "at"):
        data = answers[name].data()
        assert {key: data[key] for key in want} == want, name
        assert (data["struct"], data["tensor"], data["segment"]) == ("SparseMoeLayer", "w_qkv", "q")


def test_json_of_4_bit_elements(answers: dict[str, Ran]) -> None:
    item = 1536 * 3072
    data = answers["nibble"].data()
    assert data["byte"] == 5 * item + reference.byte_offset("shuffle_16x16", (800, 71), (1536, 6144), 4)
    assert (data["nibble"], data["e"], data["row"], data["k"], data["segment"]) == (1, 5, 800, 71, "up")
    scale = reference.byte_offset("e8m0_shuffle", (800, 71 // 32), (1536, 192), 8)
    assert (data["scale"]["tensor"], data["scale"]["byte"]) == ("s13", 5 * 1536 * 192 + scale)
    data = answers["byte of two"].data()
    assert data["byte"] == 23593499
    low, high = data["elements"]
    for nibble, one in enumerate((low, high)):
        at = (one["row"], one["k"])
        assert (one["e"], one["nibble"]) == (5, nibble)
        assert 5 * item + reference.byte_offset("shuffle_16x16", at, (1536, 6144), 4) == 23593499
        assert reference.nibble("shuffle_16x16", at, (1536, 6144)) == nibble
    assert (data["row"], data["k"]) == (low["row"], low["k"])


def test_json_of_wide_elements_scales_lanes_and_other_sizes(answers: dict[str, Ran]) -> None:
    data = answers["inside an element"].data()
    assert (data["byte"], data["element_byte"], data["row"], data["k"]) == (12289, 12288, 1, 0)
    data = answers["scale"].data()
    assert data["serves"] == {"tensor": "w13", "axis": "k", "first": 64, "last": 95}
    data = answers["lane"].data()
    assert data["tile"] == {"R": 1, "K": 2}
    assert (data["lane"], data["lane_bytes"]) == (17, 32)
    runs = [(run["lane_byte"], run["byte"], run["first"], run["count"]) for run in data["holds"]]
    first = reference.byte_offset("mxfp8_a_tiles", (17, 272), (1536, 6144), 8)
    assert runs == [(0, first, {"row": 17, "k": 272}, 16), (16, first + 16, {"row": 17, "k": 336}, 16)]
    data = answers["lane of an expert"].data()
    assert (data["e"], data["byte"], len(data["holds"])) == (3, 3 * 1536 * 192 + 5 * 4, 4)
    data = answers["of both specs"].data()  # the imported spec has a `w`, too
    assert (data["spec"], data["struct"], data["extents"]["row"]) == ("corners", "Derived", 32)
    data = answers["other sizes"].data()
    assert data["extents"] == {"row": 6144, "k": 4096}
    assert data["byte"] == reference.byte_offset("shuffle_16x16", (17, 70), (6144, 4096), 8)


def test_json_of_pads(answers: dict[str, Ran]) -> None:
    there, back = answers["pad"].data(), answers["byte of a pad"].data()
    assert there["byte"] == 3 * 2048 + reference.byte_offset("e8m0_shuffle", (40, 7), (256, 8), 8) == 6626
    for data in (there, back):
        assert (data["pad"], data["fill"], data["row"], data["block"], data["source"][0]["view"]) == (
            True,
            127,
            40,
            7,
            True,
        )
        assert data["scale"] is None
    between = answers["pad between"].data()
    assert (between["pad"], between["row"], between["segment"], between["stored"]["row"]) == (True, None, "up", 143)


def test_texts(answers: dict[str, Ran]) -> None:
    for name, lines in {
        "lane as text": ("not given, so 0: e", "row 37, block 16   at byte 6676", "row 53, block 20   at byte 6679"),
        "byte as text": ("byte 23593499: e 5, row 1, k 86 (low nibble) and e 5, row 1, k 87 (high nibble)",),
        "pad as text": ("pad at n 3, row 40, block 7", "filled with 0x7f", "row is 32, padded to 256"),
        "open dim as text": ("blocks 123456 of BLOCKS, any length",),
        "last of E as text": ("e 128 of E in {128, 129} (there where E is 129)",),
        "gather as text": ("rank 1 of the 4 of `group` brings it, its own row 2372",),
    }.items():  # fmt: skip
        for line in lines:
            assert line in answers[name].out, answers[name].out
        assert "\x1b" not in answers[name].out


def test_a_wrong_command_is_a_message(tmp_path: Path) -> None:
    for ran, (words, message) in zip(
        run_all([("where", *words) for words, _ in WRONG_COMMANDS], ROOT, tmp_path), WRONG_COMMANDS, strict=True
    ):
        assert (ran.code, ran.out) == (2, ""), (words, ran)
        assert message in ran.err, (words, ran.err)
        assert ran.err.startswith("error: ")
        assert "Traceback" not in ran.err


def test_wrong_specs_and_axes_named_like_options(tmp_path: Path) -> None:
    (tmp_path / "wrong.layout").write_text(WRONG)
    (tmp_path / "named.layout").write_text(NAMED)
    (tmp_path / "a.layout").write_text(NAMED.replace("spec named", "spec a"))
    wrong, data, named, lane = run_all(
        [
            ("where", "wrong.layout", "x", "--byte", "0"),
            ("where", "wrong.layout", "x", "--byte", "0", "--json"),
            ("where", "named.layout", "x", "--at", "set=2,json=9", "--json"),
            ("where", "named.layout", "y", "--lane", "1", "--json"),
        ],
        tmp_path,
        tmp_path,
    )
    assert (wrong.code, wrong.out) == (1, "")
    assert "error[digit-dropped]" in wrong.err and "wrong.layout:4" in wrong.err
    assert data.code == 1
    assert json.loads(data.out)[0]["code"] == "digit-dropped"
    assert named.data()["byte"] == 2 * 16 + 9
    runs = [(run["lane_byte"], run["byte"], run["first"]["k"], run["last"]["k"]) for run in lane.data()["holds"]]
    assert runs == [(0, 8, 8, 15), (4, 12, 24, 31)]
