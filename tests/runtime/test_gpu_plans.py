"""The plans of the GPU's kernels, integers alone: they move what pack moves, in units that the addresses allow."""

from __future__ import annotations

import builtins
import itertools
import math
import sys
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from mono_gen import runtime
from mono_gen.algebra.layout import offset
from mono_gen.runtime import MonoUnsupported, Storage, gpu
from mono_gen.runtime.boxes import Boxes, plan_boxes, times
from mono_gen.runtime.gpu_moves import unit_pattern
from mono_gen.runtime.gpu_values import WORDS_A_PROGRAM, plan_split
from mono_gen.runtime.layouts import LayoutRef, known_layouts
from mono_gen.runtime.places import Sum, plan_places

EXTENTS = ((64, 128), (40, 70), (33, 9), (70, 6, 10), (64, 7, 9))


@pytest.fixture(scope="module")
def layouts(aiter_module: ModuleType, minimax_module: ModuleType) -> tuple[LayoutRef, ...]:
    return known_layouts()


def storages(layouts: tuple[LayoutRef, ...], bits: int) -> list[tuple[str, Storage]]:
    """Return every layout at those of the extents that it takes."""
    found = []
    for ref, extents in itertools.product(layouts, EXTENTS):
        try:
            found.append((ref.name, ref.storage("test", bits, *extents)))
        except (MonoUnsupported, TypeError):  # other sizes, or another rank
            continue
    return found


def enumerated(boxes: Boxes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (unit read, unit written, whether it is no pad) for every combination of digits."""
    read = written = torch.zeros(1, dtype=torch.int64)
    coordinates = [torch.zeros(1, dtype=torch.int64) for _ in boxes.limits]
    for i, size in enumerate(boxes.sizes):
        digit = torch.arange(size)
        read, written = (
            (x[:, None] + digit * s[i]).view(-1) for x, s in ((read, boxes.read), (written, boxes.written))
        )
        coordinates = [
            (x[:, None] + digit * limit.weights[i]).view(-1) for x, limit in zip(coordinates, boxes.limits, strict=True)
        ]
    held = torch.ones(len(read), dtype=torch.bool)
    for x, limit in zip(coordinates, boxes.limits, strict=True):
        held &= x < limit.extent
    return read, written, held


@pytest.mark.parametrize(
    ("dtype", "alignment"),
    [(torch.uint8, 16), (torch.uint8, 1), (torch.bfloat16, 2), (torch.float32, 16), (torch.float4_e2m1fn_x2, 16)],
    ids=str,
)
def test_boxes_move_what_pack_moves(layouts: tuple[LayoutRef, ...], dtype: torch.dtype, alignment: int) -> None:
    bits = 4 if dtype is torch.float4_e2m1fn_x2 else 8 * dtype.itemsize
    moved = 0
    for name, storage in storages(layouts, bits):
        shape = (2, *storage.extents[:-1], storage.extents[-1] * bits // 8)
        if bits == 4 and storage.extents[-1] % 2:
            continue
        source = torch.arange(math.prod(shape)).mul(2654435761).bitwise_right_shift(7).to(torch.uint8)
        form: dict[str, Any] = {"padded": storage.padded, "view": storage.view, "permute": storage.permute}
        for unpacks in (False, True):
            boxes = plan_boxes(2, storage, bits, alignment, unpacks)
            if boxes is None:
                with pytest.raises(MonoUnsupported, match="two at a time"):
                    runtime.pack(name, source.view(shape).view(dtype), fill=storage.fill, **form)
                continue
            packed = runtime.pack(name, source.view(shape).view(dtype), fill=storage.fill, **form)
            packed = packed.view(-1).view(torch.uint8).view(-1, boxes.unit)
            logical = source.view(-1, boxes.unit)
            read, written, held = enumerated(boxes)
            if unpacks:
                assert torch.equal(packed[read[held]], logical[written[held]]), (name, storage)
                assert held.sum() == len(logical)
            else:
                assert torch.equal(logical[read[held]], packed[written[held]]), (name, storage)
                pattern = unit_pattern(storage.fill or 0, bits, boxes.unit)
                if pattern is not None and not held.all():
                    pads = packed[written[~held]]
                    fill = pattern.to_bytes(boxes.unit, "little", signed=boxes.unit > 1)
                    assert (pads == torch.tensor(list(fill), dtype=torch.uint8)).all(), (name, storage)
                assert torch.equal(torch.bincount(written), torch.ones(len(packed), dtype=torch.int64))
            moved += 1
    assert moved > 30


def test_programs_cover_their_boxes_as_the_digits_do(layouts: tuple[LayoutRef, ...]) -> None:
    for _, storage in storages(layouts, 8):
        for unpacks in (False, True):
            boxes = plan_boxes(5, storage, 8, 16, unpacks, 512)
            assert boxes is not None
            assert math.prod(boxes.box) * boxes.unit <= 512
            assert all(n & (n - 1) == 0 for n in boxes.box)
            for read, strides in ((True, boxes.read), (False, boxes.written)):
                order = range(len(boxes.box)) if read else boxes.order
                by_digits = by_spans = torch.zeros(1, dtype=torch.int64)
                for i in order:
                    by_digits = (by_digits[:, None] + torch.arange(boxes.box[i]) * strides[i]).view(-1)
                for size, stride in boxes.spans(read):
                    by_spans = (by_spans[:, None] + torch.arange(size) * stride).view(-1)
                assert torch.equal(by_digits, by_spans)


@pytest.mark.parametrize(
    ("alignment", "k", "unit"), [(16, 512, 8), (8, 512, 8), (4, 512, 4), (2, 512, 2), (1, 512, 1), (16, 504, 8)]
)
def test_units_are_as_wide_as_addresses_allow(alignment: int, k: int, unit: int) -> None:
    padded = -(-k // 32) * 32
    view, permute = (4, 16, padded // 32, 2, 16), (0, 2, 3, 1, 4)
    boxes = plan_boxes(1, Storage((64, k), (64, padded), view, permute), 8, alignment, False)
    assert boxes is not None and boxes.unit == unit


def test_stretches_are_long_on_both_sides() -> None:
    for view, permute in (
        ((96, 16, 96, 2, 16), (0, 2, 3, 1, 4)),
        ((48, 2, 16, 384, 2, 4), (0, 3, 5, 2, 4, 1)),
        ((1536, 3072), (1, 0)),
    ):
        boxes = plan_boxes(129, Storage((1536, 3072), (1536, 3072), view, permute), 8, 16, False)
        assert boxes is not None
        for read in (True, False):
            size, stride = boxes.spans(read)[-1]
            assert stride == 1 and size * boxes.unit >= 64


def test_offsets_past_31_bits_are_wide() -> None:
    rows = 1 << 16
    for k, wide in ((1 << 10, False), (1 << 26, True)):
        boxes = plan_boxes(1, Storage((rows, k), (rows, k), (rows, k), (1, 0)), 8, 16, False)
        assert boxes is not None
        most = sum((size - 1) * stride for size, stride in boxes.spans(True))
        assert (most >= 1 << 31) == wide


@pytest.mark.parametrize(
    ("fill", "bits", "unit", "pattern"),
    [(0x7F, 8, 4, 0x7F7F7F7F), (0xFF, 8, 8, -1), (5, 4, 2, 0x5555), (0x1234, 16, 1, None), (0x1111, 16, 1, 0x11)]
    + [(0x1234, 16, 8, 0x1234123412341234), (256, 8, 1, None), (0x80, 8, 1, 0x80)],
)
def test_pads_are_the_elements_pattern(fill: int, bits: int, unit: int, pattern: int | None) -> None:
    assert unit_pattern(fill, bits, unit) == pattern


def test_times_are_what_divides_a_stride() -> None:
    assert times((1, 24, 6144, 0x10000)) == (1, 8, 256, 256)


def at(places: Sum, index: int) -> int:
    """Return where an index of an axis lies, in words."""
    digits = zip(places.sizes, places.inner, places.strides, strict=True)
    return sum((index // inner % size if size else index // inner) * stride for size, inner, stride in digits)


def test_places_are_the_algebras_offsets(layouts: tuple[LayoutRef, ...]) -> None:
    planned = 0
    for name, storage in storages(layouts, 8):
        places = plan_places(3, storage.extents, storage.padded, storage.view, storage.permute)
        if places is None:
            continue
        layout = storage.bound()
        rows, k = storage.extents
        for row in range(3 * rows):
            base = row // rows * rows * k
            for unit in range(0, k // (4 * places.unit), 3):
                wanted = base + offset(layout, (row % rows, unit * 4 * places.unit))
                assert 4 * (at(places.rows, row) + at(places.units, unit)) == wanted, (name, row, unit)
                last = base + offset(layout, (row % rows, (unit + 1) * 4 * places.unit - 1))
                assert last == wanted + 4 * places.unit - 1, (name, row, unit)
        planned += 1
    assert planned >= 10


@pytest.mark.parametrize("blocks", [1, 3, 5, 24, 57, 64, 192, 256, 1280, 4096])
def test_splits_cover_a_row(blocks: int) -> None:
    split = plan_split(blocks)
    if split.chunks:
        assert split.chunks * split.blocks >= blocks
        assert split.rows * split.chunks * split.blocks * 8 <= 2 * WORDS_A_PROGRAM
    assert split.blocks & (split.blocks - 1) == 0
    assert split.rows in (4, 8, 16)
    assert split.warps in (1, 2, 4, 8, 16)


def rounded(x: Fraction) -> Fraction:
    """Return x, from 0, as fp32 rounds it: 24 bits, to nearest even."""
    if x == 0:
        return x
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > x
    unit = Fraction(2) ** (exponent - 23)
    whole, rest = divmod(x / unit, 1)
    return (whole + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2))) * unit


@pytest.mark.parametrize("maximum", [448, 240])
def test_every_quotient(maximum: int) -> None:
    """A reciprocal, corrected once by a fused multiply-add, is the quotient for every pair of significands there is."""
    uncorrected = 0
    for most, x in itertools.product(range(8, 16), range(1, 16)):
        scale = rounded(most * rounded(Fraction(1, maximum)))
        up = rounded(1 / scale)
        q = rounded(x * up)
        rest = x - q * scale
        assert rounded(abs(rest)) == abs(rest)
        assert rounded(q + rest * up) == rounded(x / scale), (most, x)
        uncorrected += q != rounded(x / scale)
    assert uncorrected > 0


def test_without_a_gpu_nothing_is_asked_of_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def guarded(name: str, *args: Any, **named: Any) -> Any:
        assert not name.startswith("triton"), name
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert not gpu.has_kernels(torch.zeros(1))
    tiles: dict[str, Any] = {"padded": (32, 64), "view": (2, 16, 2, 2, 16), "permute": (0, 2, 3, 1, 4)}
    runtime.unpack("x", runtime.pack("x", torch.zeros(32, 64), **tiles), (32, 64), **tiles)


def test_without_triton_torch_does_it_and_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "triton":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    gpu._has_triton.cache_clear()
    try:
        assert not gpu._has_triton()
    finally:
        gpu._has_triton.cache_clear()
    assert capfd.readouterr() == ("", "")
    assert not list(recwarn)


def test_an_old_triton_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, holds in (("3.1.0", False), ("3.4.0", True), ("3.6.0+rocm7", True), ("4.0.0", True)):
        monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=version))  # type: ignore[arg-type]
        gpu._has_triton.cache_clear()
        assert gpu._has_triton() is holds
    gpu._has_triton.cache_clear()
