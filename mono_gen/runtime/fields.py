"""What a generated struct says of each of its fields, for tables and tools."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field as readers see it.

    name:   the tensor's name, or "data, scale".
    format: how numbers are encoded.
    shape:  logical elements of the data, run-time dims by name.
    layout: the layout of the data, and of the scale where it has two axes or more.
    plan:   the steps from source to field.
    """

    name: str
    format: str
    shape: str
    layout: str
    plan: str
