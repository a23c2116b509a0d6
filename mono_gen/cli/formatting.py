"""`fmt`: specs in their one form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mono_gen.cli import report
from mono_gen.cli.arguments import find_specs
from mono_gen.diagnostics import Diagnostic, SpecError
from mono_gen.write import replace_file


def fmt(paths: Sequence[Path] | None, check_only: bool, style: str) -> int:
    """Return the exit code, after the specs were formatted or, with check_only, the differences printed.

    A spec that does not parse is reported and left alone; the others are formatted all the same.
    """
    wrong: list[Diagnostic] = []
    unparsed = 0
    unformatted: list[Path] = []
    lines: list[str] = []
    specs = find_specs(paths)
    for path in specs:
        try:
            formatted = _formatted(path)
        except SpecError as error:
            wrong += error.diagnostics
            unparsed += 1
            continue
        written = path.read_bytes()
        if written == formatted:
            continue
        unformatted.append(path)
        if check_only:
            lines += report.diff(str(path), written, formatted)
        else:
            target = path.resolve()  # a link stays a link
            replace_file(target, formatted, mode=target.stat().st_mode & 0o777)
    report.diagnostics(wrong, style)
    verb = "would format" if check_only else "formatted"
    text = report.diff_text(lines) + "".join(f"{verb} {path}\n" for path in unformatted)
    fine = len(specs) - len(unformatted) - unparsed
    report.summary(f"{text}{report.count(fine, 'spec')} already formatted\n" if fine else text, style)
    if wrong:
        return report.SPEC_WRONG
    return report.STALE if check_only and unformatted else report.FINE


def _formatted(path: Path) -> bytes:
    """Return what the spec's file should hold.

    Raises: SpecError.
    """
    from mono_gen.syntax.format import format_text
    from mono_gen.syntax.read import read_source

    return format_text(read_source(path, str(path))).encode()
