"""One rendering: from the navigation to the content of the document, within the limits of a fetch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from playwright.async_api import BrowserContext, CDPSession, Error, Route
from playwright.async_api import Page as BrowserPage
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from skitter.errors import FetchError
from skitter.fetch.browser.abandoned_calls import abandon, within
from skitter.fetch.browser.document_gate import Document, DocumentGate, Session
from skitter.fetch.browser.guarded_proxy import PageProxy
from skitter.fetch.browser.net_errors import fetch_error
from skitter.fetch.browser.page_actions import ActionRun
from skitter.fetch.browser.page_cookies import for_browser, of_browser
from skitter.fetch.browser.upstream import Upstream
from skitter.fetch.contract import FetchRequest
from skitter.model.page import Page
from skitter.model.secrets import shown_url
from skitter.model.session import Cookie
from skitter.policy.cookies import changes
from skitter.settings import Settings

_NO_WEBRTC = "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete self[name];"
_CONTENT = """(most => {
    const kind = document.doctype;
    const start = kind === null ? "" : new XMLSerializer().serializeToString(kind) + "\\n";
    const text = start + (document.documentElement === null ? "" : document.documentElement.outerHTML);
    return text.length > most ? text.length : text;
})(%d)"""
"""Run apart from the page's own scripts, which cannot lie about the length."""


COOKIE_SECONDS = 5.0
"""For a browser to tell its cookies, once a page is there."""


class ReadyPage(msgspec.Struct):
    """A page that is open, empty, and waits for its request."""

    context: BrowserContext
    page: BrowserPage
    session: CDPSession
    frame: str
    proxy: PageProxy
    crashed: asyncio.Future[str]
    """Set when the page's own process has ended."""

    async def close(self, seconds: float, lost: asyncio.Future[str]) -> bool:
        """Close it; False: the browser did not do so in time. ``lost``: of that browser."""
        await self.proxy.close()
        try:
            await within(seconds, self.context.close(), lost)
        except TimeoutError:
            return False
        except Error:
            # It is gone with its browser.
            return True
        return True


async def make_ready(context: BrowserContext, proxy: PageProxy, blocked: Sequence[str]) -> ReadyPage:
    """Open a page in a fresh context. ``blocked``: kinds of sub-requests that are not sent."""
    await context.add_init_script(_NO_WEBRTC)
    if blocked:

        async def pass_or_block(route: Route) -> None:
            # Of a page that is being closed nothing can be routed any more.
            with contextlib.suppress(Error):
                if route.request.resource_type in blocked:
                    await route.abort("blockedbyclient")
                else:
                    await route.continue_()

        await context.route("**/*", pass_or_block)
    page = await context.new_page()
    crashed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note_crash(_page: object) -> None:
        if not crashed.done():
            crashed.set_result("its process has crashed")

    page.on("crash", note_crash)
    session = await context.new_cdp_session(page)
    tree: dict[str, Any] = await session.send("Page.getFrameTree")
    return ReadyPage(context, page, session, tree["frameTree"]["frame"]["id"], proxy, crashed)


class PageRender:
    """Renders one request in a page that is ready."""

    def __init__(self, ready: ReadyPage, request: FetchRequest, settings: Settings, upstream: Upstream | None) -> None:
        self._ready = ready
        self._request = request
        self._settings = settings
        self._upstream = upstream
        self._seconds = request.timeout_seconds or settings.fetch.timeout_seconds
        self._place = _place(request.url)
        self._gate = DocumentGate(
            cast(Session, ready.session),  # whose events are typed one by one
            ready.frame,
            request,
            max_bytes=settings.fetch.max_body_bytes,
            max_documents=settings.fetch.max_redirects,
        )

    async def run(self) -> Page:
        """The page. Raises FetchError, LateError, or what Playwright raises when the browser is gone."""
        ready, request = self._ready, self._request
        full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note_full() -> None:
            if not full.done():
                full.set_result(None)

        most = self._settings.fetch.max_body_bytes
        ready.proxy.open(
            trusted=self._place if request.trusted else None,
            upstream=self._upstream,
            max_bytes=most,
            on_full=note_full,
        )
        started_at, began = time.time(), time.monotonic()
        rendering = asyncio.create_task(self._rendered(began + self._seconds))
        abandon(rendering)
        try:
            watched: list[asyncio.Future[Any]] = [rendering, full, self._gate.early]
            await asyncio.wait(watched, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if full.done():
                raise FetchError("too_large", f"the page and what it loads have more than {most} bytes: {self._shown}")
            if self._gate.early.done():
                page = self._gate.early.result()
            elif rendering.done():
                page = rendering.result()
            else:
                raise self._timeout()
        finally:
            # What is still under way ends when the page is closed.
            self._gate.close()
        page.started_at, page.seconds = started_at, time.monotonic() - began
        page.address = ready.proxy.addresses.get(self._place, "")
        page.wire_bytes, page.http_version = ready.proxy.bytes, "HTTP/1.1"
        if request.jar is not None:
            page.cookies = await self._cookies_set(request.jar)
        return page

    async def _cookies_set(self, jar: Sequence[Cookie]) -> tuple[Cookie, ...]:
        try:
            found = await within(COOKIE_SECONDS, self._ready.context.cookies())
        except TimeoutError:
            # A page without the cookies that it has set would be a session that is logged out.
            raise self._timeout() from None
        url = self._request.url
        return changes(jar, of_browser(found, url), is_https=url.startswith("https:"))

    def _timeout(self) -> FetchError:
        return FetchError("timeout", f"not rendered within {self._seconds:g} s: {self._shown}")

    @property
    def _shown(self) -> str:
        return shown_url(self._request.url)

    async def _rendered(self, deadline: float) -> Page:
        actions = ActionRun(self._ready.page, deadline)
        await self._load(deadline)
        self._gate.loaded()
        await actions.run(self._request.actions)
        if self._request.on_page is not None:
            await self._request.on_page(self._ready.page)
        content = await self._content()
        document = self._gate.document
        assert document is not None, "a page that is loaded has come"
        headers = _in_utf8(document)
        return Page(
            url=document.url, status=document.status, headers=headers, body=content, rendering=actions.rendering
        )

    async def _load(self, deadline: float) -> None:
        request, page = self._request, self._ready.page
        await self._prepare()
        try:
            await page.goto(request.url, wait_until="commit", timeout=1000 * (deadline - time.monotonic()))
            await page.wait_for_load_state("domcontentloaded", timeout=1000 * (deadline - time.monotonic()))
        except Error as error:
            raise await self._failure(error) or error from None
        until, wait = self._settings.browser.render_wait_until, self._settings.browser.render_wait_seconds
        if until != "domcontentloaded":
            # A page of which some part never comes is taken as it is.
            with contextlib.suppress(PlaywrightTimeoutError):
                await page.wait_for_load_state(until, timeout=1000 * wait)

    async def _prepare(self) -> None:
        request, ready = self._request, self._ready
        if request.jar:
            await self._add_jar(request.jar)
        if request.cookies:
            cookies: list[Any] = [
                {"name": name, "value": value, "url": request.url} for name, value in request.cookies.items()
            ]
            await ready.context.add_cookies(cookies)
        own = {name.lower(): value for name, value in request.headers.items()}
        if "user-agent" in own:
            # For scripts and sub-requests too: two names of one visitor would be a lie.
            await ready.session.send("Emulation.setUserAgentOverride", {"userAgent": own["user-agent"]})
        await self._gate.start()

    async def _add_jar(self, cookies: Sequence[Cookie]) -> None:
        context = self._ready.context
        try:
            await context.add_cookies(for_browser(cookies))
        except Error:
            # One of them is none that a browser takes, and it says not which.
            for cookie in for_browser(cookies):
                with contextlib.suppress(Error):
                    await context.add_cookies([cookie])

    async def _failure(self, error: Error) -> BaseException | None:
        """Why a navigation failed, in words of a fetch; None: by what Playwright says."""
        if self._gate.early.done():
            return self._gate.early.exception() or error
        if (known := self._ready.proxy.failures.get(self._place)) is not None:
            return FetchError(known.error_class, f"{known}: {self._shown}")
        if isinstance(error, PlaywrightTimeoutError):
            return self._timeout()
        return fetch_error(error.message, self._request.url)

    async def _content(self) -> bytes:
        """The document as it is now, taken in a world of its own."""
        most = self._request.truncate_bytes or self._settings.fetch.max_body_bytes
        try:
            value = await self._evaluated(_CONTENT % most)
        except Error:
            # The page went on to another document meanwhile.
            await self._ready.page.wait_for_load_state("domcontentloaded", timeout=0)
            value = await self._evaluated(_CONTENT % most)
        if isinstance(value, str):
            body = value.encode("utf-8", "replace")
            if len(body) <= self._settings.fetch.max_body_bytes:
                return body
        raise FetchError("too_large", f"the document has more than {most} characters: {self._shown}")

    async def _evaluated(self, expression: str) -> Any:
        session = self._ready.session
        world = {"frameId": self._ready.frame, "worldName": "skitter"}
        context = (await session.send("Page.createIsolatedWorld", world))["executionContextId"]
        asked = {"expression": expression, "contextId": context, "returnByValue": True}
        return (await session.send("Runtime.evaluate", asked))["result"].get("value", "")


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _in_utf8(document: Document) -> list[tuple[str, str]]:
    """The headers, with the encoding that the content has now."""
    kind = dict(reversed(document.headers)).get("content-type", "").partition(";")[0].strip() or "text/html"
    others = [header for header in document.headers if header[0] != "content-type"]
    return [("content-type", f"{kind}; charset=utf-8"), *others]
