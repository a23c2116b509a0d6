"""The fold: a layout's offset apart into a wave-uniform tile part, a lane part and a byte part."""

from __future__ import annotations

from mono_gen.algebra.layout import Digit, Layout
from mono_gen.algebra.template import Template
from mono_gen.frozen import frozen


@frozen
class FoldGroup:
    """The digits of one group, in store order, and the elements that one step of the group spans."""

    label: str
    digits: tuple[Digit, ...]
    size: int
    step: int


def fold(template: Template, layout: Layout) -> tuple[FoldGroup, ...]:
    """Return the groups that the store names, each with its size and its step in elements; empty where none is named.

    The offset of an element is the sum over the groups of the group's index times its step, where the index is
    mixed-radix in the group's digits; it holds where no pitch opens a gap inside the group (`is_even`).
    """
    by_name = {digit.name: digit for digit in layout.digits}
    groups = []
    for group in template.store:
        if not group.label:
            return ()
        digits = tuple(by_name[name] for name in group.digits)
        size = 1
        for digit in digits:
            size *= digit.size
        groups.append(FoldGroup(group.label, digits, size, digits[-1].stride if digits else layout.span))
    return tuple(groups)


def is_even(group: FoldGroup) -> bool:
    """Return whether the group's positions lie `step` apart, with no gap of a pitch between them."""
    stride = group.step
    for digit in reversed(group.digits):
        if digit.size > 1 and digit.stride != stride:
            return False
        stride *= digit.size
    return True
