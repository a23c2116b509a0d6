"""The plan: formulas, steps, ids and sample points that the emitters write down."""

from __future__ import annotations

from mono_gen.frozen import frozen
from mono_gen.model import FieldModel, LayoutModel, SpecModel, StructModel, TableModel, TensorModel
from mono_gen.terms import Assign, Comparison, Term


@frozen
class Rule:
    """A condition that legal sizes meet. Variables: `extent_<axis>`, `padded_<axis>` of padded axes, `bits`."""

    condition: Comparison
    text: str


@frozen
class Sample:
    """An element and where it lies, worked out by the algebra; targets assert it.

    nibble: which half of the byte, for 4-bit elements; None for wider ones.
    """

    extents: tuple[int, ...]
    bits: int
    coordinates: tuple[int, ...]
    byte: int
    nibble: int | None


@frozen
class DigitPlan:
    """A digit of a layout for any extents: its value from a coordinate, its size, its stride in elements."""

    name: str
    axis: int
    value: Term
    size: Term
    stride: Term


@frozen
class GroupPlan:
    """Digits that the store names together (`tile`, `lane`, `byte`), in store order."""

    label: str
    digits: tuple[str, ...]


@frozen
class LayoutPlan:
    """A layout for any legal extents.

    Variables of terms: an axis name is a coordinate; `extent_<axis>` is its logical extent, `padded_<axis>` its extent
    in storage where the axis is padded; `bits` is the element width.
    padded:   the extent of storage in terms of the logical one; None for an axis that is not padded.
    sizes:    named sizes (`n_K`, `n_b`) in terms of extents and `bits`; numbers are not named.
    digits:   in store order, slowest first; values in terms of coordinates and sizes.
    element:  the element offset in terms of coordinates and sizes (digit names are assigned first, see `assigns`).
    assigns:  digit values, for targets that name them before they use them; an unsplit axis is its own digit.
    view:     the factors of the padded extents, axis by axis, slowest first; `permute` orders them as stored.
    groups:   empty where the store names none.
    has_pack: False where a pitch leaves gaps: such a layout has offsets only.
    """

    model: LayoutModel
    id: int
    padded: tuple[Term | None, ...]
    sizes: tuple[Assign, ...]
    rules: tuple[Rule, ...]
    digits: tuple[DigitPlan, ...]
    assigns: tuple[Assign, ...]
    element: Term
    view: tuple[Term, ...]
    permute: tuple[int, ...]
    groups: tuple[GroupPlan, ...]
    has_pack: bool
    store_text: str
    torch_text: str
    samples: tuple[Sample, ...]


@frozen
class TensorPlan:
    """A tensor of a field, all its numbers folded.

    item_bytes:  bytes of what one step of all batch dims spans (the layout's whole storage).
    strides:     bytes of one step of each batch dim.
    byte, nibble: the offset in terms of the coordinates; nibble is None for elements of a byte or more.
    inner_byte:  the part of `byte` that the batch coordinates do not move: the offset inside one item.
    shift:       storage coordinate of the segmented axis in terms of the logical one, where `pad each` moves it.
    fits32:      whether every byte offset inside one item fits 31 bits.
    unit_bytes:  the widest unit that a pack can move.
    kernel_shape: the torch extents, in elements, of the tensor that a kernel gets: batch dims, then padded extents.
    """

    model: TensorModel
    layout_id: int
    item_bytes: int
    strides: tuple[int, ...]
    byte: Term
    inner_byte: Term
    nibble: Term | None
    shift: Term | None
    fits32: bool
    unit_bytes: int
    kernel_shape: tuple[int | str, ...]
    samples: tuple[Sample, ...]

    @property
    def total_bytes(self) -> int:
        """Return the bytes of the whole, or of one step of the run-time dim."""
        if self.model.runtime_dim is None:
            return self.strides[0] * int(self.model.extents[0]) if self.strides else self.item_bytes
        return self.strides[0] if self.strides else self.item_bytes


@frozen
class FieldPlan:
    """A field: its tensors, its id, and the steps from source to field, as words that readers see.

    steps: such as ("gather index_q", "dequantize", "quantize", "pack shuffle_16x16"), or ("view",).
    """

    model: FieldModel
    id: int
    tensors: tuple[TensorPlan, ...]
    steps: tuple[str, ...]


@frozen
class StructPlan:
    """A struct: its fields in the order of the spec, and the fields that it is the first to declare."""

    model: StructModel
    id: int
    fields: tuple[FieldPlan, ...]
    tables: tuple[TableModel, ...]
    first: frozenset[str]


@frozen
class SpecPlan:
    """All that is generated for one spec.

    digest:    of the spec, its imports and the overrides, 16 hex digits.
    overrides: `NAME=VALUE`, sorted.
    """

    model: SpecModel
    digest: str
    overrides: tuple[str, ...]
    layouts: tuple[LayoutPlan, ...]
    structs: tuple[StructPlan, ...]
