"""The closed formulas against aiter's digests: the second witness, without the package."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.conformance.rows import COVERED, NOT_COVERED, VECTORS, bits, source
from tests.reference import values
from tests.reference.data import mixed
from tests.reference.layouts import LAYOUTS, LIBRARY, byte_offset, nibble, pack, padded, unit_offsets


def _sha256(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def test_every_row_is_covered_or_has_a_reason() -> None:
    assert not set(COVERED) & set(NOT_COVERED)
    assert set(COVERED) | set(NOT_COVERED) == set(VECTORS)


@pytest.mark.parametrize("case", COVERED)
def test_formula_gives_aiters_bytes(case: str) -> None:
    row, covered, units = VECTORS[case], COVERED[case], source(case)
    assert _sha256(units) == row["in_sha256"]
    if covered.inverse:
        extents = units.shape[-len(LAYOUTS[covered.layout].axes) :]
        logical = units.ravel()[unit_offsets(covered.layout, extents, bits(row))]
        assert _sha256(logical) == row["storage_sha256"]
        return
    storage = pack(covered.layout, units, bits(row))
    assert storage.tobytes()[:64].hex() == row["storage_first64_hex"]
    assert _sha256(storage) == row["storage_sha256"]


@pytest.mark.parametrize("case", COVERED)
def test_formula_gives_aiters_permutation(case: str) -> None:
    """The bytes repeat every 2 MiB, their places do not: int64, source byte of each storage byte, pads -1."""
    row, covered, units = VECTORS[case], COVERED[case], source(case)
    if covered.inverse:  # of one-byte elements: each logical byte comes from its offset
        assert _sha256(unit_offsets(covered.layout, units.shape, bits(row))) == row["perm_sha256"]
        return
    rank = len(LAYOUTS[covered.layout].axes)
    own = units.shape[-rank:]
    width = bits(row)
    extents = (*own[:-1], own[-1] * 2) if width == 4 else own
    batch = int(np.prod(units.shape[:-rank]))
    size = int(np.prod(padded(covered.layout, extents, width))) * width // max(width, 8)
    offsets = unit_offsets(covered.layout, extents, width).ravel()
    places = np.full((batch, size), -1, dtype=np.int64)
    for item in range(batch):
        places[item, offsets] = np.arange(len(offsets)) + item * len(offsets)
    unit = units.dtype.itemsize
    in_bytes = (places.reshape(-1, 1) * unit + np.arange(unit) * (places.reshape(-1, 1) >= 0)).ravel()
    in_bytes[np.repeat(places.ravel() < 0, unit)] = -1
    assert _sha256(in_bytes) == row["perm_sha256"]


@pytest.mark.parametrize(
    ("name", "bits_", "extents", "at", "offset"),
    [
        ("shuffle_16x16", 8, (16, 32), (0, 16), 256),
        ("shuffle_16x16", 8, (16, 32), (1, 0), 16),
        ("shuffle_16x16", 8, (16, 32), (15, 31), 511),
        ("shuffle_16x16", 8, (32, 64), (17, 33), 1553),
        ("e8m0_tiles", 8, (32, 8), (0, 1), 64),
        ("e8m0_tiles", 8, (32, 8), (1, 0), 4),
        ("e8m0_tiles", 8, (32, 8), (16, 0), 1),
        ("e8m0_tiles", 8, (32, 8), (0, 4), 2),
        ("e8m0_tiles", 8, (32, 8), (31, 7), 255),
        ("e8m0_tiles", 8, (64, 16), (0, 8), 256),
        ("e8m0_tiles", 8, (64, 16), (32, 0), 512),
        ("mxfp8_a_tiles", 8, (16, 128), (0, 16), 512),
        ("mxfp8_a_tiles", 8, (16, 128), (0, 64), 16),
        ("mxfp8_a_tiles", 8, (16, 128), (1, 0), 32),
        ("mxfp8_a_tiles", 8, (16, 128), (15, 127), 2047),
    ],
)
def test_formula_gives_the_published_offsets(
    name: str, bits_: int, extents: tuple[int, ...], at: tuple[int, ...], offset: int
) -> None:
    assert byte_offset(name, at, extents, bits_) == offset


def test_fp4_pairs_keep_their_low_nibble_first() -> None:
    assert [nibble("shuffle_16x16", (3, k), (16, 64)) for k in (6, 7)] == [0, 1]
    assert byte_offset("shuffle_16x16", (3, 6), (16, 64), 4) == byte_offset("shuffle_16x16", (3, 7), (16, 64), 4)


_SHAPES = {
    ("row", "k"): (64, 256),
    ("k", "row"): (64, 64),
    ("c", "tap"): (70, 9),
    ("c", "h", "w"): (70, 3, 5),
    ("d", "tok"): (48, 32),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_formula_never_puts_two_elements_in_one_place(name: str) -> None:
    axes = LAYOUTS[name].axes
    extents = _SHAPES.get(axes, (32, 3, 64) if len(axes) == 3 else (32, 64))
    offsets = unit_offsets(name, extents, 8)
    size = int(np.prod(padded(name, extents, 8)))
    assert offsets.min() == 0 and offsets.max() < size
    assert len(np.unique(offsets)) == offsets.size


def test_every_library_layout_without_a_digest_is_named() -> None:
    without = set(LIBRARY) - {covered.layout for covered in COVERED.values()}
    assert without == {
        "shuffle_weight_gfx1250_3d",
        "preshuffle_b_k_major",
        "shuffle_scale_n32k4_gugu",
        "to_swizzled_layout",
        "prepack_oihw_to_kmajor",
        "prepack_oihw_to_3x3",
        "prepack_nchw_to_cblocked",
    }


def _torch(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


# The catalogue's own view and permute of the layouts that have no digest.
def test_layouts_without_a_digest_are_the_catalogues_view_and_permute() -> None:
    t = _torch(mixed(64 * 96, seed=3).reshape(64, 96))
    expected = {
        "shuffle_weight_gfx1250_3d": t.T.reshape(6, 16, 2, 2, 16).permute(0, 2, 3, 1, 4),
        "preshuffle_b_k_major": t.view(4, 16, 3, 2, 16).permute(2, 0, 3, 1, 4),
        "shuffle_scale_n32k4_gugu": t.view(2, 32, 96).transpose(0, 1).reshape(2, 32, 24, 4).permute(0, 2, 1, 3),
        "to_swizzled_layout": t.view(16, 4, 96).permute(0, 2, 1),
        "prepack_oihw_to_kmajor": torch.nn.functional.pad(t, (0, 32)),
    }
    for name, storage in expected.items():
        assert pack(name, t.numpy()).tobytes() == storage.contiguous().numpy().tobytes(), name
    c = _torch(mixed(70 * 9, seed=4).reshape(70, 9))
    taps = torch.nn.functional.pad(c, (0, 0, 0, 58)).T
    assert pack("prepack_oihw_to_3x3", c.numpy()).tobytes() == taps.contiguous().numpy().tobytes()
    blocked = torch.nn.functional.pad(c, (0, 0, 0, 58)).view(2, 64, 3, 3).permute(0, 2, 3, 1)
    assert (
        pack("prepack_nchw_to_cblocked", c.view(70, 3, 3).numpy()).tobytes() == blocked.contiguous().numpy().tobytes()
    )


def test_values_agree_with_torch() -> None:
    codes = np.arange(256, dtype=np.uint8)
    assert np.array_equal(
        values.e8m0_value(codes), _torch(codes).view(torch.float8_e8m0fnu).double().numpy(), equal_nan=True
    )
    dialects: tuple[tuple[values.Dialect, torch.dtype], ...] = (
        ("fn", torch.float8_e4m3fn),
        ("fnuz", torch.float8_e4m3fnuz),
    )
    for dialect, dtype in dialects:
        decoded = _torch(codes).view(dtype).double().numpy()
        assert np.array_equal(values.fp8_values(dialect), decoded, equal_nan=True)
        largest = values.FP8_MAX[dialect]
        x = torch.randn(1 << 16, generator=torch.Generator().manual_seed(5)) * torch.logspace(-8, 1, 1 << 16)
        x = torch.cat([x, torch.linspace(-largest, largest, 99991), _midpoints(dialect)])
        ours = values.fp32_to_fp8(x.clamp(-largest, largest).numpy(), dialect)
        assert np.array_equal(ours, x.clamp(-largest, largest).to(dtype).view(torch.uint8).numpy())
    x = torch.randint(-(2**31), 2**31 - 1, (1 << 18,), generator=torch.Generator().manual_seed(6)).to(torch.int32)
    x = x.view(torch.float32)
    x = x[x.isfinite()]
    assert np.array_equal(values.fp32_to_bf16(x.numpy()), x.to(torch.bfloat16).view(torch.uint16).numpy())


def _midpoints(dialect: values.Dialect) -> torch.Tensor:
    """Return the values halfway between neighbouring fp8 values, where ties go to even."""
    finite = values.fp8_values(dialect)
    ordered = np.unique(finite[np.isfinite(finite)])
    return torch.from_numpy(((ordered[1:] + ordered[:-1]) / 2).astype(np.float32))


def test_mxfp8_values_by_hand() -> None:
    one, half = np.full((1, 32), 0x38, dtype=np.uint8), np.full((1, 1), 126, dtype=np.uint8)
    assert np.all(values.bf16_value(values.mxfp8_to_bf16(one, half)) == 0.5)
    smallest = np.full((1, 32), 0x01, dtype=np.uint8)
    tiny = values.bf16_value(values.mxfp8_to_bf16(smallest, np.full((1, 1), 3, dtype=np.uint8)))
    assert np.all(tiny == np.float32(2.0**-133))  # the smallest bf16, a subnormal: kept
    codes, scale = values.bf16_to_ptpc_fp8(np.zeros((2, 32), dtype=np.uint16))
    assert not codes.any() and np.all(scale == 1)
    refused = values.refused_blocks(
        np.array([[0x38] * 32 + [0x7F] + [0x38] * 31 + [0x7E] * 32 + [0x38] * 32], dtype=np.uint8),
        np.array([[255, 127, 247, 246]], dtype=np.uint8),
    )
    assert refused.tolist() == [[True, True, True, False]]
