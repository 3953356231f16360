"""Navigations of one rendered page: which go out, which are answered as redirects, and what each document was.

The browser pauses at every document of the main frame, before it is sent and when its headers have come. The first one
is the request of the lease: as with every fetcher, its redirect is not followed but returned. What the page or an
action navigates to later may go out if it stays on the host and nothing forbids it; what leads to another host before
the page is loaded counts as a redirect, and later it is refused.
"""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any, Protocol

import msgspec

from skitter.errors import FetchError, LateError
from skitter.fetch.contract import FetchRequest
from skitter.model.page import Page
from skitter.model.secrets import shown_url
from skitter.model.url import absolute, host_key
from skitter.policy.redirects import REDIRECT_STATUSES

RENDERED_TYPES = ("", "text/html", "application/xhtml+xml")
"""Other types, and attachments, are returned as they came: a browser shows or downloads them."""
EXTRA_INFO_SECONDS = 0.5
"""How long the headers with cookies are waited for; Chromium tells them apart from the others."""
READ_PIECE = 262_144
_STAGES = ("Request", "Response")


class Session(Protocol):
    """A DevTools session (``playwright.async_api.CDPSession``)."""

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Any: ...
    def on(self, event: Any, f: Any) -> None: ...


class Document(msgspec.Struct):
    """A document of the main frame that has come."""

    url: str
    status: int
    headers: list[tuple[str, str]]


class DocumentGate:
    """Decides on the navigations of one page, for one request."""

    def __init__(self, session: Session, frame: str, request: FetchRequest, *, max_bytes: int, max_documents: int):
        self._session = session
        self._frame = frame
        self._request = request
        self._host_key = host_key(request.url)
        self._max_bytes = max_bytes
        self._documents_left = max_documents
        self._is_sent = False
        self._is_loaded = False
        self._cookies: dict[str, asyncio.Future[list[tuple[str, str]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.document: Document | None = None
        """The last one that came."""
        self.early: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
        """A page that is not rendered, or why there is none: set while the browser still navigates."""

    async def start(self) -> None:
        """Pause at documents from now on."""
        session = self._session
        session.on("Fetch.requestPaused", self._paused)
        session.on("Network.responseReceivedExtraInfo", self._extra_info)
        patterns = [{"urlPattern": "*", "resourceType": "Document", "requestStage": stage} for stage in _STAGES]
        await asyncio.gather(session.send("Network.enable"), session.send("Fetch.enable", {"patterns": patterns}))

    def close(self) -> None:
        """Whoever waited for this page waits no more: errors of what is still under way are nobody's."""
        if not self.early.done():
            self.early.cancel()
        elif not self.early.cancelled():
            self.early.exception()

    def loaded(self) -> None:
        """From now on nothing counts as a redirect."""
        self._is_loaded = True

    def _extra_info(self, event: dict[str, Any]) -> None:
        headers = [
            (name.lower(), value) for name, values in event["headers"].items() for value in str(values).split("\n")
        ]
        # Each hop of a chain has one under the same id: the latest counts.
        future = self._cookies_of(event["requestId"])
        if future.done():
            self._cookies.pop(event["requestId"])
            future = self._cookies_of(event["requestId"])
        future.set_result([header for header in headers if header[0] == "set-cookie"])

    def _cookies_of(self, network_id: str) -> asyncio.Future[list[tuple[str, str]]]:
        if network_id not in self._cookies:
            self._cookies[network_id] = asyncio.get_running_loop().create_future()
        return self._cookies[network_id]

    def _paused(self, event: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._decide(event))
        self._tasks.add(task)
        task.add_done_callback(self._decided)

    def _decided(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A page that is closed meanwhile, or what a hook raised: whoever waits is told, if there is anybody.
            self._end(error)

    async def _decide(self, event: dict[str, Any]) -> None:
        name, is_answer = event["requestId"], "responseStatusCode" in event or "responseErrorReason" in event
        if event["frameId"] != self._frame:
            await self._session.send("Fetch.continueRequest", {"requestId": name})
        elif not is_answer:
            changes = self._to_send(event["request"])
            if changes is None:
                await self._fail(name)
            else:
                await self._session.send("Fetch.continueRequest", {"requestId": name, **changes})
        elif "responseErrorReason" in event or await self._take(event):
            await self._session.send("Fetch.continueRequest", {"requestId": name})
        else:
            await self._fail(name)

    async def _fail(self, name: str) -> None:
        # Of all reasons this is the one after which a browser keeps the page that it shows.
        await self._session.send("Fetch.failRequest", {"requestId": name, "errorReason": "Aborted"})

    def _end(self, result: Page | BaseException) -> None:
        if self.early.done():
            return
        if isinstance(result, Page):
            self.early.set_result(result)
        else:
            self.early.set_exception(result)

    # ---- before a document is asked for

    def _to_send(self, sent: dict[str, Any]) -> dict[str, Any] | None:
        """What is changed of a request; None: it is not sent."""
        request = self._request
        if not self._is_sent:
            if request.start_by is not None and time.monotonic() > request.start_by:
                self._end(LateError("too late to be sent"))
                return None
            self._is_sent = True
            if request.on_send is not None:
                request.on_send()
            if not request.headers:
                return {}
            own = {name.lower() for name in request.headers}
            headers = {name: value for name, value in sent["headers"].items() if name.lower() not in own}
            return {"headers": [{"name": name, "value": value} for name, value in (headers | request.headers).items()]}
        url = sent["url"]
        if self.document is None or url.startswith(("http:", "https:")) is False:
            return None
        if self._may_follow(url):
            self._documents_left -= 1
            return {}
        if not self._is_loaded and sent["method"] == "GET":
            location = ("location", url)
            self._end(Page(url=self.document.url, status=302, headers=[location], body=b""))
        return None

    def _may_follow(self, url: str) -> bool:
        if self._documents_left <= 0 or host_key(absolute(url)) != self._host_key:
            return False
        return self._request.may_navigate is None or self._request.may_navigate(url)

    # ---- when the headers of a document have come

    async def _take(self, event: dict[str, Any]) -> bool:
        """Whether the browser goes on with this answer."""
        status = int(event["responseStatusCode"])
        headers = await self._headers(event)
        url = event["request"]["url"]
        location = next((value for name, value in headers if name == "location"), None)
        is_first = self.document is None
        if status in REDIRECT_STATUSES and location is not None:
            if is_first:
                self._end(Page(url=self._request.url, status=status, headers=headers, body=b""))
                return False
            return self._may_follow(absolute(location, url))
        page = Page(url=self._request.url if is_first else url, status=status, headers=headers, body=b"")
        if is_first and self._request.on_headers is not None and not self._request.on_headers(page):
            self._end(page)
            return False
        if not _is_rendered(headers):
            if is_first:
                page.body = await self._body(event["requestId"])
                self._end(page)
            return False
        self.document = Document(page.url, status, headers)
        return True

    async def _headers(self, event: dict[str, Any]) -> list[tuple[str, str]]:
        headers = [(each["name"].lower(), each["value"]) for each in event.get("responseHeaders", [])]
        future = self._cookies_of(event.get("networkId", ""))
        await asyncio.wait([future], timeout=EXTRA_INFO_SECONDS)
        cookies = future.result() if future.done() else []
        return [header for header in headers if header[0] != "set-cookie"] + cookies

    async def _body(self, name: str) -> bytes:
        """The body as it came, decoded."""
        truncate = self._request.truncate_bytes
        most = self._max_bytes if truncate is None else min(truncate, self._max_bytes)
        stream = (await self._session.send("Fetch.takeResponseBodyAsStream", {"requestId": name}))["stream"]
        body = bytearray()
        while True:
            piece = await self._session.send("IO.read", {"handle": stream, "size": READ_PIECE})
            data = piece["data"]
            body += base64.b64decode(data) if piece.get("base64Encoded") else data.encode()
            if len(body) > most or piece["eof"]:
                break
        await self._session.send("IO.close", {"handle": stream})
        if len(body) > most and truncate is None:
            raise FetchError("too_large", f"more than {most} bytes: {shown_url(self._request.url)}")
        return bytes(body[:most])


def _is_rendered(headers: list[tuple[str, str]]) -> bool:
    found = dict(reversed(headers))
    kind = found.get("content-type", "").partition(";")[0].strip().lower()
    return kind in RENDERED_TYPES and not found.get("content-disposition", "").strip().lower().startswith("attachment")
