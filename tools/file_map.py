"""The map of CONTRIBUTING.md, a sentence a file: `python -m tools.file_map` writes it anew from the docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- file map: begin -->\n", "<!-- file map: end -->\n"

# The files that are no Python modules.
OTHERS = {
    ".lark": "The grammar of the language.",
    ".layout": "Layouts that specs import by name.",
    ".j2": "How the generated file of this kind is laid out.",
}


def file_map() -> str:
    """Return the map of the package as Markdown: a list a folder, in the order of names, empty modules left out."""
    lines: list[str] = []
    for folder in sorted({path.parent for path in (ROOT / "mono_gen").rglob("*") if sentence(path)}):
        lines.append(f"\n**{folder.relative_to(ROOT).as_posix()}/**\n\n")
        paths = sorted(path for path in folder.iterdir() if sentence(path))
        lines += [f"- `{path.name}`: {sentence(path)}\n" for path in paths]
    return "".join(lines)


def sentence(path: Path) -> str:
    """Return the first line of a module's docstring, or what stands in OTHERS; '' for a file that the map omits."""
    if path.suffix != ".py":
        return OTHERS.get(path.suffix, "")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def with_map(page: str) -> str:
    """Return the page with the map of now between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{file_map()}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write the map into CONTRIBUTING.md."""
    PAGE.write_text(with_map(PAGE.read_text()))


if __name__ == "__main__":
    main()
