"""Arguments as the commands take them: spec files from PATHS, overrides from `--set`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mono_gen.cli.report import CommandError

SUFFIX = ".layout"
DEFAULT_PATHS = (Path("specs"),)

_OVERRIDE = re.compile(r"\A([A-Za-z_]\w*\.[A-Za-z_]\w*)=(-?(?:0[xX][0-9a-fA-F]{1,32}|[0-9]{1,32}))\Z", re.ASCII)

_NUMBER = re.compile(r"\A-?(?:0[xX][0-9a-fA-F]{1,32}|[0-9]{1,32})\Z", re.ASCII)


def find_specs(paths: Sequence[Path] | None) -> list[Path]:
    """Return the specs that PATHS name, each once: files as given, folders as the .layout files directly in them.

    Raises: CommandError, for a path that is not there, and where there is no spec at all; OSError.
    """
    chosen = tuple(paths or DEFAULT_PATHS)
    found: dict[Path, Path] = {}
    for path in chosen:
        if path.is_dir():
            inside = (p for p in path.iterdir() if p.suffix == SUFFIX and p.is_file() and not p.name.startswith("."))
            specs = sorted(inside, key=lambda p: p.name)
        elif not path.exists():
            if path.is_symlink():
                raise CommandError(f"'{path}' is a link to '{path.readlink()}', which is not there")
            raise CommandError(f"no such file or folder: '{path}'{_near(path) or _hint(paths)}")
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


def number(option: str, text: str) -> int:
    """Return an integer, decimal or hexadecimal.

    Raises: CommandError.
    """
    if _NUMBER.match(text) is None:
        raise CommandError(f"{option} {text}: expected an integer, such as 70 or 0x46")
    return int(text, 16 if "x" in text.lower() else 10)


def coordinate_pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return (name, number as text) of `row=3,k=70`.

    Raises: CommandError.
    """
    pairs = []
    for part in (part for text in texts for part in text.split(",")):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise CommandError(f"{option} {part}: expected coordinates such as row=3,k=70")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _near(path: Path) -> str:
    """Return what may have been meant by a path that is not there: a spec or a folder beside it, or a spec's name."""
    from difflib import get_close_matches

    named = [folder / f"{path}{SUFFIX}" for folder in (Path(), *DEFAULT_PATHS) if path.suffix != SUFFIX]
    meant = [p for p in named if p.is_file()]
    if not meant and path.parent.is_dir():
        beside = {p.name for p in path.parent.iterdir() if p.suffix == SUFFIX or p.is_dir()}
        meant = [path.parent / name for name in get_close_matches(path.name, sorted(beside), 2)]
    quoted = " or ".join(f"'{p}'" for p in meant)
    return f"; did you mean {quoted}?" if meant else ""


def _hint(paths: Sequence[Path] | None) -> str:
    return "" if paths else "; name the specs, or run where the folder 'specs' is"
