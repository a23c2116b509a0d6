"""Arguments as the commands take them: spec files from PATHS, overrides from `--set`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mono_gen.cli.report import CommandError

SUFFIX = ".layout"
DEFAULT_PATHS = (Path("specs"),)

_OVERRIDE = re.compile(r"\A([A-Za-z_]\w*\.[A-Za-z_]\w*)=(-?(?:0[xX][0-9a-fA-F]{1,32}|[0-9]{1,32}))\Z", re.ASCII)


def find_specs(paths: Sequence[Path] | None) -> list[Path]:
    """Return the specs that PATHS name, each once: files as given, folders as the .layout files directly in them.

    Raises: CommandError, for a path that is not there, and where there is no spec at all.
    """
    chosen = tuple(paths or DEFAULT_PATHS)
    found: dict[Path, Path] = {}
    for path in chosen:
        if path.is_dir():
            inside = (p for p in path.glob(f"*{SUFFIX}") if p.is_file() and not p.name.startswith("."))
            specs = sorted(inside, key=lambda p: p.name)
        elif not path.exists():
            raise CommandError(f"no such file or folder: '{path}'{_hint(paths)}")
        elif path.suffix != SUFFIX:
            raise CommandError(f"'{path}' is not a {SUFFIX} file")
        else:
            specs = [path]
        for spec in specs:
            found.setdefault(spec.resolve(), spec)
    if not found:
        looked = ", ".join(map(str, chosen))
        raise CommandError(f"no spec found: no {SUFFIX} file in {looked}{_hint(paths)}")
    return list(found.values())


def parse_overrides(texts: Sequence[str]) -> dict[str, int]:
    """Return {'SPEC.NAME': value} of `--set SPEC.NAME=V`.

    Raises: CommandError, for any other form, and for two values of one name.
    """
    overrides: dict[str, int] = {}
    for text in texts:
        matched = _OVERRIDE.match(text)
        if matched is None:
            raise CommandError(
                f"--set {text!r}: expected SPEC.NAME=V with an integer V, such as minimax_m3.TP=2 or minimax_m3.TP=0x10"
            )
        name, digits = matched[1], matched[2]
        value = int(digits, 16 if "x" in digits.lower() else 10)
        if overrides.setdefault(name, value) != value:
            raise CommandError(f"--set {name} is given twice, as {overrides[name]} and as {value}")
    return overrides


def _hint(paths: Sequence[Path] | None) -> str:
    return "" if paths else "; name the specs, or run where the folder 'specs' is"
