"""The generated modules that come with mono-gen: installed as `mono_gen.generated`, or in the folder of a checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def generated_folder() -> Path:
    """Return the folder of what comes with mono-gen: of `mono_gen.generated` where installed, or the checkout's."""
    found = find_spec("mono_gen.generated")
    if found is not None and found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    return Path(__file__).resolve().parents[2] / "generated"


def load_generated(name: str) -> ModuleType:
    """Return the generated module of a spec.

    Raises: ImportError, where it is neither installed nor in the checkout's `generated` folder.
    """
    full = f"mono_gen.generated.{name}"
    if full in sys.modules:
        return sys.modules[full]
    path = generated_folder() / f"{name}.py"
    if find_spec("mono_gen.generated") is not None:
        return import_module(full)
    spec = spec_from_file_location(full, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ImportError(
            f"{full} is not installed, and {path.name} is not in a checkout's generated/: run mono-gen generate"
        )
    module = sys.modules[full] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
