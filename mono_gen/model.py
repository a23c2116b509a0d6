"""The typed model of a spec. Only `resolve` makes it, and what it made holds: no user error is possible after it."""

from __future__ import annotations

from mono_gen.algebra.layout import Layout
from mono_gen.algebra.template import Template
from mono_gen.archs import ArchFacts
from mono_gen.formats import Element, Format
from mono_gen.frozen import frozen
from mono_gen.terms import Comparison

AxisExtent = int | str
"""A logical extent: a number, or the name of a run-time dim."""


@frozen
class Place:
    """Where a thing stands, for remarks in generated code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@frozen
class Constant:
    """A const or param with its value."""

    name: str
    value: int
    is_param: bool
    doc: str


@frozen
class LayoutRule:
    """A condition on the logical extents beyond what splits imply; variables are axis names and `bits`."""

    text: str
    condition: Comparison
    place: Place


@frozen
class FeedsModel:
    """`feeds INSTRUCTION.OPERAND`, and the element types for which it was proved: `fp8`, `fp4`, `bf16`, `e8m0`."""

    instruction: str
    operand: str
    elements: tuple[str, ...]
    place: Place


@frozen
class LayoutModel:
    """A layout of the language, for any legal extents.

    widths:      the element widths, in bits, for which its byte counts are whole elements.
    torch_form:  what `same as torch` says, or empty.
    feeds:       the operands of matrix instructions that a lane's bytes are.
    store_place: where its store order stands; its own place where none is written.
    """

    name: str
    template: Template
    rules: tuple[LayoutRule, ...]
    widths: tuple[int, ...]
    torch_form: str
    feeds: tuple[FeedsModel, ...]
    doc: str
    place: Place
    store_place: Place

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the axis names, slowest first."""
        return tuple(axis.name for axis in self.template.axes)


# --- what a layer is asked ---


@frozen
class Attribute:
    """A path into the layer: the local it starts from, and the attributes after it."""

    root: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.root, *self.names))


@frozen
class LetModel:
    """`let name = path or path`."""

    name: str
    paths: tuple[Attribute, ...]
    place: Place


Operand = Attribute | int | str
"""What a condition compares: an attribute, an integer, or the name of a run-time dim."""


@frozen
class ConditionModel:
    """A condition on the layer: `op` is one of `is true`, `is false`, `== != < <= > >=`, `in`, `not in`."""

    text: str
    left: Operand
    op: str
    right: tuple[Operand, ...]
    place: Place


@frozen
class DimModel:
    """A run-time extent; `values` None is any length."""

    name: str
    values: tuple[int, ...] | None
    place: Place


# --- fields ---


@frozen
class Segment:
    """A named range of a tensor's axis, in logical coordinates, and its place in storage (`pad each` moves it)."""

    name: str
    begin: int
    end: int
    padded_begin: int
    padded_end: int


@frozen
class TensorModel:
    """One torch tensor of a field: its data or its scale.

    extents:  logical elements, batch dims first.
    batch:    how many leading dims are row-major batch dims.
    axes:     a coordinate name a dim.
    layout:   the layout of the axes after the batch; None is `row_major`.
    bound:    that layout at the extents (a run-time row counted as 1).
    segments: named ranges of `segment_axis` (an index into the dims), empty where there are none.
    """

    name: str
    element: Element
    extents: tuple[AxisExtent, ...]
    batch: int
    axes: tuple[str, ...]
    layout: LayoutModel | None
    bound: Layout
    segment_axis: int
    segments: tuple[Segment, ...]
    pad_each: bool

    @property
    def runtime_dim(self) -> str | None:
        """Return the run-time dim that is the first extent, or None."""
        first = self.extents[0]
        return first if isinstance(first, str) else None

    @property
    def runtime_row(self) -> bool:
        """Return whether the run-time dim is an axis of the layout, not a batch dim."""
        return self.runtime_dim is not None and self.batch == 0

    @property
    def inner(self) -> tuple[AxisExtent, ...]:
        """Return the extents after the batch dims."""
        return self.extents[self.batch :]

    @property
    def layout_name(self) -> str:
        """Return the layout's name as the spec has it."""
        return self.layout.name if self.layout is not None else "row_major"


@frozen
class SourceModel:
    """Where a tensor comes from; `shape` is the source's own where `as` gives one, each dim a product."""

    path: Attribute
    shape: tuple[tuple[AxisExtent, ...], ...] | None
    place: Place


@frozen
class ViewModel:
    """The source already is what the kernel reads."""

    sources: tuple[SourceModel, ...]
    place: Place


@frozen
class ConvertModel:
    """The source has another format or order; `order` None is `row_major`."""

    format: Format
    order: LayoutModel | None
    sources: tuple[SourceModel, ...]
    via: str
    place: Place


@frozen
class AttestModel:
    """The producer's flag: `layout` names the order it promises, or is empty where the flag must be absent."""

    layout: str
    path: Attribute
    place: Place


@frozen
class GatherModel:
    """Ranks bring a slice each of a segment; `world` is their number where the spec fixes it."""

    segment: Segment
    group: str
    world: int | None
    place: Place


@frozen
class FieldModel:
    """One logical tensor of a struct.

    optional: the optional block it stands in, or empty.
    """

    format: Format
    tensors: tuple[TensorModel, ...]
    origin: ViewModel | ConvertModel
    attest: AttestModel | None
    gather: GatherModel | None
    optional: str
    doc: str
    place: Place

    @property
    def name(self) -> str:
        """Return the name of the data tensor, by which the field is called."""
        return self.tensors[0].name


@frozen
class TableModel:
    """`args NAME(extras) { members }`."""

    name: str
    extras: tuple[str, ...]
    members: tuple[str, ...]
    optional: str
    doc: str
    place: Place


@frozen
class OptionalModel:
    """`optional NAME when COND { ... }`: its lets; fields and tables name it."""

    name: str
    conditions: tuple[ConditionModel, ...]
    lets: tuple[LetModel, ...]
    requires: tuple[ConditionModel, ...]
    doc: str
    place: Place


@frozen
class StructModel:
    """A struct with all that it inherits; `declares` are the fields and tables written in it itself."""

    name: str
    args: tuple[str, ...]
    base: str
    lets: tuple[LetModel, ...]
    requires: tuple[ConditionModel, ...]
    dims: tuple[DimModel, ...]
    fields: tuple[FieldModel, ...]
    optionals: tuple[OptionalModel, ...]
    tables: tuple[TableModel, ...]
    declares: frozenset[str]
    doc: str
    place: Place


@frozen
class SpecModel:
    """A spec: what its file declares, and the layouts that it takes from imported files.

    file:      the file's name, as stamps show it.
    layouts:   its own layouts, then the imported ones that its fields use.
    """

    name: str
    file: str
    arch: ArchFacts | None
    doc: str
    constants: tuple[Constant, ...]
    layouts: tuple[LayoutModel, ...]
    structs: tuple[StructModel, ...]
