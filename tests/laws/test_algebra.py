"""The laws of the algebra, each against an enumeration that numpy makes without offsets or strides."""

from __future__ import annotations

import itertools
from math import lcm, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_gen.algebra.fold import fold, is_even
from mono_gen.algebra.ids import digest64, layout_id, layout_text, template_id, template_text
from mono_gen.algebra.layout import (
    Digit,
    Layout,
    canonical,
    coalesce,
    coordinates_at,
    first_difference,
    is_equal,
    is_row_major,
    movable_run,
    offset,
    row_major,
)
from mono_gen.algebra.monomial import NotWhole, Size, product
from mono_gen.algebra.template import (
    AxisTemplate,
    Factor,
    NarrowPitch,
    NotDivisible,
    StoreGroup,
    Template,
    bind,
    padded_extent,
    row_major_template,
    smallest_extents,
    store_faults,
)
from mono_gen.frozen import replace
from tests.laws.budget import examples
from tests.laws.random_layouts import Case, cases, coordinates, longest_unit, offsets, pairs, storage

FAST = examples(80)
MORE = examples(200)


def table(layout: Layout) -> list[int]:
    """Return the algebra's offset of every padded coordinate."""
    return [offset(layout, at) for at in coordinates(layout.padded)]


# --- the map and its inverse ---


@FAST
@given(cases())
def test_offset_is_the_transposition_that_the_store_order_says(case: Case) -> None:
    layout, truth = case.layout, offsets(case)
    assert layout.extents == case.extents and layout.padded == case.padded
    assert table(layout) == truth.ravel().tolist()


@FAST
@given(cases())
def test_offset_is_injective_and_reaches_all_of_storage_exactly_without_gaps(case: Case) -> None:
    layout = case.layout
    found = table(layout)
    assert len(set(found)) == len(found)
    assert min(found) == 0 and max(found) < layout.span == len(storage(case))
    assert layout.has_gaps == (len(found) < layout.span) == bool(np.any(storage(case) < 0))


@FAST
@given(cases())
def test_inverse(case: Case) -> None:
    layout, stored = case.layout, storage(case)
    for position in range(layout.span):
        at = coordinates_at(layout, position)
        if stored[position] < 0:
            assert at is None
        else:
            assert at == tuple(int(i) for i in np.unravel_index(stored[position], case.padded))
            assert offset(layout, at) == position


@FAST
@given(cases())
def test_live_pads_are_the_axes_that_storage_has_more_of(case: Case) -> None:
    assert case.layout.live_pads == tuple(i for i, n in enumerate(case.extents) if n < case.padded[i])


# --- coalesce, canonical form, equality ---


@FAST
@given(cases())
def test_coalesce_keeps_the_function_and_is_idempotent(case: Case) -> None:
    layout = case.layout
    short = coalesce(layout)
    assert table(short) == table(layout)
    assert coalesce(short) == short
    assert all(digit.size > 1 for digit in short.digits)
    assert [d.stride for d in short.digits] == sorted((d.stride for d in short.digits), reverse=True)
    for one, other in itertools.permutations(short.digits, 2):
        joins = one.axis == other.axis and one.weight == other.weight * other.size
        assert not (joins and one.stride == other.stride * other.size), "two digits that could be one"


@MORE
@given(pairs())
def test_equality_is_the_canonical_forms(pair: tuple[Case, Case]) -> None:
    left, right = (case.layout for case in pair)
    same = np.array_equal(offsets(pair[0]), offsets(pair[1]))
    assert is_equal(left, right) == same
    assert (canonical(left) == canonical(right)) == same


def test_layouts_of_other_extents_are_not_equal() -> None:
    assert not is_equal(row_major((2, 3)), row_major((3, 2)))
    assert not is_equal(row_major((1, 3)), row_major((3, 1)))  # one digit each, on another axis
    assert is_equal(row_major((4, 3)), bind(row_major_template(("row", "k")), (4, 3), 8))


@FAST
@given(pairs())
def test_first_difference_is_the_first_in_row_major_order(pair: tuple[Case, Case]) -> None:
    left, right = (case.layout for case in pair)
    differs = np.flatnonzero(offsets(pair[0]).ravel() != offsets(pair[1]).ravel())
    wanted = tuple(int(i) for i in np.unravel_index(differs[0], pair[0].padded)) if differs.size else None
    assert first_difference(left, right) == wanted


@FAST
@given(cases())
def test_row_major_is_the_identity_without_pads(case: Case) -> None:
    truth = offsets(case)
    identity = case.extents == case.padded and np.array_equal(truth.ravel(), np.arange(truth.size))
    assert is_row_major(case.layout) == identity
    assert table(row_major(case.extents)) == list(range(prod(case.extents)))


# --- what a pack can move ---


@MORE
@given(cases(pitched=False))
def test_movable_run_is_the_widest_unit(case: Case) -> None:
    run = movable_run(case.layout)
    if prod(case.padded[:-1]) > 1:
        assert run == longest_unit(case)
    else:  # one row: longer runs than whole units may lie together
        assert longest_unit(case) % run == 0


@FAST
@given(cases(pitched=True))
def test_movable_run_lies_together_under_a_pitch_too(case: Case) -> None:
    run = movable_run(case.layout)
    assert case.extents[-1] % run == 0
    groups = offsets(case)[..., : case.extents[-1]].reshape(-1, run)
    assert np.all(groups == groups[:, :1] + np.arange(run))


# --- the proof of bijection ---


@MORE
@given(
    st.lists(st.integers(2, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
def test_store_faults_are_empty_exactly_for_bijections(sizes: list[int], picks: list[int]) -> None:
    names = [f"d{i}" for i in range(len(sizes))]
    order = [f"d{i}" for i in picks]
    faults = store_faults(tuple(names), tuple(order))
    assert faults.unknown == tuple(dict.fromkeys(name for name in order if name not in names))
    assert faults.missing == tuple(name for name in names if name not in order)
    assert faults.repeated == tuple(dict.fromkeys(name for name in order if order.count(name) > 1))
    if faults.unknown:
        assert faults
        return
    place = {name: i for i, name in enumerate(names)}
    reached = []
    for at in coordinates(tuple(sizes)):
        total, inside = 0, 1
        for name in reversed(order):
            total += at[place[name]] * inside
            inside *= sizes[place[name]]
        reached.append(total)
    room = prod(sizes[place[name]] for name in order)
    assert bool(faults) == (sorted(reached) != list(range(room)))


# --- the fold ---


@FAST
@given(cases(grouped=True))
def test_fold_is_the_offset_as_a_sum_of_groups(case: Case) -> None:
    layout = case.layout
    groups = fold(case.template, layout)
    assert [d.name for g in groups for d in g.digits] == list(case.template.order)
    assert [g.label for g in groups] == [g.label for g in case.template.store]
    even = [True] * len(groups)
    for at, whole in zip(coordinates(case.padded), offsets(case).ravel().tolist(), strict=True):
        parts = []
        for number, group in enumerate(groups):
            index = part = 0
            for digit in group.digits:
                value = at[digit.axis] // digit.weight % digit.size
                index, part = index * digit.size + value, part + value * digit.stride
            assert 0 <= index < group.size
            even[number] &= index * group.step == part
            parts.append(part)
        assert sum(parts) == whole
    assert [is_even(group) for group in groups] == even
    if not case.template.pitches:
        assert all(even)


@FAST
@given(cases())
def test_a_store_without_groups_has_no_fold(case: Case) -> None:
    assert fold(case.template, case.layout) == ()


# --- ids ---


@MORE
@given(pairs())
def test_layout_ids_are_equal_exactly_for_equal_maps(pair: tuple[Case, Case]) -> None:
    left, right = (case.layout for case in pair)
    same = np.array_equal(offsets(pair[0]), offsets(pair[1])) and left.span == right.span
    assert (layout_id(left, pair[0].bits) == layout_id(right, pair[1].bits)) == same


@FAST
@given(cases(), st.integers(0, 255))
def test_a_fill_is_part_of_the_id_exactly_where_pads_are_live(case: Case, fill: int) -> None:
    layout = case.layout
    other = replace(layout, fill=fill)
    live = case.extents != case.padded
    assert (layout_id(layout, 8) == layout_id(other, 8)) == (not live or layout.fill == fill)


@FAST
@given(cases())
def test_logical_extents_are_part_of_the_id_where_pads_are_live(case: Case) -> None:
    full = replace(case.layout, extents=case.padded)
    assert (layout_id(case.layout, 8) == layout_id(full, 8)) == (case.extents == case.padded)


@FAST
@given(cases())
def test_the_element_width_is_part_of_the_id(case: Case) -> None:
    assert len({layout_id(case.layout, bits) for bits in (4, 8, 16, 32, 64)}) == 5


def _renamed(case: Case) -> Template:
    """Return the template with other names of axes and digits and without groups."""
    rename = {name: f"other{i}" for i, name in enumerate(case.factors)}
    axes = tuple(
        AxisTemplate(f"axis{i}", axis.pad_to, tuple(Factor(rename[f.name], f.size) for f in axis.factors))
        for i, axis in enumerate(case.template.axes)
    )
    order = tuple(rename[name] for name in case.template.order)
    pitches = tuple((rename[name], pitch) for name, pitch in case.template.pitches)
    return Template(axes, (StoreGroup("", order),), case.template.fill, pitches)


@FAST
@given(cases(grouped=True))
def test_names_and_groups_are_in_no_id(case: Case) -> None:
    other = _renamed(case)
    assert template_id(other) == template_id(case.template)
    assert layout_id(bind(other, case.extents, case.bits), case.bits) == layout_id(case.layout, case.bits)


@FAST
@given(cases(), st.data())
def test_a_template_id_sees_every_size_pad_fill_pitch_and_order(case: Case, data: st.DataObject) -> None:
    template, changes = case.template, []
    order = list(template.order)
    if len(order) > 1:
        i = data.draw(st.integers(0, len(order) - 2))
        order[i], order[i + 1] = order[i + 1], order[i]
        changes.append(replace(template, store=(StoreGroup("", tuple(order)),)))
    index = data.draw(st.integers(0, len(template.axes) - 1))
    axis = template.axes[index]
    doubled = tuple(Factor(f.name, f.size * Size(2) if f.size is not None else Size(7)) for f in axis.factors)
    padded = (axis.pad_to or Size(1)) * Size(5)
    for changed in (replace(axis, factors=doubled), replace(axis, pad_to=padded)):
        changes.append(replace(template, axes=(*template.axes[:index], changed, *template.axes[index + 1 :])))
    changes.append(replace(template, pitches=((order[0], Size(9999)),)))
    if template.has_pads:
        changes.append(replace(template, fill=(template.fill or 0) + 1))
        changes.append(replace(template, fill=None if template.fill is not None else 0))
    ids = [template_id(template), *(template_id(change) for change in changes)]
    assert ids.count(ids[0]) == 1
    assert template_text(template).isascii() and layout_text(case.layout, case.bits).isascii()


@FAST
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 64))
def test_a_runtime_row_is_in_the_id_as_a_question_mark(one: int, other: int, k: int) -> None:
    template = row_major_template(("row", "k"))
    left, right = (bind(template, (rows, k), 16) for rows in (one, other))
    assert layout_id(left, 16, runtime_axis=0) == layout_id(right, 16, runtime_axis=0)
    assert "?" in layout_text(left, 16, runtime_axis=0)
    wider = bind(template, (one, k + 1), 16)
    assert layout_id(left, 16, runtime_axis=0) != layout_id(wider, 16, runtime_axis=0)


def test_the_digest_is_pinned() -> None:
    """blake2b-64 of "abc", worked out by `printf abc | b2sum -l 64`."""
    assert digest64("abc") == 0xD8BB14D833D59559


# --- sizes and what bind refuses ---


@FAST
@given(st.integers(1, 64), st.integers(0, 2), st.sampled_from((4, 8, 16, 32, 64)))
def test_a_size_in_bytes_is_whole_exactly_where_it_divides(value: int, power: int, bits: int) -> None:
    size = Size(value, power)
    exact = value * 8**power / bits**power
    assert size.is_whole(bits) == exact.is_integer()
    if exact.is_integer():
        assert size.at(bits) == exact
    else:
        with pytest.raises(NotWhole):
            size.at(bits)


_SIZES = st.builds(Size, st.integers(1, 48), st.integers(0, 2))


@FAST
@given(_SIZES, _SIZES)
def test_products_and_quotients_of_sizes(one: Size, other: Size) -> None:
    both = one * other
    assert product((one, other)) == both
    for bits in (4, 8, 16, 32):
        if one.is_whole(bits) and other.is_whole(bits):
            assert both.at(bits) == one.at(bits) * other.at(bits)
    assert both.divided_by(other) == one
    quotient = one.divided_by(other)
    if quotient is not None:
        assert quotient * other == one
    else:
        assert one.value % other.value or one.power < other.power
    assert one.divided_by(Size(0)) is None
    assert str(Size(16, 1)) == "16B" and str(Size(16)) == "16"


@FAST
@given(cases())
def test_widths_are_those_at_which_every_size_is_whole(case: Case) -> None:
    sizes = [f.size for axis in case.template.axes for f in axis.factors]
    sizes += [axis.pad_to for axis in case.template.axes] + [pitch for _, pitch in case.template.pitches]
    legal = [b for b in (4, 8, 16, 32, 64) if all(s is None or (s.value * 8**s.power) % b**s.power == 0 for s in sizes)]
    assert list(case.template.widths()) == legal
    assert case.bits in legal


@FAST
@given(st.integers(1, 999), st.integers(1, 64), st.sampled_from((4, 8, 16, 32)))
def test_a_padded_extent_is_the_next_multiple(extent: int, multiple: int, bits: int) -> None:
    found = padded_extent(AxisTemplate("x", Size(multiple), (Factor("x", None),)), extent, bits)
    assert found == next(n for n in itertools.count(extent) if n % multiple == 0)
    assert padded_extent(AxisTemplate("x", None, (Factor("x", None),)), extent, bits) == extent


@MORE
@given(
    st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=3).filter(lambda sizes: sizes.count(None) < 2),
    st.none() | st.integers(1, 6),
    st.integers(1, 40),
)
def test_bind_refuses_exactly_what_does_not_divide(sizes: list[int | None], pad: int | None, extent: int) -> None:
    factors = tuple(Factor(f"d{i}", None if n is None else Size(n)) for i, n in enumerate(sizes))
    axis = AxisTemplate("x", None if pad is None else Size(pad), factors)
    template = Template((axis,), (StoreGroup("", tuple(f.name for f in factors)),), None, ())
    stored = -(-extent // (pad or 1)) * (pad or 1)
    sized = prod(n for n in sizes if n is not None)
    legal = stored % sized == 0 if None in sizes else stored == sized
    if legal:
        assert bind(template, (extent,), 8).padded == (stored,)
        return
    with pytest.raises(NotDivisible) as refusal:
        bind(template, (extent,), 8)
    assert (refusal.value.axis, refusal.value.extent, refusal.value.divisor) == (0, stored, sized)
    assert refusal.value.exact == (None not in sizes)


@FAST
@given(st.integers(1, 20), st.sampled_from((4, 8, 16, 32)))
def test_bind_refuses_exactly_bytes_that_are_no_whole_elements(count: int, bits: int) -> None:
    factors = (Factor("K", None), Factor("b", Size(count, 1)))
    template = Template((AxisTemplate("k", None, factors),), (StoreGroup("", ("K", "b")),), None, ())
    extent = lcm(count * 8, bits) * 8
    if count * 8 % bits == 0:
        assert bind(template, (extent,), bits).digits[1].size == count * 8 // bits
    else:
        with pytest.raises(NotWhole):
            bind(template, (extent,), bits)


@MORE
@given(cases(pitched=False), st.data())
def test_bind_refuses_exactly_a_pitch_smaller_than_what_lies_inside(case: Case, data: st.DataObject) -> None:
    layout = case.layout
    digit = data.draw(st.sampled_from(layout.digits))
    pitch = data.draw(st.integers(max(1, digit.stride - 2), digit.stride + 2))
    template = replace(case.template, pitches=((digit.name, Size(pitch)),))
    if pitch >= digit.stride:
        assert bind(template, case.extents, case.bits).span >= layout.span
        return
    with pytest.raises(NarrowPitch) as refusal:
        bind(template, case.extents, case.bits)
    assert (refusal.value.digit, refusal.value.pitch, refusal.value.inside) == (digit.name, pitch, digit.stride)


@FAST
@given(cases(), st.integers(2, 3))
def test_smallest_extents_have_that_many_tiles(case: Case, tiles: int) -> None:
    bare = replace(
        case.template,
        axes=tuple(replace(axis, pad_to=None) for axis in case.template.axes),
        pitches=(),
    )
    layout = bind(bare, smallest_extents(bare, case.bits, tiles), case.bits)
    by_name = {digit.name: digit.size for digit in layout.digits}
    for axis in bare.axes:
        for factor in axis.factors:
            assert by_name[factor.name] == (tiles if factor.size is None else factor.size.at(case.bits))


@FAST
@given(cases(pitched=False), st.data())
def test_padded_extents_may_be_given(case: Case, data: st.DataObject) -> None:
    """Segments padded one by one make more storage than the extent rounded up: `bind` takes the sum."""
    index = data.draw(st.integers(0, len(case.padded) - 1))
    axis = case.template.axes[index]
    more = 0 if axis.is_fixed else axis.sized.at(case.bits)
    padded = tuple(n + more * (i == index) for i, n in enumerate(case.padded))
    layout = bind(case.template, case.extents, case.bits, padded)
    assert layout.padded == padded and layout.extents == case.extents and layout.span == prod(padded)
    assert sorted(table(layout)) == list(range(layout.span))


def test_a_digit_counts_coordinates_by_weight_and_storage_by_stride() -> None:
    """row = R r:16, k = K half:2 g:4 b:16; store R K g r half b, by hand at 32 rows of 256."""
    names = {"R": 2, "r": 16, "K": 2, "half": 2, "g": 4, "b": 16}
    row = AxisTemplate("row", None, (Factor("R", None), Factor("r", Size(16))))
    k = AxisTemplate(
        "k", None, (Factor("K", None), Factor("half", Size(2)), Factor("g", Size(4)), Factor("b", Size(16)))
    )
    store = (StoreGroup("", ("R", "K", "g", "r", "half", "b")),)
    layout = bind(Template((row, k), store, None, ()), (32, 256), 8)
    assert layout.digits == (
        Digit("R", 0, names["R"], 16, 4096),
        Digit("K", 1, names["K"], 128, 2048),
        Digit("g", 1, names["g"], 16, 512),
        Digit("r", 0, names["r"], 1, 32),
        Digit("half", 1, names["half"], 64, 16),
        Digit("b", 1, names["b"], 1, 1),
    )
    assert offset(layout, (17, 200)) == 1 * 4096 + 1 * 2048 + 0 * 512 + 1 * 32 + 1 * 16 + 8
