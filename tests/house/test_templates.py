"""Python decides, templates lay out: a template holds names, attributes, loops and conditions, nothing worked out."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined, nodes

from mono_gen.emit.environment import environment

TEMPLATES = Path(__file__).parents[2] / "mono_gen" / "emit" / "templates"

# No Call, Filter, Test, Compare, arithmetic, And, Or, Assign, Macro, Const.
ALLOWED = {"Template", "Output", "TemplateData", "Name", "NSRef", "Getattr", "Tuple", "For", "If", "Not"}


def complaints(jinja: Environment, text: str) -> set[str]:
    """Return the kinds of node that a template may not hold; `include "name"` alone may have a constant."""
    tree = jinja.parse(text)
    included = {id(node.template) for node in tree.find_all(nodes.Include) if isinstance(node.template, nodes.Const)}
    found = {
        type(node).__name__
        for node in tree.find_all(nodes.Node)
        if not isinstance(node, nodes.Include) and id(node) not in included
    }
    return found - ALLOWED


def test_templates_work_nothing_out() -> None:
    files = sorted(path for path in TEMPLATES.iterdir() if path.is_file())
    assert files
    found = {path.name: complaints(environment(), path.read_text()) for path in files}
    assert not {name: kinds for name, kinds in found.items() if kinds}


def test_undefined_names_are_errors_and_delimiters_cannot_collide_with_cpp() -> None:
    jinja = environment()
    assert issubclass(jinja.undefined, StrictUndefined)
    assert (jinja.variable_start_string, jinja.variable_end_string) == ("${", "}")
    assert jinja.line_statement_prefix
    assert jinja.from_string("{{ a }} {% b %} {# c #}").render() == "{{ a }} {% b %} {# c #}"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("a + 1", "Add"),
        ("f()", "Call"),
        ("a | upper", "Filter"),
        ("a == b", "Compare"),
        ("a is defined", "Test"),
        ("a and b", "And"),
        ("a ~ b", "Concat"),
        ("a if b else c", "CondExpr"),
        ("a[0]", "Getitem"),
    ],
)
def test_a_template_that_works_something_out_is_seen(expression: str, kind: str) -> None:
    assert kind in complaints(environment(), f"${{ {expression} }}")
