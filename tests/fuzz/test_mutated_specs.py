"""20,000 specs broken at random: each is taken or refused with diagnostics, and none takes long."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mono_gen.diagnostics import Diagnostic, SpecError
from mono_gen.diagnostics.render import render
from mono_gen.emit.hip import emit_hip
from mono_gen.emit.python import emit_python
from mono_gen.loading import LIBRARY
from mono_gen.plan.build import build_plan
from mono_gen.resolve.report import Report
from mono_gen.resolve.specs import Exports, resolve_spec
from mono_gen.syntax import nodes
from mono_gen.syntax.parse import parse
from mono_gen.syntax.parser import item_parser
from mono_gen.syntax.read import decode_source

SEED_FILES = sorted((Path(__file__).parent / "seeds").glob("*.layout"))
SEEDS = [file.read_bytes() for file in SEED_FILES]
BUILT = ("layer.layout", "tiles.layout")  # the other seeds hold clauses that no stage builds yet
MUTANTS = 20_000
CHUNKS = 40
LIMIT_SECONDS = 1.0
LIMIT_BYTES = 24_000  # parsing takes some 10 us a token: a megabyte of `+ 1` is no mutant, only slow

_TOKEN = re.compile(rb"#[^\n]*|[A-Za-z_0-9]+|[^\sA-Za-z_0-9]")
_NESTING = [(b"(", b")"), (b"[", b"]"), (b"{", b"}")]


@cache
def library() -> Exports:
    """Return what the packaged library gives to those that import it."""
    tree, _ = parse(decode_source((LIBRARY / "aiter.layout").read_bytes(), "aiter.layout"))
    return resolve_spec(tree, (), {}, Report()).exports


def check_text(text: bytes) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a spec, from bytes to files; nothing but diagnostics may come of any bytes."""
    try:
        source = decode_source(text, "mutant.layout")
    except SpecError as error:
        return error.diagnostics
    tree, problems = parse(source)
    report = Report(list(problems))
    found = [item for item in tree.items if isinstance(item, nodes.Import) and item.path == "aiter.layout"]
    model = resolve_spec(tree, tuple((item, library()) for item in found), {}, report).model
    if not report.has_errors and model is not None:
        plan = build_plan(model, "0" * 16, ())
        for file in emit_python(plan):
            compile(file.text, file.path, "exec")
        emit_hip(plan)
    return tuple(report.found)


def flip_bytes(rng: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] = rng.choice([rng.randrange(256), rng.randrange(32, 127)])
    return bytes(changed)


def cut_lines(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    del lines[at : at + rng.randint(1, 4)]
    return b"".join(lines)


def cut_bytes(rng: random.Random, text: bytes) -> bytes:
    at = rng.randrange(len(text))
    return text[:at] + text[at + rng.randint(1, 40) :] if rng.random() < 0.7 else text[:at]


def repeat_lines(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[to:to] = lines[at : at + rng.randint(1, 4)] * rng.choice([1, 1, 2, 20])
    return b"".join(lines)


def swap_lines(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def nest(rng: random.Random, text: bytes) -> bytes:
    open_, close = rng.choice(_NESTING)
    depth = rng.choice([1, 2, 50, 99, 101, 3000])
    at = rng.choice([match.start() for match in _TOKEN.finditer(text)])
    end = min(len(text), at + rng.randint(0, 8))
    return text[:at] + open_ * depth + text[at:end] + close * rng.choice([depth, depth - 1, 0]) + text[end:]


def swap_tokens(rng: random.Random, text: bytes) -> bytes:
    tokens = list(_TOKEN.finditer(text))
    a, b = sorted(rng.sample(tokens, 2), key=lambda match: match.start())
    return text[: a.start()] + b.group() + text[a.end() : b.start()] + a.group() + text[b.end() :]


def replace_token(rng: random.Random, text: bytes) -> bytes:
    token, other = rng.choice(list(_TOKEN.finditer(text))), rng.choice(list(_TOKEN.finditer(rng.choice(SEEDS))))
    by = rng.choice(
        [other.group(), b"", b"0", b"-1", b"9" * 30, b"9" * 5000, b"16 B", b"0B", b"\xff", b"class", b"1/0"]
    )
    return text[: token.start()] + by + text[token.end() :]


def chain(rng: random.Random, text: bytes) -> bytes:
    numbers = list(re.finditer(rb"\b\d+\b", text))
    at = rng.choice(numbers).end()
    return (
        text[:at] + rng.choice([b"+1", b"*2", b"-1", b"%7", b"/1", b"+x", b".x"]) * rng.choice([1, 3, 4000]) + text[at:]
    )


def change_number(rng: random.Random, text: bytes) -> bytes:
    number = rng.choice(list(re.finditer(rb"\b\d+\b", text)))
    return text[: number.start()] + rng.choice(b"0 1 2 3 4 8 16 24 32 64 256 1000".split()) + text[number.end() :]


def swap_words(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    words = re.findall(rb"[A-Za-z_0-9]+|[^A-Za-z_0-9]+", lines[at])
    named = [i for i, word in enumerate(words) if word[:1].isalpha()]
    if len(named) > 2:
        a, b = rng.sample(named[1:], 2)
        words[a], words[b] = words[b], words[a]
    return b"".join([*lines[:at], *words, *lines[at + 1 :]])


MUTATIONS: list[Callable[[random.Random, bytes], bytes]] = [
    flip_bytes,
    cut_lines,
    cut_bytes,
    repeat_lines,
    swap_lines,
    nest,
    swap_tokens,
    replace_token,
    chain,
    change_number,
    swap_words,
]


def mutate(rng: random.Random) -> bytes:
    """Return a seed with one to three things done to it."""
    text = rng.choice(SEEDS)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        changed = rng.choice(MUTATIONS)(rng, text)
        whole = _TOKEN.search(changed) and re.search(rb"\b\d+\b", changed) and len(changed) <= LIMIT_BYTES
        text = changed if whole else text
    return text


def test_the_seeds_themselves_are_fine() -> None:
    assert [parse(decode_source(seed, "seed.layout"))[1] for seed in SEEDS] == [()] * len(SEEDS)
    assert [check_text(file.read_bytes()) for file in SEED_FILES if file.name in BUILT] == [()] * len(BUILT)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mutated_specs(chunk: int) -> None:
    item_parser()
    library()
    for number in range(MUTANTS // CHUNKS):
        text = mutate(random.Random(f"{chunk}/{number}"))
        began = time.process_time()
        problems = check_text(text)
        render(problems, "full", True)
        took = time.process_time() - began
        assert took < LIMIT_SECONDS, f"mutant {chunk}/{number} took {took:.2f} s"
