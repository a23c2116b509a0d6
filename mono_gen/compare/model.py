"""What a comparison finds, as data: items, each with changes of five classes. Renderers stand beside it."""

from __future__ import annotations

from typing import Literal

from mono_gen.frozen import frozen
from mono_gen.model import Place

Class = Literal["bytes", "abi", "checks", "name", "doc"]
CLASSES: tuple[Class, ...] = ("bytes", "abi", "checks", "name", "doc")
"""What a change is about, the gravest first."""


@frozen
class Move:
    """What happens to the bytes of a tensor, or of a layout at sample extents.

    at:       the extents and the width that were counted with, as readers see them.
    elements: the logical elements that both sides have.
    moved:    those of them that lie elsewhere; None where the two orders have no common tiling to count by.
    bits:     of an element, of the new side.
    granule_bits: the longest run that keeps its inner order, in both orders aligned to its own length; 0 where nothing
              moves.
    first_bit: the first place that an element left or came to; where none moves, the first pad with another value.
    was, now: what lies there, `row 1 k 0`, `a pad` or `fill 0x7F`.
    sizes:    bytes of storage, old and new.
    refilled: pad bytes that get another value.
    """

    at: str
    elements: int
    moved: int | None
    bits: int
    granule_bits: int
    first_bit: int | None
    was: str
    now: str
    sizes: tuple[int, int]
    refilled: int

    @property
    def is_still(self) -> bool:
        """Return whether no byte of storage is another one."""
        return self.moved == 0 and self.sizes[0] == self.sizes[1] and not self.refilled


@frozen
class Change:
    """One thing that is different about an item.

    because: the label of the item that caused it; empty where it stands in the spec itself.
    """

    kind: Class
    text: str
    because: str = ""


@frozen
class Symbols:
    """The generated names of an item: of the Python module, and of the header, fully qualified."""

    python: tuple[str, ...] = ()
    cpp: tuple[str, ...] = ()


@frozen
class Item:
    """A thing of a spec that is different: `kind` is `spec`, `const`, `param`, `layout`, `struct`, `field` or `table`.

    name:     as the spec has it on the new side; a member's is `Struct.name`.
    old, new: where it stands, None on the side that does not have it.
    moves:    what happens to its bytes, by tensor; a layout's is under its own name.
    """

    spec: str
    kind: str
    name: str
    old: Place | None
    new: Place | None
    changes: tuple[Change, ...]
    moves: tuple[tuple[str, Move], ...] = ()
    symbols: Symbols = Symbols()

    @property
    def label(self) -> str:
        """Return how readers see the item: `layout tiles`."""
        return f"{self.kind} {self.name}"


@frozen
class Mention:
    """A kernel source that mentions touched names of a header: its first line that does, and the names."""

    file: str
    line: int
    names: tuple[str, ...]


@frozen
class Kernels:
    """What was searched for touched names: a folder, how many sources it holds, those that mention some."""

    folder: str
    sources: int
    mentions: tuple[Mention, ...]


@frozen
class Difference:
    """All that is different between two states of the specs. `old` and `new` are their names."""

    old: str
    new: str
    specs: int
    items: tuple[Item, ...]
    kernels: Kernels | None = None

    @property
    def classes(self) -> tuple[Class, ...]:
        """Return the classes of all changes, the gravest first."""
        found = {change.kind for item in self.items for change in item.changes}
        return tuple(kind for kind in CLASSES if kind in found)

    @property
    def symbols(self) -> Symbols:
        """Return the touched names of all items, each once, those of the gravest changes first."""
        items = sorted(self.items, key=lambda item: min(CLASSES.index(change.kind) for change in item.changes))
        python = dict.fromkeys(name for item in items for name in item.symbols.python)
        cpp = dict.fromkeys(name for item in items for name in item.symbols.cpp)
        return Symbols(tuple(python), tuple(cpp))
