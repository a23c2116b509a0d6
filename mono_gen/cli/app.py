"""The commands with their arguments, as typer shows them. What they do stands in the modules beside this one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mono_gen.cli import report

EXIT_CODES = "Exit codes: 0 fine, 1 a spec is wrong, 2 the command is wrong or found no spec, 3 stale or not formatted."

app = typer.Typer(
    name="mono-gen",
    help="From a text that states how tensors lie in memory: the torch code that checks and converts them, and the HIP "
    "header that turns coordinates into byte offsets.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(str, Enum):
    """How diagnostics are shown."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    GITHUB = "github"


Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATHS", help="Specs, or folders that hold some. Default: specs.", show_default=False),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder of the generated files.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SPEC.NAME=V",
        help="Another value for a param. May be given several times.",
        show_default=False,
    ),
]
Show = Annotated[Format, typer.Option("--format", help="How diagnostics are shown; json goes to the standard output.")]


def main() -> int:
    """Return the exit code of the command that `sys.argv` holds. Usage errors and `--help` leave by SystemExit."""
    gc.disable()  # a command is short: collecting takes a twentieth of its time and frees next to nothing
    report.prepare_streams()
    try:
        app(prog_name="mono-gen")
    except KeyboardInterrupt:
        return report.INTERRUPTED
    except OSError as error:  # from typer's own output, --help for one
        return report.lost(error)
    return report.FINE


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            report.out(f"mono-gen {version('mono-gen')}\n")
        except PackageNotFoundError:
            report.out("mono-gen, run from a source tree that is not installed\n")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: mono-gen generate specs --out generated --set minimax_m3.TP=2")
def generate(paths: Paths = None, out: Out = Path("generated"), set_: Set = None, format_: Show = Format.FULL) -> None:
    """Write what the specs make into a folder: only what changed, and nothing when a spec is wrong.

    Afterwards the folder holds what these PATHS make; files that an earlier run made and this one does not are removed.
    """
    from mono_gen.cli import files

    _run(lambda: files.generate(files.Request.of(paths, out, set_, format_.value)))


@app.command(epilog="Example: mono-gen check specs --out generated --format github")
def check(paths: Paths = None, out: Out = Path("generated"), set_: Set = None, format_: Show = Format.FULL) -> None:
    """Hold that the specs are right, and that the folder is what they make. Writes nothing."""
    from mono_gen.cli import files

    _run(lambda: files.check(files.Request.of(paths, out, set_, format_.value)))


@app.command(epilog="Example: mono-gen fmt --check specs")
def fmt(
    paths: Paths = None,
    check_only: Annotated[bool, typer.Option("--check", help="Change nothing; show what would change.")] = False,
    format_: Show = Format.FULL,
) -> None:
    """Format specs: line breaks and indentation alone."""
    from mono_gen.cli import formatting

    _run(lambda: formatting.fmt(paths, check_only, format_.value))


@app.command(epilog="Example: mono-gen explain digit-dropped")
def explain(
    code: Annotated[
        str | None, typer.Argument(help="The code of a diagnostic. Without one: all of them.", show_default=False)
    ] = None,
) -> None:
    """Say what a diagnostic means, and how it is mended."""
    from mono_gen.cli import explanation

    _run(lambda: explanation.explain(code))


@app.command(name="include-dir", epilog='Example: hipcc -I"$(mono-gen include-dir)" kernel.hip')
def include_dir(out: Out = Path("generated")) -> None:
    """Print the absolute folder of the generated headers, for a compiler's -I."""
    from mono_gen.cli import files

    _run(lambda: files.include_dir(out))


def _run(command: Callable[[], int]) -> None:
    """Leave with the command's exit code; a user's mistake is a message, never a traceback."""
    from mono_gen.write import WriteError

    try:
        code = command()
    except (report.CommandError, WriteError) as error:
        code = report.refuse(str(error))
    except OSError as error:
        code = report.lost(error)
    raise typer.Exit(code)
