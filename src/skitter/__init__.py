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
    from skitter.app.get_page import aget as aget
    from skitter.app.get_page import get as get
    from skitter.app.item_stream import ItemStream as ItemStream
    from skitter.app.item_stream import stream as stream
    from skitter.app.script import acrawl as acrawl
    from skitter.app.script import crawl as crawl
    from skitter.errors import DropItem as DropItem
    from skitter.errors import RejectItem as RejectItem
    from skitter.errors import SkitterError as SkitterError
    from skitter.extract.response import Response as Response
    from skitter.model.request import Priority as Priority
    from skitter.model.request import Request as Request
    from skitter.spiders.base import Spider as Spider

__all__ = [
    "AsyncClient",
    "Client",
    "DropItem",
    "ItemStream",
    "Priority",
    "RejectItem",
    "Request",
    "Response",
    "SkitterError",
    "Spider",
    "acrawl",
    "aget",
    "connect",
    "crawl",
    "get",
    "stream",
]

_HOME = {
    "AsyncClient": "skitter.app.client",
    "Client": "skitter.app.blocking_client",
    "DropItem": "skitter.errors",
    "ItemStream": "skitter.app.item_stream",
    "Priority": "skitter.model.request",
    "RejectItem": "skitter.errors",
    "Request": "skitter.model.request",
    "Response": "skitter.extract.response",
    "SkitterError": "skitter.errors",
    "Spider": "skitter.spiders.base",
    "acrawl": "skitter.app.script",
    "aget": "skitter.app.get_page",
    "connect": "skitter.app.blocking_client",
    "crawl": "skitter.app.script",
    "get": "skitter.app.get_page",
    "stream": "skitter.app.item_stream",
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
