"""What clang makes of a kernel for AMD: its instructions, counted by kind, and where its loads take their address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.generated.headers import DEVICE, STRICT, ZIG, must_compile

_LABEL = re.compile(r"^([A-Za-z_.$][\w.$]*):")
_SCALAR_BASE = re.compile(r"^global_load_\w+ v(?:\d+|\[\d+:\d+\]), v\d+, s\[\d+:\d+\]")

# Scalar instructions that work nothing out: memory, waits, hints, jumps.
_NO_SCALAR_ALU = (
    *("s_load", "s_buffer_load", "s_store", "s_scratch", "s_dcache", "s_icache", "s_atomic", "s_memtime"),
    *("s_waitcnt", "s_nop", "s_sleep", "s_barrier", "s_setprio", "s_sethalt", "s_sendmsg", "s_ttracedata"),
    *("s_branch", "s_cbranch", "s_endpgm", "s_code_end", "s_trap", "s_inst_prefetch", "s_clause", "s_delay_alu"),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions by kind.

    vector: `v_*` but for the matrix ones: arithmetic, moves, compares, lane reads.
    scalar: `s_*` that work something out: arithmetic, moves, compares; no memory, wait, hint or jump.
    matrix: `v_mfma_*`, `v_smfmac_*`.
    loads:  from memory and LDS, into vector registers.
    """

    vector: int
    scalar: int
    matrix: int
    loads: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in assembly.

    lines:       instructions in order, comments off.
    inner:       those of its innermost loops; empty where the compiler left no loop.
    vgpr_spills, sgpr_spills, scratch_bytes, lds_bytes: what its metadata says.
    """

    name: str
    lines: tuple[str, ...]
    inner: tuple[str, ...]
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    lds_bytes: int


def assembled(source: str, folder: Path, arch: str = "gfx950", flags: Sequence[str] = ()) -> str:
    """Return the assembly of a HIP source in a folder, warnings as errors."""
    output = f"{Path(source).stem}_{arch}.s"
    command = [*ZIG, *DEVICE, "-std=c++17", *STRICT, f"--offload-arch={arch}", *flags, "-S", source, "-o", output]
    must_compile(command, folder)
    return (folder / output).read_text()


def kernels(assembly: str) -> dict[str, Kernel]:
    """Return the kernels of an assembly file by name."""
    names = re.findall(r"^\s*\.amdhsa_kernel (\S+)", assembly, re.MULTILINE)
    bodies = _bodies(assembly, set(names))
    return {name: _kernel(name, bodies[name], _metadata(assembly, name)) for name in names}


def count(lines: Iterable[str]) -> Counts:
    """Return how many instructions there are of each kind."""
    found = Counter(_kind(line.split()[0]) for line in lines)
    return Counts(found["vector"], found["scalar"], found["matrix"], found["load"])


def loads(lines: Iterable[str], mnemonic: str) -> list[str]:
    """Return the loads of a mnemonic, such as `global_load_dwordx4`."""
    return [line for line in lines if line.split()[0] == mnemonic]


def has_scalar_base(load: str) -> bool:
    """Return whether a global load adds 32 bits a lane to a scalar address: `global_load_dwordx4 v[..], v1, s[..]`."""
    return _SCALAR_BASE.match(load) is not None


def _kind(mnemonic: str) -> str:
    """Return the kind of an instruction; empty for those that `Counts` leaves out."""
    if mnemonic.startswith(("v_mfma", "v_smfmac")):
        return "matrix"
    if mnemonic.startswith("v_"):
        return "vector"
    if mnemonic.startswith("s_"):
        return "" if mnemonic.startswith(_NO_SCALAR_ALU) else "scalar"
    return "load" if re.match(r"(global|flat|buffer|scratch)_load|ds_read|ds_load", mnemonic) else ""


def _bodies(assembly: str, names: set[str]) -> dict[str, list[str]]:
    """Return the lines of each kernel, from its label to the end of its function."""
    bodies: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in assembly.splitlines():
        label = _LABEL.match(line)
        if label is not None and label[1] in names:
            current = bodies.setdefault(label[1], [])
        elif label is not None and label[1].startswith(".Lfunc_end"):
            current = None
        elif current is not None:
            current.append(line)
    return bodies


def _kernel(name: str, body: list[str], metadata: str) -> Kernel:
    """Return a kernel from the lines of its body and its entry in the metadata."""
    blocks = _blocks(body)
    headers = {block.label for block in blocks if "This Inner Loop Header" in block.remark}
    inner = [line for b in blocks for line in b.lines if b.label in headers or _header_of(b.remark) in headers]
    number = {key: int(value) for key, value in re.findall(r"\.(\w+):\s+(\d+)", metadata)}
    return Kernel(
        name,
        tuple(line for block in blocks for line in block.lines),
        tuple(inner),
        number["vgpr_spill_count"],
        number["sgpr_spill_count"],
        number["private_segment_fixed_size"],
        number["group_segment_fixed_size"],
    )


@dataclass(slots=True)
class _Block:
    """A basic block: its label without `.L`, what clang remarks of its loops, its instructions."""

    label: str
    remark: str
    lines: list[str]


def _blocks(body: list[str]) -> list[_Block]:
    """Return the basic blocks of a function's lines."""
    blocks = [_Block("", "", [])]
    for line in body:
        start = re.match(r"\.L(BB\w+):|; (%bb\.\d+):", line)
        code, _, remark = line.partition(";")
        if start is not None:
            blocks.append(_Block(start[1] or start[2], line, []))
        elif code.strip() and not code.strip().startswith("."):
            blocks[-1].lines.append(code.strip())
        elif not blocks[-1].lines:
            blocks[-1].remark += remark
    return blocks


def _header_of(remark: str) -> str:
    """Return the header of the innermost loop that a block stands in, empty for none."""
    found = re.search(r"in Loop: Header=(BB\w+)", remark)
    return found[1] if found is not None else ""


def _metadata(assembly: str, name: str) -> str:
    """Return a kernel's entry in the metadata."""
    entries = re.split(r"^  - (?=\.)", assembly[assembly.index("amdhsa.kernels:") :], flags=re.MULTILINE)
    (entry,) = [e for e in entries if re.search(rf"\.name:\s+{re.escape(name)}$", e, re.MULTILINE)]
    return entry
