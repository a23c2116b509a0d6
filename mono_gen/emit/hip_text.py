"""C++ source text: literals, expressions, comments, declarations, broken over lines as a formatter would."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence

from mono_gen.terms import CPP, Num, Op, Step, Term, Var, mul, text

COLUMNS = 120
INT_LIMIT = 2**31
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def literal(value: int) -> str:
    """Return an integer literal, with the suffix of 64 bits where an int does not hold it."""
    return str(value) if value < INT_LIMIT else f"{value}LL"


def id_literal(value: int) -> str:
    """Return an id as an unsigned 64-bit literal, all its digits shown."""
    return f"0x{value:016x}ULL"


def expression(term: Term, names: Mapping[str, str]) -> str:
    """Return a term as C++ with its variables renamed and its large literals suffixed."""
    return text(_spelled(term, names), CPP)


def _spelled(term: Term, names: Mapping[str, str]) -> Term:
    """Return a term whose names are those of the header; what C++ writes in its own way has become a name."""
    match term:
        case Num(value):
            return term if value < INT_LIMIT else Var(literal(value))
        case Var(name):
            return Var(names.get(name, name))
        case Step(name, at, amount):
            return Var(f"({names.get(name, name)} >= {literal(at)} ? {literal(amount)} : 0)")
        case Op(op, left, right):
            return Op(op, _spelled(left, names), _spelled(right, names))


def replaced(term: Term, values: Mapping[str, Term]) -> Term:
    """Return a term with variables replaced by terms."""
    match term:
        case Var(name):
            return values.get(name, term)
        case Op(op, left, right):
            return Op(op, replaced(left, values), replaced(right, values))
    return term


def flat_product(factors: Sequence[Term]) -> Term:
    """Return the product of the factors, its numbers multiplied out and last: `kSize_K * 512`."""
    number = 1
    rest: Term = Num(1)
    waiting = list(factors)
    while waiting:
        match waiting.pop(0):
            case Num(value):
                number *= value
            case Op("*", left, right):
                waiting[:0] = [left, right]
            case other:
                rest = mul(rest, other)
    return mul(rest, Num(number))


def comment(lines: Sequence[str], indent: int) -> tuple[str, ...]:
    """Return `//` lines, long ones broken between words; no character in them continues or hides a line."""
    width = COLUMNS - indent - 3
    parts = [part for line in lines for part in _wrapped(_plain(line), width)]
    return tuple(" " * indent + f"// {_ended(part)}".rstrip() for part in parts)


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line broken between words where it is too long."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, break_on_hyphens=False) or [""]


def _plain(line: str) -> str:
    """Return a line without control, format and direction characters: they are named instead."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(f"<U+{ord(c):04X}>" if unicodedata.category(c) in _HIDDEN else c for c in line)


def _ended(line: str) -> str:
    """Return a comment's line that does not end in a backslash, which would take the next line into the comment."""
    return f"{line} ." if line.endswith(("\\", "??/")) else line


def statement(code: str, indent: int) -> tuple[str, ...]:
    """Return code on one line where it fits, else broken at spaces and indented twice more.

    Requires: no string literal stands in it.
    """
    if indent + len(code) <= COLUMNS:
        return (" " * indent + code,)
    return tuple(
        textwrap.wrap(
            code,
            COLUMNS,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 8),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def listed(head: str, items: Sequence[str], tail: str, indent: int, joint: str = ",") -> tuple[str, ...]:
    """Return `head(items)tail` on one line where it fits, else as many items a line as fit, aligned under the first."""
    start = " " * indent + head
    lines, line = [], start
    for index, item in enumerate(items):
        piece = item + (joint if index < len(items) - 1 else tail)
        if line != start and len(line) + 1 + len(piece) > COLUMNS:
            lines.append(line)
            line = " " * len(start) + piece
        else:
            line += piece if line == start else f" {piece}"
    return (*lines, line)


def constant(kind: str, name: str, value: str, indent: int, remark: str = "") -> tuple[str, ...]:
    """Return a `static constexpr` member, its remark behind it."""
    lines = statement(f"static constexpr {kind} {name} = {value};", indent)
    if not remark:
        return lines
    if len(lines) == 1 and len(lines[0]) + 4 + len(remark) < COLUMNS:
        return (f"{lines[0]}  // {remark}",)
    return (*comment([remark], indent), *lines)


def function(kind: str, name: str, parameters: Sequence[str], value: str, indent: int) -> tuple[str, ...]:
    """Return a static member function that returns one expression."""
    head = f"static MONO_HD constexpr {kind} {name}("
    whole = f"{' ' * indent}{head}{', '.join(parameters)}) {{ return {value}; }}"
    if len(whole) <= COLUMNS:
        return (whole,)
    return (
        *listed(head, parameters, ") {", indent),
        *statement(f"return {value};", indent + 4),
        " " * indent + "}",
    )


def checked_function(
    kind: str, name: str, parameters: Sequence[str], value: str, rules: Mapping[str, str], indent: int
) -> tuple[str, ...]:
    """Return a static member function that asserts rules (condition: message) and returns one expression."""
    if not rules:
        return function(kind, name, parameters, value, indent)
    return (
        *listed(f"static MONO_HD constexpr {kind} {name}(", parameters, ") {", indent),
        *(line for condition, message in rules.items() for line in assertion(condition, message, indent + 4)),
        *statement(f"return {value};", indent + 4),
        " " * indent + "}",
    )


def assertion(condition: str, message: str, indent: int) -> tuple[str, ...]:
    """Return a `static_assert`; a long message becomes several literals that the compiler joins."""
    words = _plain(message).replace("\\", "\\\\").replace('"', '\\"')
    whole = f'{" " * indent}static_assert({condition}, "{words}");'
    if len(whole) <= COLUMNS:
        return (whole,)
    hang = " " * (indent + 14)
    parts = re.findall(rf".{{1,{COLUMNS - len(hang) - 6}}}(?:\s+|$)|\S+", words)
    first = textwrap.wrap(
        f"static_assert({condition},",
        COLUMNS,
        initial_indent=" " * indent,
        subsequent_indent=hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return (*first, *(f'{hang}"{part}"' for part in parts[:-1]), f'{hang}"{parts[-1]}");')


def sampled(condition: str, indent: int) -> tuple[str, ...]:
    """Return a `static_assert` that needs no message: the compiler shows both numbers."""
    return statement(f"static_assert({condition});", indent)
