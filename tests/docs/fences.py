"""The fenced blocks of a Markdown page, and what mono-gen makes of them. The end of specs/README.md says the rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mono_gen.cli.arguments import parse_overrides
from mono_gen.diagnostics.model import Diagnostic, SpecError
from mono_gen.diagnostics.render import render
from mono_gen.pipeline import generate

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
REFERENCE = ROOT / "specs" / "README.md"
PAGES = (README, REFERENCE)

HOLE = "..."
"""The line of a prelude that a fragment takes the place of."""

OPTIONS: dict[str, dict[str, str]] = {
    "layout": {"prelude": r"\w+", "fragment": r"\w+", "error": r"[a-z0-9-]+", "warning": r"[a-z0-9-]+", "set": r"\S+"},
    "python": {"from": "above"},
    "cpp": {"from": "above"},
    "text": {"from": "above|print|sh"},
    "sh": {},
    "yaml": {},
}


@dataclass(frozen=True, slots=True, eq=False)
class Fence:
    """A fenced block.

    line:  of its first line of text.
    above: the last `layout` block before it, None where there is none.
    sound: the last one before it that is a whole spec without a mistake.
    """

    page: Path
    line: int
    language: str
    options: dict[str, str]
    text: str
    above: Fence | None
    sound: Fence | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What mono-gen makes of a spec: the generated texts by suffix, the codes of what it says, and all that it says."""

    files: dict[str, str]
    codes: tuple[str, ...]
    said: str


def fences(page: Path) -> tuple[Fence, ...]:
    """Return the blocks of a page in order.

    Raises: ValueError, for a block that is not closed, or that no test would read.
    """
    found: list[Fence] = []
    above: Fence | None = None
    sound: Fence | None = None
    start: int | None = None
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if start is None and line.lstrip().startswith("```"):
            start = number
        elif start is not None and line.strip() == "```":
            language, options = _info(lines[start].strip().removeprefix("```"), f"{page.name}:{start + 1}")
            text = "".join(f"{inside}\n" for inside in lines[start + 1 : number])
            fence = Fence(page, start + 2, language, options, text, above, sound)
            above = fence if language == "layout" and "prelude" not in options else above
            sound = fence if language == "layout" and not {"prelude", "fragment", "error"} & options.keys() else sound
            found.append(fence)
            start = None
    if start is not None:
        raise ValueError(f"{page.name}:{start + 1}: the block is not closed")
    return tuple(found)


def _info(info: str, where: str) -> tuple[str, dict[str, str]]:
    """Return the language and the options of a block, after a check that a test knows what to do with them."""
    language, *words = info.split() or [""]
    options = {name: value for name, _, value in (word.partition("=") for word in words)}
    known = OPTIONS.get(language)
    if known is None or any(not re.fullmatch(known.get(name, "(?!)"), value) for name, value in options.items()):
        raise ValueError(f"{where}: no test reads a block `{info}`")
    if language == "text" and not options:
        raise ValueError(f"{where}: a block `text` says where its text is from")
    return language, options


def completed(fence: Fence) -> str:
    """Return the whole spec that a `layout` block stands for: itself, or itself in the hole of its prelude."""
    name = fence.options.get("fragment")
    if name is None:
        return fence.text
    preludes = {f.options["prelude"]: f.text for f in fences(fence.page) if "prelude" in f.options}
    before, hole, after = preludes[name].partition(f"{HOLE}\n")
    assert hole, f"prelude {name} has no line `{HOLE}`"
    return before + fence.text + after


def spec_name(fence: Fence) -> str:
    """Return the name of the spec that a `layout` block stands for."""
    named = re.search(r"^spec (\w+)$", completed(fence), re.MULTILINE)
    return named[1] if named else "example"


def outcome(fence: Fence) -> Outcome:
    """Return what mono-gen makes of a `layout` block.

    Requires: the working directory is one where its file may be written, so that no other path stands in messages.
    """
    path = Path(f"{spec_name(fence)}.layout")
    path.write_text(completed(fence))
    overrides = parse_overrides(fence.options["set"].split(",") if "set" in fence.options else ())
    try:
        made = generate([path], overrides)
    except SpecError as error:
        return _outcome({}, error.diagnostics)
    return _outcome({Path(file.path).suffix: file.text for file in made.files if file.spec == path.name}, made.warnings)


def _outcome(files: dict[str, str], found: tuple[Diagnostic, ...]) -> Outcome:
    return Outcome(files, tuple(d.code for d in found), render(found, "full", False))
