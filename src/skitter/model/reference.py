"""References to code of the user's own: ``module:name``.

They stand in settings and targets, and so in the frontier. Whoever can write there must not thereby have every function
of Python called: what belongs to the standard library is nobody's item function and nobody's sink.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def resolve(reference: str, folder: str) -> Any:
    """What it stands for; modules in ``folder`` are found too. Raises whatever goes wrong, ImportError for the most."""
    module, _, name = reference.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names or module.partition(".")[0] == "skitter":
        raise ImportError(f"{module} is not a module of your own")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
