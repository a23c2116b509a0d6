"""I and M: what a pointer does not say: strides, alignment, how much is stored; and the order of a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mono_gen import runtime
from tests.field_reports.product import (
    BF16,
    FN,
    Made,
    asserted,
    layer,
    made,
    not_compiled,
    printed,
    ramp,
    refused,
    spec_refused,
    whats,
)

FIELDS = """
struct S(layer) {
    w     : bf16[4, 256] { tile row_major  view layer.w }
    s     : fp32[16] { view layer.s }
    gate  : bf16[8, 16] { tile row_major  view layer.gate }
    flat  : bf16[1024] { view layer.flat }
    ones  : fp32[64] { view layer.ones }
    args table { w s gate flat ones }
}
"""


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("fields"), FIELDS, name="fields")


def with_(**changed: torch.Tensor) -> object:
    """Return a layer of good tensors, these changed."""
    good = {
        "w": torch.zeros(4, 256, dtype=BF16),
        "s": torch.zeros(16),
        "gate": torch.zeros(8, 16, dtype=BF16),
        "flat": torch.zeros(1024, dtype=BF16),
        "ones": torch.ones(64),
    }
    return layer(**{**good, **changed})


def test_i1_row_padded_view_with_a_rebuilt_stride(fields: Made) -> None:
    (problem,) = refused(fields.module.S.from_layer, with_(w=torch.zeros(4, 384, dtype=BF16)[:, :256]))
    assert (problem.field, problem.what) == ("w", "strides")
    assert "256, 1" in problem.expected and "384, 1" in problem.found
    asserted(fields, "S::w::offset(1, 0) == 256 * 2")


def test_i2_small_arguments_without_strides(fields: Made) -> None:
    spoiled = with_(s=torch.zeros(32)[::2], gate=torch.zeros(16, 8, dtype=BF16).t())
    assert whats(refused(fields.module.S.from_layer, spoiled)) == [("s", "strides"), ("gate", "strides")]
    entries = (("s", torch.zeros(32)[::2]), ("gate", torch.zeros(16, 8).t()))
    assert whats(refused(runtime.address_table, "t", entries)) == [("s", "strides"), ("gate", "strides")]


def test_i3_contiguous_view_at_a_misaligned_base(fields: Made) -> None:
    shifted = torch.zeros(1025, dtype=BF16)[1:]
    assert shifted.is_contiguous() and shifted.data_ptr() % 16 == 2
    (problem,) = refused(fields.module.S.from_layer, with_(flat=shifted))
    assert (problem.field, problem.what, problem.found) == ("flat", "alignment", "data_ptr % 16 == 2")
    assert whats(refused(runtime.address_table, "t", (("flat", shifted),))) == [("flat", "alignment")]


def test_i6_expanded_tensor_read_as_dense(fields: Made) -> None:
    found = refused(fields.module.S.from_layer, with_(ones=torch.ones(1).expand(64)))
    assert whats(found) == [("ones", "strides"), ("ones", "storage")]
    assert (found[1].expected, found[1].found) == ("at least 256 bytes", "4 bytes")


def test_i8_compiler_changes_strides_before_the_op(fields: Made) -> None:
    struct = fields.module.S.from_layer(with_())
    assert runtime.recheck(struct) == "unverified"
    struct.gate.as_strided_((8, 16), (1, 8))
    (problem,) = refused(runtime.recheck, struct)
    assert (problem.field, problem.what) == ("gate", "strides") and "(1, 8)" in problem.found
    struct.flat.data = torch.zeros(1024, dtype=BF16)
    assert whats(refused(runtime.recheck, struct)) == [("gate", "strides"), ("flat", "moved")]


CACHE = """
layout page_k(tok, d) {
    split d = D b:16B
    store D tok b
}
layout page_v(tok, d) {
    store d tok
}
struct Cache(layer) {
    dim BLOCKS
    k : fp8_e4m3fn[BLOCKS, 16, 32] { tile page_k  view layer.k  attest page_k when layer.is_paged }
    p : fp8_e4m3fn[BLOCKS, 16, 32] { tile row_major  view layer.p }
}
"""


def test_m1_cache_written_in_one_order_and_read_in_another(tmp_path: Path) -> None:
    product = made(tmp_path, CACHE)
    cache = product.module.Cache
    assert (cache.offset_k(0, 1, 0), cache.offset_p(0, 1, 0)) == (16, 32)
    asserted(product, "Cache::k::offset(0, 1, 0) == 16", "Cache::p::offset(0, 1, 0) == 32")
    written = [cache.offset_k(0, tok, d) for tok in range(16) for d in range(32)]
    assert printed(product, "Cache::k::offset(0, i, j)", (16, 32)) == written
    pages, plain = ramp(2, 16, 32, dtype=FN), ramp(2, 16, 32, dtype=FN)
    unwritten = layer(k=pages, p=plain, is_paged=False)
    assert whats(refused(cache.from_layer, unwritten)) == [("k", "attest")]
    other = layer(k=pages, p=product.module.pack_page_k(plain), is_paged=True)
    assert whats(refused(cache.from_layer, other)) == [("p", "layout")]


def test_m2_cache_whose_order_nobody_declares(tmp_path: Path) -> None:
    said = spec_refused(tmp_path, CACHE.replace("tile page_k  ", ""), "layout-missing")
    assert "how does it lie in memory?" in said


def test_m5_k_and_v_in_different_orders(tmp_path: Path) -> None:
    module = made(
        tmp_path,
        """
        struct Cache(layer) {
            dim BLOCKS
            k : bf16[BLOCKS, 2, 16, 32] { tile row_major  view layer.k }
            v : bf16[BLOCKS, 2, 16, 32] { tile row_major  view layer.v }
        }
        """,
    ).module
    hnd = torch.zeros(3, 2, 16, 32, dtype=BF16)
    nhd = torch.zeros(3, 16, 2, 32, dtype=BF16).transpose(1, 2)
    assert hnd.shape == nhd.shape
    assert module.Cache.from_layer(layer(k=hnd, v=hnd.clone())).BLOCKS == 3
    assert whats(refused(module.Cache.from_layer, layer(k=hnd, v=nhd))) == [("v", "strides")]
    assert whats(refused(module.Cache.from_layer, layer(k=nhd, v=hnd))) == [("k", "strides")]


def test_m6_index_of_cache_scales_in_the_plain_order(tmp_path: Path) -> None:
    product = made(
        tmp_path, "struct Cache(layer) { dim BLOCKS  s : fp32[BLOCKS, 2, 4] { tile row_major  view layer.s } }"
    )
    b_h_t, b_t_h = "((5 * 2 + 1) * 4 + 2) * 4", "((5 * 4 + 2) * 2 + 1) * 4"
    asserted(product, f"Cache::s::offset(5, 1, 2) == {b_h_t}")
    assert product.module.Cache.offset_s(5, 1, 2) == ((5 * 2 + 1) * 4 + 2) * 4
    assert "static assertion failed" in not_compiled(product, f"Cache::s::offset(5, 1, 2) == {b_t_h}")
