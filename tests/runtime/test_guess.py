"""The blind check on weights that were quantized here by rules written independently of the package."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen import runtime
from mono_gen.runtime import Guess, guess_layout
from mono_gen.runtime.guess import _chance, bytes_look_like
from tests.reference.layouts import pack
from tests.runtime.made import E8M0, FN, U8, layer, made, refused, whats

NUZ = torch.float8_e4m3fnuz
Bytes = NDArray[np.uint8]
GRID = np.array([(1 + (c & 7) / 8) * 2.0 ** ((c >> 3) - 7) if c >> 3 else (c & 7) * 2.0**-9 for c in range(0x7F)])
"""The magnitudes of fp8_e4m3fn, by code."""


def normals(rows: int, k: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((rows, k)) * 0.02


def codes_of(x: NDArray[np.float64]) -> Bytes:
    """Return the codes of values within 448, to nearest, ties to the even code."""
    magnitude = np.minimum(np.abs(x), 448.0)
    above = np.clip(np.searchsorted(GRID, magnitude), 1, 0x7E)
    low, high = GRID[above - 1], GRID[above]
    up = (magnitude - low > high - magnitude) | ((magnitude - low == high - magnitude) & (above % 2 == 0))
    return (above - 1 + up + 128 * np.signbit(x)).astype(np.uint8)


def mxfp8(x: NDArray[np.float64], *, rounds_down: bool = False) -> tuple[Bytes, Bytes]:
    """Return codes and scale bytes: amax / 448 rounded up to a power of two (aiter), or floor(log2 amax) - 8 (OCP)."""
    blocks = x.reshape(x.shape[0], -1, 32)
    amax = np.abs(blocks).max(-1)
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(amax)) - 8 if rounds_down else np.ceil(np.log2(amax / 448))
    exponent = np.clip(np.where(amax > 0, exponent, -127), -127, 127)
    codes = codes_of(blocks / 2.0 ** exponent[..., None])
    return codes.reshape(x.shape), (exponent + 127).astype(np.uint8)


def ptpc(x: NDArray[np.float64]) -> Bytes:
    """Return codes under a scale of amax / 448 a row."""
    amax = np.abs(x).max(-1, keepdims=True)
    return codes_of(x / np.where(amax > 0, amax / 448, 1))


def fp8(codes: Bytes) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(codes)).view(FN)


def e8m0(scale: Bytes) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(scale)).view(E8M0)


LAYOUTS = ("row_major", "shuffle_16x16", "mxfp8_a_tiles")


def packed(layout: str, codes: Bytes) -> torch.Tensor:
    """Return codes in a layout, by the closed formulas."""
    return fp8(codes if layout == "row_major" else pack(layout, codes).reshape(codes.shape))


def verdicts(guesses: tuple[Guess, ...]) -> dict[str, bool]:
    return {g.layout: g.excluded for g in guesses}


@pytest.fixture(autouse=True)
def modules(minimax_module: ModuleType, aiter_module: ModuleType) -> tuple[ModuleType, ModuleType]:
    return minimax_module, aiter_module


def test_the_quantizer_here_meets_the_promise_that_the_check_rests_on() -> None:
    x = normals(64, 1024)
    for rounds_down, least in ((False, 0x76), (True, 0x78)):
        codes, _ = mxfp8(x, rounds_down=rounds_down)
        tops = (codes & 0x7F).reshape(64, -1, 32).max(-1)
        assert tops.min() >= least and tops.min() < least + 3
    assert ((ptpc(x) & 0x7F).max(-1) == 0x7E).all()
    assert np.array_equal(codes_of(np.array([448.0, 224.0, 0.0, -1.0, 2**-9, 447])), [0x7E, 0x76, 0, 0xB8, 1, 0x7E])


@pytest.mark.parametrize("true", LAYOUTS)
@pytest.mark.parametrize("rounds_down", [False, True])
def test_the_right_layout_passes_and_the_wrong_ones_are_excluded(true: str, rounds_down: bool) -> None:
    codes, scale = mxfp8(normals(512, 1536), rounds_down=rounds_down)
    found = guess_layout(packed(true, codes), LAYOUTS, scale=e8m0(scale), rounds_scale_down=rounds_down)
    assert verdicts(found) == {name: name != true for name in LAYOUTS}
    right = next(g for g in found if g.layout == true)
    assert right.violations == 0 and right.blocks == 512 * 48 and right.pass_chance < 1e-100
    assert all(g.violations > 100 for g in found if g.layout != true)


@pytest.mark.parametrize("true", ["row_major", "shuffle_16x16"])
def test_rows_of_ptpc(true: str) -> None:
    """A row of the real K mixes 16 rows: each of them holds the largest code of some row only by chance."""
    codes = ptpc(normals(256, 6144))
    found = guess_layout(packed(true, codes), ("row_major", "shuffle_16x16"))
    assert verdicts(found) == {"row_major": true != "row_major", "shuffle_16x16": true != "shuffle_16x16"}
    nuz = (codes & 0x80) | np.where(codes & 0x7F == 0x7E, 0x7F, codes & 0x7F).astype(np.uint8)
    found = guess_layout(packed(true, nuz).view(NUZ), ("row_major", "shuffle_16x16"))
    assert verdicts(found) == {"row_major": true != "row_major", "shuffle_16x16": true != "shuffle_16x16"}
    assert guess_layout(packed(true, codes).view(NUZ), (true,))[0].excluded, "0x7E is 224 there, not 240"


def test_at_the_real_size(minimax_module: ModuleType) -> None:
    codes, scale = mxfp8(normals(1536, 6144, 3))
    t = minimax_module.pack_mxfp8_a_tiles(fp8(codes))
    found = guess_layout(t, ("mxfp8_a_tiles", "row_major", "shuffle_16x16"), scale=e8m0(scale))
    assert verdicts(found) == {"mxfp8_a_tiles": False, "row_major": True, "shuffle_16x16": True}
    assert runtime.record_of(t) is not None, "what the ledger knows is not asked, and stays"


def test_scales_may_be_in_a_layout_of_their_own(minimax_module: ModuleType) -> None:
    codes, scale = mxfp8(normals(64, 256))
    scale[3, 1], codes[3, 32:64] = 0, 1  # a block at its clamp holds small codes
    for order, t in (("row_major", e8m0(scale)), ("e8m0_tiles", minimax_module.pack_e8m0_tiles(e8m0(scale)))):
        (found,) = guess_layout(fp8(codes), ("row_major",), scale=t, scale_layout=order)
        assert not found.excluded and found.blocks == 64 * 8 - 1
    (wrong,) = guess_layout(fp8(codes), ("row_major",), scale=t, scale_layout="row_major")
    assert wrong.excluded and wrong.violations == 1


@pytest.mark.parametrize("count", [6, 25])
@pytest.mark.parametrize("width", [32, 256])
def test_the_reported_chance_is_that_of_a_simulation(count: int, width: int) -> None:
    """Pieces of 16 codes dealt at random, 4000 times: the share of deals in which no block is without a large code."""
    large = 0x76 if width == 32 else 0x7E
    x = normals(count, width, 7)
    codes = (mxfp8(x)[0] if width == 32 else ptpc(x)) & 0x7F
    if width == 256:
        codes[codes >= 0x70] = 0x7E  # enough large ones for a chance that can be counted
    blocks = torch.from_numpy(codes)
    said = _chance(blocks, large)
    has = (blocks.reshape(-1, 16).amax(-1) >= large).numpy()
    rng = np.random.default_rng(1)
    deals = np.stack([rng.permutation(has) for _ in range(4000)]).reshape(4000, count, -1)
    counted = float(deals.any(-1).all(-1).mean())
    drawn = np.stack([rng.choice(has, has.size) for _ in range(4000)]).reshape(4000, count, -1)
    independent = float(drawn.any(-1).all(-1).mean())
    assert abs(independent - said) < 4 * (said * (1 - said) / 4000) ** 0.5 + 1e-3
    assert counted <= 1.5 * said + 0.05, "dealing without return gives a wrong layout no better chance"


@pytest.mark.parametrize("k", [32, 64])
def test_a_real_wrong_layout_passes_about_as_often_as_is_said(k: int) -> None:
    """16 rows in shuffle_16x16 read as row_major, 500 weights: too few blocks to be sure, and the numbers say so."""
    passed, said = 0, []
    for seed in range(500):
        codes, scale = mxfp8(normals(16, k, seed))
        t = packed("shuffle_16x16", codes)
        right, wrong = guess_layout(t, ("shuffle_16x16", "row_major"), scale=e8m0(scale))
        passed += not wrong.excluded
        said.append(right.pass_chance)
    assert 0.4 < np.mean(said) < 0.9
    assert abs(passed / 500 - float(np.mean(said))) < 0.08


def test_nothing_to_read_says_nothing() -> None:
    zeros = torch.zeros(32, 64, dtype=U8).view(FN)
    for scale in (torch.full((32, 2), 120, dtype=U8), None):
        (found,) = guess_layout(zeros, ("row_major",), scale=scale)
        assert (found.excluded, found.blocks, found.pass_chance) == (False, 0, 1.0)
    minus = torch.full((32, 64), 0x80, dtype=U8).view(FN)
    assert guess_layout(minus, ("row_major",))[0].blocks == 0, "minus zero is zero"


@pytest.mark.parametrize("clamp", [0, 1, 254])
def test_blocks_at_their_clamp_are_passed_over(clamp: int) -> None:
    codes, scale = mxfp8(normals(32, 256))
    codes[5, 64:96], scale[5, 2] = 3, clamp
    (found,) = guess_layout(fp8(codes), ("row_major",), scale=e8m0(scale))
    assert not found.excluded and found.blocks == 32 * 8 - 1
    scale[5, 2] = clamp + 2 if clamp < 254 else 250
    (found,) = guess_layout(fp8(codes), ("row_major",), scale=e8m0(scale))
    assert found.excluded and found.violations == 1


def test_one_violation_excludes() -> None:
    codes, scale = mxfp8(normals(64, 256))
    codes[63, 224:] &= 0x8F
    codes[63, 224] |= 1
    (found,) = guess_layout(fp8(codes), ("row_major",), scale=e8m0(scale))
    assert found.excluded and found.violations == 1 and "1 of 512 blocks" in str(found)


def test_rounding_down_asks_for_more() -> None:
    codes, scale = mxfp8(normals(64, 1024))
    assert not guess_layout(fp8(codes), ("row_major",), scale=e8m0(scale))[0].excluded
    assert guess_layout(fp8(codes), ("row_major",), scale=e8m0(scale), rounds_scale_down=True)[0].excluded


def test_what_is_refused(minimax_module: ModuleType) -> None:
    t = torch.zeros(32, 64, dtype=U8)
    scale = torch.zeros(32, 2, dtype=U8)
    assert whats(refused(guess_layout, t.view(torch.float4_e2m1fn_x2), ("row_major",))) == [("guess_layout", "dtype")]
    assert whats(refused(guess_layout, t, ("row_major",))) == [("guess_layout", "dtype")]
    assert whats(refused(guess_layout, t.view(NUZ), ("row_major",), scale=scale)) == [("guess_layout", "dtype")]
    (problem,) = refused(guess_layout, torch.zeros(32, 48, dtype=U8).view(FN), ("row_major",), scale=scale[:, :1])
    assert (problem.what, problem.found) == ("size", "k = 48")
    for wrong in (scale[:, :1], scale.t(), scale.view(torch.int8), torch.zeros(32, 2)):
        assert whats(refused(guess_layout, t.view(FN), ("row_major",), scale=wrong)) == [("guess_layout", "scale")]
    assert whats(refused(guess_layout, t.view(FN), ("no_such",))) == [("no_such", "layout")]
    assert whats(refused(guess_layout, t[:15].view(FN), ("shuffle_16x16",))) == [("guess_layout", "size")]


# --- what it cannot see: each of these passes, and is wrong ---


def passes(codes: Bytes, scale: Bytes | None) -> bool:
    (found,) = guess_layout(fp8(codes), ("row_major",), scale=None if scale is None else e8m0(scale))
    return not found.excluded and found.pass_chance < 1e-10


@pytest.fixture
def weight() -> tuple[Bytes, Bytes]:
    return mxfp8(normals(128, 512))


def test_blind_to_orders_within_a_block(weight: tuple[Bytes, Bytes]) -> None:
    codes, scale = weight
    assert passes(codes.reshape(128, -1, 32)[..., ::-1].reshape(128, 512), scale)


def test_blind_to_segments_exchanged(weight: tuple[Bytes, Bytes]) -> None:
    codes, scale = weight
    assert passes(np.roll(codes, 64, 0), scale), "gate and up, their scales left behind"


def test_blind_to_rows_permuted(weight: tuple[Bytes, Bytes]) -> None:
    codes, scale = weight
    assert passes(codes[np.random.default_rng(0).permutation(128)], scale)


def test_blind_to_whole_blocks_moved(weight: tuple[Bytes, Bytes]) -> None:
    codes, scale = weight
    assert passes(codes.reshape(128, -1, 32).transpose(1, 0, 2).reshape(128, 512), scale)


def test_blind_to_layouts_that_keep_each_others_blocks_whole(weight: tuple[Bytes, Bytes]) -> None:
    """A tile of mxfp8_a_tiles read as shuffle_32x16: each block of 32 codes arrives whole, in another row."""
    codes, scale = weight
    for true, read in (("mxfp8_a_tiles", "shuffle_32x16"), ("shuffle_32x16", "mxfp8_a_tiles")):
        (found,) = guess_layout(packed(true, codes), (read,), scale=e8m0(scale))
        assert not found.excluded and found.pass_chance < 1e-10


def test_blind_to_the_order_of_scales(weight: tuple[Bytes, Bytes]) -> None:
    codes, scale = weight
    assert not {0, 1, 254} & set(scale.ravel().tolist())
    assert passes(codes, np.random.default_rng(0).permutation(scale.ravel()).reshape(scale.shape))


def test_blind_to_orders_within_a_row_of_ptpc() -> None:
    codes = ptpc(normals(64, 512))
    order = np.random.default_rng(0).permutation(512)
    (found,) = guess_layout(fp8(codes[:, order]), ("row_major",))
    assert not found.excluded


def test_a_producer_with_another_rule_excludes_everything(weight: tuple[Bytes, Bytes]) -> None:
    """Scales with head room: every layout looks wrong, the right one too."""
    x = normals(128, 512)
    codes = codes_of(x / np.abs(x).max() * 100)
    found = guess_layout(fp8(codes), LAYOUTS, scale=e8m0(np.full((128, 16), 120, np.uint8)))
    assert all(g.excluded for g in found)


def test_the_docstring_names_what_is_blind() -> None:
    assert runtime.guess.__doc__ is not None
    for words in ("within a block", "rows permuted", "gate and up exchanged", "whole blocks moved", "scales", "fp4"):
        assert words in runtime.guess.__doc__, words


# --- refusals say what the bytes look like ---


def test_a_refusal_says_what_the_bytes_look_like(minimax_module: ModuleType, tmp_path: Path) -> None:
    text = """
spec looks
arch gfx950
import "aiter.layout"
struct Source(layer) {
    w, s : ptpc_fp8[64, 256] {
        tile shuffle_16x16  convert mxfp8 row_major layer.w, layer.s via bf16  attest not layer.w.is_shuffled
    }
}
struct View(layer) {
    w, s : ptpc_fp8[64, 1024] {
        tile shuffle_16x16  view layer.w, layer.s  attest shuffle_16x16 when layer.w.is_shuffled
    }
}
struct Silent(layer) { w, s : ptpc_fp8[64, 1024] { tile shuffle_16x16  view layer.w, layer.s } }
"""
    module = made(tmp_path, text, "looks")
    codes, scale = mxfp8(normals(64, 256))
    shuffled: Any = packed("shuffle_16x16", codes)
    shuffled.is_shuffled = True
    (problem,) = refused(module.Source.from_layer, layer(w=shuffled, s=e8m0(scale)))
    assert problem.what == "attest" and "not row_major" in problem.help and "may be shuffle_16x16" in problem.help
    plain: Any = fp8(codes)
    plain.is_shuffled = True
    (problem,) = refused(module.Source.from_layer, layer(w=plain, s=e8m0(scale)))
    assert "may be row_major" in problem.help and "shuffle_16x16" not in problem.help
    rows = ptpc(normals(64, 1024))
    scales = torch.ones(64)
    for struct in (module.View, module.Silent):
        (problem,) = refused(struct.from_layer, layer(w=packed("shuffle_16x16", rows), s=scales))
        assert "not row_major" in problem.help and "may be shuffle_16x16" in problem.help, struct
        (problem,) = refused(struct.from_layer, layer(w=fp8(rows), s=scales))
        assert "may be row_major" in problem.help


def test_bytes_that_cannot_be_read_are_not(tmp_path: Path) -> None:
    """Freed storage, a shape or strides that are refused: the refusal reads nothing."""
    text = """
spec unread
arch gfx950
struct S(layer) {
    w, s : mxfp8[64, 256] {
        tile row_major  scale row_major  convert mxfp8 row_major layer.w, layer.s  attest not layer.w.is_shuffled
    }
}
"""
    module = made(tmp_path, text, "unread")
    codes, scale = mxfp8(normals(64, 256))
    for spoil in ("freed", "shape", "strides"):
        w: Any = fp8(codes)
        match spoil:
            case "freed":
                w = torch.empty(64, 256, dtype=FN)
                w.untyped_storage().resize_(0)
            case "shape":
                w = w[:32]
            case "strides":
                w = torch.empty(256, 64, dtype=FN).t()
        w.is_shuffled = True
        problems = refused(module.S.from_layer, layer(w=w, s=e8m0(scale)))
        assert [p.what for p in problems] == [{"freed": "storage"}.get(spoil, spoil), "attest"]
        assert "the bytes" not in problems[1].help


def test_other_tensors_look_like_nothing() -> None:
    assert bytes_look_like(torch.zeros(4, 4), None) == ""
    assert bytes_look_like(torch.zeros(16, dtype=U8).view(FN), None) == ""
    assert bytes_look_like(torch.zeros(16, 48, dtype=U8).view(FN), torch.zeros(16, 1, dtype=U8)) == ""


def test_of_experts_the_first_is_read() -> None:
    codes, scale = mxfp8(normals(64, 256))
    data = torch.stack((fp8(codes).view(U8), torch.zeros(64, 256, dtype=U8))).view(FN)
    scales = torch.stack((e8m0(scale).view(U8),) * 2)
    assert "may be row_major: 512 blocks read" in bytes_look_like(data, scales)
