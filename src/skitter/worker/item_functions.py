"""Item functions: what every item passes between the spider and the outbox, in order.

They run before anything is committed. So one that raises fails its page, class ``callback``, exactly as a callback
that raises does: nothing of the page is kept, and ``skitter retry`` brings all of it again once the function is mended.
To leave an item out on purpose there are DropItem, which is counted, and RejectItem, which keeps it in a rejects file.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from skitter.concurrency import wait_within
from skitter.errors import DropItem, SpiderError
from skitter.extract.items import is_item
from skitter.spiders.base import Spider
from skitter.spiders.loading import load_function


class _Step(NamedTuple):
    name: str
    function: Callable[..., Any]
    takes_response: bool
    pipeline: Any = None
    """Whose method it is, where it came as a class."""
    is_hook: bool = False
    """A hook ``on_item``, which may return None for an item that stays as it is."""


class ItemFunctions:
    """The functions of one spider, ready to be called."""

    def __init__(self, steps: Sequence[_Step], spider: Spider, seconds: float) -> None:
        self._steps = steps
        self._spider = spider
        self._seconds = seconds

    def __bool__(self) -> bool:
        return bool(self._steps)

    async def apply(self, item: Any, response: Any) -> Any:
        """What comes out at the end. Raises DropItem, RejectItem, and whatever a function raises.

        ``response`` is the page that yielded the item; None: it has none.
        """
        for name, function, takes_response, _, hook in self._steps:
            result = function(item, response) if takes_response else function(item)
            if isinstance(result, Awaitable):
                kind = "hook" if hook else "item function"
                result = await wait_within(result, self._seconds, f"the {kind} {name}")
            if result is None and hook:
                continue
            if not is_item(result):
                what = "nothing" if result is None else type(result).__name__
                raise TypeError(
                    f"the item function {name} returned {what}: it must return the item, or raise skitter.DropItem"
                )
            item = result
        return item

    def open(self) -> None:
        """The worker begins: classes in the style of Scrapy's pipelines are told so. SpiderError if one fails."""
        for step in self._steps:
            if callable(told := getattr(step.pipeline, "open_spider", None)):
                try:
                    told(self._spider)
                except Exception as error:
                    raise _unusable(type(step.pipeline), "cannot be opened", error) from error

    def close(self) -> None:
        """The worker ends."""
        for step in self._steps:
            if callable(told := getattr(step.pipeline, "close_spider", None)):
                told(self._spider)


def _built(kind: type[Any]) -> Any:
    """Told as a mistake of the spider, which ends the crawl before its first page: every page would fail by it."""
    try:
        return kind()
    except Exception as error:
        raise _unusable(kind, "cannot be created", error) from error


def _unusable(kind: type[Any], what: str, error: Exception) -> SpiderError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    # An __init__ that takes other arguments is not even entered.
    place = "" if last.filename == __file__ else f" ({last.filename.rpartition('/')[2]} line {last.lineno})"
    return SpiderError(
        f"an item pipeline {what}: {kind.__name__}: {type(error).__name__}: {error}{place}",
        hint="each worker creates one without arguments; correct it and run the same command again",
    )


def item_functions_of(
    spider: Spider,
    settings: str,
    seconds: float,
    trusted: Sequence[str] | None = None,
    hooks: Iterable[tuple[str, Callable[..., Any]]] = (),
) -> ItemFunctions:
    """The spider's own, those of the setting ``item_functions``, and hooks. SpiderError for what cannot be called.

    ``hooks``: names and functions of hooks ``on_item``. ``trusted``: the setting came from the store
    (``model.import_ref.resolve``).
    """
    found = [_step(spider, each) for each in _listed(spider.item_functions)]
    found += [_step(spider, name.strip(), trusted) for name in settings.split(",") if name.strip()]
    found += [_Step(name, function, takes_response=False, is_hook=True) for name, function in hooks]
    return ItemFunctions(found, spider, seconds)


def _listed(functions: Any) -> Iterable[Any]:
    return (functions,) if isinstance(functions, str) or callable(functions) else functions


def _step(spider: Spider, described: Any, trusted: Sequence[str] | None = None) -> _Step:
    function = described
    if isinstance(described, str):
        function = load_function(described, trusted) if ":" in described else getattr(spider, described, None)
    if hasattr(function, "process_item"):
        return _pipeline(spider, function)
    if not callable(function):
        raise SpiderError(
            f"not an item function: {described!r:.100}",
            hint="use a function, the name of a method of the spider, or module:function",
        )
    return _Step(getattr(function, "__name__", repr(function)), function, _takes_two(function))


def _pipeline(spider: Spider, kind: Any) -> _Step:
    """A class in the style of Scrapy's item pipelines: the spider stands where the response would."""
    pipeline = _built(kind) if isinstance(kind, type) else kind
    process = pipeline.process_item
    with_spider = (lambda item: process(item, spider)) if _takes_two(process) else process
    return _Step(f"{type(pipeline).__name__}.process_item", with_spider, takes_response=False, pipeline=pipeline)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return False  # a builtin, which says nothing of itself
    return True


def is_drop(error: BaseException) -> bool:
    """Also Scrapy's own, from a pipeline that was brought along; nothing of Scrapy is imported to know it."""
    return isinstance(error, DropItem) or (type(error).__name__ == "DropItem" and isinstance(error, Exception))
