"""Mutants of every layout: each that changes a byte is killed by a formula that shares no code, and has another id.

What a mutant changes is decided by running its generated pack against the original's on legal shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mono_gen.algebra.ids import layout_id
from mono_gen.algebra.template import bind
from mono_gen.diagnostics.model import SpecError
from mono_gen.emit.python import emit_python
from mono_gen.loading import LIBRARY
from mono_gen.model import LayoutModel
from mono_gen.pipeline import plan_specs
from mono_gen.plan.layouts import is_legal
from mono_gen.runtime import MonoUnsupported
from tests.conftest import ROOT
from tests.mutants.edits import Block, mutants, read_blocks, write
from tests.reference import layouts as reference
from tests.reference.data import mixed

BLOCKS = read_blocks((LIBRARY / "aiter.layout").read_text()) | read_blocks(
    (ROOT / "specs" / "minimax_m3.layout").read_text()
)
DTYPES = {4: torch.float4_e2m1fn_x2, 8: torch.uint8, 16: torch.int16, 32: torch.int32}
UNITS = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}
FEWEST = 10
Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A layout as the tool makes it: its model, and its generated pack and offset.

    in_bytes: whether it counts bytes somewhere, and so may differ by element width.
    """

    model: LayoutModel
    in_bytes: bool
    pack: Callable[..., torch.Tensor]
    offset: Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutants")


BUILT: dict[str, Built | None] = {}  # by text


def build(folder: Path, block: Block, *, restated: bool = False) -> Built | None:
    """Return the layout of a block's text; None where the tool refuses the text."""
    text = f"spec mutant\n\n{write(block, restated=restated)}"
    if text not in BUILT:
        BUILT[text] = _built(folder, block, text)
    return BUILT[text]


def _built(folder: Path, block: Block, text: str) -> Built | None:
    path = folder / "mutant.layout"
    path.write_text(text)
    try:
        (plan,), _ = plan_specs([path], {})
    except SpecError:
        return None
    (file,) = emit_python(plan)
    module: dict[str, Any] = {"__name__": "mutant"}
    exec(compile(file.text, file.path, "exec"), module)
    in_bytes = any(
        size.endswith("B") for _, size in (*block.pads, *(part for _, parts in block.splits for part in parts))
    )
    return Built(plan.layouts[0].model, in_bytes, module[f"pack_{block.name}"], module[f"offset_{block.name}"])


@cache
def shapes(original: LayoutModel, bits: int) -> tuple[Extents, ...]:
    """Return legal extents of the original, small ones first: pads dead and live, one tile an axis to four."""
    axes = original.template.axes
    found: list[Extents] = []
    steps = [lcm(axis.sized.at(bits), axis.pad_to.at(bits) if axis.pad_to else 1) for axis in axes]
    counts: list[tuple[int, ...]] = [(1,) if axis.is_fixed else (2, 4, 3, 9) for axis in axes]
    for tiles in product(*counts):
        for live in (False, True):
            extents = []
            for axis, step, n in zip(axes, steps, tiles, strict=True):
                multiple = axis.pad_to.at(bits) if axis.pad_to else 1
                part = lcm(axis.sized.at(bits), 2) if multiple % axis.sized.at(bits) == 0 else 2
                extents.append(step * n - (multiple - part if live and multiple > part else 0))
            if is_legal(original, tuple(extents), bits) and tuple(extents) not in found:
                found.append(tuple(extents))
    found.sort(key=lambda extents: (int(np.prod(extents)), extents))
    small = [e for e in found if np.prod(e) <= 1 << 15] or found[:1]
    return tuple(dict.fromkeys((small[0], small[min(1, len(small) - 1)], small[len(small) // 2], small[-1])))


def packed(built: Built, extents: Extents, bits: int) -> bytes | None:
    """Return the storage of position-coded data; None where pack refuses the size."""
    shape = (*extents[:-1], extents[-1] // 2) if bits == 4 else extents
    t = torch.from_numpy(coded(shape, bits).view(np.uint8).ravel()).view(DTYPES[bits]).view(shape)
    try:
        storage = built.pack(t)
    except MonoUnsupported:
        return None
    return storage.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


@cache
def coded(shape: Extents, bits: int) -> np.ndarray[Any, Any]:
    """Return units of hashed bytes: no permutation of them looks like another, and none is a fill."""
    unit = np.dtype(UNITS[bits])
    never = (0x00, 0x7F, 0x01)
    return mixed(int(np.prod(shape)) * unit.itemsize, seed=23, never=never).view(unit).reshape(shape)


@cache
def expected(name: str, extents: Extents, bits: int) -> bytes:
    """Return the storage by the closed formulas of tests/reference."""
    shape = (*extents[:-1], extents[-1] // 2) if bits == 4 else extents
    return reference.pack(name, coded(shape, bits), bits).tobytes()


def comparisons(original: Built, mutant: Built) -> Iterator[tuple[int, Extents, bytes, bytes]]:
    """Yield (width, extents, the original's storage, the mutant's) at every shape that both take."""
    for bits in (8, 4, 16) if mutant.in_bytes or original.in_bytes else (8, 16):
        if bits not in original.model.widths or bits not in mutant.model.widths:
            continue
        for extents in shapes(original.model, bits):
            if bits == 4 and extents[-1] % 2:
                continue
            mine = packed(original, extents, bits)
            theirs = packed(mutant, extents, bits) if mine is not None else None
            if mine is not None and theirs is not None:
                yield bits, extents, mine, theirs


def ids(built: Built, extents: Extents, bits: int) -> int:
    """Return the layout id at some extents."""
    return layout_id(bind(built.model.template, extents, bits), bits)


@dataclass(slots=True)
class Count:
    """What became of the mutants of one layout; `refused` are no legal spec, or share no size with the original."""

    killed: int = 0
    same: int = 0
    refused: int = 0


@pytest.mark.parametrize("name", BLOCKS)
def test_every_mutant_that_changes_a_byte_is_killed_and_has_another_id(
    folder: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    block = BLOCKS[name]
    original = build(folder, block)
    assert original is not None
    count = Count()
    for what, edited in mutants(block).items():
        mutant = build(folder, edited)
        seen = list(comparisons(original, mutant)) if mutant is not None else []
        if mutant is None or not seen:
            count.refused += 1
            continue
        count.killed += judge(name, what, original, mutant, seen)
        count.same = count.same + (not any(mine != theirs for _, _, mine, theirs in seen))
    record_property("count: layout mutants that change a byte, each killed and with another id", count.killed)
    record_property("count: layout mutants that change none, each with the same id", count.same)
    record_property("count: layout mutants that are no legal spec or share no size with the original", count.refused)
    assert count.killed >= FEWEST, count


def judge(name: str, what: str, original: Built, mutant: Built, seen: list[tuple[int, Extents, bytes, bytes]]) -> bool:
    """Return whether the mutant changes a byte, having held it to its id and to the closed formulas at each shape."""
    changes = False
    for bits, extents, mine, theirs in seen:
        where = f"{name}, {what}, {extents} of {bits} bits"
        wanted = expected(name, extents, bits)
        assert mine == wanted, f"{where}: the original is not the formula"
        ids_differ = ids(original, extents, bits) != ids(mutant, extents, bits)
        if mine != theirs:
            changes = True
            assert theirs != wanted, f"{where}: survived"
            assert ids_differ, f"{where}: other bytes under one id"
        elif what != "fill undefined":  # its 0x00 is written, not promised
            assert not ids_differ, f"{where}: the same bytes under two ids"
    return changes


def test_the_whole_has_ten_mutants_a_layout() -> None:
    """The names of this file's layouts are all of the library's and the spec's."""
    assert set(BLOCKS) == set(reference.LIBRARY) | set(reference.SPEC)
    assert sum(len(mutants(block)) for block in BLOCKS.values()) > 500


@pytest.mark.parametrize("name", [name for name, block in BLOCKS.items() if block.restated])
def test_the_tool_refuses_a_mutant_that_its_restatements_contradict(folder: Path, name: str) -> None:
    """The map of padded extents is what `same as` restates: mutants of pads and fills are not its business."""
    block = BLOCKS[name]
    original = build(folder, block, restated=True)
    assert original is not None
    refused = 0
    for what, edited in mutants(block).items():
        mutant = build(folder, edited)
        if mutant is None or edited.pads != block.pads or not maps_differ(original, mutant):
            continue
        assert build(folder, edited, restated=True) is None, f"{name}: {what}"
        refused += 1
    assert refused >= 3


def maps_differ(original: Built, mutant: Built) -> bool:
    """Return whether the two put some element of a shape without live pads at different places."""
    for bits in (4, 8, 16):
        if bits in original.model.widths and bits in mutant.model.widths:
            for extents in shapes(original.model, bits):
                both = [bind_or_none(b, extents, bits) for b in (original, mutant)]
                if None in both or any(layout.live_pads for layout in both if layout is not None):
                    continue
                at = tuple(np.indices(extents, dtype=np.int64))
                mine, theirs = (b.offset(*at, extents, bits) for b in (original, mutant))
                if not np.array_equal(np.stack(np.broadcast_arrays(*_flat(mine))), np.stack(_flat(theirs))):
                    return True
    return False


def _flat(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def bind_or_none(built: Built, extents: Extents, bits: int) -> Any:
    """Return the bound layout, None where the extents are not legal."""
    return bind(built.model.template, extents, bits) if is_legal(built.model, extents, bits) else None


def test_the_aiter_digests_kill_too() -> None:
    """A mutant need not be judged by a formula of ours: `two digits exchanged` against aiter's own digest."""
    import hashlib

    from tests.conformance.rows import VECTORS, source

    row = VECTORS["sw_fp8_32x64"]
    t = torch.from_numpy(source("sw_fp8_32x64"))
    right = t.view(2, 16, 2, 2, 16).permute(0, 2, 3, 1, 4).contiguous()
    wrong = t.view(2, 16, 2, 2, 16).permute(0, 2, 1, 3, 4).contiguous()
    assert hashlib.sha256(right.numpy().tobytes()).hexdigest() == row["storage_sha256"]
    assert hashlib.sha256(wrong.numpy().tobytes()).hexdigest() != row["storage_sha256"]
