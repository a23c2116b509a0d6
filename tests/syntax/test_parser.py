"""The grammar holds under Lark's strict mode, and the kept tables are the grammar's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

from mono_gen.syntax import build
from mono_gen.syntax.expected import _ROLES
from mono_gen.syntax.parser import GRAMMAR, TABLE, build_parser, item_parser, load_table
from mono_gen.syntax.scan import item_lexemes, scan
from mono_gen.syntax.source import Source

SEEDS = Path(__file__).parent.parent / "fuzz" / "seeds"


def test_the_grammar_is_strict() -> None:
    assert build_parser(strict=True).options.strict


def test_the_table_is_made_from_the_grammar() -> None:
    made_from = json.loads(TABLE.read_text(encoding="utf-8"))["made_from"]
    digest = blake2b(GRAMMAR.read_bytes(), digest_size=8).hexdigest()
    assert made_from["grammar"] == digest, "grammar_table.json is stale: run `python -m mono_gen.syntax.parser`"


def test_a_table_of_another_grammar_or_lark_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lark.__version__", "0.0.0")
    assert load_table() is None


@pytest.mark.parametrize("seed", sorted(SEEDS.glob("*.layout")), ids=lambda p: p.stem)
def test_the_parser_in_use_is_that_of_the_grammar(seed: Path) -> None:
    kept = item_parser()
    fresh = build_parser(strict=True)
    source = Source(seed.name, seed.read_text(encoding="utf-8"))
    scanned = scan(source)
    for index in range(len(scanned.starts)):
        tokens = item_lexemes(scanned, index)
        text = source.text[tokens[0].start : tokens[-1].end]
        assert kept.parse(text) == fresh.parse(text)


def test_every_rule_has_its_method_and_every_role_its_words() -> None:
    rules = {str(rule.alias or rule.origin.name) for rule in build_parser(strict=True).rules}
    roles = set(re.findall(r"^\?(\w+): NAME$", GRAMMAR.read_text(encoding="utf-8"), re.MULTILINE))
    assert roles == set(_ROLES)
    inlined = {"item", "layout_clause", "fill_value", "member", "field_clause", "condition", "plain_condition"}
    inlined |= {"expr", "product", "factor", "atom"}
    missing = {rule for rule in rules - roles - inlined if not rule.startswith("_")} - set(dir(build._Builder))
    assert missing == set()


def test_parsing_imports_neither_torch_nor_rich_nor_numpy() -> None:
    code = (
        "import sys; from mono_gen.syntax import format; from mono_gen.diagnostics import render;"
        "print(sorted({'torch', 'numpy', 'rich', 'jinja2', 'interegular'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" not in ran.stdout
    assert "rich" not in ran.stdout
    assert "numpy" not in ran.stdout
