"""The command `mono-gen`. One module a command; each imports what it needs when it runs, so that `--help` is quick."""

from mono_gen.cli.app import main

__all__ = ["main"]
