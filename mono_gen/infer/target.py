"""What the user names: a function of a module or file, or a line with a view and a permute, and its arguments."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from mono_gen.infer.errors import CannotRun
from mono_gen.infer.lines import line_function

_ARGUMENT = re.compile(r"\A([A-Za-z_]\w*)=(.+)\Z", re.ASCII | re.DOTALL)
FORMS = "MODULE:FUNCTION, FILE.py:FUNCTION, or FILE or FILE:LINE with a view(...).permute(...)"


@dataclass(frozen=True, slots=True)
class Target:
    """A function of one tensor.

    shown: how the user named it, without folders.
    stem:  of the module or file, for the spec's name; `name` is the function's.
    """

    shown: str
    stem: str
    name: str
    call: Callable[[Any], Any]


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Return the keyword arguments of `--arg NAME=VALUE`, values being Python literals.

    Raises: CannotRun.
    """
    found: dict[str, Any] = {}
    for text in texts:
        matched = _ARGUMENT.match(text)
        if matched is None:
            raise CannotRun(f"--arg {text!r}: expected NAME=VALUE, such as layout=(16,16) or gate_up=True")
        name, value = matched[1], matched[2]
        if name in found:
            raise CannotRun(f"--arg {name} is given twice")
        try:
            found[name] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise CannotRun(
                f"--arg {name}={value}: not a Python literal: a number, a string in quotes, True, None, a tuple, a list"
            ) from error
    return found


def find_target(text: str, arguments: dict[str, Any], rank: int) -> Target:
    """Return the function that a user named, with its keyword arguments bound.

    rank: axes of the tensors it will be run on.
    Raises: CannotRun.
    """
    place, _, name = text.rpartition(":") if ":" in text else (text, "", "")
    is_file = place.endswith(".py") or "/" in place or Path(place).is_file()
    if is_file and (not name or name.isdigit()):
        path = _existing(place)
        call, line = line_function(path, int(name) if name else None, arguments, rank)
        return Target(f"{path.name}:{line}", path.stem, path.stem, call)
    if not place or not name:
        raise CannotRun(f"'{text}' is neither a file nor MODULE:FUNCTION; expected {FORMS}")
    if is_file:
        path = _existing(place)
        module, shown, stem = _from_file(path), f"{path.name}:{name}", path.stem
    else:
        module, shown, stem = _from_name(place), text, place.rpartition(".")[2]
    function = _attribute(module, place, name)
    _check_signature(function, shown, arguments)
    said = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return Target(f"{shown}({said})" if said else shown, stem, name.rpartition(".")[2], _bound(function, arguments))


def _bound(function: Callable[..., Any], arguments: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda tensor: function(tensor, **arguments)


def _existing(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        raise CannotRun(f"'{text}' is a folder; expected {FORMS}")
    if not path.is_file():
        raise CannotRun(f"no such file: '{text}'")
    return path


def _from_file(path: Path) -> ModuleType:
    """Return the module of a file, run as a module of its own name; modules beside it can be imported, as by python."""
    if path.suffix != ".py":
        raise CannotRun(f"'{path}' is not a .py file: a function is taken from a module, a line from any text")
    name = f"_imported_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CannotRun(f"'{path}' cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the file does when it is run is its own error
        raise CannotRun(f"cannot import '{path}': {_said(error)}") from error
    return module


def _from_name(name: str) -> ModuleType:
    """Return the module of this name; the current folder comes first, as under `python -m`."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CannotRun(
                f"there is no module '{name}' here: {error}; name its file as FILE.py:FUNCTION, or set PYTHONPATH"
            ) from error
        raise CannotRun(f"cannot import module '{name}': {_said(error)}") from error
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported is its own error
        raise CannotRun(f"cannot import module '{name}': {_said(error)}") from error


def _said(error: BaseException) -> str:
    """Return an exception with the place in the user's code that it comes from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    own = [f for f in frames if f.filename != __file__]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}{where}"


def _attribute(module: ModuleType, place: str, name: str) -> Callable[..., Any]:
    """Return the function of a module, `Class.method` too."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [n for n in dir(found) if not n.startswith("__") and callable(getattr(found, n, None))]
            near = get_close_matches(part, functions, n=3)
            help = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(functions[:12]) or 'none'}"
            raise CannotRun(f"'{place}' has no function '{part}'; {help}")
        found = getattr(found, part)
    if not callable(found):
        raise CannotRun(f"'{name}' of '{place}' is of type {type(found).__name__}, and no function")
    return found  # type: ignore[no-any-return]


def _check_signature(function: Callable[..., Any], shown: str, arguments: dict[str, Any]) -> None:
    """Refuse arguments that the function has not, and a function that needs more of them, before it is run."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that does not say
        return
    try:
        signature.bind(None, **arguments)
    except TypeError as error:
        named = list(signature.parameters.values())[1:]
        needed = [p.name for p in named if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        missing = [n for n in needed if n not in arguments]
        help = f"; give it as {' '.join(f'--arg {n}=...' for n in missing)}" if missing else ""
        raise CannotRun(
            f"{shown}{signature} cannot be called with one tensor and {', '.join(arguments) or 'no other argument'}: "
            f"{error}{help}"
        ) from error
