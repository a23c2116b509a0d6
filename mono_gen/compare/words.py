"""What the texts of a comparison share: numbers and lists in words."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.compare.model import Move


def hex_id(number: int) -> str:
    """Return an id as its 16 hex digits."""
    return f"{number:016x}"


def plural(number: int, noun: str) -> str:
    """Return `1 field`, `2 fields`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def share(move: Move) -> str:
    """Return which part of the elements moves: `all`, `none`, `93.75 %`."""
    if move.moved is None:
        return "an uncounted share"
    if move.moved in (0, move.elements):
        return "all" if move.moved else "none"
    percent = 100 * move.moved / move.elements
    return f"{percent:.4g} %" if 0.01 <= percent <= 99.99 else f"{move.moved:,} of {move.elements:,} elements"


def size(bits: int) -> str:
    """Return a number of bits in bytes, `half a byte` for four of them."""
    return "half a byte" if bits == 4 else plural(bits // 8, "byte")


def percent_sentence(move: Move) -> str:
    """Return what a move does, in one sentence: the share, the runs, the first place, sizes and pads."""
    parts = []
    if move.moved != 0:
        runs = f" in runs of {size(move.granule_bits)}" if move.granule_bits else ""
        parts.append(f"{share(move)} moves (at {move.at}){runs}")
    place = first_place(move)
    parts += [place] if place else []
    if move.sizes[0] != move.sizes[1]:
        at = f" at {move.at}" if move.moved == 0 else ""
        parts.append(f"storage{at}: {move.sizes[0]:,} -> {move.sizes[1]:,} bytes")
    if move.refilled:
        at = f" at {move.at}" if move.moved == 0 and move.sizes[0] == move.sizes[1] else ""
        parts.append(f"{plural(move.refilled, 'pad byte')}{at} with another value")
    return "; ".join(parts)


def first_place(move: Move) -> str:
    """Return the first place that holds something else: `byte 16 was row 1 k 0, now row 0 k 64`."""
    if move.first_bit is None:
        return ""
    nibble = ", high nibble," if move.first_bit % 8 else ""
    return f"byte {move.first_bit // 8:,}{nibble} was {move.was}, now {move.now}"


def replaced(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return what became of a list of conditions: those about one thing side by side, others added or dropped.

    Two conditions are about one thing where they differ in their last word alone, `k % 128 == 0` and `k % 256 == 0` in
    their number.
    """
    gone = [text for text in before if text not in after]
    come = [text for text in after if text not in before]
    found = []
    for text in gone:
        again = next((new for new in come if _subject(new) == _subject(text)), None)
        if again is None:
            found.append(f"`{text}` is no longer asked")
        else:
            come.remove(again)
            found.append(f"`{text}` -> `{again}`")
    return [*found, *(f"`{text}` is asked now" for text in come)]


def _subject(text: str) -> tuple[str, ...]:
    """Return a condition without its numbers."""
    return tuple(word for word in text.split() if not word[0].isdigit())


def some(names: Sequence[str], most: int) -> str:
    """Return names in a list, at most so many."""
    rest = len(names) - most
    names = _short(names)
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:most])} and {rest} more"


def _short(names: Sequence[str]) -> list[str]:
    """Return `T.w, .x` for `T.w, T.x` and `mono::s::T::w, ::x` alike: what is the same as before is left out."""
    heads = [
        name.rpartition("::")[0] or name.partition(".")[0] if "." in name or "::" in name else "" for name in names
    ]
    pairs = zip(names, heads, ["", *heads], strict=False)
    return [name[len(head) :] if head and head == before else name for name, head, before in pairs]
