"""Places that follow each other in storage, as runs along one axis."""

from __future__ import annotations

from collections.abc import Iterable

from mono_gen.explore.where import Spot
from mono_gen.frozen import frozen
from mono_gen.model import TensorModel


@frozen
class Run:
    """Places one after another, from `first` to `last`, that differ on one axis, by 1 each; -1 for a single place."""

    first: Spot
    last: Spot
    count: int
    axis: int


def runs_of(spots: Iterable[Spot]) -> tuple[Run, ...]:
    """Return the places as runs, in their order."""
    result: list[Run] = []
    for spot in spots:
        step = _step(result[-1].last, spot) if result else None
        if step is not None and result[-1].axis in (-1, step):
            result[-1] = Run(result[-1].first, spot, result[-1].count + 1, step)
        else:
            result.append(Run(spot, spot, 1, -1))
    return tuple(result)


def run_text(model: TensorModel, run: Run) -> str:
    """Return a run as `row 3, k 64..79`; of a pad `pad: row 1600, k 0..15`."""
    if run.first.stored is None:
        return "gap of a pitch"
    first, last = (_shown(spot) for spot in (run.first, run.last))
    parts = [
        f"{name} {a}" if a == b else f"{name} {a}..{b}" for name, a, b in zip(model.axes, first, last, strict=True)
    ]
    behind = f" of segment {run.first.segment.name}" if run.first.is_pad and run.first.segment is not None else ""
    return f"pad{behind}: {', '.join(parts)} of storage" if run.first.is_pad else ", ".join(parts)


def at_text(model: TensorModel, spot: Spot) -> str:
    """Return the coordinates of one place, as `row 3, k 70`; those of storage where a pad has no others."""
    return ", ".join(f"{name} {c}" for name, c in zip(model.axes, _shown(spot), strict=False)) or "gap of a pitch"


def _shown(spot: Spot) -> tuple[int, ...]:
    """Return the coordinates that text shows: those of storage where a pad has no others."""
    if spot.stored is None:
        return ()
    return spot.stored if spot.is_pad else tuple(c for c in spot.at if c is not None)


def _step(last: Spot, spot: Spot) -> int | None:
    """Return the axis on which a place comes right after another; None where it does not, or one alone is a pad."""
    if last.is_pad != spot.is_pad or last.stored is None or spot.stored is None or last.segment is not spot.segment:
        return None
    moved = [i for i, (a, b) in enumerate(zip(last.stored, spot.stored, strict=True)) if a != b]
    return moved[0] if len(moved) == 1 and spot.stored[moved[0]] == last.stored[moved[0]] + 1 else None
