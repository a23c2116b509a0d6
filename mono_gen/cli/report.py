"""What the commands print: results to the standard output, diagnostics and refusals to the standard error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Literal, TextIO, cast

if TYPE_CHECKING:
    from mono_gen.diagnostics import Diagnostic

Style = Literal["full", "concise", "json", "github"]

FINE = 0
SPEC_WRONG = 1
COMMAND_WRONG = 2
STALE = 3
INTERRUPTED = 130
BROKEN_PIPE = 141  # what a shell shows for a process that SIGPIPE ended

# A diff longer than this is cut, and files longer than that are not compared line by line: it would take minutes.
DIFF_LINES = 200
COMPARED_LINES = 50_000


class CommandError(Exception):
    """The command is wrong; the message says what was expected."""


def prepare_streams() -> None:
    """Let any file name be printed, whatever the terminal's encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def out(text: str) -> None:
    """Print to the standard output at once."""
    _print(sys.stdout, text)


def err(text: str) -> None:
    """Print to the standard error at once."""
    _print(sys.stderr, text)


def refuse(message: str) -> int:
    """Return the exit code of a wrong command, after its message."""
    from mono_gen.diagnostics.style import paint

    err(f"{paint('error:', 'error', has_colours(sys.stderr))} {message}\n")
    return COMMAND_WRONG


def lost(error: OSError) -> int:
    """Return the exit code of a command that the system stopped: an unreadable file, a full disk, a reader who left.

    The standard output is given up, so that Python does not complain at its end about what could not be printed.
    """
    from mono_gen.write import describe

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return BROKEN_PIPE if isinstance(error, BrokenPipeError) else refuse(describe(error))


def diagnostics(found: Sequence[Diagnostic], style: str) -> None:
    """Print diagnostics: as JSON to the standard output (an empty list too), otherwise to the standard error."""
    from mono_gen.diagnostics.render import render

    if style == "json":
        out(_ended(render(found, "json", False)))
    elif found:
        err(_ended(render(found, cast("Style", style), has_colours(sys.stderr))))


def summary(text: str, style: str) -> None:
    """Print what a command did: beside JSON to the standard error, otherwise to the standard output."""
    (err if style == "json" else out)(text)


def diff(name: str, old: bytes, new: bytes) -> list[str]:
    """Return a unified diff, a line an entry, for the file of this name."""
    before, after = (data.decode(errors="backslashreplace").splitlines() for data in (old, new))
    if len(before) + len(after) > COMPARED_LINES:
        return [f"{name}: {len(before)} lines, {len(after)} expected; too long to show"]
    return list(unified_diff(before, after, f"{name} (found)", f"{name} (expected)", lineterm=""))


def diff_text(lines: Sequence[str]) -> str:
    """Return the lines of diffs as text, coloured for a terminal and cut at DIFF_LINES."""
    colours = {"+": "32", "-": "31", "@": "36"} if has_colours(sys.stdout) else {}
    shown = [f"\x1b[{code}m{line}\x1b[0m" if (code := colours.get(line[:1])) else line for line in lines[:DIFF_LINES]]
    if len(lines) > DIFF_LINES:
        shown.append(f"... and {len(lines) - DIFF_LINES} lines more")
    return "".join(f"{line}\n" for line in shown)


def count(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def has_colours(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal whose user has not declined colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()


def _print(stream: TextIO | None, text: str) -> None:
    if stream is not None:  # closed by the caller: `>&-`
        stream.write(text)
        stream.flush()


def _ended(text: str) -> str:
    return text.rstrip("\n") + "\n"
