"""The axes of layouts and tensors as the header's folds read them: digits, each with its size and step."""

from __future__ import annotations

from collections.abc import Sequence

from mono_gen.emit.hip_text import listed, literal
from mono_gen.plan.model import SpecPlan, TensorPlan
from mono_gen.terms import Op, Step, Term

Axis = Sequence[tuple[str, str]]
"""The digits of an axis, fastest first: how many values, and the elements that a step moves, both as C++."""


def wave_parameter(plan: SpecPlan) -> str:
    """Return the parameter of a fold that counts the lanes of a wave; the arch of the spec gives its default."""
    arch = plan.model.arch
    return f"int wave = {arch.wave}" if arch is not None else "int wave"


def layout_axes(kind: str, axes: Sequence[Axis], indent: int) -> tuple[str, ...]:
    """Return the alias that folds read, of a layout whose axes have these digits."""
    return _alias(kind, [_words(axis) for axis in axes], indent)


def tensor_axes(tensor: TensorPlan, kind: str, indent: int) -> tuple[str, ...]:
    """Return the alias that folds read, of row-major order and of segments padded each; else it is the layout's own."""
    model = tensor.model
    steps = _steps(tensor.shift) if tensor.shift is not None else []
    if model.layout is not None and not steps:
        return ()
    axes = []
    for axis in range(len(model.bound.extents)):
        digits = sorted((d for d in model.bound.digits if d.axis == axis), key=lambda d: d.weight)
        is_open = model.runtime_row and axis == 0
        sizes = [(0, model.bound.span)] if is_open else [(d.size, d.stride) for d in digits]
        words = _words([(literal(size), literal(stride)) for size, stride in sizes])
        if steps and axis == model.segment_axis - model.batch:
            shifts = [word for s in steps for word in (f"detail::shift<{literal(s.at)}", f"{literal(s.amount)}>")]
            words = _nested("detail::shifted<", [*words, *shifts])
        axes.append(words)
    return _alias(kind, axes, indent)


def _steps(term: Term) -> list[Step]:
    """Return the steps in a term, in its order."""
    match term:
        case Step():
            return [term]
        case Op(_, left, right):
            return [*_steps(left), *_steps(right)]
    return []


def _words(axis: Axis) -> list[str]:
    """Return an axis as a type, as the words between its commas."""
    return _nested("detail::axis<", [w for size, step in axis for w in (f"detail::digit<{size}", f"{step}>")])


def _nested(head: str, words: Sequence[str]) -> list[str]:
    """Return the words as the arguments of a template."""
    return [head + words[0], *words[1:-1], words[-1] + ">"]


def _alias(kind: str, axes: Sequence[Sequence[str]], indent: int) -> tuple[str, ...]:
    """Return the alias of axes whose types are given as the words between their commas."""
    words = [word for axis in axes for word in axis]
    return listed("using offset_axes = detail::axes<", [kind, "kBits", *words], ">;", indent)
