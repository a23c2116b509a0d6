"""The map beside a spec: which tensors of a checkpoint make each source of a struct, and how ranks share them.

A text of lines; `#` begins a comment.

    layers language_model.model.layers.{layer} or model.layers.{layer}
    having block_sparse_moe.gate.weight

    layer.self_attn.qkv_proj.weight
        q:       self_attn.q_proj.weight        cut row
        index_k: self_attn.index_k_proj.weight
    layer.block_sparse_moe.experts.w2_weight
        block_sparse_moe.experts.{expert}.w2.weight  cut k
"""

from __future__ import annotations

import re
from pathlib import Path

from mono_gen.checkpoint.problems import WRONG_INPUT, Refused
from mono_gen.frozen import frozen

LAYER = "{layer}"
_ITEM = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"\A[\w{}.-]+\Z", re.ASCII)
_PART = re.compile(r"\A(?:(?P<segment>\w+)\s*:\s*)?(?P<names>\S+(?:\s+or\s+\S+)*)(?P<rest>(?:\s+\S+)*)\Z")


@frozen
class Part:
    """A line of a source: the tensors that make a segment of it, or all of it.

    segment: empty where the part is the whole.
    names:   below the layer's prefix, the first that is there counts; `{...}` runs over the items of the first axis.
    cut:     the axis of which each rank has its share, in rank order; empty where every rank has the whole.
    widened: whether bf16 and fp16 are read as the fp32 that they exactly are.
    """

    segment: str
    names: tuple[str, ...]
    cut: str
    widened: bool
    line: int

    @property
    def is_stacked(self) -> bool:
        """Return whether there is a tensor an item."""
        return _ITEM.search(self.names[0]) is not None

    def named(self, name: str, item: int) -> str:
        """Return one of the names for an item of the first axis."""
        return _ITEM.sub(str(item), name)


@frozen
class Map:
    """A map.

    layers:  what the names of a layer begin with; the first that the checkpoint has counts.
    having:  names that a layer of the struct has, and others have not.
    sources: the parts of each source, by the path that the spec reads, lets written out.
    """

    path: Path
    layers: tuple[str, ...]
    having: tuple[str, ...]
    sources: dict[str, tuple[Part, ...]]
    lines: dict[str, int]


def read_map(path: Path) -> Map:
    """Return the map of a file.

    Raises: Refused, with every line that is wrong; OSError.
    """
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Refused(str(path), ["not UTF-8 text"], WRONG_INPUT) from error
    heads: dict[str, tuple[str, ...]] = {}
    sources: dict[str, list[Part]] = {}
    lines: dict[str, int] = {}
    wrong: list[str] = []
    tried: set[str] = set()  # sources with a line that is wrong: they are not empty
    source = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        if line[0].isspace():
            part = _part(number, line.strip())
            if isinstance(part, str):
                wrong.append(f"line {number}: {part}")
                tried.add(source)
            elif not source:
                wrong.append(f"line {number}: tensors without a source; a line that is not indented names one")
            else:
                sources[source].append(part)
        elif word in ("layers", "having"):
            source = ""
            if word in heads:
                wrong.append(f"line {number}: a second `{word}`")
            heads[word] = tuple(rest.split(" or " if word == "layers" else " and "))
        elif rest or not _NAME.match(word):
            wrong.append(f"line {number}: expected `layers`, `having` or a source's path alone, found {line!r}")
            source = ""
        else:
            source = word
            if source in sources:
                wrong.append(f"line {number}: {source} a second time, first in line {lines[source]}")
            sources.setdefault(source, [])
            lines.setdefault(source, number)
    wrong += _incomplete(heads, sources, {path: line for path, line in lines.items() if path not in tried})
    if wrong:
        raise Refused(str(path), wrong, WRONG_INPUT)
    stripped = {word: tuple(name.strip() for name in names) for word, names in heads.items()}
    made = {path: tuple(parts) for path, parts in sources.items()}
    return Map(path, stripped["layers"], stripped.get("having", ()), made, lines)


def _part(number: int, text: str) -> Part | str:
    """Return the part that a line describes, or what is wrong with it."""
    expected = "expected `[SEGMENT:] NAME [or NAME] [cut AXIS] [widen]`"
    matched = _PART.match(text)
    if matched is None:
        return f"{expected}, found {text!r}"
    names = tuple(matched["names"].split(" or ")) if matched["names"] else ()
    names = tuple(name.strip() for name in names)
    words = matched["rest"].split()
    cut, widened = "", False
    while words:
        word = words.pop(0)
        if word == "cut" and words and not cut:
            cut = words.pop(0)
        elif word == "widen" and not widened:
            widened = True
        else:
            return f"{expected}, found {text!r}"
    for name in names:
        if not _NAME.match(name) or name in ("cut", "or", "widen"):
            return f"{name!r} is no name of a tensor; {expected}"
        if LAYER in name:
            return f"{name!r}: the prefix of `layers` stands before every name; leave {LAYER} out"
        if len(_ITEM.findall(name)) > 1 or _ITEM.sub("", name).count("{") or _ITEM.sub("", name).count("}"):
            return f"{name!r}: one {{item}} at most"
    if len({bool(_ITEM.search(name)) for name in names}) > 1:
        return "an {item} in all of the names, or in none"
    return Part(matched["segment"] or "", names, cut, widened, number)


def _incomplete(heads: dict[str, tuple[str, ...]], sources: dict[str, list[Part]], lines: dict[str, int]) -> list[str]:
    """Return what a map lacks as a whole."""
    wrong = []
    if "layers" not in heads:
        wrong.append(f"no `layers` line: what the names of a layer begin with, such as model.layers.{LAYER}")
    wrong += [f"`layers`: {p!r} has no {LAYER}" for p in heads.get("layers", ()) if p.count(LAYER) != 1]
    if not sources:
        wrong.append("it names no source of any field")
    wrong += [f"line {line}: {path} is made of nothing" for path, line in lines.items() if not sources[path]]
    return wrong
