"""SPEC as commands about one spec take it: a file, a folder, or a name, found in `specs` or in the packaged library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mono_gen.cli.arguments import DEFAULT_PATHS, SUFFIX, find_specs, parse_overrides
from mono_gen.cli.report import CommandError

if TYPE_CHECKING:
    from mono_gen.plan.model import SpecPlan

_HEAD = re.compile(r"^[ \t]*spec[ \t]+([A-Za-z_]\w*)", re.ASCII | re.MULTILINE)


def named_specs(text: str) -> list[Path]:
    """Return the files that SPEC means: a file, those of a folder, or the one whose spec has the name.

    Raises: CommandError, with what is near.
    """
    path = Path(text)
    if path.exists() or path.is_symlink():
        return find_specs([path])
    from mono_gen.resolve.report import near

    if path.suffix == SUFFIX or len(path.parts) != 1:
        beside = [p.name for p in path.parent.glob(f"*{SUFFIX}")] if path.parent.is_dir() else []
        hint = f"; {near(path.name, beside)}" if beside else ""
        raise CommandError(f"no such file or folder: '{path}'{hint}")
    known = spec_names()
    if text in known:
        return [known[text]]
    raise CommandError(
        f"no spec `{text}`: no such file, and none of that name in specs or in the library; {near(text, known)}"
    )


def one_spec(text: str, option: str) -> Path:
    """Return the file that an option about one spec means.

    Raises: CommandError.
    """
    found = named_specs(text)
    if len(found) > 1:
        raise CommandError(f"{option} {text}: expected one spec, found {len(found)}: name one of them")
    return found[0]


def plans_of(text: str, settings: Sequence[str] | None) -> tuple[SpecPlan, ...]:
    """Return the plans of the specs that SPEC means, in the order in which names are looked for: imported ones last.

    Raises: CommandError; SpecError, where one is wrong.
    """
    from mono_gen.pipeline import OverrideError, plan_specs

    paths = named_specs(text)
    try:
        plans, _ = plan_specs(paths, parse_overrides(settings or ()))
    except OverrideError as error:
        raise CommandError(str(error)) from error
    own = {path.name for path in paths}
    return tuple(sorted(plans, key=lambda plan: plan.model.file not in own))


def spec_names() -> dict[str, Path]:
    """Return the specs of the default folder, then those of the library, by the name that each says."""
    from mono_gen.loading import LIBRARY

    files = [p for folder in (*DEFAULT_PATHS, LIBRARY) for p in sorted(folder.glob(f"*{SUFFIX}")) if p.is_file()]
    known: dict[str, Path] = {}
    for path in files:
        head = _HEAD.search(path.read_text(errors="replace"))
        known.setdefault(head[1] if head is not None else path.stem, path)
    return known
