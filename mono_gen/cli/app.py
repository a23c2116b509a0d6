"""The commands with their arguments, as typer shows them. What they do stands in the modules beside this one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mono_gen.cli import report

EXIT_CODES = (
    "Exit codes: 0 fine, 1 a spec is wrong, 2 the command is wrong or found no spec, 3 stale or not formatted, "
    "4 diff found a class that --fail-on names."
)

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


class DiffFormat(str, Enum):
    """How a difference is shown."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def _codes(incomplete: str) -> list[str]:
    from mono_gen.cli import completion

    return completion.codes(incomplete)


def _params(incomplete: str) -> list[str]:
    from mono_gen.cli import completion

    return completion.params(incomplete)


def _specs(incomplete: str) -> list[str]:
    from mono_gen.cli import completion

    return completion.specs(incomplete)


def _spec_and_tensor(ctx: typer.Context, incomplete: str) -> list[str]:
    from mono_gen.cli import completion

    return completion.spec_and_names(ctx.params.get("words") or (), incomplete, with_layouts=False)


def _drawable(ctx: typer.Context, incomplete: str) -> list[str]:
    from mono_gen.cli import completion

    return completion.spec_and_names((str(ctx.params["spec"]),), incomplete, with_layouts=True)


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
        autocompletion=_params,
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
        str | None,
        typer.Argument(
            help="The code of a diagnostic. Without one: all of them.", show_default=False, autocompletion=_codes
        ),
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


@app.command(
    epilog="Example: mono-gen where minimax_m3 w_qkv --row 3 --k 70",
    context_settings={"ignore_unknown_options": True},
)
def where(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC FIELD [--AXIS N]...",
            help="A spec (file, folder or name), a tensor as NAME or STRUCT.NAME, and a coordinate for each of its "
            "axes and batch dims: --row 3 --k 70.",
            autocompletion=_spec_and_tensor,
            show_default=False,
        ),
    ] = None,
    byte: Annotated[
        str | None, typer.Option("--byte", metavar="N", help="What lies at this byte, instead of coordinates.")
    ] = None,
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="N", help="What this lane holds. Batch dims are 0 unless given.")
    ] = None,
    tile: Annotated[
        str | None,
        typer.Option("--tile", metavar="R,K", help="With --lane: the tile's digits, as the layout has them."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="AXIS=N,...", help="Coordinates of axes that are named like an option."),
    ] = None,
    set_: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="As data: `byte` and an integer an axis at the top.")] = False,
) -> None:
    """Say where an element lies, and what lies at a byte: every step, both ways, with its numbers."""
    from mono_gen.cli import locating

    _run(lambda: locating.where(locating.request(words or (), byte, lane, tile, at or (), set_ or (), as_json)))


@app.command(epilog="Example: mono-gen draw minimax_m3 mxfp8_a_tiles -o tiles.svg")
def draw(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A spec: file, folder or name.", autocompletion=_specs)],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME [NAME]",
            help="A layout, a tensor as NAME or STRUCT.NAME, or row_major; two of them stand beside each other.",
            autocompletion=_drawable,
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE.svg", help="The picture; - is the standard output. Without: a table."
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="How many rows to show. Default: a tile.")] = None,
    columns: Annotated[int | None, typer.Option("--cols", min=1, help="How many columns to show.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="ROW,K", help="Where to begin, a number an axis. Default: 0,0.")
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape", metavar="ROW,K", help="Of a layout alone: the tensor's shape. Default: a tile, no pads."
        ),
    ] = None,
    bits: Annotated[
        int | None, typer.Option("--bits", min=1, help="Of a layout alone: the bits of an element. Default: 8.")
    ] = None,
    set_: Set = None,
) -> None:
    """Draw which byte and lane each element is: a picture, or a table on the terminal."""
    from mono_gen.cli import drawing

    def command() -> int:
        begin, extents = drawing.numbers(at, "--at"), drawing.numbers(shape, "--shape")
        return drawing.draw(
            drawing.Request(spec, tuple(names), out, rows, columns, begin, extents, bits, tuple(set_ or ()))
        )

    _run(command)


@app.command(epilog="Example: mono-gen diff HEAD:specs specs --fail-on bytes,abi")
def diff(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="A spec, a folder of specs, or REV:PATH of the git repository. REV: alone means its specs.",
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW", help="The same. Default: the path of OLD in the working tree.", show_default=False
        ),
    ] = None,
    format_: Annotated[DiffFormat, typer.Option("--format", help="How the difference is shown.")] = DiffFormat.TEXT,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="CLASSES",
            help="Exit with 4 where there is such a change: some of bytes, abi, checks, name, doc, with commas.",
            show_default=False,
        ),
    ] = None,
    kernels: Annotated[
        Path | None,
        typer.Option(
            "--kernels",
            metavar="DIR",
            help="Sources that may mention touched names. Default: mono_gen/kernels of the repository, if it is there.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say what a change of specs means: bytes that move, ids and symbols, checks, names, docs."""
    from mono_gen.cli import comparing

    _run(lambda: comparing.diff(comparing.Request.of(old, new, format_.value, fail_on, kernels)))


@app.command(epilog="Example: mono-gen inspect model.safetensors --tensor w_qkv --spec minimax_m3 --at row=3,k=70")
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A safetensors file.", show_default=False)],
    tensor: Annotated[
        str | None, typer.Option("--tensor", metavar="NAME", help="Show the bytes of this tensor instead of the list.")
    ] = None,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="SPEC", help="The spec whose fields and layouts bytes are read by.")
    ] = None,
    field: Annotated[
        str | None, typer.Option("--field", metavar="FIELD", help="NAME or STRUCT.NAME. Default: the tensor's name.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option("--at", metavar="AXIS=N,...", help="Begin at this element: row=3,k=70.")
    ] = None,
    byte: Annotated[str | None, typer.Option("--byte", metavar="N", help="Begin at this byte of the tensor.")] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="Lines of bytes.")] = 16,
    blind: Annotated[
        bool, typer.Option("--blind/--no-blind", help="Check of fp8 weights which orders a sample of bytes excludes.")
    ] = True,
    set_: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="As data.")] = False,
) -> None:
    """Say what each tensor of a file is, or show the bytes of one by field and coordinate."""
    from mono_gen.cli import inspecting

    _run(
        lambda: inspecting.inspect(
            inspecting.Request.of(file, tensor, spec, field, at or (), byte, rows, blind, set_ or (), as_json)
        )
    )


@app.command(name="import", epilog="Example: mono-gen import shuffle.py:shuffle_weight --shape 64,128 --dtype uint8")
def import_(
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION",
            help="MODULE:FUNCTION or FILE.py:FUNCTION, which takes a tensor and returns one; or FILE or FILE:LINE with "
            "a view(...).permute(...).",
        ),
    ],
    shape: Annotated[
        list[str],
        typer.Option(
            "--shape", metavar="N,K", help="A torch shape that the function takes. May be given several times."
        ),
    ],
    dtype: Annotated[
        list[str],
        typer.Option(
            "--dtype",
            metavar="DTYPE",
            help="Of the tensor: uint8, bf16, fp8, fp4, ... Given several times, sizes that follow the width are "
            "written in bytes.",
        ),
    ],
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="A keyword argument, a Python literal.", show_default=False),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The layout's name.", show_default=False)] = "",
    axes: Annotated[
        str, typer.Option("--axes", metavar="A,B", help="Names of the axes, such as row,k.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Where to write the .layout text. Default: the terminal."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE where it is there already.")] = False,
) -> None:
    """Write the layout of an existing torch function, found by running it on data that say where they came from.

    The text is verified at shapes that it was not found at. What is no layout is refused, with the first evidence (1).
    """
    from mono_gen.cli import importing

    request = importing.Request(function, tuple(shape), tuple(dtype), tuple(arg or ()), name, axes, out, force)
    _run(lambda: importing.import_function(request))


CheckpointPath = Annotated[
    Path,
    typer.Argument(metavar="CHECKPOINT", help="A folder of safetensors files, or one such file.", show_default=False),
]
SpecOption = Annotated[
    str, typer.Option("--spec", metavar="SPEC", help="A spec: file or name.", show_default=False, autocompletion=_specs)
]
StructOption = Annotated[
    str, typer.Option("--struct", metavar="STRUCT", help="The struct whose fields are made.", show_default=False)
]
MapOption = Annotated[
    Path | None,
    typer.Option(
        "--map", metavar="FILE", help="Which tensors make each source. Default: SPEC with .map.", show_default=False
    ),
]
LayersOption = Annotated[
    str | None,
    typer.Option("--layers", metavar="3-5,8", help="Layers. Default: all that the map is about.", show_default=False),
]
RankOption = Annotated[
    int | None,
    typer.Option(
        "--rank", metavar="R", help="One rank. Default: RANK, as torchrun sets it, else all.", show_default=False
    ),
]
WorldOption = Annotated[
    int | None,
    typer.Option(
        "--world-size", metavar="N", help="Tensor-parallel ranks. Default: WORLD_SIZE, else 1.", show_default=False
    ),
]


@app.command(
    epilog="Example: mono-gen convert MiniMax-M3 --spec specs/minimax_m3.layout --struct SparseMoeLayer "
    "-o MiniMax-M3-mono --world-size 4"
)
def convert(
    checkpoint: CheckpointPath,
    spec: SpecOption,
    struct: StructOption,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="A new folder.", show_default=False)],
    map_: MapOption = None,
    layers: LayersOption = None,
    rank: RankOption = None,
    world: WorldOption = None,
    set_: Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped.")] = False,
) -> None:
    """Write a checkpoint with the tensors of a struct as its kernels read them; of several ranks each to FOLDER/rankR.

    Files, their names, the index and every tensor that the map does not name stay. A file gets its name when it is
    whole, and the index comes last: a run that is killed leaves nothing that looks finished.
    """
    from mono_gen.cli import converting

    _run(
        lambda: converting.convert(
            converting.Request.of(checkpoint, out, spec, struct, map_, layers, rank, world, set_), resume
        )
    )


@app.command(
    epilog="Example: mono-gen verify MiniMax-M3 MiniMax-M3-mono --spec specs/minimax_m3.layout --struct SparseMoeLayer "
    "--world-size 4 --whole"
)
def verify(
    checkpoint: CheckpointPath,
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="What convert wrote.", show_default=False)],
    spec: SpecOption,
    struct: StructOption,
    map_: MapOption = None,
    layers: LayersOption = None,
    rank: RankOption = None,
    world: WorldOption = None,
    set_: Set = None,
    sample: Annotated[int, typer.Option("--sample", metavar="N", help="Rows of each tensor that are compared.")] = 64,
    whole: Annotated[bool, typer.Option("--whole", help="Compare every byte, pads too.")] = False,
) -> None:
    """Compare what convert wrote with what the checkpoint makes, worked out anew; 1 where a byte differs.

    Places come from the generated offset functions and values from plain casts; nothing that the files say of
    themselves is believed.
    """
    from mono_gen.cli import converting

    _run(
        lambda: converting.verify(
            converting.Request.of(checkpoint, out, spec, struct, map_, layers, rank, world, set_),
            None if whole else sample,
        )
    )


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
