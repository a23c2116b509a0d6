"""The Jinja environment of all templates: delimiters that cannot meet C++ or Python, and nothing undefined."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """Return the environment: `${ name }` prints, a line that begins with `%%` is a statement, `%#` a comment."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        bytecode_cache=_bytecode_cache(),
        undefined=StrictUndefined,
        variable_start_string="${",
        variable_end_string="}",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        line_statement_prefix="%%",
        line_comment_prefix="%#",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _bytecode_cache() -> BytecodeCache | None:
    """Return the place of compiled templates: beside them, as Python keeps its own; None where it would keep none."""
    folder = TEMPLATES / "__pycache__"
    if sys.dont_write_bytecode:
        return None
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return FileSystemBytecodeCache(str(folder), "%s.compiled") if os.access(folder, os.W_OK) else None
