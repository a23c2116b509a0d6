"""What `where` says as data: fixed are `byte` and one integer an axis, at the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mono_gen.explore.names import Found
from mono_gen.explore.origins import covered_range, lets_of, origins_of, rank_of, scale_of
from mono_gen.explore.runs import Run, runs_of
from mono_gen.explore.where import Spot


def of_spot(found: Found, spot: Spot, byte: int) -> dict[str, object]:
    """Return the record of one place.

    byte: the one that was asked for; the element's first where coordinates were.
    """
    return {**_tensor(found), **_place(found, spot), **_companions(found, spot), **_fixed(found, spot, byte)}


def of_byte(found: Found, spots: Sequence[Spot], byte: int) -> dict[str, object]:
    """Return the record of what lies at a byte; of a pair of 4-bit elements the first, and both as `elements`."""
    record = of_spot(found, spots[0], byte)
    if len(spots) > 1:
        record["elements"] = [{**_place(found, spot), **_fixed(found, spot, spot.byte)} for spot in spots]
    return {**record, **_fixed(found, spots[0], byte)}


def of_lane(found: Found, spots: Sequence[Spot], lane: int, tile: Mapping[str, int], total: int) -> dict[str, object]:
    """Return the record of what a lane holds: its first element at the top, then runs in the order of its bytes.

    total: the elements that it holds, of which `spots` are the first.
    """
    bits, position, holds = found.tensor.model.element.bits, 0, []
    for run in runs_of(spots):
        holds.append({"lane_byte": position * bits // 8, **run_record(found, run)})
        position += run.count
    record = {"lane": lane, "tile": dict(tile), "elements": total, "lane_bytes": total * bits // 8, "holds": holds}
    return {**_tensor(found), **record, **_fixed(found, spots[0], spots[0].byte)}


def run_record(found: Found, run: Run) -> dict[str, object]:
    """Return the record of a run of places."""
    axes = found.tensor.model.axes
    bits = found.tensor.model.element.bits
    return {
        "byte": run.first.byte,
        "last_byte": run.last.byte + max(bits // 8, 1) - 1,
        "count": run.count,
        "pad": run.first.is_pad,
        "first": dict(zip(axes, run.first.at, strict=True)),
        "last": dict(zip(axes, run.last.at, strict=True)),
    }


def _fixed(found: Found, spot: Spot, byte: int) -> dict[str, object]:
    """Return what always stands at the top: the byte, and a coordinate an axis (null in a gap that has none)."""
    return {"byte": byte, **dict(zip(found.tensor.model.axes, spot.at, strict=True))}


def _tensor(found: Found) -> dict[str, object]:
    """Return what the tensor is."""
    model, form = found.tensor.model, found.field.model.format
    return {
        "spec": found.spec.model.name,
        "struct": found.struct.model.name,
        "field": found.field.model.name,
        "tensor": model.name,
        "format": form.name,
        "element": model.element.name,
        "bits": model.element.bits,
        "layout": model.layout_name,
        "place": str(found.field.model.place),
        "extents": dict(zip(model.axes, model.extents, strict=True)),
        "padded": dict(zip(model.axes, found.tensor.kernel_shape, strict=True)),
    }


def _place(found: Found, spot: Spot) -> dict[str, object]:
    """Return every step of one place."""
    model = found.tensor.model
    axes = model.axes
    digits = {d.name: d.value for d in spot.digits}
    record: dict[str, Any] = {
        "at": dict(zip(axes, spot.at, strict=True)),
        "stored": dict(zip(axes, spot.stored, strict=True)) if spot.stored is not None else None,
        "pad": spot.is_pad,
        "fill": model.bound.fill if spot.is_pad else None,
        "segment": spot.segment.name if spot.segment is not None else None,
        "digits": digits,
        "item_byte": spot.item,
        "element_offset": spot.element,
        "element_byte": spot.byte,
        "nibble": spot.nibble,
    }
    tile, lane, inside = (spot.group(label) for label in ("tile", "lane", "byte"))
    record["tile"] = {d.name: d.value for d in tile.digits} if tile is not None else None
    record["lane"] = lane.index if lane is not None else None
    if lane is not None:
        count = inside.size if inside is not None else 1
        place = (inside.index if inside is not None else 0) * model.element.bits // 8
        if count * model.element.bits % 8 == 0:
            record |= {"lane_byte": place, "dword": place // 4, "byte_select": place % 4}
    return record


def _companions(found: Found, spot: Spot) -> dict[str, object]:
    """Return the scale, what a scale serves, the rank that brings an element, and the sources."""
    scale, rank = scale_of(found, spot), rank_of(found, spot)
    record: dict[str, Any] = {"scale": None}
    if scale is not None:
        other = found.other(1)
        record["scale"] = {
            "tensor": other.tensor.model.name,
            **_place(other, scale),
            **_fixed(other, scale, scale.byte),
        }
    if found.index and not spot.is_pad:
        first, last = covered_range(found, spot)
        data = found.other(0).tensor.model
        record["serves"] = {"tensor": data.name, "axis": data.axes[-1], "first": first, "last": last}
    if rank is not None:
        record["gather"] = {
            "segment": rank.segment,
            "group": rank.group,
            "rank": rank.rank,
            "row": rank.row,
            "world": rank.world,
        }
    record["source"] = [
        {
            "path": origin.path,
            "with": list(lets_of(found, origin.path)),
            "format": origin.format,
            "order": origin.order,
            "index": list(origin.index) if origin.index is not None else None,
            "byte": origin.byte,
            "view": origin.is_view,
        }
        for origin in origins_of(found, spot)
    ]
    return record
