"""What is to be done: every layer's fields, and what each file of the output holds. Checked before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mono_gen.checkpoint.folder import Checkpoint
from mono_gen.checkpoint.names import LAYER, Map
from mono_gen.checkpoint.pieces import Job, Search, Share, find_job
from mono_gen.checkpoint.problems import WRONG_INPUT, Refused
from mono_gen.checkpoint.target import Field, Target
from mono_gen.frozen import frozen
from mono_gen.model import ConditionModel
from mono_gen.runtime.conditions import holds
from mono_gen.runtime.files import KEY

_SHOWN = 20  # a name that is wrong is so in every layer


@frozen
class Work:
    """Everything that a conversion does.

    left: the tensors of the struct that the map names no source of, or that the layers have not.
    """

    jobs: tuple[Job, ...]
    left: tuple[str, ...]
    layers: tuple[int, ...]


def plan_work(checkpoint: Checkpoint, target: Target, names: Map, share: Share, layers: Sequence[int] | None) -> Work:
    """Return what is to be converted, of the given layers or of all that the map describes.

    Raises: Refused, with every tensor that is missing or not as the struct says.
    """
    records = [name for name, shard in checkpoint.shards.items() if KEY in shard.metadata]
    if records:
        raise Refused(str(checkpoint.folder), [f"converted already: {records[0]} has mono-gen's records"], WRONG_INPUT)
    prefix, there = _layers(checkpoint, names)
    chosen = tuple(there if layers is None else layers)
    having = f" with {' and '.join(names.having)}" if names.having else ""
    wrong = [f"no layer {prefix.replace(LAYER, str(n))}{having}" for n in chosen if n not in there]
    if not chosen:
        wrong = [f"no layer {' or '.join(names.layers)}{having}"]
    jobs: list[Job] = []
    fits: list[int] = []
    for layer in chosen if not wrong else ():
        search = Search(checkpoint, names, share, prefix, layer)
        jobs += _layer_jobs(search, target)
        wrong += [f"layer {layer}: {line}" for line in search.wrong]
        fits += search.fits
    wrong += _clashes(checkpoint, jobs)
    if fits and len(fits) == len(wrong) and len(set(fits)) == 1:
        ranks = f"{target.name} is of one of {fits[0]} ranks, and this is rank {share.rank} of {share.world}"
        wrong = [f"{ranks}: say --world-size {fits[0]}, or --set for another spec ({wrong[0]})"]
    if wrong:
        more = len(wrong) - _SHOWN
        shown = wrong if more < 2 else [*wrong[:_SHOWN], f"and {more} more"]
        raise Refused(str(checkpoint.folder), shown, WRONG_INPUT)
    made = {m.info.name for job in jobs for m in job.field.made}
    left = tuple(m.info.name for f in target.fields for m in f.made if m.info.name not in made)
    return Work(tuple(jobs), left, chosen)


def _layers(checkpoint: Checkpoint, names: Map) -> tuple[str, list[int]]:
    """Return the prefix that the checkpoint uses, and the numbers of the layers that have what the map asks for."""
    for prefix in names.layers:
        before, after = (re.escape(part) for part in prefix.split(LAYER))
        pattern = re.compile(rf"\A{before}([0-9]+){after}\.")
        numbers = {int(found[1]) for name in checkpoint.places if (found := pattern.match(name))}
        if numbers:
            begins = {n: prefix.replace(LAYER, str(n)) for n in sorted(numbers)}
            return prefix, [n for n, p in begins.items() if all(checkpoint.has(f"{p}.{h}") for h in names.having)]
    return names.layers[0], []


def _layer_jobs(search: Search, target: Target) -> Iterator[Job]:
    """Yield the jobs of a layer; what is wrong is noted. Optional blocks come last: their conditions ask for dims."""
    mapped = [f for f in target.fields if any(p in search.names.sources for s in f.sources for p in s.paths)]
    for field in sorted(mapped, key=lambda f: bool(f.model.optional)):
        if field.model.optional and not _is_present(search, target, field):
            continue
        job = find_job(search, target.name, field)
        if job is not None:
            yield job
    for dim, values in target.dims.items():
        if dim in search.dims and values is not None and search.dims[dim] not in values:
            search.wrong.append(f"{dim} is {search.dims[dim]}; {target.name} takes {' or '.join(map(str, values))}")


def _is_present(search: Search, target: Target, field: Field) -> bool:
    """Return whether an optional field is there: by the dims, or where these do not decide, by its tensors."""
    decided = [_decided(c, search.dims) for c in target.optionals[field.model.optional].conditions]
    if False in decided or None not in decided:
        return False not in decided
    parts = [part for s in field.sources for path in s.paths for part in search.names.sources.get(path, ())]
    return any(search.checkpoint.has(search.full(part, name)) for part in parts for name in part.names)


def _decided(condition: ConditionModel, dims: dict[str, int]) -> bool | None:
    """Return whether a condition on dims and numbers holds; None where it asks the layer."""
    left, *right = (dims.get(o) if isinstance(o, str) else o for o in (condition.left, *condition.right))
    if not all(isinstance(value, int) for value in (left, *right)):
        return None
    many = condition.op in ("in", "not in")
    return holds(left, condition.op, tuple(right) if many else right[0] if right else None)


def _clashes(checkpoint: Checkpoint, jobs: Sequence[Job]) -> list[str]:
    """Return the tensors that go into two fields, and names of the output that are taken."""
    users: dict[str, str] = {}
    lines = []
    for job in jobs:
        for name in job.consumed:
            other = users.setdefault(name, job.field.name)
            if other != job.field.name:
                lines.append(f"{name} goes into both {other} and {job.field.name}")
        lines += [f"{name}: the checkpoint has a tensor of this name" for name in job.names if checkpoint.has(name)]
    return lines
