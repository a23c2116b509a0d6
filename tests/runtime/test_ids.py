"""require_ids: a kernel that was compiled with another header is refused, by field."""

from __future__ import annotations

from types import ModuleType

import pytest

from mono_gen import runtime
from mono_gen.runtime import MonoUnsupported, Problem


def own_ids(struct: type) -> list[int]:
    """Return the ids as a kernel's header exports them, one a field."""
    return [struct.field_ids[info.name.partition(",")[0]] for info in struct.fields]  # type: ignore[attr-defined]


def problems(struct: type, struct_id: int, field_ids: list[int]) -> tuple[Problem, ...]:
    """Return every problem of a kernel that exports these ids."""
    with pytest.raises(MonoUnsupported) as refusal:
        runtime.require_ids(struct, "k1", struct_id=struct_id, field_ids=field_ids)
    assert refusal.value.subject == "k1 for SparseMoeLayer"
    return refusal.value.problems


def test_a_kernel_of_the_same_spec_is_taken(minimax_module: ModuleType) -> None:
    struct = minimax_module.SparseMoeLayer
    runtime.require_ids(struct, "k1", struct_id=struct.struct_id, field_ids=own_ids(struct))


def test_fields_that_the_kernel_reads_otherwise_are_named(minimax_module: ModuleType) -> None:
    struct, wide = minimax_module.SparseMoeLayer, minimax_module.CpSparseMoeLayer
    (problem,) = problems(struct, wide.struct_id, own_ids(wide))
    assert (problem.field, problem.what) == ("w_qkv, s_qkv", "field id")
    assert problem.expected in f"{struct.field_ids['w_qkv']:016x}"
    assert problem.found.startswith(f"{wide.field_ids['w_qkv']:016x}")


def test_another_number_of_fields(minimax_module: ModuleType) -> None:
    struct = minimax_module.SparseMoeLayer
    (problem,) = problems(struct, struct.struct_id, own_ids(struct)[:-1])
    assert (problem.expected, problem.found) == ("18 fields", "17 in the kernel")


def test_tables_in_another_order(minimax_module: ModuleType) -> None:
    struct = minimax_module.SparseMoeLayer
    (problem,) = problems(struct, struct.struct_id ^ 1, own_ids(struct))
    assert (problem.field, problem.what) == ("SparseMoeLayer", "struct id")
