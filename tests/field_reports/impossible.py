"""The cases that cannot occur in mono-gen, each with the mechanism that keeps it out."""

from __future__ import annotations

IMPOSSIBLE: dict[str, str] = {
    "G7": "mono-gen never cuts a fused checkpoint into ranks, so it has no row order to assume: it reads the rows that "
    "the engine gave a rank, under the names that `segments` writes out, and a rank that was cut in another order is "
    "the engine's fault, which equal shapes hide from every check here.",
}
