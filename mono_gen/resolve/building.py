"""A struct while its members are read, and what names mean inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mono_gen.archs import ArchFacts
from mono_gen.model import ConditionModel, DimModel, FieldModel, LetModel, OptionalModel, StructModel, TableModel
from mono_gen.resolve.conditions import Surroundings
from mono_gen.resolve.integers import Scope
from mono_gen.resolve.lookup import Layouts
from mono_gen.resolve.names import claim
from mono_gen.resolve.report import Report
from mono_gen.syntax import nodes
from mono_gen.syntax.nodes import Name
from mono_gen.syntax.source import Span


@dataclass(slots=True)
class Building:
    """A struct while its members are read, in the order of the spec.

    roots:      what paths may start from, in order (a dict for its order).
    base_index: where the base's fields stand in `fields`, by the names of their tensors.
    poisoned:   whether something was refused or hangs on what was refused: there will be no model.
    """

    args: tuple[str, ...]
    base: StructModel | None
    names: dict[str, tuple[Name, str]] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    lets: list[LetModel] = field(default_factory=list)
    requires: list[ConditionModel] = field(default_factory=list)
    dims: list[DimModel] = field(default_factory=list)
    dim_values: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    dim_names: dict[str, Name] = field(default_factory=dict)
    fields: list[FieldModel] = field(default_factory=list)
    field_names: dict[str, Name] = field(default_factory=dict)
    base_index: dict[str, int] = field(default_factory=dict)
    optionals: list[OptionalModel] = field(default_factory=list)
    optional_spans: dict[str, Span] = field(default_factory=dict)
    optional_of: dict[str, str] = field(default_factory=dict)
    tables: list[TableModel] = field(default_factory=list)
    table_items: list[tuple[nodes.Args, str]] = field(default_factory=list)
    declares: set[str] = field(default_factory=set)
    poisoned: bool = False


@dataclass(frozen=True, slots=True)
class StructContext:
    """What a struct is resolved against: constants, layouts, structs by name (None: refused), the arch.

    later: names of the structs of the file, which may stand further down.
    """

    scope: Scope
    layouts: Layouts
    structs: Mapping[str, StructModel | None]
    arch: ArchFacts | None
    later: frozenset[str]


def claim_new(building: Building, name: Name, what: str, context: StructContext, report: Report) -> bool:
    """Enter a name of the struct, which must not be one of the spec's constants either."""
    if name.text in context.scope:
        report.error(
            "duplicate-name",
            name.span,
            f"`{name.text}` names {what}, and already a constant of the spec",
            label="the second one",
            help="rename one: conditions could mean either",
        )
        return False
    return claim(building.names, name, what, report, "this struct")


def surroundings(building: Building, context: StructContext, extra: tuple[str, ...] = ()) -> Surroundings:
    """Return what names mean at this place of the struct."""
    roots = {**building.roots, **dict.fromkeys(extra)} if extra else building.roots
    return Surroundings(context.scope, building.dim_values, roots)
