"""Value changes, exactly as pinned: mxfp8 -> bf16 -> ptpc_fp8, fp32 -> bf16, fn -> fnuz. Same bytes on every device.

Data are [..., rows, k], dense row-major. All work goes by chunks of rows, so that scratch stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

import torch

from mono_gen.runtime import cpu_values
from mono_gen.runtime.errors import MonoUnsupported, Problem
from mono_gen.runtime.gpu import has_kernels
from mono_gen.runtime.layouts import Storage
from mono_gen.runtime.moves import check_out, pack
from mono_gen.runtime.products import BLOCK, REFUSED, bf16_bits
from mono_gen.runtime.tensors import (
    bytes_problems,
    dtype_name,
    dtype_problem,
    is_dense,
    joined,
    kind_problem,
    plain,
)

FP8_MAX = {torch.float8_e4m3fn: 448, torch.float8_e4m3fnuz: 240}
E8M0 = (torch.float8_e8m0fnu, torch.uint8)


def dequantize_mxfp8(field: str, data: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return data x 2^(scale - 127) as bf16: exact where bf16 holds it, to nearest even among its subnormals.

    Shapes: data fp8_e4m3fn [..., rows, k], scale e8m0 [..., rows, k / 32]; result as data.
    Raises: MonoUnsupported for a scale of 255, an fp8 NaN and a product past bf16, by row and block.
    Law:    tests/runtime/test_numerics.py::test_every_pair_of_code_and_scale; integers alone, so that no flushing
            mode changes a byte.
    """
    _check_mxfp8(field, data, scale)
    data, scale = plain(data), plain(scale)
    result = torch.empty(data.shape, dtype=torch.bfloat16, device=data.device)
    if has_kernels(data):
        from mono_gen.runtime import gpu_values

        if gpu_values.dequantize(data, scale, result):
            raise MonoUnsupported(field, _mxfp8_problems(field, data, scale))
        return result
    lost = torch.zeros((), dtype=torch.bool, device=data.device)
    scratch = cpu_values.scratch_for(data.numel()) if data.is_cpu else None
    for codes, exponents, target in _chunks(*_blocks(data, scale), result.view(-1, BLOCK)):
        exact = cpu_values.products(codes, exponents, scratch) if scratch is not None else None
        if exact is not None:
            target.copy_(exact)
        else:
            target.view(torch.int16).copy_(bf16_bits(codes, exponents))
            lost |= (target.view(torch.int16) == REFUSED).any()
    if lost:
        raise MonoUnsupported(field, _mxfp8_problems(field, data, scale))
    return result


def quantize_ptpc_fp8(field: str, values: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fp8 values and one fp32 scale a row: scale = amax x fp32(1 / max), 0 -> 1; q = x / scale, to nearest even.

    Shapes: values bf16 [..., rows, k]; results dtype [..., rows, k] and fp32 [..., rows].
    Units:  max is 448 for fp8_e4m3fn and 240 for fp8_e4m3fnuz. A product, not a division: what a GPU computes.
    Raises: MonoUnsupported where a row holds an infinity or a NaN.
    """
    _raise(field, *_matrix_problems(field, values, (torch.bfloat16,)), *_target_problems(field, dtype))
    values = plain(values)
    q, scale = _ptpc_outputs(field, values, dtype, None, tuple(values.shape[-2:]))
    scratch = cpu_values.scratch_for(values.numel()) if values.is_cpu else None
    for rows, q_rows, scale_rows in _chunks(values, q, scale):
        if scratch is not None:
            load = partial(cpu_values.wide_rows, rows, scratch)
            cpu_values.quantize_rows(load, _reciprocal(FP8_MAX[dtype]), q_rows, scale_rows)
        else:
            _quantize_rows(rows, q_rows, scale_rows)
    finite = torch.isfinite(scale)
    if not finite.all():
        raise MonoUnsupported(field, _non_finite(field, ~finite))
    return q, scale


def mxfp8_to_ptpc_fp8(
    field: str,
    data: torch.Tensor,
    scale: torch.Tensor,
    *,
    dtype: torch.dtype,
    storage: Storage | None = None,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return quantize_ptpc_fp8(dequantize_mxfp8(data, scale)), by chunks of rows: the same bytes, bounded scratch.

    storage: of the last two axes: the values are packed in its order, on a GPU in the same pass.
    out:     (values, scale), kept and returned. Where a block is refused its contents are undefined.
    """
    _check_mxfp8(field, data, scale)
    _raise(field, *_target_problems(field, dtype))
    data, scale = plain(data), plain(scale)
    extents = tuple(data.shape[-2:])
    order = _row_major(extents) if storage is None else storage
    q, q_scale = _ptpc_outputs(field, data, dtype, out, order.padded)
    if not _quantized_by_kernels(field, data, scale, q, q_scale, order):
        row_major = q if storage is None else torch.empty(data.shape, dtype=dtype, device=data.device)
        _requantize(field, data, scale, row_major, q_scale)
        if storage is not None:
            form = {"padded": order.padded, "view": order.view, "permute": order.permute}
            pack(field, row_major, fill=order.fill, out=q, **form)
    return (q, q_scale) if out is None else out


@lru_cache(maxsize=1024)
def _row_major(extents: tuple[int, ...]) -> Storage:
    return Storage(extents, extents, extents, (0, 1))


def _quantized_by_kernels(
    field: str, data: torch.Tensor, scale: torch.Tensor, q: torch.Tensor, q_scale: torch.Tensor, storage: Storage
) -> bool:
    """Return whether a GPU's kernel wrote q, in storage order, and q_scale; refuses what `_requantize` refuses."""
    if not has_kernels(data):
        return False
    from mono_gen.runtime import gpu_values

    refused = gpu_values.quantize(data, scale, q, q_scale, storage, _reciprocal(FP8_MAX[q.dtype]))
    if refused:
        raise MonoUnsupported(field, _mxfp8_problems(field, data, scale))
    return refused is not None


def _requantize(field: str, data: torch.Tensor, scale: torch.Tensor, q: torch.Tensor, q_scale: torch.Tensor) -> None:
    """Return nothing; write q and q_scale by chunks of rows. Raises MonoUnsupported, where a block is refused."""
    scratch = cpu_values.scratch_for(data.numel()) if data.is_cpu else None
    for codes, exponents, q_rows, scale_rows in _chunks(data.view(torch.uint8), scale.view(torch.uint8), q, q_scale):
        if scratch is not None:
            load = partial(cpu_values.wide_products, codes, exponents, scratch)
            cpu_values.quantize_rows(load, _reciprocal(FP8_MAX[q.dtype]), q_rows, scale_rows)
        else:
            _quantize_rows(bf16_bits(codes, exponents).view(torch.bfloat16), q_rows, scale_rows)
    if not torch.isfinite(q_scale).all():  # a product that is refused is a NaN, and so is its row's scale
        raise MonoUnsupported(field, _mxfp8_problems(field, data, scale))


def cast_bf16(field: str, values: torch.Tensor) -> torch.Tensor:
    """Return the fp32 values as bf16, to nearest even, by integers: subnormals are kept on every device.

    Shapes: values fp32, any rank from 1.
    Raises: MonoUnsupported for a NaN, an infinity and a finite value that would become one, by place.
    """
    _raise(field, *_dense_problems(field, values, (torch.float32,)))
    values = plain(values)
    result = torch.empty(values.shape, dtype=torch.bfloat16, device=values.device)
    if has_kernels(values):
        from mono_gen.runtime import gpu_values

        if gpu_values.cast(values, result):
            raise MonoUnsupported(field, _cast_problems(field, values))
        return result
    lost = torch.zeros((), dtype=torch.bool, device=values.device)
    for bits, target in _flat_chunks(values.view(torch.int32), result.view(torch.int16)):
        lost |= (bits & 0x7FFFFFFF).amax() >= 0x7F7F8000  # the least magnitude that rounds past bf16
        is_odd = (bits >> 16).bitwise_and_(1)
        target.copy_(is_odd.add_(bits).add_(0x7FFF).bitwise_right_shift_(16))
    if lost:
        raise MonoUnsupported(field, _cast_problems(field, values))
    return result


def fn_to_fnuz(field: str, data: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same values in the fnuz dialect: bytes kept, 0x80 -> 0x00, scale doubled (e8m0: byte + 1).

    Shapes: data fp8_e4m3fn [..., rows, k]; scale fp32 [..., rows] or e8m0 [..., rows, k / 32].
    Raises: MonoUnsupported for the codes 0x7F and 0xFF, and for a scale that has no double.
    """
    _raise(field, *_matrix_problems(field, data, (torch.float8_e4m3fn,)))
    _raise(field, *_dense_problems(f"{field} scale", scale, (torch.float32, *E8M0)))
    blocks = scale.dtype is not torch.float32
    _raise(field, *_scale_problems(field, data, scale, blocks))
    codes, scale = plain(data).view(torch.uint8), plain(scale)
    problems = [_places(field, "fp8 code", "a number", "a NaN (0x7F or 0xFF)", (codes & 0x7F) == 0x7F, ("row", "k"))]
    if blocks:
        exponents = scale.view(torch.uint8)
        bad = exponents >= 254
        problems.append(_places(field, "e8m0 scale", "0..253, to be doubled", "254 or 255", bad, ("row", "block")))
        doubled = (exponents + 1).view(scale.dtype)
    else:
        doubled = scale * 2
        bad = ~torch.isfinite(doubled)
        problems.append(
            _places(field, "scale", "a finite fp32 whose double is finite", "one that is not", bad, ("row",))
        )
    _raise(field, *problems)
    return codes.masked_fill(codes == 0x80, 0).view(torch.float8_e4m3fnuz), doubled


def _quantize_rows(values: torch.Tensor, q: torch.Tensor, scale: torch.Tensor) -> None:
    """Return nothing; write q [rows, k] and scale [rows] of bf16 values [rows, k]."""
    x = values.float()
    amax = x.abs().amax(dim=-1)
    scale.copy_(amax * _reciprocal(FP8_MAX[q.dtype]))
    scale.masked_fill_(scale == 0, 1.0)
    q.copy_(x.div_(scale.unsqueeze(-1)))


@lru_cache(maxsize=4)
def _reciprocal(maximum: int) -> float:
    """Return fp32(1 / maximum), which a float holds exactly."""
    return float(torch.tensor(1.0 / maximum, dtype=torch.float64, device="cpu").to(torch.float32))


def _ptpc_outputs(
    field: str,
    like: torch.Tensor,
    dtype: torch.dtype,
    out: tuple[torch.Tensor, torch.Tensor] | None,
    padded: tuple[int, ...],
) -> tuple[torch.Tensor, torch.Tensor]:
    wanted = (((*like.shape[:-2], *padded), dtype), (tuple(like.shape[:-1]), torch.float32))
    if out is None:
        values, scale = (torch.empty(shape, dtype=kind, device=like.device) for shape, kind in wanted)
        return values, scale
    for given, (shape, kind) in zip(out, wanted, strict=True):
        check_out(field, like, given, shape, kind)
    return plain(out[0]), plain(out[1])


def _check_mxfp8(field: str, data: torch.Tensor, scale: torch.Tensor) -> None:
    _raise(
        field, *_matrix_problems(field, data, (torch.float8_e4m3fn,)), *_dense_problems(f"{field} scale", scale, E8M0)
    )
    if data.shape[-1] % BLOCK:
        raise MonoUnsupported(field, (Problem(field, "size", f"k % {BLOCK} == 0", f"k = {data.shape[-1]}"),))
    _raise(field, *_scale_problems(field, data, scale, blocks=True))


def _scale_problems(field: str, data: torch.Tensor, scale: torch.Tensor, blocks: bool) -> list[Problem]:
    wanted = (*data.shape[:-1], data.shape[-1] // BLOCK) if blocks else tuple(data.shape[:-1])
    problems = []
    if tuple(scale.shape) != wanted:
        problems.append(
            Problem(f"{field} scale", "shape", f"{joined(wanted)} elements", f"{joined(scale.shape)} elements")
        )
    if scale.device != data.device:
        problems.append(Problem(f"{field} scale", "device", str(data.device), str(scale.device)))
    return problems


def _dense_problems(field: str, t: torch.Tensor, dtypes: tuple[torch.dtype, ...]) -> list[Problem]:
    if is_dense(t) and t.dtype in dtypes and t.dim() >= 1:
        return []
    problems = bytes_problems(field, t)
    if kind_problem(field, t) is None:
        other = dtype_problem(field, t, dtypes)
        problems += [other] if other is not None else []
        if t.dim() < 1:
            problems.append(Problem(field, "rank", "at least 1 axis", "a scalar"))
    return problems


def _matrix_problems(field: str, t: torch.Tensor, dtypes: tuple[torch.dtype, ...]) -> list[Problem]:
    problems = _dense_problems(field, t, dtypes)
    if not problems and t.dim() > 1:
        return []
    if kind_problem(field, t) is None and t.dim() == 1:
        problems.append(Problem(field, "rank", "at least 2 axes, the last ones row and k", joined(t.shape)))
    return problems


def _target_problems(field: str, dtype: torch.dtype) -> list[Problem]:
    if dtype in FP8_MAX:
        return []
    return [Problem(field, "target dtype", " or ".join(dtype_name(d) for d in FP8_MAX), dtype_name(dtype))]


def _chunks(*matrices: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the same rows of each tensor; all leading axes of the first but its last are rows."""
    k = matrices[0].shape[-1]
    total = matrices[0].numel() // k
    step = max(1, cpu_values.CHUNK_ELEMENTS // k)
    flat = [t.view(total, -1) if t.dim() == matrices[0].dim() else t.view(total) for t in matrices]
    for start in range(0, total, step):
        yield tuple(t[start : start + step] for t in flat)


def _flat_chunks(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    flat = [t.view(-1) for t in tensors]
    step = cpu_values.CHUNK_ELEMENTS
    for start in range(0, flat[0].numel(), step):
        yield tuple(t[start : start + step] for t in flat)


def _blocks(data: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes [blocks, 32] and exponents [blocks, 1]."""
    return data.view(torch.uint8).view(-1, BLOCK), scale.view(torch.uint8).view(-1, 1)


def _mxfp8_problems(field: str, data: torch.Tensor, scale: torch.Tensor) -> list[Problem]:
    """Return what the products were refused for, each with its first row and block. Runs on the way out only."""
    nan, past = (torch.empty(scale.shape, dtype=torch.bool, device=data.device) for _ in range(2))
    for codes, powers, has_nan, is_past in _chunks(*_blocks(data, scale), nan.view(-1, 1), past.view(-1, 1)):
        numbers = (codes & 0x7F) != 0x7F
        lost = numbers & (bf16_bits(codes, powers) == REFUSED)
        has_nan.copy_(~numbers.all(dim=-1, keepdim=True))
        is_past.copy_(lost.any(dim=-1, keepdim=True) & (powers != 255))
    exponents = scale.view(torch.uint8)
    names = ("row", "block")
    found = (
        _places(field, "e8m0 scale", "0..254", "255 (NaN)", exponents == 255, names),
        _places(field, "fp8 code", "a number", "a NaN (0x7F or 0xFF)", nan, names),
        _places(field, "product", "at most bf16's largest, 2^127 x 1.99", "an overflow", past, names),
    )
    return [problem for problem in found if problem is not None]


def _non_finite(field: str, rows: torch.Tensor) -> list[Problem]:
    problem = _places(field, "value", "finite in every row", "an infinity or a NaN", rows, ("row",))
    return [problem] if problem is not None else []


def _cast_problems(field: str, values: torch.Tensor) -> list[Problem]:
    names = ("row", "k")[-values.dim() :]
    finite = torch.isfinite(values)
    past = finite & ((values.view(torch.int32) & 0x7FFFFFFF) >= 0x7F7F8000)
    found = (
        _places(field, "value", "a number", "a NaN", torch.isnan(values), names),
        _places(field, "value", "finite", "an infinity", torch.isinf(values), names),
        _places(field, "value", "at most bf16's largest, 2^127 x 1.99", "one that would become infinite", past, names),
    )
    return [problem for problem in found if problem is not None]


def _places(
    field: str, what: str, expected: str, found: str, bad: torch.Tensor, names: tuple[str, ...]
) -> Problem | None:
    """Return a problem that names the first place of `bad` and counts them, or None; the last axes are `names`."""
    count = int(bad.sum())
    if count == 0:
        return None
    first = int(bad.view(-1).to(torch.uint8).argmax())
    place = []
    for extent in reversed(bad.shape):
        first, index = divmod(first, extent)
        place.append(index)
    labels = [*(f"batch axis {axis}" for axis in range(bad.dim() - len(names))), *names]
    where = ", ".join(f"{label} {index}" for label, index in zip(labels, reversed(place), strict=True))
    return Problem(field, what, expected, f"{found} at {where}; {count} in all (counted by {names[-1]})")


def _raise(field: str, *problems: Problem | None) -> None:
    found = tuple(problem for problem in problems if problem is not None)
    if found:
        raise MonoUnsupported(field, found)
