"""Public names of skitter, a distributed web crawler.

Each name is imported when it is first used, so that ``import
skitter`` (and with it ``skitter --help``) costs next to nothing.
"""

from __future__ import annotations

from skitter._version import __version__ as __version__

# As typing.TYPE_CHECKING, which type checkers know by its name alone; `typing` itself would take half of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from skitter.app.blocking_client import Client as Client
    from skitter.app.blocking_client import connect as connect
    from skitter.app.client import AsyncClient as AsyncClient
    from skitter.app.get_page import Session as Session
    from skitter.app.get_page import aget as aget
    from skitter.app.get_page import get as get
    from skitter.app.item_stream import ItemStream as ItemStream
    from skitter.app.item_stream import stream as stream
    from skitter.app.script import acrawl as acrawl
    from skitter.app.script import crawl as crawl
    from skitter.app.summary import Summary as Summary
    from skitter.errors import DropItem as DropItem
    from skitter.errors import FetchError as FetchError
    from skitter.errors import RejectItem as RejectItem
    from skitter.errors import SkitterError as SkitterError
    from skitter.extract.response import Response as Response
    from skitter.model.browser_actions import Click as Click
    from skitter.model.browser_actions import Fill as Fill
    from skitter.model.browser_actions import JavaScript as JavaScript
    from skitter.model.browser_actions import Screenshot as Screenshot
    from skitter.model.browser_actions import Scroll as Scroll
    from skitter.model.browser_actions import WaitFor as WaitFor
    from skitter.model.request import Priority as Priority
    from skitter.model.request import Request as Request
    from skitter.spiders.base import Spider as Spider
    from skitter.spiders.failure import Failure as Failure
    from skitter.spiders.hooks import Answer as Answer
    from skitter.spiders.hooks import Ban as Ban
    from skitter.spiders.hooks import CloseSummary as CloseSummary
    from skitter.spiders.hooks import Drop as Drop
    from skitter.spiders.hooks import Hooks as Hooks
    from skitter.spiders.hooks import JobInfo as JobInfo
    from skitter.spiders.hooks import Retry as Retry
    from skitter.spiders.rules import Rule as Rule
    from skitter.spiders.stats import Stats as Stats

__all__ = [
    "Answer",
    "AsyncClient",
    "Ban",
    "Click",
    "Client",
    "CloseSummary",
    "Drop",
    "DropItem",
    "Failure",
    "FetchError",
    "Fill",
    "Hooks",
    "ItemStream",
    "JavaScript",
    "JobInfo",
    "Priority",
    "RejectItem",
    "Request",
    "Response",
    "Retry",
    "Rule",
    "Screenshot",
    "Scroll",
    "Session",
    "SkitterError",
    "Spider",
    "Stats",
    "Summary",
    "WaitFor",
    "acrawl",
    "aget",
    "connect",
    "crawl",
    "get",
    "stream",
]

_HOME = {
    "Answer": "skitter.spiders.hooks",
    "AsyncClient": "skitter.app.client",
    "Ban": "skitter.spiders.hooks",
    "Client": "skitter.app.blocking_client",
    "CloseSummary": "skitter.spiders.hooks",
    "Drop": "skitter.spiders.hooks",
    "DropItem": "skitter.errors",
    "Failure": "skitter.spiders.failure",
    "FetchError": "skitter.errors",
    "Hooks": "skitter.spiders.hooks",
    "JobInfo": "skitter.spiders.hooks",
    "ItemStream": "skitter.app.item_stream",
    "Priority": "skitter.model.request",
    "RejectItem": "skitter.errors",
    "Request": "skitter.model.request",
    "Response": "skitter.extract.response",
    "Retry": "skitter.spiders.hooks",
    "Rule": "skitter.spiders.rules",
    "Session": "skitter.app.get_page",
    "SkitterError": "skitter.errors",
    "Spider": "skitter.spiders.base",
    "Stats": "skitter.spiders.stats",
    "Summary": "skitter.app.summary",
    "Click": "skitter.model.browser_actions",
    "Fill": "skitter.model.browser_actions",
    "JavaScript": "skitter.model.browser_actions",
    "Screenshot": "skitter.model.browser_actions",
    "Scroll": "skitter.model.browser_actions",
    "WaitFor": "skitter.model.browser_actions",
    "acrawl": "skitter.app.script",
    "aget": "skitter.app.get_page",
    "connect": "skitter.app.blocking_client",
    "crawl": "skitter.app.script",
    "get": "skitter.app.get_page",
    "stream": "skitter.app.item_stream",
}


if not TYPE_CHECKING:
    # Type checkers know the imports above, and report any other name.
    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
