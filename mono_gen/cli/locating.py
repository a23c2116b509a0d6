"""`where`: the chain between an element's coordinates and its byte, both ways, and what a lane holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from mono_gen.cli import report
from mono_gen.cli.arguments import coordinate_pairs, number
from mono_gen.cli.report import CommandError
from mono_gen.cli.specs import plans_of
from mono_gen.diagnostics import SpecError
from mono_gen.explore import records
from mono_gen.explore.chain import NIBBLES, byte_chain, coordinates_chain, heading, lane_rows, second_rows, table
from mono_gen.explore.names import Found, Unfound, find_tensor
from mono_gen.explore.runs import at_text
from mono_gen.explore.where import Spot, at_byte, checked, checked_lane, lane_spots, locate

OPTIONS = ("byte", "lane", "tile", "at", "set", "json", "help")
USAGE = "mono-gen where SPEC FIELD --row 3 --k 70, or --byte 1234, or --lane 5 --tile R,K"


@dataclass(slots=True)
class Request:
    """The arguments of `where`: `at` holds what the options named after axes say."""

    spec: str
    name: str
    at: dict[str, int] = field(default_factory=dict)
    byte: int | None = None
    lane: int | None = None
    tile: tuple[int, ...] | None = None
    settings: tuple[str, ...] = ()
    as_json: bool = False


def request(
    words: Sequence[str],
    byte: str | None,
    lane: str | None,
    tile: str | None,
    at: Sequence[str],
    settings: Sequence[str],
    as_json: bool,
) -> Request:
    """Return the request that the command line makes: `words` are SPEC, FIELD and the options named after axes.

    Raises: CommandError.
    """
    names, given = _taken_apart(words)
    if len(names) != 2:
        found = f"found {' '.join(names)}" if names else "found neither"
        raise CommandError(f"expected SPEC and FIELD, {found}; {USAGE}")
    coordinates: dict[str, int] = {}
    for name, text in [*given, *coordinate_pairs(at, "--at")]:
        if name in coordinates:
            raise CommandError(f"--{name} is given twice")
        coordinates[name] = number(f"--{name}", text)
    tiles = tuple(number("--tile", part.strip()) for part in tile.split(",")) if tile is not None else None
    asked = Request(
        names[0],
        names[1],
        coordinates,
        number("--byte", byte) if byte is not None else None,
        number("--lane", lane) if lane is not None else None,
        tiles,
        tuple(settings),
        as_json,
    )
    _check(asked)
    return asked


def where(asked: Request) -> int:
    """Return the exit code, after printing where an element, a byte or a lane's elements lie."""
    try:
        plans = plans_of(asked.spec, asked.settings)
    except SpecError as error:
        report.diagnostics(error.diagnostics, "json" if asked.as_json else "full")
        return report.SPEC_WRONG
    try:
        found = find_tensor(plans, asked.name)
        _check_axes(found, asked.at)
        if asked.byte is not None:
            text = _of_byte(found, asked.byte, asked.as_json)
        elif asked.lane is not None:
            text = _of_lane(found, asked)
        else:
            text = _of_coordinates(found, asked.at, asked.as_json)
    except Unfound as error:
        raise CommandError(str(error)) from error
    report.out(text)
    return report.FINE


def _taken_apart(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the words that are no options, and (name, value) of those that are: `--row 3`, `--row=3`."""
    names: list[str] = []
    given: list[tuple[str, str]] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--"):
            names.append(word)
            continue
        name, sign, value = word[2:].partition("=")
        if not sign and not waiting:
            said = _option_near(name, ()) or f"expected a number after it; {USAGE}"
            raise CommandError(f"{word}: {said}")
        given.append((name, value if sign else waiting.pop(0)))
    return names, given


def _check(asked: Request) -> None:
    """Raise CommandError unless exactly one of coordinates, `--byte` and `--lane` is asked."""
    ways = [f"--{name}" for name in asked.at][:1]
    ways += ["--byte"] if asked.byte is not None else []
    ways += ["--lane"] if asked.lane is not None else []
    if len(ways) > 1 and not (asked.lane is not None and asked.byte is None):
        raise CommandError(f"{' and '.join(ways)} are two questions: ask for coordinates, for a byte, or for a lane")
    if asked.tile is not None and asked.lane is None:
        raise CommandError("--tile goes with --lane")


def _check_axes(found: Found, at: Iterable[str]) -> None:
    """Raise CommandError for a name that is no axis of the tensor, and nearer to an option than to an axis."""
    axes = found.tensor.model.axes
    for name in at:
        if name not in axes and (meant := _option_near(name, axes)):
            raise CommandError(f"--{name}: {meant}")


def _option_near(name: str, axes: Sequence[str]) -> str:
    """Return what is said of a misspelt option; empty where none is near, or an axis is nearer."""
    from difflib import get_close_matches

    near = get_close_matches(name, [*axes, *OPTIONS], 1, 0.75)  # `--t` may well be an axis
    return f"no such option; did you mean --{near[0]}?" if near and near[0] in OPTIONS else ""


def _of_coordinates(found: Found, at: dict[str, int], as_json: bool) -> str:
    """Return what is said of an element, or of a pad, by its coordinates."""
    spot = locate(found, checked(found, at))
    if as_json:
        return _dumped(records.of_spot(found, spot, spot.byte))
    return _text(
        found, f"[{at_text(found.tensor.model, spot)}]: {_at_byte(found, spot)}", coordinates_chain(found, spot)
    )


def _of_byte(found: Found, byte: int, as_json: bool) -> str:
    """Return what is said of what lies at a byte."""
    spots = at_byte(found, byte)
    if as_json:
        return _dumped(records.of_byte(found, spots, byte))
    model = found.tensor.model
    places = " and ".join(f"{'pad at ' if spot.is_pad else ''}{at_text(model, spot)}{_half(spot)}" for spot in spots)
    rows = byte_chain(found, spots[0], byte)
    for spot in spots[1:]:
        rows += second_rows(found, spot)
    return _text(found, f" byte {byte}: {places}", rows)


def _of_lane(found: Found, asked: Request) -> str:
    """Return what is said of a lane: which elements it holds in one tile of one batch item."""
    model = found.tensor.model
    assert asked.lane is not None, "asked for a lane"
    tile = checked_lane(found, asked.lane, asked.tile)
    batch_names = model.axes[: model.batch]
    for name in asked.at:
        if name in model.axes and name not in batch_names:
            raise Unfound(f"--{name} and --lane are two questions: --tile chooses the tile, batch dims the item")
    rest = {name: 0 for name in model.axes if name not in asked.at}
    batch = checked(found, {**asked.at, **rest})[: model.batch]
    spots = lane_spots(found, batch, asked.lane, tile)
    layout = model.layout
    assert layout is not None, "a layout that names lanes"
    groups = {group.label: group.digits for group in layout.template.store}
    sizes = {digit.name: digit.size for digit in model.bound.digits}
    total = prod(sizes[name] for name in groups.get("byte", ()))
    tiles = dict(zip(groups.get("tile", ()), tile, strict=True))
    assumed = [name for name in batch_names if name not in asked.at]
    assumed += tiles if asked.tile is None else []
    if asked.as_json:
        return _dumped(records.of_lane(found, spots, asked.lane, tiles, total))
    items = [f"{name} {c}" for name, c in zip(batch_names, batch, strict=True)]
    place = ", ".join([*items, *(f"{name} {value}" for name, value in tiles.items())])
    held = f"{report.count(total, 'element')}, {total * model.element.bits / 8:g} bytes"
    title = f"{found.name} lane {asked.lane}, {place}: {held}" if place else f"{found.name} lane {asked.lane}: {held}"
    said = f"not given, so 0: {', '.join(assumed)}\n" if assumed else ""
    return f"{title}\n{heading(found)}\n{said}\n{table([('in the lane', 'elements'), *lane_rows(found, spots, total)])}"


def _text(found: Found, title: str, rows: list[tuple[str, str]]) -> str:
    """Return a title, what the tensor is, and the steps."""
    return f"{found.name}{title}\n{heading(found)}\n\n{table(rows)}"


def _at_byte(found: Found, spot: Spot) -> str:
    """Return `byte 1078`, with the half of the byte or the last byte where there are."""
    bits = found.tensor.model.element.bits
    last = f" to {spot.byte + bits // 8 - 1}" if bits > 8 else ""
    return f"{'pad, ' if spot.is_pad else ''}byte {spot.byte}{last}{_half(spot)}"


def _half(spot: Spot) -> str:
    """Return which nibble of its byte an element is; empty for wider ones."""
    return "" if spot.nibble is None else f" ({NIBBLES[spot.nibble]} nibble)"


def _dumped(record: dict[str, object]) -> str:
    """Return a record as JSON."""
    return json.dumps(record, indent=2) + "\n"
