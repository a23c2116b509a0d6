"""Lines of a tensor compared with the bytes of a file, at the places that the generated offset function gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from mono_gen.checkpoint.rederive import Lines
from mono_gen.frozen import frozen
from mono_gen.runtime.fields import TensorInfo

_ELEMENTS_AT_ONCE = 1 << 20


@frozen
class Subject:
    """A tensor in a file.

    offset:     the generated function: the byte of an element, and of a 4-bit one the nibble.
    items:      whether the first coordinate counts items.
    item_bytes: of one item; of all where there are none.
    """

    info: TensorInfo
    offset: Callable[..., Any]
    items: bool
    item_bytes: int

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the coordinates."""
        code = self.offset.__code__
        return code.co_varnames[: code.co_argcount]


def first_wrong(subject: Subject, item: int, found: torch.Tensor, lines: Lines, is_whole: bool) -> str:
    """Return the first byte of an item that is not what it should be, with its coordinates; empty where none is.

    found:    the item's bytes.
    is_whole: whether `lines` are all of the item: pads are compared then, too.
    """
    places, truth = [], []
    for at, values in _placed(subject, item, lines):
        places.append(at)
        truth.append(values)
    if is_whole:
        wanted = _pads(subject)
        for at, values in zip(places, truth, strict=True):
            wanted[at] = values
        if torch.equal(wanted, found):
            return ""
        byte = int((wanted != found).to(torch.uint8).argmax())
        return _text(subject, item, lines, byte, int(wanted[byte]), int(found[byte]))
    all_places, all_truth = torch.cat(places), torch.cat(truth)
    bad = (found[all_places] != all_truth).nonzero().view(-1)
    if not len(bad):
        return ""
    first = bad[all_places[bad].argmin()]
    byte = int(all_places[first])
    return _text(subject, item, lines, byte, int(all_truth[first]), int(found[byte]))


def _placed(subject: Subject, item: int, lines: Lines) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the places of some lines' bytes inside the item, and these bytes."""
    size, length = lines.values.dtype.itemsize, lines.values.shape[1]
    values = lines.values.contiguous().view(torch.uint8).view(len(lines.coordinates), -1)
    step = max(1, _ELEMENTS_AT_ONCE // length)
    for begin in range(0, len(lines.coordinates), step):
        part = lines.coordinates[begin : begin + step]
        at = _offsets(subject, item, part, length) - item * subject.item_bytes
        yield (at.unsqueeze(-1) + torch.arange(size)).view(-1), values[begin : begin + step].view(-1)


def _offsets(subject: Subject, item: int, lines: torch.Tensor, length: int) -> torch.Tensor:
    """Return the byte of each torch element of lines, [lines, length]. Pairs of 4-bit elements lie low one first."""
    pairs = 2 if subject.info.bits == 4 else 1
    before = [*([item] if subject.items else []), *lines.unsqueeze(-1).unbind(1)]
    if len(subject.axes) == len(before):  # the scale of a row: its line is one element
        return torch.as_tensor(subject.offset(*before)).expand(len(lines), length)
    last = torch.arange(length) * pairs
    if pairs == 1:
        return torch.as_tensor(subject.offset(*before, last)).expand(len(lines), length)
    low, first = subject.offset(*before, last)
    high, second = subject.offset(*before, last + 1)
    apart = (low != high) | (first != 0) | (second != 1)
    if bool(torch.as_tensor(apart).any()):
        raise AssertionError(f"{subject.info.name}: the two elements of a byte lie apart, which no conversion makes")
    return torch.as_tensor(low).expand(len(lines), length)


def _pads(subject: Subject) -> torch.Tensor:
    """Return an item of pads alone: the fill's pattern all over, zeros where it is undefined."""
    fill, bits = subject.info.fill or 0, subject.info.bits
    pattern = bytes([fill * 0x11]) if bits == 4 else fill.to_bytes(bits // 8, "little")
    return torch.tensor(list(pattern), dtype=torch.uint8).repeat(subject.item_bytes // len(pattern))


def _text(subject: Subject, item: int, lines: Lines, byte: int, expected: int, found: int) -> str:
    """Return a wrong byte in words: the coordinates of its element are looked for among the lines."""
    where = "a pad"
    whole = byte + item * subject.item_bytes
    for line in lines.coordinates:
        at = _offsets(subject, item, line.unsqueeze(0), lines.values.shape[1]).view(-1)
        hits = ((at <= whole) & (whole < at + lines.values.dtype.itemsize)).nonzero()
        if len(hits):
            last = int(hits[0]) * (2 if subject.info.bits == 4 else 1)
            place = (*((item,) if subject.items else ()), *line.tolist(), last)[: len(subject.axes)]
            where = ", ".join(f"{name} {n}" for name, n in zip(subject.axes, place, strict=True))
            break
    return f"byte {whole} ({where}): expected 0x{expected:02x}, found 0x{found:02x}"
