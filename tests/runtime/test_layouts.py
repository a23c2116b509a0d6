"""Layouts by name: one that no module has entered, and one name of two layouts."""

from __future__ import annotations

from types import ModuleType

import pytest

from mono_gen.frozen import replace
from mono_gen.runtime import MonoUnsupported, layout_named
from mono_gen.runtime import layouts as module


def test_a_layout_is_found_by_the_name_that_a_module_entered(aiter_module: ModuleType) -> None:
    ref = layout_named("shuffle_32x16")
    assert (ref.name, ref.axes) == ("shuffle_32x16", ("row", "k"))
    assert ref.storage("t", 8, 32, 64).padded == (32, 64)


def test_a_name_that_nobody_entered(aiter_module: ModuleType) -> None:
    with pytest.raises(
        MonoUnsupported, match=r"expected a layout of a generated module.*shuffle_16x16.*found 'nobody'"
    ):
        layout_named("nobody")


def test_a_name_of_two_layouts(aiter_module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = layout_named("shuffle_32x16")
    other = replace(ref, id=ref.id ^ 1, spec="other.layout")
    monkeypatch.setitem(module._LAYOUTS, "shuffle_32x16", {"aiter.layout": ref, "other.layout": ref})
    assert module.layout_named("shuffle_32x16") is ref  # the same layout in two specs is one
    monkeypatch.setitem(module._LAYOUTS, "shuffle_32x16", {"aiter.layout": ref, "other.layout": other})
    with pytest.raises(MonoUnsupported, match="expected one layout of that name, found different ones in aiter"):
        layout_named("shuffle_32x16")
