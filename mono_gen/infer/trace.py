"""Where each byte of the result comes from: runs on data whose values say their own position.

A position is traced a nibble at a time. In run p each nibble of the source holds hex digit p of its own index. Runs on
random bytes then refute what only looks like a position: a constant, a changed value, an order that the data decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mono_gen.infer.errors import NotALayout, Shape, at_text, shape_text
from mono_gen.infer.probe import Probe, run

FILL = -1
UNDEFINED = -2

_POISON = (0x5A, 0xA5)  # they differ in both nibbles
_RANDOM_RUNS = 6
"""A nibble that is not the one its index says agrees with it by chance once in 16 to this."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What the function did at one shape.

    source: for each nibble of the result the nibble of the source that it is, or FILL, or UNDEFINED.
    fill:   for each nibble of the result its value where it is FILL.
    count:  nibbles of the source.
    """

    shape: Shape
    source: torch.Tensor
    fill: torch.Tensor
    count: int


def nibbles(data: torch.Tensor) -> torch.Tensor:
    """Return the nibbles of bytes, the low one of each byte first."""
    return torch.stack((data & 15, data >> 4), dim=-1).flatten()


def random_bytes(count: int, seed: int) -> torch.Tensor:
    """Return bytes that are the same in every run."""
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def trace(probe: Probe, shape: Shape) -> Trace:
    """Return where every nibble of the result comes from; each nibble of the source is in it exactly once.

    Raises: NotALayout, with the first evidence; FunctionRaised.
    """
    count = 2 * probe.bytes_of(shape)
    given, made = _runs(probe, shape, count)
    undefined = _undefined(probe, shape, given[-1], made[-1])
    planes = len(given) - _RANDOM_RUNS
    index = torch.zeros(len(made[0]), dtype=torch.int64)
    known = torch.ones(len(made[0]), dtype=torch.bool)
    for p in range(planes):
        index |= made[p].to(torch.int64) << (4 * p)
    known &= index < count
    index[~known] = 0
    for one, other in zip(given[planes:], made[planes:], strict=True):
        known &= one[index] == other
    constant = torch.ones_like(known)
    for other in made[1:]:
        constant &= other == made[0]
    wrong = ~(known | constant | undefined)
    if wrong.any():
        raise NotALayout(_changed(probe, shape, given, made, int(wrong.nonzero()[0, 0]), undefined))
    source = torch.where(known, index, torch.where(undefined, UNDEFINED, FILL))
    _check_once(probe, shape, source, count)
    return Trace(shape, source, made[0], count)


def _runs(probe: Probe, shape: Shape, count: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the nibbles given and the nibbles made: a run a hex digit of the index, then random ones."""
    index = torch.arange(count // 2, dtype=torch.int64) * 2
    digits = max(1, -(-(count - 1).bit_length() // 4))
    data = []
    for p in range(digits):
        low, high = (index >> (4 * p)) & 15, ((index + 1) >> (4 * p)) & 15
        data.append((low | (high << 4)).to(torch.uint8))
    data += [random_bytes(count // 2, seed) for seed in range(1, _RANDOM_RUNS + 1)]
    made = [run(probe, shape, d, _POISON[i % 2]) for i, d in enumerate(data)]
    sizes = {len(m) for m in made}
    if len(sizes) > 1:
        raise NotALayout(
            f"on data of one shape, {shape_text(shape)}, {probe.name} returns {min(sizes)} bytes or {max(sizes)}, "
            "depending on their values"
        )
    return [nibbles(d) for d in data], [nibbles(m) for m in made]


def _undefined(probe: Probe, shape: Shape, given: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Return, a nibble, whether its byte differs between runs on the same data: nobody wrote it."""
    data = given[0::2] | (given[1::2] << 4)
    differs = torch.zeros(len(made), dtype=torch.bool)
    for poison in (_POISON[0], _POISON[1]):
        again = nibbles(run(probe, shape, data, poison))
        if len(again) != len(made):
            raise NotALayout(f"{probe.name} returns {len(made) // 2} bytes and then {len(again) // 2} of the same data")
        differs |= again != made
    return differs.view(-1, 2).any(dim=1).repeat_interleave(2)


def _changed(
    probe: Probe,
    shape: Shape,
    given: list[torch.Tensor],
    made: list[torch.Tensor],
    nibble: int,
    undefined: torch.Tensor,
) -> str:
    """Return what a nibble shows that is not one of the source in all runs: changed values, or an order that varies."""
    byte = nibble // 2
    where = f"on {probe.tensor_text(shape)}, output byte {byte}"
    if undefined.any():
        garbage = int(undefined.sum()) // 2
        where = f"{garbage} output bytes differ from run to run on the same data, and {where}"
    if all(_holds_all(one, other[~undefined]) for one, other in zip(given, made, strict=True)):
        return (
            f"{where} is another input byte in each run: the order depends on the data, and a layout is an order of "
            "positions alone"
        )
    seen = ", ".join(f"0x{int(m[2 * byte + 1]) << 4 | int(m[2 * byte]):02x}" for m in made[:4])
    return (
        f"{where} holds a value that is no input byte: {seen}, ... in {len(made)} runs, and no byte or nibble of the "
        "source was the same in all of them; values change (a cast, a quantization, arithmetic on bits), and a layout "
        "only moves them"
    )


def _holds_all(given: torch.Tensor, made: torch.Tensor) -> bool:
    """Return whether the bytes made are those given in some order, with others beside them perhaps."""
    if len(made) < len(given) or len(made) % 2:
        return False
    one, other = (torch.bincount((n[0::2] | (n[1::2] << 4)).to(torch.int64), minlength=256) for n in (given, made))
    return bool((one <= other).all())


def _check_once(probe: Probe, shape: Shape, source: torch.Tensor, count: int) -> None:
    """Raise NotALayout for a nibble of the source that the result lacks, or holds twice."""
    found = torch.bincount(source[source >= 0], minlength=count)
    if (found > 1).any():
        twice = int((found > 1).nonzero()[0, 0])
        first, second = (int(n) // 2 for n in (source == twice).nonzero()[:2, 0])
        raise NotALayout(
            f"element {_element(probe, shape, twice)} of {probe.tensor_text(shape)} is in the output twice, at bytes "
            f"{first} and {second}; a layout stores every element once"
        )
    if (found == 0).any():
        lost = int((found == 0).nonzero()[0, 0])
        paired = int(found[lost ^ 1]) if probe.bits > 4 else 0
        what = f"the {'high' if lost % 2 else 'low'} half of byte {lost // 2}, in element" if paired else "element"
        garbage = int((source == UNDEFINED).sum()) // 2
        more = f"; {garbage} output bytes differ from run to run on the same data" if garbage else ""
        raise NotALayout(
            f"{what} {_element(probe, shape, lost)} of {probe.tensor_text(shape)} is nowhere in the {len(source) // 2} "
            f"bytes of the output{more}"
        )


def _element(probe: Probe, shape: Shape, nibble: int) -> str:
    """Return the coordinate of the element that a nibble of the source belongs to."""
    rest = nibble // 2 // probe.dtype.itemsize
    found = []
    for extent in reversed(shape):
        rest, c = divmod(rest, extent)
        found.append(c)
    return at_text(tuple(reversed(found)))
