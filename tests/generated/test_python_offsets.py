"""Generated offset, pack and unpack of every layout and field: against the algebra, and against the closed formulas."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mono_gen.algebra.layout import offset
from mono_gen.algebra.template import bind
from mono_gen.model import LayoutModel, TensorModel
from mono_gen.pipeline import plan_specs
from mono_gen.plan.model import SpecPlan, TensorPlan
from tests.conftest import ROOT
from tests.generated.shapes import telling_extents
from tests.reference.data import mixed
from tests.reference.layouts import byte_offset, nibble, padded
from tools.demo.expected import Place, places

WIDTHS = (4, 8, 16, 32)
DTYPES = {4: torch.float4_e2m1fn_x2, 8: torch.uint8, 16: torch.bfloat16, 32: torch.float32}
SINGLE = {
    "shuffle_weight_gfx1250_3d",
    "e8m0_tiles",
    "e8m0_shuffle_zero",
    "shuffle_scale_moe_gfx1250",
    "shuffle_scale_for_int4",
    "to_swizzled_layout",
    "prepack_nchw_to_cblocked",
    "page16_v",
}
"""The layouts that part neighbours along the last axis: 4-bit elements would move alone, and pack refuses them."""
SPEC = ROOT / "specs" / "minimax_m3.layout"
Array = NDArray[Any]


@cache
def specs() -> dict[str, SpecPlan]:
    """Return the plans of the spec and of the library, by name."""
    plans, _ = plan_specs([SPEC], {})
    return {plan.model.name: plan for plan in plans}


def layouts() -> list[Any]:
    """Return every (spec, layout, width) that is legal, each as a parameter."""
    found = []
    for spec, plan in specs().items():
        for layout in plan.layouts:
            for bits in WIDTHS:
                if bits in layout.model.widths:
                    found.append(pytest.param(spec, layout.model, bits, id=f"{spec}-{layout.model.name}-{bits}"))
    return found


@pytest.fixture(scope="session")
def modules(aiter_module: ModuleType, minimax_module: ModuleType) -> dict[str, ModuleType]:
    return {"aiter": aiter_module, "minimax_m3": minimax_module}


def grid(extents: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the coordinates of every element, an int64 array an axis."""
    return tuple(np.indices(extents, dtype=np.int64))


def algebra(model: LayoutModel, extents: tuple[int, ...], bits: int, at: tuple[Any, ...]) -> Any:
    """Return the algebra's offsets, in elements; it is arithmetic, so arrays go through it as integers do."""
    return offset(bind(model.template, extents, bits), at)


def test_no_layout_is_left_out() -> None:
    assert {p.values[1].name for p in layouts() if p.values[0] == "aiter"} == {
        plan.model.name for plan in specs()["aiter"].layouts
    }
    assert len(specs()["aiter"].layouts) == 29
    assert len(layouts()) > 100


@pytest.mark.parametrize(("spec", "model", "bits"), layouts())
def test_offset_is_the_algebras_and_the_formulas(
    modules: dict[str, ModuleType], spec: str, model: LayoutModel, bits: int
) -> None:
    extents = telling_extents(model, bits, whole_bytes=False)
    assert extents is not None
    at = grid(extents)
    function = getattr(modules[spec], f"offset_{model.name}")
    found = function(*at, extents, bits)
    elements = algebra(model, extents, bits, at)
    assert len(np.unique(elements)) == elements.size
    reference = byte_offset(model.name, at, extents, bits)
    if bits == 4:
        byte, half = found
        assert np.array_equal(byte, elements // 2) and np.array_equal(half, elements % 2)
        assert np.array_equal(byte, reference) and np.array_equal(half, nibble(model.name, at, extents))
        return
    assert np.array_equal(found, elements * (bits // 8))
    assert np.array_equal(found, reference)
    tensors = function(*(torch.from_numpy(axis) for axis in at), extents, bits)
    assert tensors.dtype == torch.int64 and np.array_equal(tensors.numpy(), found)
    last = tuple(n - 1 for n in extents)
    assert function(*last, (5, *extents), bits) == int(found[last]), "batch axes may stand before the layout's own"


@pytest.mark.parametrize(("spec", "model", "bits"), layouts())
def test_pack_puts_every_byte_where_offset_says_and_fills_the_pads(
    modules: dict[str, ModuleType], spec: str, model: LayoutModel, bits: int
) -> None:
    extents = telling_extents(model, bits)
    if extents is None:
        assert (model.name, bits) == ("prepack_oihw_to_3x3", 4), "nine taps of 4 bits are no whole bytes"
        return
    pairs = 2 if bits == 4 else 1
    shape = (*extents[:-1], extents[-1] // pairs)
    units, unit_bytes = int(np.prod(shape)), max(bits // 8, 1)
    at = tuple(axis[..., ::pairs] for axis in grid(extents))
    found = getattr(modules[spec], f"offset_{model.name}")(*at, extents, bits)
    where = (found[0] if bits == 4 else found).ravel() // unit_bytes
    stored = padded(model.name, extents, bits)
    pack, unpack = (getattr(modules[spec], f"{name}_{model.name}") for name in ("pack", "unpack"))
    if model.name in SINGLE and bits == 4:
        with pytest.raises(modules[spec].MonoUnsupported, match="4-bit elements move two at a time"):
            pack(torch.zeros(shape, dtype=torch.uint8).view(DTYPES[4]))
        return
    for plane in position_planes(units, unit_bytes, batch=2):
        t = torch.from_numpy(plane).view(-1).view(DTYPES[bits]).view(2, *shape)
        kept = t.clone()
        packed = pack(t)
        assert packed.dtype == t.dtype and packed.shape == (2, *stored[:-1], stored[-1] // pairs)
        wanted = np.empty((2, int(np.prod(packed.shape[1:])), unit_bytes), dtype=np.uint8)
        wanted[:] = fill_bytes(model.template.fill, bits)
        wanted[:, where] = plane.reshape(2, units, unit_bytes)
        assert np.array_equal(raw(packed), wanted.ravel())
        assert np.array_equal(raw(unpack(packed, tuple(t.shape))), raw(t))
        assert np.array_equal(raw(t), raw(kept)), "pack is pure"
        again = torch.full_like(packed.view(torch.uint8), 0xEE).view(packed.dtype)
        assert pack(t, out=again) is again and np.array_equal(raw(again), wanted.ravel())
        noise = wanted.copy()
        is_pad = np.ones(noise.shape[:2], dtype=bool)
        is_pad[:, where] = False
        noise[is_pad] ^= 0x5A
        dirty = torch.from_numpy(noise.ravel()).view(t.dtype).view(packed.shape)
        assert np.array_equal(raw(unpack(dirty, tuple(t.shape))), raw(t)), "pads are no part of the tensor"


def position_planes(units: int, unit_bytes: int, batch: int) -> list[Array]:
    """Return byte planes, [batch, units * unit_bytes], that together name each position, and one of hashed bytes."""
    index = np.arange(batch * units * unit_bytes, dtype=np.int64)
    planes = [(index >> shift & 0xFF).astype(np.uint8) for shift in range(0, max(int(index[-1]).bit_length(), 1), 8)]
    return [plane.reshape(batch, -1) for plane in (*planes, mixed(index.size, seed=17))]


def fill_bytes(fill: int | None, bits: int) -> Array:
    """Return the bytes of one pad unit, little endian; `undefined` is written as 0x00."""
    pattern = (fill or 0) * (0x11 if bits == 4 else 1)
    return np.frombuffer(pattern.to_bytes(max(bits // 8, 1), "little"), dtype=np.uint8)


def raw(t: torch.Tensor) -> Array:
    """Return a dense tensor's bytes."""
    assert t.is_contiguous()
    return t.reshape(-1).view(torch.uint8).numpy()


# --- fields ---


@cache
def field_tensors() -> dict[str, dict[str, TensorPlan]]:
    """Return the plan of every tensor of every struct of the spec."""
    return {
        struct.model.name: {t.model.name: t for field in struct.fields for t in field.tensors}
        for struct in specs()["minimax_m3"].structs
    }


def field_places(struct: str) -> dict[str, Place]:
    """Return where the facts say that each tensor's elements lie; the wide projection is 2944 rows (S6)."""
    found = places(128)
    if struct == "CpSparseMoeLayer":
        found |= {"w_qkv": Place("shuffle_16x16", (2944, 6144), 8), "s_qkv": Place(None, (2944,), 32)}
    return found


def some_coordinates(extents: tuple[int, ...]) -> tuple[Array, ...]:
    """Return all corners and 3,000 random places, an int64 array an axis."""
    random = np.random.default_rng(20240607)
    corners = np.array(list(np.ndindex(*(2 for _ in extents)))) * (np.array(extents) - 1)
    picks = np.concatenate([corners, random.integers(0, extents, size=(3000, len(extents)))])
    return tuple(picks[:, axis].astype(np.int64) for axis in range(len(extents)))


FIELDS = [(struct, name) for struct, tensors in field_tensors().items() for name in tensors]


@pytest.mark.parametrize(("struct", "name"), FIELDS)
def test_a_fields_offset_is_the_algebras_and_the_formulas(minimax_module: ModuleType, struct: str, name: str) -> None:
    place = field_places(struct)[name]
    plan = field_tensors()[struct][name]
    batch = (place.batch,) if place.batch else ()
    at = some_coordinates((*batch, *place.extents))
    function = getattr(getattr(minimax_module, struct), f"offset_{name}")
    found = function(*at)
    byte, half = found if place.bits == 4 else (found, None)
    wanted, wanted_half = by_formula(place, at)
    assert np.array_equal(np.broadcast_to(byte, at[0].shape), wanted)
    assert np.array_equal(np.broadcast_to(byte, at[0].shape), by_algebra(plan.model, at))
    if half is not None:
        assert np.array_equal(half, wanted_half)
    last = tuple(n - 1 for n in (*batch, *place.extents))
    mine = function(*last)
    assert all(type(part) is int for part in (mine if isinstance(mine, tuple) else (mine,)))


def by_formula(place: Place, at: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return byte and nibble by the closed formulas."""
    base, own = (at[0] * place.item_bytes, at[1:]) if place.batch else (np.zeros_like(at[0]), at)
    if place.layout is None:
        return base + np.ravel_multi_index(own, place.extents) * place.bits // 8, base * 0
    half = nibble(place.layout, own, place.extents) if place.bits == 4 else base * 0
    return base + byte_offset(place.layout, own, place.extents, place.bits), half


def by_algebra(model: TensorModel, at: tuple[Array, ...]) -> Array:
    """Return the byte by the bound layout, batch items and run-time rows one whole storage after another."""
    own = at[model.batch :]
    items = np.zeros_like(at[0])
    for axis in range(model.batch):
        extent = model.extents[axis]
        items = items * (extent if isinstance(extent, int) else 1) + at[axis]
    if model.runtime_row:
        items, own = own[0], (np.zeros_like(own[0]), *own[1:])
    elements: Array = items * model.bound.span + offset(model.bound, own)
    return elements * model.element.bits // 8


def test_offsets_are_aliased_for_the_struct_that_declares_them_first(minimax_module: ModuleType) -> None:
    first, second = minimax_module.SparseMoeLayer, minimax_module.CpSparseMoeLayer
    for name in field_tensors()["SparseMoeLayer"]:
        assert getattr(minimax_module, f"offset_{name}") is getattr(first, f"offset_{name}")
        overridden = name in ("w_qkv", "s_qkv")
        assert (getattr(second, f"offset_{name}") is getattr(first, f"offset_{name}")) != overridden


# --- what tracing compilers can take ---


def offset_functions(path: Path) -> list[ast.FunctionDef]:
    """Return every offset function of a module, those of structs too."""
    tree = ast.parse(path.read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("offset_")]


ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def faults(function: ast.FunctionDef) -> list[str]:
    """Return what an offset function holds beside assignments, `if bits == 4`, returns and integer arithmetic."""
    known = {arg.arg for arg in function.args.args}
    found: list[str] = []

    def expression(node: ast.expr) -> None:
        match node:
            case ast.Constant(value=int()):
                pass
            case ast.Name(id=name):
                found.extend([] if name in known else [f"{name} is not defined here"])
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, ARITHMETIC):
                expression(left)
                expression(right)
            case ast.Compare(left=ast.Name() as left, ops=[ast.GtE()], comparators=[ast.Constant(value=int())]):
                expression(left)
            case ast.Subscript(
                value=ast.Name(id="shape"), slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int()))
            ):
                expression(node.value)
            case _:
                found.append(ast.unparse(node))

    def returned(value: ast.expr | None) -> None:
        for part in value.elts if isinstance(value, ast.Tuple) else [value]:
            expression(part) if part is not None else found.append("a bare return")

    if function.args.defaults or function.args.kwonlyargs or function.args.vararg or function.args.kwarg:
        found.append("arguments that are not positional")
    for statement in function.body[1:] if ast.get_docstring(function) else function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                expression(value)
                known.add(name)
            case ast.If(
                test=ast.Compare(left=ast.Name(id="bits"), ops=[ast.Eq()], comparators=[ast.Constant(value=4)]),
                body=[ast.Return(value=value)],
                orelse=[ast.Return(value=other)],  # `triton.jit` takes no return beside an `if` without an `else`
            ):
                returned(value)
                returned(other)
            case ast.Return(value=value):
                returned(value)
            case _:
                found.append(ast.unparse(statement))
    return found


@pytest.mark.parametrize("name", ["aiter.py", "minimax_m3.py"])
def test_offset_functions_are_pure_integer_arithmetic(name: str) -> None:
    functions = offset_functions(ROOT / "generated" / name)
    assert len(functions) == {"aiter.py": 29, "minimax_m3.py": 6 + 24 + 2}[name]
    for function in functions:
        assert faults(function) == [], function.name


@pytest.mark.parametrize(
    "body",
    [
        "return row / 2",
        "return int(row)",
        "return row if bits == 4 else k",
        "return row + n_K",
        "return [row]",
        "for i in shape:\n        k = i\n    return k",
        "if bits == 8:\n        return row\n    return k",
        "row += 1\n    return row",
        "return shape[0] * row",
        "return row << 2",
        "if bits == 4:\n        return row\n    return k",
        "return 1.5 * row",
    ],
)
def test_the_check_of_purity_sees_what_is_not(body: str) -> None:
    (function,) = ast.parse(f"def offset_x(row, k, shape, bits):\n    {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert faults(function)


def test_offsets_work_on_python_integers_as_on_arrays(modules: dict[str, ModuleType]) -> None:
    """Plain ints in, plain ints out: what `triton.jit` sees when shapes are constants."""
    function: Callable[..., Any] = modules["aiter"].offset_e8m0_shuffle
    extents = (300, 20)
    found = function(*grid(extents), extents, 8)
    picks = [(0, 0), (31, 7), (32, 8), (299, 19), (256, 3), (255, 16)]
    assert [function(*at, extents, 8) for at in picks] == [int(found[at]) for at in picks]
