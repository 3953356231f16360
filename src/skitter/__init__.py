"""Public names of skitter, a distributed web crawler.

Each name is imported when it is first used, so that ``import
skitter`` (and with it ``skitter --help``) costs next to nothing.
"""

from __future__ import annotations

from skitter._version import __version__ as __version__

# As typing.TYPE_CHECKING, which type checkers know by its name alone; `typing` itself would take half of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from skitter.app.blocking_client import Client as Client
    from skitter.app.blocking_client import connect as connect
    from skitter.app.client import AsyncClient as AsyncClient
    from skitter.app.script import crawl as crawl
    from skitter.errors import DropItem as DropItem
    from skitter.errors import RejectItem as RejectItem
    from skitter.errors import SkitterError as SkitterError
    from skitter.extract.response import Response as Response
    from skitter.model.request import Priority as Priority
    from skitter.model.request import Request as Request
    from skitter.spiders.base import Spider as Spider
    from skitter.spiders.rules import Rule as Rule

__all__ = [
    "AsyncClient",
    "Client",
    "DropItem",
    "Priority",
    "RejectItem",
    "Request",
    "Response",
    "Rule",
    "SkitterError",
    "Spider",
    "connect",
    "crawl",
]

_HOME = {
    "AsyncClient": "skitter.app.client",
    "Client": "skitter.app.blocking_client",
    "DropItem": "skitter.errors",
    "Priority": "skitter.model.request",
    "RejectItem": "skitter.errors",
    "Request": "skitter.model.request",
    "Response": "skitter.extract.response",
    "Rule": "skitter.spiders.rules",
    "SkitterError": "skitter.errors",
    "Spider": "skitter.spiders.base",
    "connect": "skitter.app.blocking_client",
    "crawl": "skitter.app.script",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
