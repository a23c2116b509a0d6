"""Load: reads a layer by the paths of a spec and collects every problem, for one refusal that names them all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from mono_gen.runtime import conditions, tensors
from mono_gen.runtime.content import fingerprint, read_all
from mono_gen.runtime.dims import MISSING, Dim, Extent, Missing, Product, known
from mono_gen.runtime.errors import MonoUnsupported, Problem, show
from mono_gen.runtime.exchange import Message, agree
from mono_gen.runtime.groups import group_problem
from mono_gen.runtime.guess import bytes_look_like
from mono_gen.runtime.ledger import Record
from mono_gen.runtime.recorded import ROW_MAJOR, Claim, claim, claim_source, ended_problem

Path = tuple[Any, str]  # a value, and the full path that it begins: (layer, "layer.self_attn")


class Load:
    """One loading of a struct from a layer. The layer is read, never written.

    Every method reports into one list, in the order of the calls, which is the spec's; `check` raises it. A value that
    was not there is one problem; what hangs on it is passed over. An attribute that raises AttributeError, or whose
    parent is None, is not there; any other exception of a property is the layer's own fault and goes through as it is.
    """

    def __init__(self, subject: str, spec: str) -> None:
        self._subject = f"{subject} ({spec})"
        self._call = 0  # a problem's place: deferred checks report where their field stands
        self._problems: list[tuple[int, Problem]] = []
        self._deferred: list[tuple[int, str, str, Any, str, Any]] = []  # place, field, what, value, op, operand
        self._reported: set[str] = set()  # paths whose absence has been reported
        self._device: tuple[torch.device, str] | None = None
        self._claims: dict[str, bool] = {}  # whether the ledger spoke of a tensor
        self._recorded: list[tuple[int, str, torch.Tensor, Record]] = []  # place, tensor and record to be compared
        self._seen: dict[str, torch.Tensor] = {}  # sound tensors, for what refusals say of their bytes

    def let(self, name: str, *paths: Path) -> Any:
        """Return the first path's value that is there and not None."""
        self._call += 1
        lost: list[Missing] = []
        for path in paths:
            value = self._resolve(path)
            if isinstance(value, Missing):
                lost.append(value)
            elif value is None:
                lost.append(Missing(path[1], f"{path[1]} is None"))
            else:
                return value
        reasons = [gone.why for gone in lost if gone.why]
        if reasons:
            self._add(Problem(name, "path", " or ".join(path for _, path in paths), "; ".join(reasons)))
        return MISSING

    def read(self, root: Any, path: str) -> Any:
        """Return the value at the path, or what `require` and `when` report as not there."""
        return self._resolve((root, path))

    def require(self, text: str, value: Any, op: str, operand: Any = None) -> None:
        """Return nothing; a problem unless `value op operand` holds, `text` being the condition as the spec has it."""
        self._call += 1
        if not self._absent(text, value, operand):
            self._deferred.append((self._call, text, "require", value, op, operand))

    def when(self, name: str, asked: Iterable[tuple[Any, ...]]) -> bool:
        """Return whether the optional part `name` is present: every condition holds. Unbound dims make it absent."""
        self._call += 1
        holds = True
        for value, op, *operand in asked:
            right = operand[0] if operand else None
            absent = self._absent(f"optional {name}", value, right)
            holds = (
                not absent and conditions.holds(value, op, right) and holds
            )  # an unbound dim is no int: nothing holds for it
        return holds

    def dim(self, name: str, allowed: tuple[int, ...] = ()) -> Dim:
        """Return a run-time dim, to stand in shapes."""
        return Dim(name, tuple(allowed))

    def view(
        self,
        name: str,
        path: Path,
        *,
        dtypes: Sequence[torch.dtype],
        shape: Sequence[Extent],
        bits: int,
        batch: int = 0,
        layout: tuple[str, int] | None = None,
        as_shape: Sequence[Extent] | None = None,
    ) -> torch.Tensor:
        """Return the tensor at the path, zero-copy, as a kernel may take it: 16-byte aligned, batch items too.

        Shapes are in elements. `as_shape` is the source's own shape where it differs from the field's. `layout` is the
        name and id of the order that its bytes must be in: a record of the ledger that says otherwise is a problem.
        """
        before = len(self._problems)
        t = self._tensor(name, path, dtypes, tuple(shape), bits, batch, as_shape, tensors.POINTER_ALIGNMENT)
        if len(self._problems) == before:
            self._seen[name] = t
        if layout is not None and not isinstance(t, Missing):
            self._claim(name, t, claim(t, *layout, bits), layout[0])
        return t

    def source(
        self,
        name: str,
        path: Path,
        *,
        dtypes: Sequence[torch.dtype],
        shape: Sequence[Extent],
        bits: int,
        batch: int = 0,
        order: str = "row_major",
        as_shape: Sequence[Extent] | None = None,
    ) -> torch.Tensor:
        """Return the tensor at the path as a converter may read it: checked as a view, aligned to its element only.

        A record of the ledger that names another order than `order` is a problem: its elements would move twice.
        """
        before = len(self._problems)
        t = self._tensor(name, path, dtypes, tuple(shape), bits, batch, as_shape, None)
        if len(self._problems) == before:
            self._seen[name] = t
        if not isinstance(t, Missing):
            self._claim(name, t, claim_source(t, order), order)
        return t

    def _claim(self, name: str, t: torch.Tensor, said: Claim, layout: str) -> None:
        """Keep what the ledger says of a tensor, for `attest` and `check`; report what contradicts.

        A record that an earlier load left on the strength of the producer's flag does not stand for the flag.
        """
        self._claims[name] = said.speaks and (said.record is None or said.record.origin != "load")
        if said.problem is not None:
            self._add(_of(name, said.problem))
        if said.record is not None and said.record.content is not None and layout != ROW_MAJOR:
            self._recorded.append((self._call, name, t, said.record))

    def attest(self, name: str, layout: str, path: Path, tensors: Sequence[str] = ()) -> None:
        """Return nothing; a problem unless the producer's flag for `layout` is there and True.

        Where the ledger has spoken of all the field's `tensors`, the flag is not asked.
        """
        self._call += 1
        if self._is_claimed(tensors):
            return
        value = self._resolve(path)
        if isinstance(value, Missing) and (not value.why or value.path in self._reported):
            return  # the tensor or its owner is gone, which has been said
        if value is not True:
            found = value.why if isinstance(value, Missing) else show(value)
            expected = f"{path[1]} is True, the promise that the bytes are in {layout}"
            self._add(Problem(name, "attest", expected, found, self._promise(layout, tensors)))

    def attest_absent(self, name: str, path: Path, tensors: Sequence[str] = ()) -> None:
        """Return nothing; a problem unless the flag of a row-major source is absent, None or False.

        `tensors` are the field's data and scale, whose bytes a refusal looks at.
        """
        self._call += 1
        value = self._resolve(path)
        if not isinstance(value, Missing) and value is not None and value is not False:
            look = self._look(tensors)
            help = "load the checkpoint's row-major order" + (look and f"; {look}")
            self._add(Problem(name, "attest", f"{path[1]} absent or False: the source is row_major", show(value), help))

    def unattested(self, name: str, layout: str, tensors: Sequence[str] = ()) -> None:
        """Return nothing; a problem unless the ledger has spoken: nothing else says that the bytes are in `layout`."""
        self._call += 1
        if self._is_claimed(tensors):
            return
        promise = self._promise(layout, tensors)
        help = f"name the producer's flag with `attest` in the spec, convert from row_major, {promise}"
        self._add(Problem(name, "attest", f"a promise that the bytes are in {layout}", "nothing that says so", help))

    def _promise(self, layout: str, tensors: Sequence[str]) -> str:
        """Return how a caller promises what no flag says: of which tensors, and what their bytes look like."""
        silent = " and ".join(t for t in tensors if not self._claims.get(t, False)) or layout
        look = self._look(tensors)
        return f"or say it of {silent} with runtime.attest(tensor, layout)" + (look and f"; {look}")

    def _look(self, tensors: Sequence[str]) -> str:
        """Return what the bytes of a field's data and scale look like, where both were found sound."""
        seen = [self._seen[name] for name in tensors if name in self._seen]
        return bytes_look_like(seen[0], seen[1] if len(seen) > 1 else None) if len(seen) == len(tensors) > 0 else ""

    def _is_claimed(self, tensors: Sequence[str]) -> bool:
        return bool(tensors) and all(self._claims.get(name, False) for name in tensors)

    def gathered(
        self, name: str, group: Any, *, segment: str, elements: int, rest: int, world: int | None
    ) -> int | Missing:
        """Return this rank's rows of a source whose `segment` of `elements` is spread over `group`: rest + share."""
        self._call += 1
        problem = group_problem(name, group, f"segment {segment}", elements, world)
        if problem is not None:
            self._add(problem)
            return MISSING
        return rest + elements // torch.distributed.get_world_size(group)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Return a context for one field's conversion: a MonoUnsupported inside it is collected, the block is left."""
        self._call += 1
        try:
            yield
        except MonoUnsupported as refusal:
            for p in refusal.problems:
                field = name if p.field == refusal.subject else p.field
                field = field if field.startswith(name) else f"{name}: {field}"
                what = p.what if refusal.subject == name else f"{refusal.subject}: {p.what}"
                self._add(Problem(field, what, p.expected, p.found, p.help))

    def agree(
        self,
        group: Any,
        *,
        digest: str,
        struct_id: int,
        sources: Sequence[tuple[str, Any]],
        timeout_s: float,
    ) -> None:
        """Tell the ranks of a group what this one brings, its own problems too, and report what keeps them apart.

        A group that is none has been reported by `gathered`; ranks that cannot be told anything are not waited for.
        """
        self._call += 1
        if group_problem(self._subject, group, "ranks", 0, None) is not None:
            return
        self._settle()
        message = Message(
            subject=self._subject,
            digest=digest,
            struct_id=f"{struct_id:016x}",
            sources=tuple(f"{name} {tuple(t.shape)}" for name, t in sources if isinstance(t, torch.Tensor)),
            order=tuple(torch.distributed.get_process_group_ranks(group)),
            rank=torch.distributed.get_rank(group),
            refused="; ".join(p.line() for _, p in self._problems),
        )
        for problem in agree(message, group, timeout_s):
            self._add(problem)

    def check(self) -> None:
        """Return nothing where there is no problem.

        Views that were accepted for their record are compared with it by content: one wait for the device.
        Raises: MonoUnsupported, with every problem so far in the spec's order.
        """
        self._settle()
        if self._problems:
            raise MonoUnsupported(self._subject, (p for _, p in sorted(self._problems, key=lambda entry: entry[0])))

    def _settle(self) -> None:
        """Decide the conditions that waited for run-time dims, and the claims that rest on content."""
        self._compare()
        unbound = []
        for place, field, what, value, op, operand in self._deferred:
            open_extents = [extent for extent in (value, operand) if conditions.unbound(extent)]
            if open_extents:
                expected = f"{open_extents[0]} from a shape in which it stands alone"
                unbound.append((place, Problem(field, "dim", expected, "no such shape")))
            elif not conditions.holds(value, op, operand):
                self._add(Problem(field, what, conditions.expected(op, operand), conditions.found(value)), place)
        self._deferred.clear()
        self._problems.extend(unbound if not self._problems else [])  # a tensor that was refused binds nothing

    def _compare(self) -> None:
        """Compare the content of what was recorded with the records: one wait a device, none where nothing was."""
        pairs = [
            torch.stack((r.content.value, fingerprint(t, r.items, sampled=r.content.sampled).value))
            for *_, t, r in self._recorded
            if r.content is not None
        ]
        for (place, name, _, record), (then, now) in zip(self._recorded, read_all(pairs), strict=True):
            if then != now:
                why = f"its content is not what was recorded ({record.origin})"
                self._add(_of(name, ended_problem(record.layout, record.layout, why)), place)
        self._recorded.clear()

    def _add(self, problem: Problem, place: int | None = None) -> None:
        self._problems.append((self._call if place is None else place, problem))

    def _absent(self, text: str, *values: Any) -> bool:
        """Return whether a value was not there, and report it unless that has been done."""
        gone = [value for value in values if isinstance(value, Missing)]
        for value in gone:
            if value.why:
                self._add(Problem(text, "attribute", value.path, value.why))
        return bool(gone)

    def _resolve(self, path: Path) -> Any:
        root, text = path
        if isinstance(root, Missing):
            return MISSING
        names = text.split(".")
        value = root
        for count, name in enumerate(names[1:], start=1):
            if value is None:
                owner = ".".join(names[:count])
                return Missing(owner, f"{owner} is None")
            try:
                value = getattr(value, name)
            except AttributeError as error:
                return Missing(".".join(names[: count + 1]), str(error) or f"no attribute {name!r}")
        return value

    def _tensor(
        self,
        name: str,
        path: Path,
        dtypes: Sequence[torch.dtype],
        shape: tuple[Extent, ...],
        bits: int,
        batch: int,
        as_shape: Sequence[Extent] | None,
        alignment: int | None,
    ) -> torch.Tensor:
        self._call += 1
        nothing = cast("torch.Tensor", MISSING)  # `check` raises before anyone reads it
        value = self._resolve(path)
        if value is None:
            value = Missing(path[1], f"{path[1]} is None")
        if isinstance(value, Missing):
            if value.why:
                self._reported.add(value.path)
                self._add(Problem(name, "attribute", path[1], value.why))
            return nothing
        odd = tensors.kind_problem(name, value)
        if odd is not None:
            self._add(odd)
            return nothing
        t = tensors.plain(value)
        own_shape = shape if as_shape is None else tuple(as_shape)
        before = len(self._problems)
        self._check_shape(name, t, dtypes, own_shape, bits)
        self._check_place(name, t, alignment)
        if as_shape is not None and len(self._problems) == before:
            t = self._as_field(name, t, shape, bits)
        if alignment is not None and len(self._problems) == before:
            problem = tensors.item_problem(name, t.shape, t.itemsize, batch, alignment)
            if problem is not None:
                self._add(problem)
        return t

    def _check_shape(
        self, name: str, t: torch.Tensor, dtypes: Sequence[torch.dtype], shape: tuple[Extent, ...], bits: int
    ) -> None:
        for problem in (tensors.dtype_problem(name, t, dtypes), tensors.extent_problem(name, t)):
            if problem is not None:
                self._add(problem)
        wanted = _torch_extents(shape, bits)
        if not any(isinstance(n, Missing) for n in wanted):
            self._match(name, t, wanted, bits)

    def _match(self, name: str, t: torch.Tensor, wanted: tuple[Extent, ...], bits: int) -> None:
        """Return nothing; compare the shape axis by axis, and bind or compare the run-time dims in it."""
        found = tuple(t.shape)
        numbers = [None if isinstance(extent, Dim) else known(extent) for extent in wanted]
        if len(found) != len(wanted) or any(
            n is not None and n != have for n, have in zip(numbers, found, strict=True)
        ):
            have_bits = 4 if t.dtype is torch.float4_e2m1fn_x2 else bits
            self._add(Problem(name, "shape", tensors.shape_text(wanted, bits), tensors.shape_text(found, have_bits)))
            return
        for axis, (extent, number, have) in enumerate(zip(wanted, numbers, found, strict=True)):
            if isinstance(extent, Dim):
                self._bind(name, axis, extent, have)
            elif isinstance(extent, Product) and number is None:
                self._deferred.append((self._call, name, "shape", have, "==", extent))

    def _bind(self, name: str, axis: int, dim: Dim, found: int) -> None:
        if dim.bound is None:
            if found < 1:
                return  # a tensor without elements, which has been said
            dim.bound, dim.field = found, name
            if dim.allowed and found not in dim.allowed:
                allowed = " or ".join(map(str, dim.allowed))
                self._add(Problem(name, "dim", f"{dim.name} = {allowed}", f"{found} on axis {axis}"))
        elif dim.bound != found:
            self._add(Problem(name, "dim", f"{dim.name} = {dim.bound} on axis {axis}, as in {dim.field}", str(found)))

    def _check_place(self, name: str, t: torch.Tensor, alignment: int | None) -> None:
        found = (
            tensors.stride_problem(name, t),
            tensors.storage_problem(name, t),
            tensors.alignment_problem(name, t, t.itemsize if alignment is None else alignment),
        )
        for problem in found:
            if problem is not None:
                self._add(problem)
        if self._device is None:
            self._device = t.device, name
        elif self._device[0] != t.device:
            self._add(Problem(name, "device", f"{self._device[0]}, as {self._device[1]}", str(t.device)))

    def _as_field(self, name: str, t: torch.Tensor, shape: tuple[Extent, ...], bits: int) -> torch.Tensor:
        """Return the source seen in the field's own shape. A dim that is not bound yet is compared in `check`."""
        wanted = _torch_extents(shape, bits)
        if any(isinstance(extent, Missing) for extent in wanted):
            return t
        numbers = [known(extent) for extent in wanted]
        fixed = math.prod(n for n in numbers if n is not None)
        rest = t.numel() // fixed
        if numbers.count(None) > 1 or fixed * rest != t.numel() or (None not in numbers and rest != 1):
            self._add(
                Problem(
                    name, "as", f"as many elements as {tensors.shape_text(wanted, bits)}", f"{t.numel()} in torch units"
                )
            )
            return t
        said = any(place == self._call for place, *_ in self._deferred)  # a product in the source's own shape says it
        for extent, number in zip(wanted, numbers, strict=True):
            if number is None and isinstance(extent, (Dim, Product)) and not said:
                self._deferred.append((self._call, name, "as", rest, "==", extent))
        return t.view([rest if n is None else n for n in numbers])


def _of(name: str, problem: Problem) -> Problem:
    """Return a problem as that of a field."""
    return Problem(name, problem.what, problem.expected, problem.found, problem.help)


def _torch_extents(shape: tuple[Extent, ...], bits: int) -> tuple[Extent, ...]:
    """Return the shape in torch units: the last axis of 4-bit data counts pairs."""
    if bits != 4 or isinstance(shape[-1], Missing):
        return shape
    last = shape[-1]
    if not isinstance(last, int) or last % 2:
        raise AssertionError(f"a 4-bit field's last extent is an even number, not {last}")
    return (*shape[:-1], last // 2)
