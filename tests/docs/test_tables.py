"""The tables and word lists of specs/README.md are those of the code; a failure shows what should stand there."""

from __future__ import annotations

import re

from mono_gen.archs import ARCHS
from mono_gen.formats import NAMES, find_format
from mono_gen.resolve.names import MEMBERS, PREFIXES
from mono_gen.resolve.origins import CONVERSIONS
from mono_gen.syntax.words import LANGUAGE_WORDS
from tests.docs.fences import REFERENCE


def section(title: str) -> str:
    """Return the text of a section, up to the next heading of the same rank."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", REFERENCE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"specs/README.md has no section {title}"
    return found[1]


def rows(title: str) -> list[str]:
    """Return the rows of the table in a section, without its head."""
    return [line for line in section(title).splitlines() if line.startswith("| ")][1:]


def words(title: str, begin: str, end: str) -> set[str]:
    """Return the words in code type between two texts of a section."""
    after = re.split(re.escape(begin).replace(r"\ ", r"\s+"), section(title), maxsplit=1)[1]
    return set(re.findall(r"`([^`]+)`", after.partition(end)[0]))


def format_row(name: str) -> str:
    """Return the row of a format."""
    made = {dialect: find_format(name, dialect) for dialect in ("fn", "fnuz")}
    fn, fnuz = made["fn"], made["fnuz"]
    assert fn is not None and fnuz is not None
    elements = list(dict.fromkeys((fn.data, fnuz.data)))
    held = " or ".join(f"`{holder}`" for element in elements for holder in element.holders)
    shared = "" if fn.scale is None else f"1 x {fn.block} along the last axis" if fn.block else "a row (the last axis)"
    scale = fn.scale.name if fn.scale is not None else ""
    data = " or ".join(element.name for element in elements)
    return f"| `{name}` | {data} | {fn.data.bits} | {held} | {scale} | {shared} |"


def test_formats() -> None:
    assert rows("Formats") == [format_row(name) for name in NAMES]


def test_conversions() -> None:
    wanted = [
        f"| `{source}` | `{field}` | {f'`{via}`' if via else ''} | {what} |"
        for (source, field, via), what in CONVERSIONS.items()
    ]
    assert rows("Conversions") == wanted


def test_archs() -> None:
    assert rows("Archs") == [f"| `{a.name}` | {a.wave} | {a.fp8} | {a.lds} | {a.source} |" for a in ARCHS.values()]


def test_words_of_the_language() -> None:
    assert words("Names", "The words of this language are", "\n- ") == LANGUAGE_WORDS, _listed(LANGUAGE_WORDS)


def test_members_of_generated_code() -> None:
    found = words("Names", "where they would collide:", "\n- ")
    assert found == MEMBERS | set(PREFIXES), f"{_listed(MEMBERS)}\n{_listed(frozenset(PREFIXES))}"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
