"""One page: fetch it, hand it to the spider, and say how it ended.

Everything a page can do wrong becomes an outcome here; nothing that a page does can raise past it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from skitter.agent import product_token
from skitter.errors import BrowserLostError, FetchError, LateError, RequestError, UrlError
from skitter.extract.response import Response
from skitter.fetch.contract import Fetcher, FetchRequest
from skitter.model import secrets
from skitter.model.counters import EMPTY_SITEMAP
from skitter.model.item import ItemKind, NewItem
from skitter.model.lease import Lease
from skitter.model.outcome import FAILED_ERRBACKS, Ending, HostNews, Outcome
from skitter.model.page import Page
from skitter.model.proxy import ProxyFault, ProxyNews
from skitter.model.request import ALL_STATUSES, FILE_CALLBACK, Request
from skitter.model.session import CookieNews, SessionNews, login_of
from skitter.model.url import Joins, absolute, host_key
from skitter.policy import retry
from skitter.policy.redirects import REDIRECT_STATUSES, continuation, stays
from skitter.settings import Settings, read_statuses
from skitter.sinks.contract import Archive
from skitter.spiders.failure import Failure
from skitter.spiders.function_spider import FunctionSpider
from skitter.spiders.hooks import Ban, Drop, Retry
from skitter.spiders.scrapy_names import retries_first, with_options
from skitter.spiders.sitemaps import EMPTY, SITEMAP_CALLBACK
from skitter.worker.callbacks import Callbacks
from skitter.worker.distinct_urls import DistinctUrls
from skitter.worker.leased_proxy import LeasedProxies
from skitter.worker.loop_status import LoopStatus
from skitter.worker.page_directives import DirectivePolicy
from skitter.worker.page_hooks import BrowserPageHook, Decision, HeadersHook, HookFailure, WorkerHooks
from skitter.worker.page_identity import PageIdentity, conceal_cookies
from skitter.worker.page_yield import LinkContext, PageYield
from skitter.worker.revisit import Revisit, RevisitRules
from skitter.worker.session_jars import SessionJars
from skitter.worker.trap_detector import TrapDetector

MAX_PREPARED = 1000
"""Requests that were late and are remembered as hooks left them."""


class Visitor:
    """Turns leases of pages into outcomes."""

    def __init__(
        self,
        *,
        rules: LinkContext,
        fetcher: Fetcher,
        settings: Settings,
        callbacks: Callbacks,
        archive: Archive | None = None,
        loop_status: LoopStatus | None = None,
        revisits: RevisitRules | None = None,
        distinct_urls: DistinctUrls | None = None,
        hooks: WorkerHooks | None = None,
        robots_rule: Callable[[Lease, str], object] = lambda _lease, _url: None,
        proxies: LeasedProxies | None = None,
        jars: SessionJars | None = None,
    ) -> None:
        """``hooks``: those that pages pass; None: there are none. ``robots_rule``: against a URL of a lease's host.
        ``jars``: None: no cookies are kept.
        """
        self._identity = PageIdentity(settings, proxies, jars)
        self._hooks = hooks
        self._robots_rule = robots_rule
        self._prepared: dict[int, Request] = {}
        """Requests that hooks have seen and that came too late to be sent, by id."""
        self._distinct_urls = distinct_urls or DistinctUrls()
        self._archive = archive
        self._revisits = revisits
        self._loop_status = loop_status or LoopStatus()
        self._rules = rules
        self._fetcher = fetcher
        self._settings = settings
        self._callbacks = callbacks
        self._handled = frozenset(rules.spider.handle_statuses)
        self._retried = read_statuses(settings.retry.retry_statuses)
        self._session_statuses = read_statuses(settings.sessions.session_statuses)
        self._fetches = not (isinstance(rules.spider, FunctionSpider) and rules.spider.takes_url)
        self._joins = Joins()
        self._trap_detector = TrapDetector() if settings.traps.traps == "strict" else None
        self._product = product_token(settings.fetch.agent).lower()
        politeness = settings.politeness
        self._obeys_pages = (
            politeness.obey_nofollow or politeness.obey_noindex or politeness.obey_canonical or politeness.obey_tdm
        )

    def _concealed(self, error: str, request: Request, page: Page | None) -> str:
        """What is said of a failure is stored and shown: not what the request and its answer keep to themselves."""
        known = secrets.of_request(request.url, request.headers, request.cookies)
        known += [secret for credential in self._settings.run.credentials for secret in credential.secrets]
        return secrets.concealed(error, known + secrets.of_answer(page.headers if page is not None else ()))

    def _response(self, page: Page, request: Request) -> Response:
        return Response(page, request, self._joins, self._product, self._settings.links.max_refresh_seconds)

    def visit(
        self,
        lease: Lease,
        request: Request,
        start_by: float | None = None,
        on_send: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, tuple[Outcome, list[str]]]:
        """The outcome, and the URLs to remember once it is accepted. LateError: see ``FetchRequest.start_by``."""
        visited = self._visit if self._hooks is None else self._visit_with_hooks
        return visited(lease, request, start_by, on_send)

    async def _visit_with_hooks(
        self, lease: Lease, request: Request, start_by: float | None, on_send: Callable[[], None] | None
    ) -> tuple[Outcome, list[str]]:
        hooks = self._hooks
        assert hooks is not None
        asked: Any = self._prepared.pop(lease.id, None) or request
        if hooks.on_request and asked is request:
            asked = await self._loop_status.noted(self._asked(lease, request), lease)
        if not isinstance(asked, Request):
            ended: tuple[Outcome, list[str]] = asked
            return ended
        headers_hook = HeadersHook(hooks, asked) if hooks.on_headers else None
        try:
            return await self._visit(lease, asked, start_by, on_send, headers_hook)
        except LateError:
            if len(self._prepared) < MAX_PREPARED:
                # A hook that takes longer than the start window must not make its request late every time.
                self._prepared[lease.id] = asked
            raise

    async def _visit(
        self,
        lease: Lease,
        request: Request,
        start_by: float | None,
        on_send: Callable[[], None] | None,
        headers_hook: HeadersHook | None = None,
    ) -> tuple[Outcome, list[str]]:
        if request.meta:
            try:
                # Not every request was yielded by a spider: messages of queues have Scrapy's keys too.
                request = with_options(request)
            except RequestError as error:
                told = f"{error} ({error.hint})"
                return Outcome(lease=lease, ending=Ending.FAILED, error_class="callback", error=told, touched=False), []
        if not self._fetches and request.callback != SITEMAP_CALLBACK:
            return await self._loop_status.noted(self._called(lease, request, on_send), lease)
        revisit = None if self._revisits is None else Revisit(self._revisits, lease, request)
        sent = self._sent(lease, request, revisit, start_by, on_send, headers_hook)
        if lease.proxy and not request.proxy:
            sent = await self._identity.with_proxy(lease, sent)
        page_hook: BrowserPageHook | None = None
        if request.render:
            sent, page_hook = self._with_browser(sent, lease, request)
        news: CookieNews | None = None
        answer: Page | FetchError
        try:
            answer = page = await self._fetcher.fetch(sent)
        except BrowserLostError:
            raise
        except FetchError as error:
            answer = error
            work = self._unanswered(lease, request, error)
        else:
            if page.cookies:
                news = await self._identity.received(lease, request, page)
            work = self._answered(lease, request, page, revisit, headers_hook, page_hook)
        if sent.proxy_trusted:
            work = self._identity.through_pool(lease, request, work, sent.proxy, answer, self._concealed)
        # What strangers and spiders wrote is read from here on: if that holds the loop, it is known by whom.
        ended = await self._loop_status.noted(work, lease)
        if sent.jar is not None:
            ended[0].cookies = news
            conceal_cookies(ended[0], sent.jar)
        return ended

    def _sent(
        self,
        lease: Lease,
        request: Request,
        revisit: Revisit | None,
        start_by: float | None,
        on_send: Callable[[], None] | None,
        headers_hook: HeadersHook | None,
    ) -> FetchRequest:
        return FetchRequest(
            url=request.url,
            method=request.method,
            headers=self._identity.headers(lease, request, request.headers if revisit is None else revisit.headers),
            body=request.body,
            cookies=request.cookies,
            jar=self._identity.jar(lease, request),
            trusted=lease.trusted,
            proxy=request.proxy,
            timeout_seconds=request.timeout,
            start_by=start_by,
            on_send=on_send,
            on_headers=headers_hook,
            truncate_bytes=None if request.callback is None else _truncate_bytes(request),
        )

    def _with_browser(
        self, fetched: FetchRequest, lease: Lease, request: Request
    ) -> tuple[FetchRequest, BrowserPageHook | None]:
        """The request as a browser is given it, and the hook that sees its page."""

        def may_navigate(url: str) -> bool:
            scope = self._rules.scope
            outside = None if request.seed else scope.rule_against(url, request.depth, is_sitemap=False)
            return outside is None and self._robots_rule(lease, url) is None

        hooks = self._hooks
        hook = BrowserPageHook(hooks, request) if hooks is not None and hooks.on_browser_page else None
        rendered = msgspec.structs.replace(
            fetched, render=True, actions=request.actions, on_page=hook, may_navigate=may_navigate
        )
        return rendered, hook

    async def _answered(
        self,
        lease: Lease,
        request: Request,
        page: Page,
        revisit: Revisit | None,
        headers_hook: HeadersHook | None = None,
        page_hook: BrowserPageHook | None = None,
    ) -> tuple[Outcome, list[str]]:
        decision = headers_hook.decide(page) if headers_hook is not None else None
        if page_hook is not None and decision is None:
            decision = page_hook.decision
        if decision is not None:
            return await self._decided(lease, request, page, decision)
        response: Response | None = None
        if self._hooks is not None and self._hooks.on_response:
            response = self._response(page, request)
            seen = await self._hooks.ask_response(request, response)
            if not isinstance(seen, Response):
                return await self._decided(lease, request, page, seen)
            response, page = seen if seen.page is page else self._response(seen.page, request), seen.page
        if revisit is not None and revisit.is_unchanged(page):
            unchanged = self._outcome(lease, page, Ending.UNCHANGED)
            unchanged.tally["unchanged"] = 1
            unchanged.page = revisit.record(page, unchanged)
            self._distinct_urls.add(request.url)
            return unchanged, []
        outcome, urls = await self._judged(lease, request, page, response)
        if revisit is not None:
            outcome.page = revisit.record(page, outcome)
        if self._archive is not None and outcome.ending is not Ending.RETRY and self._may_be_kept(request, page):
            headers = self._identity.headers(lease, request, request.headers)
            sent = request if headers is request.headers else request.replace(headers=headers)
            reference = await self._archive.add(lease.epoch, sent, page)
            outcome.items = [*outcome.items, NewItem(reference, ItemKind.PAGE)]
        return outcome, urls

    def _may_be_kept(self, request: Request, page: Page) -> bool:
        """Not where the owner's wish is that no items are kept of it, and the job obeys that."""
        if not self._obeys(request):
            return True
        response = self._response(page, request)
        directives = DirectivePolicy(response, self._rules.scope, self._settings.politeness)
        return directives.against_items not in ("noindex", "tdm")

    async def _judged(
        self, lease: Lease, request: Request, page: Page, response: Response | None
    ) -> tuple[Outcome, list[str]]:
        status = page.status
        if 200 <= status < 300 or status in self._handled:
            return await self._done(lease, request, page, response)
        if request.handle_statuses and _is_among(status, request.handle_statuses):
            if status in self._retried and retries_first(request.meta) and not self._is_last(lease, request):
                return self._retry(lease, request, page, retry.error_class(status), f"HTTP {status}"), []
            return await self._done(lease, request, page, response)
        location = page.header("location")
        if status in REDIRECT_STATUSES and location is not None and not request.meta.get("dont_redirect"):
            return await self._redirected(lease, request, page, location)
        return await self._refused(lease, request, page)

    async def read(self, lease: Lease, request: Request, page: Page) -> tuple[Outcome, list[str]]:
        """As ``visit``, of a page that is at hand: no network is touched."""
        outcome, urls = await self._loop_status.noted(self._done(lease, request, page), lease)
        outcome.touched, outcome.news = False, None
        return outcome, urls

    async def _called(
        self, lease: Lease, request: Request, on_send: Callable[[], None] | None
    ) -> tuple[Outcome, list[str]]:
        """As ``visit``, of a function that fetches by itself; what it raises may be the network's fault."""
        if lease.proxy:
            told = "a function that fetches by itself does not use the job's pool of proxies"
            return Outcome(lease=lease, ending=Ending.FAILED, error_class="proxy", error=told, touched=False), []
        if on_send is not None:
            on_send()
        outcome, urls = await self._done(lease, request, Page(url=request.url, status=0, headers=[], body=b""))
        # Whether the host has answered is not known.
        outcome.news = None
        if outcome.ending is Ending.FAILED and outcome.error_class == "callback" and not self._is_last(lease, request):
            outcome.ending, outcome.retry_seconds = Ending.RETRY, self._backoff(lease)
            outcome.max_attempts = request.max_attempts or 0
        return outcome, urls

    # ---- how a fetch can end

    async def _done(
        self, lease: Lease, request: Request, page: Page, response: Response | None = None
    ) -> tuple[Outcome, list[str]]:
        """``response``: the page, where a hook has seen it."""
        if response is None:
            response = self._response(page, request)
        callback = getattr(self._rules.spider, request.callback or "parse", None)
        if callback is None:
            error = f"the spider has no callback of this name: {request.callback}"
            return await self._fail(lease, request, page, "callback", error)
        directives = (
            DirectivePolicy(response, self._rules.scope, self._settings.politeness) if self._obeys(request) else None
        )
        page_yield = PageYield(self._rules, lease.id, request, directives=directives)
        if request.callback == FILE_CALLBACK and directives is not None and (rule := directives.against_items):
            # Its record would be withheld: then the file is not stored either.
            withheld = self._outcome(lease, page, Ending.DONE)
            withheld.tally = withheld.tally | {f"withheld:{rule}": 1}
            return withheld, []
        problem = await self._callbacks.call(lease, page_yield, callback, response, request.cb_kwargs)
        if problem:
            error_class = "sitemap" if request.callback == SITEMAP_CALLBACK else "callback"
            problem = self._concealed(problem, request, page)
            if (decided := await self._asked_of_error(lease, request, page, error_class, problem)) is not None:
                return decided
            return await self._fail(lease, request, page, error_class, problem)
        if directives is not None and (original := directives.original) is not None:
            page_yield.take_original(original)
        if response.has_flaws:
            for rule, count in response.flaws.items():
                page_yield.tally[f"skipped:{rule}"] += count
                if rule == EMPTY:
                    page_yield.tally[EMPTY_SITEMAP + self._rules.drop_reason(response.url)] += count
        outcome = self._outcome(lease, page, Ending.DONE)
        self._distinct_urls.add(request.url)
        if self._trap_detector is not None and outcome.news is not None:
            outcome.news = msgspec.structs.replace(outcome.news, sign=self._trap_detector.judge(response))
        return self._harvested(outcome, page_yield)

    async def _redirected(self, lease: Lease, request: Request, page: Page, location: str) -> tuple[Outcome, list[str]]:
        try:
            following, filtered = continuation(
                request,
                page.status,
                location,
                self._settings.fetch.max_redirects,
                self._rules.fingerprinter.identity,
            )
        except FetchError as error:
            return await self._fail(lease, request, page, error.error_class, str(error))
        outcome = self._outcome(lease, page, Ending.REDIRECTED)
        is_sitemap = request.callback == SITEMAP_CALLBACK
        scope = self._rules.scope
        rule = None if request.seed else scope.rule_against(following.url, request.depth, is_sitemap=is_sitemap)
        if rule is not None:
            outcome.tally[f"outside:{rule}"] = 1
        else:
            trusts = lease.trusted and stays(page, following)
            outcome.links = [self._rules.fingerprinter.entry(following, lease.id, filtered=filtered, trusts=trusts)]
        return outcome, []

    async def _expired(self, lease: Lease, request: Request, page: Page) -> tuple[Outcome, list[str]]:
        """The answer says that its session is of no use any more."""
        error_class, message = retry.error_class(page.status), f"HTTP {page.status}, so its session has expired"
        if self._is_last(lease, request):
            outcome, urls = await self._fail(lease, request, page, error_class, message)
        else:
            outcome, urls = self._retry(lease, request, page, error_class, message), []
            # It waits for the session, and not for the site.
            outcome.retry_seconds = 0.0
        outcome.session_news = SessionNews(expired=True)
        return outcome, urls

    async def _refused(self, lease: Lease, request: Request, page: Page) -> tuple[Outcome, list[str]]:
        status = page.status
        if lease.session and status in self._session_statuses and not login_of(request.need):
            return await self._expired(lease, request, page)
        error_class = "redirect" if status < 400 else retry.error_class(status)
        message = f"HTTP {status}"
        if (decided := await self._asked_of_error(lease, request, page, error_class, message)) is not None:
            return decided
        is_retried = status in self._retried
        if (blocked := self._block(lease, page)) is not None:
            if is_retried and request.max_attempts != 1:
                outcome = self._outcome(lease, page, Ending.RETRY, error_class=error_class, error=message)
                outcome.news, outcome.max_attempts = blocked, request.max_attempts or 0
                return outcome, []
            # The page is final, and its host is left alone all the same.
            return await self._fail(lease, request, page, error_class, message, blocked)
        if is_retried and not self._is_last(lease, request):
            return self._retry(lease, request, page, error_class, message), []
        return await self._fail(lease, request, page, error_class, message)

    async def _unanswered(self, lease: Lease, request: Request, error: FetchError) -> tuple[Outcome, list[str]]:
        kind, message = error.error_class, self._concealed(str(error).removesuffix(f": {request.url}"), request, None)
        if kind == "guard":
            return Outcome(lease=lease, ending=Ending.EXCLUDED, error_class="guard", error=message, touched=False), []
        if (decided := await self._asked_of_error(lease, request, None, kind, message)) is not None:
            return decided
        if kind in retry.BACKOFF_ERROR_CLASSES and request.max_attempts != 1:
            # The page is not to blame: its host waits, and no attempt is spent.
            news = HostNews(blocked=True)
            return Outcome(lease=lease, ending=Ending.RETRY, error_class=kind, error=message, news=news), []
        if kind in retry.UNREACHABLE_ERROR_CLASSES:
            news = HostNews(unreachable=True)
            if request.max_attempts != 1 and (request.errback is None or not self._is_last(lease, request)):
                # How often is enough, the frontier decides: it knows what other requests met with.
                outcome = Outcome(lease=lease, ending=Ending.RETRY, error_class=kind, error=message, news=news)
                outcome.max_attempts = request.max_attempts or 0
                return outcome, []
            return await self._fail(lease, request, None, kind, message, news)
        if kind in retry.RETRY_ERROR_CLASSES and not self._is_last(lease, request):
            return self._retry(lease, request, None, kind, message), []
        pause = HostNews(blocked=True) if kind in retry.BACKOFF_ERROR_CLASSES else None
        return await self._fail(lease, request, None, kind, message, pause)

    def _retry(self, lease: Lease, request: Request, page: Page | None, error_class: str, message: str) -> Outcome:
        """It is tried again after a while."""
        outcome = self._outcome(lease, page, Ending.RETRY, error_class=error_class, error=message)
        outcome.retry_seconds, outcome.max_attempts = self._backoff(lease), request.max_attempts or 0
        return outcome

    async def _fail(
        self,
        lease: Lease,
        request: Request,
        page: Page | None,
        error_class: str,
        message: str,
        news: HostNews | None = None,
    ) -> tuple[Outcome, list[str]]:
        """Failed for good: the errback, if there is one, has the last word. ``news``: instead of the usual."""
        message = self._concealed(message, request, page)
        outcome = self._outcome(lease, page, Ending.FAILED, error_class=error_class, error=message)
        outcome.news = news or outcome.news
        if request.errback is None:
            return outcome, []
        response = Response(page, request) if page is not None else None
        failure = Failure(request, error_class, message, response)
        # In one piece: a page that ends failed shows nothing of what was staged before.
        page_yield = PageYield(self._rules, lease.id, request, in_parts=False)
        errback = getattr(self._rules.spider, request.errback, None)
        if errback is None:
            problem = f"the spider has no errback of this name: {request.errback}"
        else:
            problem = await self._callbacks.call(lease, page_yield, errback, failure, {})
        if problem:
            outcome.error = self._concealed(f"{message}\nand its errback failed:\n{problem}", request, page)
            outcome.tally = outcome.tally | {FAILED_ERRBACKS: 1}
            return outcome, []
        return self._harvested(outcome, page_yield)

    # ---- what hooks decide

    async def _asked(self, lease: Lease, request: Request) -> Request | tuple[Outcome, list[str]]:
        """The request to send, or how it ended without being sent."""
        assert self._hooks is not None
        # A hook may also write into the request that it is given.
        url = request.url
        decision = await self._hooks.ask_request(request)
        if decision is request and request.url == url:
            return request
        if isinstance(decision, Page):
            outcome, urls = await self._answered(lease, request, decision, None)
        elif isinstance(decision, Request):
            try:
                changed = self._changed(lease, url, decision)
            except (FetchError, RequestError, UrlError) as error:
                changed = await self._fail(
                    lease, request, None, "hook", f"on_request returned a request that cannot be sent: {error}"
                )
            if isinstance(changed, Request):
                return changed
            outcome, urls = changed
        else:
            outcome, urls = await self._decided(lease, request, None, decision)
        # Nobody was asked, and nothing is known of the host.
        outcome.touched, outcome.news = False, None
        return outcome, urls

    def _changed(self, lease: Lease, url: str, changed: Request) -> Request | tuple[Outcome, list[str]]:
        """What is sent in the place of a request for ``url``, if its host is the same; any other is queued as new."""
        rules = self._rules
        changed = changed.replace(
            url=absolute(changed.url, url),
            callback=None if changed.callback is None else rules.name_of(changed, "callback"),
            errback=None if changed.errback is None else rules.name_of(changed, "errback"),
        )
        if host_key(changed.url) != host_key(url):
            # Another host has a delay, a robots.txt and an address of its own: as with a redirect.
            hop = changed.replace(url=url)
            most = self._settings.fetch.max_redirects
            following, filtered = continuation(hop, 307, changed.url, most, rules.fingerprinter.identity)
            outcome = self._outcome(lease, None, Ending.REDIRECTED)
            outcome.links = [rules.fingerprinter.entry(following, lease.id, filtered=filtered)]
            assert self._hooks is not None
            self._hooks.stats.count_decision("replace", "another host")
            return outcome, []
        if changed.url != url and (rule := self._robots_rule(lease, changed.url)) is not None:
            return self._outcome(lease, None, Ending.EXCLUDED, error_class="robots", error=str(rule)), []
        return changed

    async def _asked_of_error(
        self, lease: Lease, request: Request, page: Page | None, error_class: str, message: str
    ) -> tuple[Outcome, list[str]] | None:
        """How a failed attempt ends by a hook's decision; None: as it would without hooks."""
        if self._hooks is None or not self._hooks.on_error:
            return None
        failure = Failure(request, error_class, message, Response(page, request) if page is not None else None)
        of_callback = error_class in ("callback", "sitemap")
        decision = await self._hooks.ask_error(failure, may_answer=not of_callback)
        if isinstance(decision, Page):
            return await self._done(lease, request, decision)
        if decision is None or (isinstance(decision, Retry) and not of_callback and self._is_last(lease, request)):
            return None
        return await self._decided(lease, request, page, decision, error_class)

    async def _decided(
        self, lease: Lease, request: Request, page: Page | None, decision: Decision, error_class: str = "hook"
    ) -> tuple[Outcome, list[str]]:
        """How a page ends that a hook has decided on. ``error_class``: of the failure that the hook was told."""
        urls: list[str] = []
        expired = (
            decision.session if isinstance(decision, Ban) else isinstance(decision, Retry) and decision.new_session
        )
        session_news = SessionNews(expired=True) if expired and lease.session else None
        if isinstance(decision, Ban) and not decision.proxy:
            decision = Retry(decision.reason, new_session=True)
        if isinstance(decision, Ban) or (isinstance(decision, Retry) and decision.new_proxy):
            if not lease.proxy:
                name = "Ban(proxy=True)" if isinstance(decision, Ban) else "Retry(new_proxy=True)"
                message = f"{name} needs a pool of proxies, and the job has none: {decision.reason}"
                return await self._fail(lease, request, page, "hook", message)
            fault = ProxyFault.BANNED if isinstance(decision, Ban) else ProxyFault.UNWANTED
            of_page = (page.seconds, page.wire_bytes) if page is not None else (None, 0)
            proxy_news = ProxyNews(fault=fault, latency_seconds=of_page[0], bytes=of_page[1])
            if isinstance(decision, Ban):
                outcome = self._outcome(lease, page, Ending.RETRY, error_class="proxy", error=decision.reason)
                outcome.proxy_news, outcome.session_news, outcome.news = proxy_news, session_news, None
                return outcome, urls
        else:
            proxy_news = None
        if isinstance(decision, Drop):
            outcome = self._outcome(lease, page, Ending.FAILED, error_class="dropped", error=decision.reason)
        elif isinstance(decision, HookFailure):
            outcome, urls = await self._fail(lease, request, page, "hook", decision.text)
        elif self._is_last(lease, request):
            outcome, urls = await self._fail(lease, request, page, error_class, f"{decision.reason}, at every attempt")
        else:
            outcome = self._outcome(lease, page, Ending.RETRY, error_class=error_class, error=decision.reason)
            outcome.retry_seconds = self._backoff(lease) if decision.delay is None else decision.delay
            outcome.max_attempts = request.max_attempts or 0
            outcome.proxy_news = proxy_news
        outcome.session_news = session_news or outcome.session_news
        if page is None:
            outcome.news = _failure_news(error_class)
        elif (blocked := self._block(lease, page)) is not None:
            # Whatever a hook wants of the page, its host has asked for a pause.
            outcome.news = blocked
        return outcome, urls

    # ---- small change

    def _obeys(self, request: Request) -> bool:
        """What pages ask for counts; not so what a sitemap is sent with, which is there to be followed."""
        return self._obeys_pages and request.callback != SITEMAP_CALLBACK

    def _is_last(self, lease: Lease, request: Request) -> bool:
        return lease.attempts + 1 >= (request.max_attempts or self._settings.retry.max_attempts)

    def _block(self, lease: Lease, page: Page) -> HostNews | None:
        """The pause that an answer asks for; None: it does not."""
        pause = retry.retry_after_seconds(page.header("retry-after"), lease.leased_at, page.header("date"))
        if page.status in retry.BLOCK_STATUSES or (page.status in self._retried and pause is not None):
            return HostNews(blocked=True, retry_after_seconds=pause, address=page.address)
        return None

    def _backoff(self, lease: Lease) -> float:
        return retry.backoff_seconds(lease.attempts + 1, self._settings.retry.retry_delay_seconds, random.random())

    @staticmethod
    def _outcome(lease: Lease, page: Page | None, ending: Ending, *, error_class: str = "", error: str = "") -> Outcome:
        outcome = Outcome(lease=lease, ending=ending, error_class=error_class, error=error, tally={})
        if page is not None and page.cached:
            outcome.status, outcome.touched = page.status, False
            outcome.tally = {"cached": 1}
        elif page is not None:
            outcome.status = page.status
            outcome.news = HostNews(answered=True, latency_seconds=page.seconds, address=page.address)
            outcome.tally = {"bytes": page.wire_bytes}
        return outcome

    @staticmethod
    def _harvested(outcome: Outcome, page_yield: PageYield) -> tuple[Outcome, list[str]]:
        outcome.links, outcome.items = page_yield.links, page_yield.items
        outcome.tally |= page_yield.tally
        return outcome, page_yield.urls


def _failure_news(error_class: str) -> HostNews | None:
    if error_class in retry.BACKOFF_ERROR_CLASSES:
        return HostNews(blocked=True)
    return HostNews(unreachable=True) if error_class in retry.UNREACHABLE_ERROR_CLASSES else None


def _is_among(status: int, statuses: Sequence[int] | str) -> bool:
    return statuses == ALL_STATUSES or status in statuses


def _truncate_bytes(request: Request) -> int | None:
    """How much of a file or a sitemap is read: its limit, and one byte more, which tells that there is more."""
    if request.callback == FILE_CALLBACK and (most := request.cb_kwargs.get("max_bytes")) is not None:
        return int(most) + 1
    if request.callback != SITEMAP_CALLBACK:
        return None
    # Most jobs have no sitemap, and a worker starts without what reads one.
    from skitter.extract.sitemaps import MAX_SITEMAP_BYTES

    return MAX_SITEMAP_BYTES + 1
