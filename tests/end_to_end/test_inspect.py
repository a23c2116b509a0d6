"""`mono-gen inspect` as a user runs it: the list, the blind check, bytes by coordinate, and files that are none."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mono_gen import runtime
from tests.end_to_end.commands import ROOT, Ran, run_all
from tests.reference import layouts as reference
from tests.runtime.made import SMALL, made, small_layer

U8, FN = torch.uint8, torch.float8_e4m3fn
ROWS, K = 512, 2048


def quantized() -> tuple[np.ndarray[Any, np.dtype[np.uint8]], torch.Tensor]:
    """Return MXFP8 codes and scales, every block with one large code and a scale away from its clamps."""
    seeded = np.random.default_rng(5)
    codes = seeded.integers(0, 0x50, (ROWS, K), dtype=np.uint8)
    blocks = codes.reshape(ROWS, K // 32, 32)
    np.put_along_axis(blocks, seeded.integers(0, 32, (ROWS, K // 32, 1)), 0x7A, axis=2)
    return codes, torch.from_numpy(seeded.integers(100, 140, (ROWS, K // 32), dtype=np.uint8))


def fp8(codes: np.ndarray[Any, np.dtype[np.uint8]]) -> torch.Tensor:
    return torch.from_numpy(codes.reshape(ROWS, K).copy()).view(FN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a spec, a file that `save` wrote, and one of a checkpoint's kind."""
    folder = tmp_path_factory.mktemp("inspect")
    module = made(folder, SMALL, "small")
    runtime.save(module.Small.from_layer(small_layer(module, flags=True)), folder / "small.safetensors")
    codes, scale = quantized()
    ranges = torch.arange(3 * 40 * 5, dtype=torch.int64) % 251
    odd = reference.pack("e8m0_shuffle", ranges.to(U8).view(3, 40, 5).numpy())
    odd[0, reference.byte_offset("e8m0_shuffle", (41, 3), (40, 5), 8)] = 0x55  # a pad that is not the fill
    save_file(
        {
            "layers.0.plain.weight": fp8(codes),
            "layers.0.plain.weight_scale": scale,
            "layers.0.tiled.weight": fp8(reference.pack("shuffle_16x16", codes)),
            "layers.0.tiled.weight_scale": scale.clone(),
            "layers.0.lone.weight": fp8(codes),
            "norm": torch.arange(12, dtype=torch.bfloat16).view(3, 4),
            "nothing": torch.zeros(0, 4),
            "one": torch.tensor(1.0),
            "odd": torch.from_numpy(odd).view(3, 256, 8),
        },
        folder / "model.safetensors",
        metadata={"format": "pt", "note": "a\x1b[31mred"},
    )
    body = dict(metadata(folder / "small.safetensors"))
    body["records"]["g"]["layout"] = "other"
    save_file(load_file(folder / "small.safetensors"), folder / "edited.safetensors", {"mono_gen": json.dumps(body)})
    save_file({"t": torch.zeros(1)}, folder / "nested.safetensors", {"mono_gen": "[" * 100_000})
    save_file({}, folder / "none.safetensors")
    return folder


def metadata(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        found: dict[str, Any] = json.loads(file.metadata()["mono_gen"])
    return found


COMMANDS: dict[str, tuple[str, ...]] = {
    "list": ("model.safetensors", "--json"),
    "list as text": ("model.safetensors",),
    "list without": ("model.safetensors", "--no-blind", "--json"),
    "records": ("small.safetensors", "--json"),
    "records as text": ("small.safetensors",),
    "edited": ("edited.safetensors",),
    "nested": ("nested.safetensors",),
    "none": ("none.safetensors",),
    "hex": ("model.safetensors", "--tensor", "odd", "--spec", "small.layout", "--rows", "1536", "--json"),
    "hex as text": (
        *("model.safetensors", "--tensor", "odd", "--spec", "small.layout", "--field", "Small.odd"),
        *("--at", "e=1,row=17,k=2", "--rows", "2"),
    ),
    "hex of pads": ("model.safetensors", "--tensor", "odd", "--spec", "small.layout", "--byte", "256", "--rows", "64"),
    "hex of nibbles": ("small.safetensors", "--tensor", "w", "--spec", "small.layout", "--byte", "4100", "--rows", "1"),
    "hex without spec": ("model.safetensors", "--tensor", "norm"),
    "hex of one": ("model.safetensors", "--tensor", "one"),
}


@pytest.fixture(scope="module")
def answers(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Return what each command did."""
    ran = run_all([("inspect", *words) for words in COMMANDS.values()], folder, tmp_path_factory.mktemp("asked"))
    assert [one.code for one in ran] == [0] * len(ran), [one.err for one in ran if one.code]
    return dict(zip(COMMANDS, ran, strict=True))


def tensors(ran: Ran) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in ran.data()["tensors"]}


def test_the_list_is_what_the_file_holds(folder: Path, answers: dict[str, Ran]) -> None:
    found, held = tensors(answers["list without"]), load_file(folder / "model.safetensors")
    assert set(found) == set(held)
    for name, tensor in held.items():
        one = found[name]
        assert (one["shape"], one["bytes"], one["record"], one["blind"]) == (
            list(tensor.shape),
            tensor.nbytes,
            None,
            None,
        )
    data = (folder / "model.safetensors").read_bytes()
    norm = found["norm"]
    assert data[norm["begin"] : norm["begin"] + norm["bytes"]] == held["norm"].view(U8).numpy().tobytes()
    assert found["layers.0.plain.weight"]["dtype"] == "F8_E4M3"
    assert "\x1b" not in answers["list as text"].out
    assert "no records of mono-gen" in answers["list as text"].out


def test_the_blind_check_tells_a_tiled_weight_from_a_plain_one(answers: dict[str, Ran]) -> None:
    found = tensors(answers["list"])
    plain, tiled = (found[f"layers.0.{name}.weight"]["blind"] for name in ("plain", "tiled"))
    assert (plain["row_major_excluded"], plain["telling"], "shuffle_16x16" in plain["excluded"]) == (False, True, True)
    assert tiled["row_major_excluded"] and "shuffle_16x16" in tiled["possible"]
    assert plain["read"].startswith("all 512 rows")
    assert plain["blocks"] == ROWS * K // 32
    for name in ("layers.0.lone.weight", "layers.0.plain.weight_scale", "norm"):  # no scale beside it, or no fp8
        assert found[name]["blind"] is None
    assert "not row_major: " in answers["list as text"].out


def test_records_are_shown_and_edited_ones_are_not(folder: Path, answers: dict[str, Ran]) -> None:
    data, said = answers["records"].data(), metadata(folder / "small.safetensors")["records"]
    assert data["struct"] == "Small"
    assert {name: one["record"] for name, one in tensors(answers["records"]).items()} == said
    assert not any(one["remark"] for one in data["tensors"])
    assert f"record  shuffle_16x16, fp4_e2m1 2 x 32 x 256 (batch 1), field {said['w']['field_id']}" in (
        answers["records as text"].out
    )
    assert "its records do not hold: records: expected digest" in answers["edited"].out
    assert "its records do not hold: records: expected the JSON" in answers["nested"].out
    assert "none.safetensors: 0 tensors" in answers["none"].out


def test_every_byte_has_the_element_that_lies_there(folder: Path, answers: dict[str, Ran]) -> None:
    stored = load_file(folder / "model.safetensors")["odd"].view(-1).tolist()
    data, seen, pads = answers["hex"].data(), set(), 0
    assert (data["field"], data["layout"], len(data["lines"])) == ("Small.odd", "e8m0_shuffle", 1536)
    for line in data["lines"]:
        held = bytes.fromhex(line["hex"])
        assert held == bytes(stored[line["byte"] : line["byte"] + 4])
        assert line["lane"] == line["byte"] // 4 % 64
        at = 0
        for run in line["runs"]:
            first, last = (tuple(run[end].values()) for end in ("first", "last"))
            for step in range(run["count"]):
                e, row, block = (a + (step if b > a else 0) for a, b in zip(first, last, strict=True))
                if run["pad"]:
                    pads += 1
                else:
                    assert held[at] == ((e * 40 + row) * 5 + block) % 251
                    seen.add((e, row, block))
                at += 1
        assert at == 4
    assert len(seen) == 3 * 40 * 5
    assert pads == 3 * (256 * 8 - 40 * 5)
    wrong = [byte for line in data["lines"] for byte in line["wrong_pads"]]
    assert wrong == [reference.byte_offset("e8m0_shuffle", (41, 3), (40, 5), 8)]


def test_texts_of_bytes(answers: dict[str, Ran]) -> None:
    text = answers["hex as text"].out
    byte = 2048 + reference.byte_offset("e8m0_shuffle", (17, 2), (40, 5), 8)
    value = ((1 * 40 + 17) * 5 + 2) % 251
    line = next(line for line in text.splitlines() if line.split()[:1] == [f"{byte // 4 * 4:x}"])
    assert f">{value:02x}" in line and f"lane {byte // 4 % 64}" in line
    assert "e 1, row 1, k 2 | e 1, row 17, k 2 | pad: e 1, row 1, k 6 of storage" in line
    assert "e8m0_shuffle (small.layout:" in text and "nothing in the file says so" in text
    assert len(text.splitlines()) == 3 + 2
    assert "! pads that are not 0x7f" in answers["hex of pads"].out
    nibbles = answers["hex of nibbles"].out
    assert "e 1, row 0, k 0..31" in nibbles and "nothing in the file" not in nibbles
    assert "d0 0, d1 0..3 | d0 1, d1 0..3" in answers["hex without spec"].out
    assert "00 00 80 3f" in answers["hex of one"].out


# --- files that are none, and other mistakes ---


def broken(folder: Path, whole: bytes) -> dict[str, str]:
    """Write files that are no whole safetensors file; return their names with a part of the message."""
    length = int.from_bytes(whole[:8], "little")
    files = {
        "empty": (b"", "not a safetensors file"),
        "short": (whole[:5], "not a safetensors file"),
        "header": (whole[: 8 + length // 2], "cut short: its header ends"),
        "data": (whole[:-1], "cut short: its tensors end"),
        "no_data": (whole[: 8 + length], "cut short: its tensors end"),
        "longer": (whole + b"x", "behind the last tensor"),
        "text": (b"hello, this is no tensor at all" * 10, "not a safetensors file"),
        "json": (whole[:8] + b"?" * length + whole[8 + length :], "not a safetensors file"),
    }
    for name, header in {
        "deep": '{"a":' + "[" * 100_000,
        "list": "[1]",
        "no_metadata": '{"__metadata__":["x"]}',
        "numbers": '{"__metadata__":{"mono_gen":5}}',
        "negative": '{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}',
    }.items():
        files[name] = (len(header).to_bytes(8, "little") + header.encode(), "its header is damaged")
    for name, (data, _) in files.items():
        (folder / f"{name}.safetensors").write_bytes(data)
    return {f"{name}.safetensors": message for name, (_, message) in files.items()}


def test_a_file_that_is_none_is_a_message(folder: Path, tmp_path: Path) -> None:
    files = broken(tmp_path, (folder / "model.safetensors").read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.safetensors.index.json").write_text("{}")
    with socket.socket(socket.AF_UNIX) as opened:
        here = os.getcwd()
        os.chdir(tmp_path)  # a socket's path is short
        try:
            opened.bind("socket")
        finally:
            os.chdir(here)
    files |= {
        "lost.safetensors": "no such file: 'lost.safetensors'",
        "heade.safetensors": "did you mean `header.safetensors`",
        ".": "is a folder; name one of its files: data.safetensors, ",
        "folder": "is a folder; and no .safetensors file is in it",
        "a.safetensors.index.json": "is the index of several files",
        "socket": "is no ordinary file",
    }
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        closed = Path(name) / "closed.safetensors"
        closed.parent.chmod(0o755)
        closed.write_bytes(b"")
        closed.chmod(0)
        files[str(closed)] = "ermission"
        user = 65534 if os.geteuid() == 0 else None
        ran = run_all([("inspect", name) for name in files], tmp_path, tmp_path, user)
    for one, message in zip(ran, files.values(), strict=True):
        assert (one.code, one.out) == (2, ""), one
        assert message in one.err
        assert one.err.startswith("error: ") and "Traceback" not in one.err


def test_a_wrong_command_is_a_message(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.layout").write_text("spec wrong\nlayout t(row, k) {\n    store row\n}\n")
    file, spec = str(folder / "model.safetensors"), ("--spec", str(folder / "small.layout"))
    wrong = {
        (file, "--tensor", "nrom"): "no tensor 'nrom'",
        (file, "--tensor", "nothing"): "has no bytes",
        (file, "--tensor", "odd", "--at", "d0=1"): "`d1` and `d2` missing",
        (file, "--tensor", "odd", "--byte", "6144"): "has 6144 bytes, 0 to 6143",
        (file, "--tensor", "odd", "--byte", "-1"): "has 6144 bytes, 0 to 6143",
        (file, "--tensor", "odd", "--byte", "1", "--at", "d0=0"): "--at and --byte are two questions",
        (file, "--tensor", "odd", "--rows", "0"): "--rows 0: expected 1 or more",
        (file, "--at", "d0=0"): "name it with --tensor",
        (file, "--tensor", "odd", "--field", "odd"): "name the spec with --spec",
        (file, "--tensor", "norm", *spec): "no tensor `norm`",
        (file, "--tensor", "norm", *spec, "--field", "g"): "Small.g has 128 bytes, and 'norm' has 24",
        (file, "--tensor", "norm", *spec, "--field", "odd"): "is e8m0 (float8_e8m0fnu or uint8), and 'norm' is BF16",
        (file, "--tensor", "odd", *spec, "--at", "e=3,row=0,k=0"): "byte 6144: 'odd' has 6144 bytes",
        (file, "--tensor", "odd", *spec, "--at", "row=3,k=0"): "`e` missing",
        (file, "--spec", "smal"): "no spec `smal`",
    }  # fmt: skip
    commands = [*wrong, (file, "--spec", str(tmp_path / "wrong.layout"))]
    *refused, of_spec = run_all([("inspect", *words) for words in commands], ROOT, tmp_path)
    for ran, message in zip(refused, wrong.values(), strict=True):
        assert (ran.code, ran.out) == (2, ""), ran
        assert message in ran.err, ran.err
        assert ran.err.startswith("error: ") and "Traceback" not in ran.err
    assert (of_spec.code, of_spec.out) == (1, "")
    assert "wrong.layout:3" in of_spec.err
