"""`frozen` is what `dataclass(frozen=True, slots=True)` is, to those who use it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import pytest

from mono_gen.frozen import frozen, uncompared


@frozen
class Mine:
    """A value."""

    a: int
    b: str = "x"
    span: int = uncompared(default=0)

    @property
    def twice(self) -> int:
        """Return twice a."""
        return 2 * self.a


@dataclass(frozen=True, slots=True)
class Theirs:
    """A value."""

    a: int
    b: str = "x"
    span: int = field(default=0, compare=False, repr=False)


@frozen
class Needed:
    """A value whose hidden field has no default."""

    a: int
    span: int = uncompared()


@pytest.mark.parametrize("kind", [Mine, Theirs])
def test_construction_equality_hash_and_repr(kind: type) -> None:
    assert kind(1) == kind(a=1, b="x") == kind(1, "x", span=9)
    assert kind(1) != kind(2)
    assert kind(1) != kind(1, "y")
    assert hash(kind(1, span=1)) == hash(kind(1, span=2))
    assert repr(kind(1)) == f"{kind.__name__}(a=1, b='x')"
    assert kind.__doc__ == "A value."
    match kind(3, "z"):
        case Mine(a, b) | Theirs(a, b):
            assert (a, b) == (3, "z")
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize("kind", [Mine, Theirs])
def test_what_is_refused(kind: type) -> None:
    for wrong in ((), (1, "x", 0, 4)):
        with pytest.raises(TypeError):
            kind(*wrong)
    with pytest.raises(TypeError):
        kind(1, c=2)
    with pytest.raises(TypeError):
        kind(1, a=2)
    value = kind(1)
    with pytest.raises(AttributeError):
        value.a = 2
    with pytest.raises(AttributeError):
        del value.a
    with pytest.raises((AttributeError, TypeError)):
        value.other = 2


def test_types_are_told_apart_and_methods_stay() -> None:
    assert Mine(1) != Needed(1, span=0)
    assert Mine(4).twice == 8
    assert Needed(1, span=5).span == 5
    with pytest.raises(TypeError, match="needs span"):
        Needed(1)


def test_pickle() -> None:
    assert pickle.loads(pickle.dumps(Mine(1, "q", span=3))).span == 3
