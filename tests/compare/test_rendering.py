"""A difference on a terminal, as Markdown and as JSON; and which kernel sources mention touched names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mono_gen.compare.data import render_json
from mono_gen.compare.kernels import mentions
from mono_gen.compare.markdown import render_markdown
from mono_gen.compare.model import Difference, Kernels, Mention
from mono_gen.compare.text import render_text
from mono_gen.emit.hip import emit_hip
from mono_gen.emit.python import emit_python
from mono_gen.frozen import replace
from tests.compare.specs import compared, plans
from tests.compare.test_structs import SPEC

NAMES = ("mono::s::t", "mono::s::T::w", "mono::s::T::w_s", "mono::s::T::kStructId")


@pytest.fixture
def found(tmp_path: Path) -> Difference:
    """Return the difference that two exchanged digits, another condition and a comment make."""
    new = SPEC.replace("lane g r", "lane r g").replace("a.n == N", "a.n == 32").replace("## A field.", "## The field.")
    kernels = Kernels("kernels", 3, (Mention("kernels/a.hip", 12, ("w", "u")),))
    return Difference("HEAD:specs", "specs", 1, compared(tmp_path, SPEC, new), kernels)


def test_text(found: Difference) -> None:
    lines = render_text(found, colour=False).splitlines()
    assert lines[0] == "HEAD:specs -> specs: BYTES, ABI, CHECKS, DOC"
    assert lines[1] == "BYTES   layout t (s.layout:4): digits g and r exchanged"
    assert lines[2].startswith("          75 % moves (at row 8, k 32, 8 bits) in runs of 8 bytes; byte 8 was")
    assert lines[3] == "          through layout t: T.w 75 % of 4,608 bytes, .u 75 % of 768 bytes"
    assert lines[6] == "          with that: ids of 2 fields (T.w, .u) and 2 structs (T, D)"
    assert lines[7] == "CHECKS  struct T (s.layout:18): `a.n == 16` -> `a.n == 32`"
    assert lines[8] == "          through struct T: D as well"
    assert lines[-1] == "kernels kernels/a.hip:12 (w, u)"
    assert "\x1b" not in "".join(lines)
    assert "\x1b[1;31mBYTES\x1b[0m" in render_text(found, colour=True)


def test_no_difference_is_one_line(found: Difference) -> None:
    same = replace(found, items=(), kernels=None)
    assert render_text(same, colour=True) == "no difference: HEAD:specs and specs mean the same (1 spec)\n"
    assert render_markdown(same).count("\n") == 1


def test_markdown_is_short_above_the_fold(found: Difference) -> None:
    text = render_markdown(found)
    above, *folded = text.split("<details>")
    assert above.startswith("### Layouts: **BYTES**, **ABI**, **CHECKS**, **DOC**\n")
    assert len(above.splitlines()) <= 16
    assert "- **BYTES** layout `t`: digits g and r exchanged; 75 % moves" in above
    assert "`kernels/a.hip`:12 (`w`, `u`)" in above
    assert len(folded) == 2
    assert text.count("<details>") == text.count("</details>") == 2
    for line in text.splitlines():
        assert line.count("`") % 2 == 0


def test_markdown_lets_no_text_become_markup(found: Difference) -> None:
    change = replace(found.items[0].changes[0], text="a <b> *c* [d](e) _f_ | `x < y` \\")
    item = replace(found.items[0], changes=(change,))
    text = render_markdown(replace(found, old="a`b", items=(item,)))
    assert r"a \<b> \*c\* \[d\](e) \_f\_ \| `x < y` \\" in text
    assert "``a`b``" in text


def test_json_says_all_of_it(found: Difference) -> None:
    data = json.loads(render_json(found))
    assert list(data) == ["old", "new", "specs", "classes", "items", "symbols", "kernels"]
    assert data["classes"] == ["bytes", "abi", "checks", "doc"]
    layout = data["items"][0]
    assert (layout["kind"], layout["name"], layout["new"]) == ("layout", "t", {"file": "s.layout", "line": 4})
    (move,) = layout["moves"]
    assert (move["moved_elements"], move["elements"], move["granule_bits"]) == (192, 256, 64)
    assert move["first"] == {"byte": 8, "bit": 0, "was": "row 1 k 0", "now": "row 0 k 8"}
    field = next(item for item in data["items"] if item["name"] == "T.w, w_s")
    assert field["changes"][0] == {"class": "bytes", "text": "w: 75 % of 4,608 bytes", "because": "layout t"}
    assert data["kernels"]["mentions"] == [{"file": "kernels/a.hip", "line": 12, "names": ["w", "u"]}]


def test_touched_names_are_names_of_the_generated_files(found: Difference, tmp_path: Path) -> None:
    (plan,) = plans(tmp_path, SPEC)
    module = "\n".join(f.text for f in emit_python(plan))
    header = "\n".join(f.text for f in emit_hip(plan))
    for name in found.symbols.python:
        last = name.rpartition(".")[2]
        assert f"def {last}(" in module or f"\n    {last}" in module or f"\n{last} = " in module, name
    for name in found.symbols.cpp:
        last = name.rpartition("::")[2]
        assert re.search(rf"\b(struct|using|long long) {last}\b", header), name


# --- kernels ---


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("using W = mono::s::T::w;\n", ("w",)),
        ("#include KERNEL_HEADER\nauto x = Layer::w::offset(1) + Layer :: w_s::kBytes;\n", ("w", "w_s")),
        ("using namespace mono::s;\nint i = t<1, 2, 8>::offset(0, 0);\n", ("t",)),
        ("unsigned long long id() { return mono::Layer::kStructId; }\n", ("kStructId",)),
        ("int w = 3; // Layer::w\n/* Layer::w_s */ int t;\n", ()),
        ('const char* s = "// not a comment"; int x = Layer::w::kBytes;\n', ("w",)),
        ("int x = Layer::weight::kBytes + Layer::w2::kBytes;\n", ()),
    ],
)
def test_a_source_mentions_what_it_names_behind_colons(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    (tmp_path / "a.hip").write_text(f"\n\n{text}")
    found = mentions(tmp_path, "kernels", NAMES)
    assert sorted(name for m in found.mentions for name in m.names) == sorted(names)
    assert found.sources == 1
    if names:
        assert found.mentions[0].file == "kernels/a.hip"
        at = min(i for i, line in enumerate(text.splitlines()) if any(n in line for n in names) and "::" in line)
        assert found.mentions[0].line >= at + 3


def test_sources_are_looked_for_below_and_other_files_left_out(tmp_path: Path) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / ".cache").mkdir()
    (tmp_path / "device" / "b.hpp").write_bytes(b"\xff int x = Layer::w::kBytes;\n")
    for other in (tmp_path / "notes.md", tmp_path / ".cache" / "c.hip"):
        other.write_text("Layer::w::kBytes")
    found = mentions(tmp_path, "k", NAMES)
    assert [(m.file, m.line) for m in found.mentions] == [("k/device/b.hpp", 1)]
    assert found.sources == 1
