"""Bytes to a `Source`, and the limits that a text keeps before anything parses it."""

from __future__ import annotations

import re
from pathlib import Path

from mono_gen.diagnostics.model import Diagnostic, SpecError
from mono_gen.syntax.scan import Scan
from mono_gen.syntax.source import Source, Span, line_starts

MAX_FILE_BYTES = 1 << 20
MAX_LINE_BYTES = 16 << 10
MAX_NESTING = 100
MAX_DIGITS = 100

_BOM = b"\xef\xbb\xbf"

# What no editor shows: control characters, the marks that turn the direction of text, other line ends, half characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
    "|\r(?!\n)"
)


def read_source(path: Path, name: str) -> Source:
    """Return the text of a file under the name that messages show.

    Raises: SpecError where it cannot be read, is too large or is not UTF-8, or breaks a limit of `check_limits`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + len(_BOM) + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SpecError((Diagnostic("unreadable-file", None, f"cannot read it: {reason}", file=name),)) from error
    return decode_source(data, name)


def decode_source(data: bytes, name: str) -> Source:
    """Return the text of UTF-8 bytes: a byte order mark is skipped, and CRLF becomes LF.

    Raises: SpecError, as `read_source`.
    """
    body = data.removeprefix(_BOM)
    if len(body) > MAX_FILE_BYTES:
        raise SpecError((_too_large(name),))
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start + len(data) - len(body)
        line = body[: error.start].count(b"\n") + 1
        message = f"not UTF-8: byte 0x{data[at]:02x} at offset {at}, on line {line}"
        raise SpecError((Diagnostic("not-utf8", None, message, help="save the file as UTF-8", file=name),)) from error
    source = Source(name, text.replace("\r\n", "\n"))
    problems = check_limits(source)
    if problems:
        raise SpecError(problems)
    return source


def check_limits(source: Source) -> tuple[Diagnostic, ...]:
    """Return what keeps a text from being scanned at all: its size, its longest line, characters that nobody sees."""
    text = source.text
    if len(text) > MAX_FILE_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        return (_too_large(source.name),)
    found = _INVISIBLE.search(text)
    if found:
        message = f"a control character, U+{ord(found.group()):04X}"
        span = Span(source, found.start(), found.end())
        return (Diagnostic("control-character", span, message, "not allowed, in comments neither", help="delete it"),)
    starts = line_starts(text)
    for number, (start, end) in enumerate(zip(starts, (*starts[1:], len(text)), strict=True), 1):
        if (end - start) * 4 > MAX_LINE_BYTES and len(text[start:end].rstrip("\r\n").encode()) > MAX_LINE_BYTES:
            message = f"line {number} has {end - start} characters; a line has at most {MAX_LINE_BYTES} bytes"
            return (Diagnostic("line-too-long", Span(source, start, start), message, help="break the line"),)
    return ()


def check_nesting(source: Source, scanned: Scan) -> tuple[Diagnostic, ...]:
    """Return the first bracket that stands deeper than `MAX_NESTING`, as a diagnostic."""
    for token in scanned.tokens:
        if token.depth >= MAX_NESTING and token.text in ("(", "[", "{") and token.kind == "symbol":
            message = f"brackets nest more than {MAX_NESTING} deep"
            return (Diagnostic("nesting-too-deep", Span(source, token.start, token.end), message, "one too many"),)
    return ()


def _too_large(name: str) -> Diagnostic:
    message = f"the file is larger than {MAX_FILE_BYTES} bytes (1 MiB)"
    return Diagnostic("file-too-large", None, message, help="split it, and `import` the parts", file=name)
