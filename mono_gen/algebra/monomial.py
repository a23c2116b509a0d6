"""A size that may be given in bytes: value * (8 / bits) ** power elements, exact."""

from __future__ import annotations

from mono_gen.frozen import frozen


class NotWhole(ValueError):
    """A byte count that is not a whole number of elements."""

    def __init__(self, size: Size, bits: int) -> None:
        super().__init__(f"{size} is not a whole number of {bits}-bit elements")
        self.size = size
        self.bits = bits


@frozen
class Size:
    """`value` elements (power 0), or `value` bytes' worth of elements (power 1); products add the powers.

    Units: elements once `at(bits)` is taken.
    """

    value: int
    power: int = 0

    def at(self, bits: int) -> int:
        """Return the elements of `bits` bits each.

        Raises: NotWhole.
        """
        scaled: int = self.value * 8**self.power
        unit: int = bits**self.power
        if scaled % unit:
            raise NotWhole(self, bits)
        return scaled // unit

    def is_whole(self, bits: int) -> bool:
        """Return whether `at(bits)` exists."""
        scaled: int = self.value * 8**self.power
        return scaled % int(bits**self.power) == 0

    def __mul__(self, other: Size) -> Size:
        return Size(self.value * other.value, self.power + other.power)

    def divided_by(self, other: Size) -> Size | None:
        """Return the exact quotient, or None where there is none for every element width."""
        if other.value == 0 or self.value % other.value or self.power < other.power:
            return None
        return Size(self.value // other.value, self.power - other.power)

    def __str__(self) -> str:
        return f"{self.value}{'B' * self.power}"


ONE = Size(1)


def product(sizes: tuple[Size, ...]) -> Size:
    """Return the product of the sizes, 1 for none."""
    total = ONE
    for size in sizes:
        total = total * size
    return total
