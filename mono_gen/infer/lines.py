"""A line with `view(...).permute(...)` in any text, as a function: names in it are the extents of the tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mono_gen.infer.errors import CannotRun

_VIEW = re.compile(r"(?<![\w])(?:view|reshape)\s*\(")
_PERMUTE = re.compile(r"\s*\.\s*(permute|transpose)\s*\(")
_BYTES = re.compile(r"\b(\d+)B\b")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """A view and a permute: the dims and the order as expressions, and the line where they stand."""

    number: int
    view: tuple[ast.expr, ...]
    permute: tuple[ast.expr, ...]
    swaps: bool


def line_function(
    path: Path, number: int | None, constants: Mapping[str, Any], rank: int
) -> tuple[Callable[[Any], Any], int]:
    """Return the function that a line of a file describes, and the line's number.

    number:    the line, or None where the file has only one.
    constants: values of names in it. The other names are the tensor's extents, in the order in which they first stand.
    Raises:    CannotRun.
    """
    try:
        text = path.read_bytes()[:_LARGEST].decode()
    except UnicodeDecodeError as error:
        raise CannotRun(f"'{path}' is not UTF-8 text") from error
    found = _lines(text, path)
    if number is not None:
        found = [line for line in found if line.number == number]
    if not found:
        at = f", line {number}," if number is not None else ""
        raise CannotRun(f"'{path}'{at} has no view(...).permute(...); name a function as FILE.py:FUNCTION")
    if len(found) > 1 and number is not None:
        raise CannotRun(f"line {number} of '{path}' has {len(found)} views with a permute: give each a line of its own")
    if len(found) > 1:
        places = ", ".join(str(line.number) for line in found[:12])
        raise CannotRun(f"'{path}' has {len(found)} lines with a view and a permute ({places}): name one as FILE:LINE")
    line = found[0]
    names = dict.fromkeys(n for e in (*line.view, *line.permute) for n in _names(e))
    axes = [name for name in names if name not in constants]
    unused = [name for name in constants if name not in names]
    if unused:
        raise CannotRun(
            f"--arg {unused[0]}: line {line.number} of '{path.name}' names only {', '.join(names) or 'nothing'}"
        )
    if axes and len(axes) != rank:
        raise CannotRun(
            f"line {line.number} of '{path.name}' names the extents {', '.join(axes)}, and --shape has {rank}: give "
            "those that are constants as --arg NAME=VALUE, or a shape with an extent a name"
        )

    def call(tensor: Any) -> Any:
        env = {**dict(zip(axes, tensor.shape, strict=False)), **constants}
        view = [_value(e, env, tensor) for e in line.view]
        order = [_value(e, env, tensor) for e in line.permute]
        if line.swaps:
            return tensor.view(*view).transpose(*order).contiguous()
        return tensor.view(*view).permute(*order).contiguous()

    return call, line.number


def _lines(text: str, path: Path) -> list[Line]:
    """Return every view that a permute or transpose follows."""
    found = []
    for opening in _VIEW.finditer(text):
        view = _inside(text, opening.end())
        following = _PERMUTE.match(text, opening.end() + len(view) + 1) if view is not None else None
        order = _inside(text, following.end()) if following is not None else None
        if view is None or following is None or order is None:
            continue
        number = text.count("\n", 0, opening.start()) + 1
        parsed = [_expressions(part, number, path) for part in (view, order)]
        found.append(Line(number, parsed[0], parsed[1], following[1] == "transpose"))
    return found


def _inside(text: str, start: int) -> str | None:
    """Return what stands up to the bracket that closes the one before `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return text[start:at]
    return None


def _expressions(text: str, number: int, path: Path) -> tuple[ast.expr, ...]:
    """Return the arguments of a call; one tuple or list of them counts as its members."""
    counted = _BYTES.sub(r"_bytes(\1)", text)
    try:
        tree = ast.parse(f"f({counted}\n)", mode="eval").body
    except SyntaxError as error:
        raise CannotRun(f"line {number} of '{path.name}' has a view that is no Python: {text.strip()[:80]}") from error
    arguments = tree.args if isinstance(tree, ast.Call) else []
    if len(arguments) == 1 and isinstance(arguments[0], (ast.Tuple, ast.List)):
        arguments = arguments[0].elts
    return tuple(arguments)


def _names(expr: ast.expr) -> list[str]:
    """Return the extents that an expression names, as they come: not what `.shape` and `size` are asked of."""
    match expr:
        case ast.Name(name):
            return [name]
        case ast.BinOp(left, _, right):
            return [*_names(left), *_names(right)]
        case ast.UnaryOp(_, operand):
            return _names(operand)
    return []


def _value(expr: ast.expr, env: Mapping[str, Any], tensor: Any) -> int:
    """Return an expression's value: integers, `+ - * / // %`, extents by name, `x.shape[i]` and `x.size(i)`."""
    match expr:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name) if isinstance(env.get(name), int):
            return int(env[name])
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, env, tensor)
        case ast.Subscript(ast.Attribute(_, "shape"), index):
            return int(tensor.shape[_value(index, env, tensor)])
        case ast.Call(ast.Attribute(_, "size"), [index]):
            return int(tensor.size(_value(index, env, tensor)))
        case ast.Call(ast.Name("_bytes"), [ast.Constant(int(count))]):
            return count // int(tensor.element_size())
        case ast.BinOp(left, op, right):
            a, b = _value(left, env, tensor), _value(right, env, tensor)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div() | ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
    raise ValueError(f"`{ast.unparse(expr)}` is no integer expression over extents")
