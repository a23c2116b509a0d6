"""`inspect`: what the tensors of a safetensors file are, and the bytes of one by field and coordinate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_gen.cli import report
from mono_gen.cli.arguments import coordinate_pairs, number
from mono_gen.cli.report import CommandError
from mono_gen.cli.specs import plans_of
from mono_gen.diagnostics import SpecError
from mono_gen.diagnostics.snippet import clean

if TYPE_CHECKING:
    from mono_gen.checkpoint.shards import Entry, Shard
    from mono_gen.explore.hexdump import Line
    from mono_gen.explore.names import Found
    from mono_gen.inspection.blind import Blind
    from mono_gen.inspection.listing import Records
    from mono_gen.model import LayoutModel
    from mono_gen.plan.model import SpecPlan

SUFFIX = ".safetensors"
INDEX = ".index.json"


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `inspect`."""

    path: Path
    tensor: str
    spec: str
    field: str
    at: tuple[tuple[str, int], ...]
    byte: int | None
    rows: int
    blind: bool
    settings: tuple[str, ...]
    as_json: bool

    @classmethod
    def of(
        cls,
        path: Path,
        tensor: str | None,
        spec: str | None,
        field: str | None,
        at: Sequence[str],
        byte: str | None,
        rows: int,
        blind: bool,
        settings: Sequence[str],
        as_json: bool,
    ) -> Request:
        """Return the request of these arguments.

        Raises: CommandError, where they do not go together.
        """
        pairs = tuple((name, number(f"--at {name}", text)) for name, text in coordinate_pairs(at, "--at"))
        start = number("--byte", byte) if byte is not None else None
        if tensor is None and (field is not None or at or byte is not None):
            raise CommandError("--field, --at and --byte are about one tensor: name it with --tensor")
        if field is not None and spec is None:
            raise CommandError("--field is a tensor of a spec: name the spec with --spec")
        if at and byte is not None:
            raise CommandError("--at and --byte are two questions: give one of them")
        if rows < 1:
            raise CommandError(f"--rows {rows}: expected 1 or more")
        return cls(path, tensor or "", spec or "", field or "", pairs, start, rows, blind, tuple(settings), as_json)


def inspect(request: Request) -> int:
    """Return the exit code, after printing what a file's tensors are, or the bytes of one.

    Raises: CommandError.
    """
    _check_path(request.path)
    try:
        plans = plans_of(request.spec, request.settings) if request.spec else ()
    except SpecError as error:
        report.diagnostics(error.diagnostics, "json" if request.as_json else "full")
        return report.SPEC_WRONG
    file = _read(request.path)
    if request.tensor:
        return _dump(request, file, plans)
    return _list(request, file, plans)


def _check_path(path: Path) -> None:
    """Raise CommandError for a path that is no file."""
    if path.is_dir():
        inside = sorted(p.name for p in path.glob(f"*{SUFFIX}"))
        hint = f"name one of its files: {', '.join(inside[:8])}{', ...' if len(inside) > 8 else ''}"
        raise CommandError(f"'{path}' is a folder; {hint if inside else f'and no {SUFFIX} file is in it'}")
    if not path.exists():
        from mono_gen.resolve.report import near

        beside = sorted(p.name for p in path.parent.glob(f"*{SUFFIX}")) if path.parent.is_dir() else []
        raise CommandError(f"no such file: '{path}'{f'; {near(path.name, beside)}' if beside else ''}")
    if not path.is_file():
        raise CommandError(f"'{path}' is no ordinary file")
    if path.name.endswith(INDEX):
        raise CommandError(f"'{path}' is the index of several files: name one of the {SUFFIX} files beside it")


def _read(path: Path) -> Shard:
    """Return the header of a file.

    Raises: CommandError, where it is no whole safetensors file.
    """
    from mono_gen.checkpoint.problems import Refused
    from mono_gen.checkpoint.shards import read_shard

    try:
        return read_shard(path)
    except Refused as error:
        raise CommandError(clean(str(error))) from error


# --- the list ---


def _list(request: Request, file: Shard, plans: Sequence[SpecPlan]) -> int:
    """Return the exit code, after printing a line or more a tensor, each as it is found."""
    from mono_gen.inspection.listing import records_of

    records = records_of(file)
    candidates = _candidates(plans) if request.blind else ()
    entries = sorted(file.entries.values(), key=lambda entry: entry.begin)
    if request.as_json:
        found = [_record(file, entry, records, candidates) for entry in entries]
        problems = [records.wrong] if records.wrong else []
        said = {"file": str(file.path), "bytes": file.size, "struct": records.struct or None, "problems": problems}
        metadata = {key: text for key, text in file.metadata.items() if key != "mono_gen"}
        report.out(json.dumps({**said, "metadata": metadata, "tensors": found}, indent=2) + "\n")
        return report.FINE
    report.out(f"{file.path}: {report.count(len(entries), 'tensor')}, {file.size} bytes; {_said(records)}\n")
    for key, text in file.metadata.items():
        if key != "mono_gen":
            report.out(f"  metadata {clean(key)}: {clean(text)[:100]}\n")
    width = min(max((len(entry.name) for entry in entries), default=0), 60)
    for entry in entries:
        report.out("".join(f"{line}\n" for line in _lines(file, entry, records, candidates, width)))
    return report.FINE


def _said(records: Records) -> str:
    """Return what is said of a file's records."""
    if records.wrong:
        return f"its records do not hold: {records.wrong}"
    return f"records of {records.struct}" if records.struct else "no records of mono-gen"


def _lines(file: Shard, entry: Entry, records: Records, candidates: Sequence[LayoutModel], width: int) -> Iterator[str]:
    """Yield what is said of one tensor: type, shape and place, its record, what the blind check says."""
    from mono_gen.inspection.listing import record_remark, record_text

    shape = " x ".join(map(str, entry.shape)) or "a scalar"
    yield f"  {clean(entry.name):{width}}  {entry.dtype:8} {shape}, {entry.nbytes} bytes from byte {entry.begin}"
    said = records.by_name.get(entry.name)
    if said is not None:
        yield f"      record  {clean(record_text(said))}"
        remark = record_remark(entry, said)
        if remark:
            yield f"      !       {clean(remark)}"
    elif records.by_name and entry.name not in records.by_name:
        yield "      !       the file has records, and none of this tensor"
    checked = _blind(file, entry, records, candidates)
    if checked is not None:
        yield f"      bytes   {clean(str(checked))}"
        yield f"              read: {clean(checked.read)}"


def _record(file: Shard, entry: Entry, records: Records, candidates: Sequence[LayoutModel]) -> dict[str, Any]:
    """Return one tensor as data."""
    from mono_gen.inspection.listing import record_remark

    said = records.by_name.get(entry.name)
    checked = _blind(file, entry, records, candidates)
    return {
        "name": entry.name,
        "dtype": entry.dtype,
        "shape": list(entry.shape),
        "bytes": entry.nbytes,
        "begin": entry.begin,
        "record": said,
        "remark": record_remark(entry, said) if said is not None else "",
        "blind": None
        if checked is None
        else {
            "read": checked.read,
            "telling": checked.is_telling,
            "row_major_excluded": checked.plain.excluded,
            "violations": checked.plain.violations,
            "blocks": checked.plain.blocks,
            "possible": list(checked.possible),
            "excluded": list(checked.excluded),
        },
    }


def _blind(file: Shard, entry: Entry, records: Records, candidates: Sequence[LayoutModel]) -> Blind | None:
    """Return what the blind check says of a tensor, None where it was not asked or has nothing to go by."""
    from mono_gen.inspection.blind import blind_check, scale_beside
    from mono_gen.inspection.listing import field_ids

    if not candidates:
        return None
    return blind_check(file, entry, scale_beside(entry, file.entries, field_ids(records)), candidates)


def _candidates(plans: Sequence[SpecPlan]) -> tuple[LayoutModel, ...]:
    """Return the layouts that bytes are compared with: those of the spec, if one is named, then the library's."""
    from mono_gen.loading import LIBRARY
    from mono_gen.pipeline import plan_specs

    library, _ = plan_specs(sorted(LIBRARY.glob("*.layout")), {})
    named = {layout.model.name: layout.model for plan in (*library, *plans) for layout in plan.layouts}
    return tuple(named.values())


# --- one tensor ---


def _dump(request: Request, file: Shard, plans: Sequence[SpecPlan]) -> int:
    """Return the exit code, after printing bytes of one tensor with what lies there.

    Raises: CommandError.
    """
    from mono_gen.explore.hexdump import line_of, line_text, line_width
    from mono_gen.explore.names import Unfound
    from mono_gen.explore.where import checked, locate

    entry = file.entries.get(request.tensor)
    if entry is None:
        from mono_gen.resolve.report import near

        hint = f"; {near(request.tensor, file.entries)}" if file.entries else ", which has none"
        raise CommandError(clean(f"no tensor {request.tensor!r} in '{file.path}'{hint}"))
    if not entry.nbytes:
        raise CommandError(f"{request.tensor!r} has no bytes")
    try:
        found = _found(request, entry, plans)
        marked = request.byte
        if request.at:
            marked = locate(found, checked(found, dict(request.at))).byte
    except Unfound as error:
        raise CommandError(str(error)) from error
    if marked is not None and not 0 <= marked < entry.nbytes:
        raise CommandError(f"byte {marked}: {request.tensor!r} has {entry.nbytes} bytes, 0 to {entry.nbytes - 1}")
    width = line_width(found)
    begin = (marked or 0) // width * width
    lines = [
        line_of(found, at, _bytes(file, entry, at, width))
        for at in range(begin, min(begin + request.rows * width, entry.nbytes), width)
    ]
    if request.as_json:
        report.out(json.dumps(_dumped(request, found, lines, marked), indent=2) + "\n")
        return report.FINE
    report.out(_title(request, file, entry, found) + "".join(line_text(found, line, width, marked) for line in lines))
    return report.FINE


def _found(request: Request, entry: Entry, plans: Sequence[SpecPlan]) -> Found:
    """Return the field's tensor that the bytes are read as; without a spec one in torch's own order.

    Raises: Unfound; CommandError, where the tensor of the file cannot be the field's.
    """
    from mono_gen.explore.hexdump import unspecified
    from mono_gen.explore.names import find_tensor
    from mono_gen.inspection.listing import bits_of, holds

    if not request.spec:
        bits = bits_of(entry)
        if bits in (4, 8, 16, 32, 64, 128) and (bits != 4 or entry.shape[-1] % 2 == 0):
            return unspecified(entry.name, entry.dtype, bits, entry.shape)
        return unspecified(entry.name, "bytes", 8, (entry.nbytes,))  # elements of no whole part of a byte
    found = find_tensor(plans, request.field or request.tensor.rpartition(".")[2])
    model, one = found.tensor.model, found.tensor.total_bytes
    if not holds(model.element, entry):
        wanted = " or ".join(model.element.holders)
        raise CommandError(f"{found.name} is {model.element.name} ({wanted}), and {entry.name!r} is {entry.dtype}")
    if entry.nbytes % one or (model.runtime_dim is None and entry.nbytes != one):
        each = f" for each {model.runtime_dim}" if model.runtime_dim is not None else ""
        raise CommandError(f"{found.name} has {one} bytes{each}, and {entry.name!r} has {entry.nbytes}")
    return found


def _title(request: Request, file: Shard, entry: Entry, found: Found) -> str:
    """Return what the bytes are read as, and what the file says of them."""
    from mono_gen.explore.chain import heading
    from mono_gen.inspection.listing import records_of

    shape = " x ".join(map(str, entry.shape)) or "a scalar"
    title = f"{clean(entry.name)} of {file.path}: {entry.dtype} {shape}, {entry.nbytes} bytes from byte {entry.begin}\n"
    if not request.spec:
        return f"{title}in torch's own order, as no spec was named (--spec, --field)\n\n"
    said = records_of(file).by_name.get(entry.name)
    remark = "" if said is not None else "; nothing in the file says so"
    if said is not None and said.get("layout") != found.tensor.model.layout_name:
        remark = f"; the record says {clean(str(said.get('layout')))}"
    return f"{title}read as {heading(found)}{remark}\n\n"


def _bytes(file: Shard, entry: Entry, begin: int, count: int) -> bytes:
    """Return bytes of a tensor, as many as there are."""
    with file.path.open("rb") as stream:
        stream.seek(entry.begin + begin)
        return stream.read(min(count, entry.nbytes - begin))


def _dumped(request: Request, found: Found, lines: Sequence[Line], marked: int | None) -> dict[str, Any]:
    """Return the bytes and what lies there as data."""
    from mono_gen.explore.records import run_record

    return {
        "file": str(request.path),
        "tensor": request.tensor,
        "field": found.name if request.spec else None,
        "layout": found.tensor.model.layout_name,
        "byte": marked,
        "lines": [
            {
                "byte": line.begin,
                "hex": line.data.hex(),
                "lane": line.lane,
                "wrong_pads": list(line.wrong_pads),
                "runs": [run_record(found, run) for run in line.runs],
            }
            for line in lines
        ],
    }
