"""The closed table of arch facts."""

from __future__ import annotations

from mono_gen.frozen import frozen


@frozen
class ArchFacts:
    """What a spec needs to know of an arch.

    wave:    lanes a wave.
    fp8:     the dialect that its fp8 instructions read.
    lds:     bytes of LDS a workgroup can have.
    source:  where the row comes from.
    """

    name: str
    wave: int
    fp8: str
    lds: int
    source: str


ARCHS = {
    row.name: row
    for row in (
        ArchFacts("gfx942", 64, "fnuz", 65536, "AMD Instinct MI300 ISA guide, 2.2 and 7.3"),
        ArchFacts("gfx950", 64, "fn", 163840, "AMD Instinct CDNA4 ISA guide, 2.2 and 7.3"),
        ArchFacts("gfx1250", 32, "fn", 327680, "LLVM AMDGPU usage guide, processor table and address spaces"),
    )
}
