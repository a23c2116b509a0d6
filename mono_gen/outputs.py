"""What the emitters hand over and `write` puts into the folder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One generated file.

    path:  its name in the output folder, without folders: `minimax_m3.py`.
    text:  its whole contents.
    spec:  the file name of the spec that it comes from: `minimax_m3.layout`.
    """

    path: str
    text: str
    spec: str
