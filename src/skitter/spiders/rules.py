"""Rules of a spider: which links of a page are followed, and which callback gets their pages.

The name of the callback is stored with the request, so a rule may be changed between two runs of a job.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from skitter.errors import SkitterError, SpiderError, UsageError
from skitter.extract.css_selectors import compiled
from skitter.extract.items import is_item
from skitter.extract.link_filter import LinkFilter, Patterns, Texts, is_xpath, regions
from skitter.model.request import Links, Request

if TYPE_CHECKING:
    from skitter.extract.response import Response
    from skitter.spiders.base import Spider

RULE_CALLBACK = "parse_and_follow"
"""Method of a spider that gets the pages of a rule with both a callback and ``follow``."""
_CALLBACK = "rule_callback"
_HINT = 'as in rules = [Rule(allow=r"/item/", callback="parse_item")]'


class Rule:
    """Selects links of a page to follow, and the callback for their pages; used in a spider's ``rules``.

    ``allow``, ``deny``, ``restrict``, ``domains`` and ``extensions`` select links as in ``Response.links``.
    ``callback`` is a method of the spider or its name, and is called with the keyword arguments ``cb_kwargs``.
    ``follow`` says whether the rules also apply to the pages of these links; the default is True without a callback
    and False with one. ``process_request`` is a method of the spider, or its name, that gets each request and the
    response, and returns the request, another request, or None to skip the link."""

    __slots__ = ("callback", "cb_kwargs", "follow", "matches", "process_request", "restrict")

    def __init__(
        self,
        allow: Patterns = (),
        *,
        deny: Patterns = (),
        restrict: Texts = (),
        domains: Texts = (),
        extensions: Texts = (),
        callback: str | Callable[..., Any] | None = None,
        follow: bool | None = None,
        cb_kwargs: Mapping[str, Any] | None = None,
        process_request: str | Callable[..., Any] | None = None,
    ) -> None:
        try:
            self.matches = LinkFilter(allow=allow, deny=deny, domains=domains, extensions=extensions)
            self.restrict = regions(restrict)
            for selector in self.restrict:
                if not is_xpath(selector):
                    compiled(selector)
        except TypeError as error:
            # One that is no text and cannot be iterated over: LinkExtractor(...) of Scrapy among them.
            raise SpiderError(f"a rule has a wrong value: {error}", hint=_HINT) from error
        except SkitterError as error:
            raise SpiderError(f"a rule has a wrong value: {error}", hint=error.hint or _HINT) from error
        self.callback = _name(callback, "callback")
        self.process_request = _name(process_request, "process_request")
        self.follow = self.callback is None if follow is None else follow
        if self.callback is None and not self.follow:
            raise SpiderError("a rule has neither a callback nor follow", hint=_HINT)
        self.cb_kwargs = dict(cb_kwargs or {})
        if self.cb_kwargs and self.callback is None:
            raise SpiderError("a rule has cb_kwargs but no callback", hint=_HINT)

    def request(self, url: str, session: str | None = "") -> Request:
        """Return the request for a link that matches this rule."""
        if self.callback is None or not self.follow:
            return Request(url, self.callback, cb_kwargs=self.cb_kwargs, session=session)
        meta = {_CALLBACK: self.callback}
        return Request(url, RULE_CALLBACK, cb_kwargs=self.cb_kwargs, meta=meta, session=session)


def check_rules(spider: Spider) -> None:
    """Raise SpiderError if ``rules`` contains anything but rules, or names a method that the spider does not have."""
    kind = type(spider).__name__
    rules: Any = spider.rules
    if isinstance(rules, (str, Rule)) or not isinstance(rules, Iterable):
        raise SpiderError(f"rules must be a list of rules: {kind}", hint=_HINT)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise SpiderError(
                f"rules must be of the class skitter.Rule, not {type(rule).__name__}: {kind}",
                hint='Rule(LinkExtractor(allow="x"), callback="y") of Scrapy is Rule(allow="x", callback="y") here',
            )
        for field, name in (("callback", rule.callback), ("process_request", rule.process_request)):
            if name is not None and not callable(getattr(spider, name, None)):
                raise SpiderError(f"a rule names a {field} that {kind} does not have: {name}", hint=f"write def {name}")


def rule_links(spider: Spider, response: Response) -> Iterator[Links | Request]:
    """Iterate over the links of a page that the rules follow. The first rule that matches a link applies to it."""
    found: dict[tuple[str, ...], list[str]] = {}
    taken: set[str] = set()
    for rule in spider.rules:
        if rule.restrict not in found:
            found[rule.restrict] = response.links(restrict=rule.restrict)
        urls = [url for url in found[rule.restrict] if url not in taken and rule.matches(url)]
        taken.update(urls)
        if rule.callback is None and rule.process_request is None:
            if urls:
                yield Links(urls)
            continue
        for url in urls:
            request: Any = rule.request(url, response.request.session)
            if rule.process_request is not None:
                request = getattr(spider, rule.process_request)(request, response)
            if request is not None:
                yield request


def parsed_and_followed(spider: Spider, response: Response, keywords: dict[str, Any]) -> Any:
    """Return the results of the callback of a page's rule, followed by the links that the rules follow on the page."""
    name = response.meta.get(_CALLBACK, "parse")
    callback = getattr(spider, name, None)
    if callback is None:
        raise UsageError(
            f"the spider has no callback of this name: {name}", hint="a rule had this callback when the link was found"
        )
    result = callback(response, **keywords)
    if isinstance(result, (AsyncIterable, Awaitable)):
        return _both_async(result, rule_links(spider, response))
    return _both(result, rule_links(spider, response))


def _both(result: Any, links: Iterator[Any]) -> Iterator[Any]:
    # "yield from" shows the line of the callback where it yields what is refused.
    yield from result if isinstance(result, GeneratorType) else _outputs(result)
    yield from links


async def _both_async(result: AsyncIterable[Any] | Awaitable[Any], links: Iterator[Any]) -> AsyncIterator[Any]:
    if isinstance(result, AsyncIterable):
        async for output in result:
            yield output
    else:
        for output in _outputs(await result):
            yield output
    for link in links:
        yield link


def _outputs(result: Any) -> Iterable[Any]:
    if result is None:
        return ()
    is_one = isinstance(result, (Request, str)) or is_item(result) or not isinstance(result, Iterable)
    return (result,) if is_one else result


def _name(given: Any, field: str) -> str | None:
    if given is None or isinstance(given, str):
        return given
    name = getattr(given, "__name__", "")
    if not callable(given) or not name.isidentifier():
        raise SpiderError(
            f"a rule's {field} must be a method of the spider or its name, not {given!r:.100}", hint=_HINT
        )
    return str(name)
