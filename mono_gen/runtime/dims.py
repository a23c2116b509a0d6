"""Extents that are known only at load: run-time dims, products of them, and values that were not there."""

from __future__ import annotations

import math

from mono_gen.frozen import frozen


@frozen
class Missing:
    """A value that was not there. `why` is empty where the problem has been reported already."""

    path: str = ""
    why: str = ""


MISSING = Missing()  # what hangs on it is neither checked nor reported again


class Dim:
    """A run-time extent: bound by the first shape in which it stands alone, the same in all others.

    allowed: the extents that the spec lists; empty for any from 1.
    """

    __slots__ = ("allowed", "bound", "field", "name")

    def __init__(self, name: str, allowed: tuple[int, ...] = ()) -> None:
        self.name = name
        self.allowed = allowed
        self.bound: int | None = None
        self.field = ""  # the field that bound it

    @property
    def value(self) -> int:
        """Return the extent; 0 where no tensor that is present has this axis."""
        return self.bound or 0

    def __str__(self) -> str:
        return self.name if self.bound is None else f"{self.bound} ({self.name})"


@frozen
class Product:
    """A product of run-time dims and integers, worked out once the dims are bound."""

    factors: tuple[int | Dim, ...]

    def __str__(self) -> str:
        text = " * ".join(factor.name if isinstance(factor, Dim) else str(factor) for factor in self.factors)
        number = known(self)
        return text if number is None else f"{number} ({text})"


Extent = int | Dim | Product | Missing


def times(*factors: int | Dim | Product) -> int | Product:
    """Return the product of the factors: an int where all are, else one to be worked out at the check."""
    flat: list[int | Dim] = []
    for factor in factors:
        flat.extend(factor.factors if isinstance(factor, Product) else (factor,))
    numbers = [factor for factor in flat if isinstance(factor, int)]
    return math.prod(numbers) if len(numbers) == len(flat) else Product(tuple(flat))


def known(extent: Extent) -> int | None:
    """Return the extent as a number, or None while a dim in it is unbound or it is missing."""
    match extent:
        case int():
            return extent
        case Dim():
            return extent.bound
        case Product():
            parts = [known(factor) for factor in extent.factors]
            numbers = [part for part in parts if part is not None]
            return math.prod(numbers) if len(numbers) == len(parts) else None
        case Missing():
            return None
