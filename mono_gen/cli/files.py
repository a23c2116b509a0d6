"""`generate`, `check` and `include-dir`: the commands about the folder of generated files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mono_gen.cli import report
from mono_gen.cli.arguments import find_specs, parse_overrides
from mono_gen.diagnostics import SpecError
from mono_gen.write import Differences, compare, contents, write

if TYPE_CHECKING:
    from mono_gen.pipeline import Generated

STRAY_NAMES = 12
"""How many files that are not ours a warning names: `--out .` may find thousands."""


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `generate` and `check`."""

    specs: tuple[Path, ...]
    out: Path
    overrides: dict[str, int]
    style: str
    command: str

    @classmethod
    def of(cls, paths: Sequence[Path] | None, out: Path, settings: Sequence[str] | None, style: str) -> Request:
        """Return the request that these arguments make; `command` is the `generate` that has the same ones."""
        words = ["mono-gen", "generate", *map(str, paths or ()), "--out", str(out)]
        for setting in settings or ():
            words += ["--set", setting]
        return cls(tuple(find_specs(paths)), out, parse_overrides(settings or ()), style, shlex.join(words))


def generate(request: Request) -> int:
    """Return the exit code, after the folder was brought up to date."""
    made = _made(request)
    if made is None:
        return report.SPEC_WRONG
    found = write(made.files, request.out)
    report.diagnostics(made.warnings, request.style)
    written = {*found.changed, *found.missing}
    lines = [f"wrote {request.out / name}" for name in sorted(written)]
    lines += [f"removed {request.out / name}" for name in found.orphaned]
    lines.append(f"{request.out}: {_size(made)}; {len(written)} written, {len(found.orphaned)} removed")
    report.summary("".join(f"{line}\n" for line in lines), request.style)
    if found.stray:
        names = ", ".join(str(request.out / name) for name in found.stray[:STRAY_NAMES])
        names += f" and {len(found.stray) - STRAY_NAMES} more" if len(found.stray) > STRAY_NAMES else ""
        report.err(f"warning: not made by mono-gen, and stale output to `mono-gen check`; remove it: {names}\n")
    return report.FINE


def check(request: Request) -> int:
    """Return the exit code, after printing what in the folder is stale."""
    made = _made(request)
    if made is None:
        return report.SPEC_WRONG
    found = compare(made.files, request.out)
    report.diagnostics(made.warnings, request.style)
    if found.is_fresh:
        report.summary(f"{request.out}: {_size(made)}; fresh\n", request.style)
        return report.FINE
    expected = contents(made.files)
    lines: list[str] = []
    for name in found.changed:
        path = request.out / name
        lines += report.diff(str(path), path.read_bytes() if path.is_file() else b"", expected[name])
    report.summary(report.diff_text(lines) + _stale_text(found, request), request.style)
    return report.STALE


def include_dir(out: Path) -> int:
    """Return the exit code, after printing the absolute folder of the generated headers.

    Raises: CommandError, where there are none.
    """
    if not out.is_dir():
        raise report.CommandError(
            f"no folder '{out}'; run `mono-gen generate --out {out}` first, or name another with --out"
        )
    if not any(out.glob("*.hpp")):
        raise report.CommandError(f"no header (*.hpp) in '{out}'; run `mono-gen generate --out {out}` first")
    report.out(f"{out.resolve()}\n")
    return report.FINE


def _made(request: Request) -> Generated | None:
    """Return what the specs make; None where one is wrong, after its diagnostics."""
    from mono_gen.pipeline import OverrideError, generate

    try:
        return generate(request.specs, request.overrides)
    except SpecError as error:
        report.diagnostics(error.diagnostics, request.style)
        return None
    except OverrideError as error:
        raise report.CommandError(str(error)) from error


def _size(made: Generated) -> str:
    """Return `5 files from 2 specs`."""
    specs = report.count(len({file.spec for file in made.files}), "spec")
    return f"{report.count(len(made.files), 'file')} from {specs}"


def _stale_text(found: Differences, request: Request) -> str:
    """Return a line a stale file, and what to do about them."""
    kinds = (
        ("changed", found.changed),
        ("missing", found.missing),
        ("no longer made", found.orphaned),
        ("not made by mono-gen", found.stray),
    )
    stale = [(request.out / name, kind) for kind, names in kinds for name in names]
    if request.style == "github":
        lines = [f"::error file={path},title=stale::{kind}; run `{request.command}`" for path, kind in stale]
    else:
        lines = [f"{path}: {kind}" for path, kind in stale]
    mend = f"run `{request.command}`" if len(stale) > len(found.stray) else "remove it"
    also = " and remove what it did not make" if found.stray and mend != "remove it" else ""
    lines.append(f"{request.out} is stale in {report.count(len(stale), 'file')}: {mend}{also}")
    return "".join(f"{line}\n" for line in lines)
