"""References to the user's code (``module:name``, spider files), and the check whether it may be run.

They are stored with settings and targets in the frontier, where others may be able to write. Code that the command
itself names is run. Code that only the store names is run if it is in the project folder or in the setting
``trusted_code`` (docs/adr/0037). Nothing in the standard library may be an item function or a sink.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from skitter.errors import UsageError

_INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages: a virtual environment inside the project folder is no part of the project."""


def resolve(reference: str, folder: str, trusted: Sequence[str] | None = None) -> Any:
    """Return the object that a reference names; modules in ``folder`` are found too.

    ``trusted``: the entries trusted besides the folder, for a reference from the store; None: from this command.
    Raises UsageError for untrusted code, or the error of the import, usually ImportError.
    """
    module, _, name = reference.partition(":")
    if _is_not_the_users(module):
        raise ImportError(f"{module} is not a module of your own")
    add_to_path(folder)
    if trusted is not None and not _is_trusted_module(module, folder, trusted):
        raise untrusted(reference, module)
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
        if isinstance(found, ModuleType) and _is_not_the_users(found.__name__):
            raise ImportError(f"{found.__name__} is not a module of your own")
    return found


def add_to_path(*folders: str) -> None:
    """Add folders to the end of the import path, so that no project file replaces an installed module."""
    for folder in folders:
        if folder not in sys.path:
            sys.path.append(folder)


def is_trusted_file(path: str, folder: str, trusted: Iterable[str]) -> bool:
    """Return whether a file that the store names may be run, judged by its path with symbolic links resolved."""
    real, project = Path(path).resolve(), Path(folder).resolve()
    if real.is_relative_to(project) and not any(part in _INSTALLED for part in real.relative_to(project).parts):
        return True
    return any(real.is_relative_to((project / place).resolve()) for place in trusted)


def untrusted(reference: str, place: str, instead: str = "") -> UsageError:
    """Return the error for untrusted code; ``instead`` is another way to name it."""
    return UsageError(
        f"the job names code outside the project folder: {reference}",
        hint=f"if you trust it, allow it: {instead}--set trusted_code={place}",
    )


def _is_trusted_module(module: str, folder: str, trusted: Sequence[str]) -> bool:
    if any(module == name or module.startswith(f"{name}.") for name in trusted):
        return True
    from importlib.util import find_spec

    # Only the outermost package is looked up: to find an inner one, Python would import the outer.
    outermost = module.partition(".")[0]
    spec = find_spec(outermost)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {outermost!r}", name=outermost)
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return all(place and is_trusted_file(place, folder, trusted) for place in places)


def _is_not_the_users(module: str) -> bool:
    outermost = module.partition(".")[0]
    return outermost in sys.stdlib_module_names or outermost == "skitter"
