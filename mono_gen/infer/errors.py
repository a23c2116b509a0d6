"""Why no layout came out: the function is none, or it could not be run."""

from __future__ import annotations

Shape = tuple[int, ...]


class NotALayout(Exception):
    """What the function does cannot be said as a layout; the message is the first evidence."""


class NotOneLayout(NotALayout):
    """Not one layout for all shapes that were run, but perhaps for larger multiples: no digits, or others at each."""


class CannotRun(Exception):
    """The function cannot be found, called or run on such a tensor; the message says why."""


class FunctionRaised(CannotRun):
    """The function's own exception, with the shape that it was given."""


def shape_text(shape: Shape) -> str:
    """Return a shape as messages show it: `64 x 128`."""
    return " x ".join(map(str, shape))


def at_text(coordinates: Shape) -> str:
    """Return a coordinate as messages show it: `(1, 16)`."""
    return f"({', '.join(map(str, coordinates))})"
