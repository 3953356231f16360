"""Under which identity a page is sent: user agent, proxy and cookies; and what its answer tells of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.model import secrets
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.page import Page
from skitter.model.proxy import ProxyFault
from skitter.model.request import Request
from skitter.model.session import Cookie, CookieNews
from skitter.policy.user_agents import UserAgents
from skitter.settings import Settings
from skitter.worker.leased_proxy import LeasedProxies
from skitter.worker.session_jars import SessionJars

Ended = tuple[Outcome, list[str]]
"""The outcome of a page, and the URLs to remember once it is accepted."""
_OF_HOOKS = ("dropped", "hook")
"""Error classes of what a hook has decided."""


class PageIdentity:
    """The identities that pages of one worker are sent under."""

    def __init__(self, settings: Settings, proxies: LeasedProxies | None, jars: SessionJars | None) -> None:
        """``proxies``: None in a job without a pool. ``jars``: None where no cookies are kept."""
        self._proxies = proxies
        self._jars = jars
        self._user_agents = UserAgents(settings.fetch.user_agents) if settings.fetch.user_agents else None

    def headers(self, lease: Lease, request: Request, headers: dict[str, str]) -> dict[str, str]:
        """The headers of a request, with the user agent of its session or its host."""
        if self._user_agents is None:
            return headers
        return self._user_agents.headers(headers, request.url, lease.session_name or request.session or "")

    def jar(self, lease: Lease, request: Request) -> tuple[Cookie, ...] | None:
        """The cookies that a page may send; None: it sends and keeps none."""
        return None if self._jars is None else self._jars.copy_for(lease, request)

    async def with_proxy(self, lease: Lease, fetched: FetchRequest) -> FetchRequest:
        """The request as it goes through the proxy that its lease names."""
        assert self._proxies is not None, "whoever leases through a pool has one"
        return msgspec.structs.replace(fetched, proxy=await self._proxies.url_of(lease), proxy_trusted=True)

    async def through_pool(
        self,
        lease: Lease,
        request: Request,
        work: Coroutine[Any, Any, Ended],
        proxy: str,
        answer: Page | FetchError,
        conceal: Callable[[str, Request, Page | None], str],
    ) -> Ended:
        """How a fetch through a proxy of the pool ends: as any other (``work``), unless the proxy is to blame."""
        assert self._proxies is not None
        if isinstance(answer, Page):
            news = self._proxies.of_page(answer, proxy)
        else:
            news = self._proxies.of_error(answer)
        if news is not None and news.fault in (ProxyFault.PROXY, ProxyFault.BANNED):
            work.close()
            outcome = Outcome(lease=lease, ending=Ending.RETRY, proxy_news=news, error_class="proxy")
            if isinstance(answer, Page):
                outcome.status, outcome.tally = answer.status, {"bytes": answer.wire_bytes}
                outcome.error = f"the host refuses the proxy (HTTP {answer.status})"
            else:
                outcome.error = conceal(str(answer), request, None)
                outcome.touched = news.fault is not ProxyFault.PROXY
            return outcome, []
        outcome, urls = await work
        if news is not None and news.fault is ProxyFault.UNSURE:
            if outcome.ending is Ending.FAILED and request.errback is None and outcome.error_class not in _OF_HOOKS:
                # The frontier decides whether that was the last attempt, or none.
                outcome.ending, outcome.max_attempts = Ending.RETRY, request.max_attempts or 0
            elif outcome.ending is not Ending.RETRY:
                news = msgspec.structs.replace(news, fault=ProxyFault.NONE)
        if outcome.proxy_news is None:
            outcome.proxy_news = news
        return outcome, urls

    async def received(self, lease: Lease, request: Request, page: Page) -> CookieNews | None:
        """The cookies that an answer has changed, which other pages of this worker send from now on."""
        return None if self._jars is None else await self._jars.received(lease, request, page)


def conceal_cookies(outcome: Outcome, jar: Sequence[Cookie]) -> None:
    """A site may print the cookies that it was sent, and a traceback quote the page."""
    if outcome.error and jar:
        outcome.error = secrets.concealed(outcome.error, [cookie.value for cookie in jar])
