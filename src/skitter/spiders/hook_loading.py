"""Classes of hooks that the setting ``hooks`` names, found and made."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Sequence
from typing import Any

from skitter.errors import SpiderError
from skitter.spiders.base import Spider
from skitter.spiders.hooks import NAMES, has_hook
from skitter.spiders.loading import load_function


def hook_classes(setting: str, trusted: Sequence[str] | None = None) -> list[type[Any]]:
    """Return the classes that the setting names, in its order. SpiderError for what has no hooks.

    ``trusted``: the setting came from the store (``model.import_ref.resolve``).
    """
    found = []
    for reference in filter(None, (name.strip() for name in setting.split(","))):
        if ":" not in reference:
            raise SpiderError(f"not a hook class: {reference}", hint="write it as module:Class")
        kind = load_function(reference, trusted)
        if not isinstance(kind, type):
            raise SpiderError(f"not a hook class: {reference}", hint="write a class that inherits from skitter.Hooks")
        if not any(has_hook(kind, name) for name in NAMES):
            raise SpiderError(
                f"the class has no hooks: {reference}", hint=f"define at least one of: {', '.join(NAMES)}"
            )
        found.append(kind)
    return found


def check_hooks(kind: type[Any]) -> None:
    """Raise SpiderError for a hook that can never be called."""
    for name in NAMES:
        if not has_hook(kind, name):
            continue
        method = getattr(kind, name)
        if not callable(method):
            raise SpiderError(f"a hook is not callable: {kind.__name__}.{name}", hint="write it as a method")
        if name == "on_headers" and inspect.iscoroutinefunction(method):
            raise SpiderError(
                f"a hook must not be a coroutine: {kind.__name__}.on_headers",
                hint="it is called while the response arrives; on_response may be a coroutine",
            )


def has_on_close(spider: type[Spider] | None, setting: str) -> bool:
    """Return whether a spider or a class of the setting, which this command names, has ``on_close``."""
    kinds = [*([spider] if spider is not None else []), *hook_classes(setting)]
    for kind in kinds:
        check_hooks(kind)
    return any(has_hook(kind, "on_close") for kind in kinds)


def make_hooks(spider: Spider, setting: str, trusted: Sequence[str] | None = None) -> list[Any]:
    """Return the objects that have hooks: the spider first, then one of each class of the setting."""
    kinds = hook_classes(setting, trusted)
    for kind in (type(spider), *kinds):
        check_hooks(kind)
    return [spider, *map(_made, kinds)]


def _made(kind: type[Any]) -> Any:
    try:
        return kind()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        # An __init__ that takes other arguments is not even entered.
        place = "" if last.filename == __file__ else f" ({last.filename.rpartition('/')[2]} line {last.lineno})"
        raise SpiderError(
            f"hooks cannot be created: {kind.__name__}: {type(error).__name__}: {error}{place}",
            hint="each worker creates one object without arguments; on_start receives the job",
        ) from error
