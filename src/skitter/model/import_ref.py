"""References to code of the user's own: ``module:name``, and files of spiders; which of them may be run.

They stand in settings and targets, and so in the frontier, where others may be able to write. What a command names
itself is run. What only the store names is run if it lies in the project folder, or if the setting ``trusted_code``
names it (docs/adr/0037). Of the standard library nothing is an item function or a sink, whoever names it.
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
    """The object that a reference names; modules in ``folder`` are found too.

    ``trusted``: the store named it, and only these and the folder are trusted; None: this command named it.
    Raises UsageError for what is not trusted, and otherwise whatever goes wrong, ImportError for the most.
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
    """Modules there can be imported. Last: no file of a project replaces a module that is installed."""
    for folder in folders:
        if folder not in sys.path:
            sys.path.append(folder)


def is_trusted_file(path: str, folder: str, trusted: Iterable[str]) -> bool:
    """Whether a file that the store names may be run: where it really is, behind all symbolic links."""
    real, project = Path(path).resolve(), Path(folder).resolve()
    if real.is_relative_to(project) and not any(part in _INSTALLED for part in real.relative_to(project).parts):
        return True
    return any(real.is_relative_to((project / place).resolve()) for place in trusted)


def untrusted(reference: str, place: str, instead: str = "") -> UsageError:
    """``instead``: another way to name it."""
    return UsageError(
        f"the job names code outside the project folder: {reference}",
        hint=f"if you trust it, name it: {instead}--set trusted_code={place}",
    )


def _is_trusted_module(module: str, folder: str, trusted: Sequence[str]) -> bool:
    if any(module == name or module.startswith(f"{name}.") for name in trusted):
        return True
    from importlib.util import find_spec

    # Of the outermost package: to find an inner one, Python would import it.
    outermost = module.partition(".")[0]
    spec = find_spec(outermost)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {outermost!r}", name=outermost)
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return all(place and is_trusted_file(place, folder, trusted) for place in places)


def _is_not_the_users(module: str) -> bool:
    outermost = module.partition(".")[0]
    return outermost in sys.stdlib_module_names or outermost == "skitter"
