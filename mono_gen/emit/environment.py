"""The Jinja environment of all templates: delimiters that cannot meet C++ or Python, and nothing undefined."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """Return the environment: `${ name }` prints, a line that begins with `%%` is a statement, `%#` a comment."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        bytecode_cache=_Compiled(str(TEMPLATES / "__pycache__"), "%s.compiled"),
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


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, kept beside them as Python keeps its own; read always, written where Python may write."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template, where the folder can be written."""
        folder = Path(self.directory)
        if sys.dont_write_bytecode or not os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
            return
        folder.mkdir(exist_ok=True)
        super().dump_bytecode(bucket)


def warm() -> None:
    """Compile every template into its place, whatever `PYTHONDONTWRITEBYTECODE` says: for installers."""
    sys.dont_write_bytecode = False
    for name in environment().list_templates(extensions=["j2"]):
        environment().get_template(name)
