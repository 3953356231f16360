"""Contract of fetchers: one request in, one page or one error out.

A fetcher sends exactly one request. It follows no redirect, retries nothing, and decides nothing
about politeness: all of that belongs to the frontier, where every worker sees it.

Two things are a fetcher's alone, and nobody checks them again. The network guard: unless ``trusted`` is set or the
setting ``allow_private`` is, it connects to public addresses only, by the address that it really connects to. And the
proxy of the settings: what cannot use one refuses it when it is made, and a request that names one (``proxy``) is sent
through it or not at all. ``skitter.testing.FetcherContract`` has tests
for all of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from skitter.model.cookie_lines import CookieLines
from skitter.model.page import Page
from skitter.model.secrets import shown_url


class ClientCertificate(msgspec.Struct, kw_only=True, frozen=True):
    """Files of a certificate and its key that are shown to a server which asks for one."""

    file: str
    key: str = ""
    """Empty: ``file`` has it too."""
    key_password: str = ""

    def __repr__(self) -> str:
        return f"ClientCertificate({self.file})"


class FetchRequest(msgspec.Struct, kw_only=True, frozen=True):
    """One request as a fetcher sends it. The URL is absolute and WHATWG-parsed, so it is ASCII."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    """Replace the fetcher's defaults of the same name, in any case; an empty value is sent as such."""
    body: bytes = b""
    cookies: dict[str, str] = {}
    """Sent with this request, beside those of the jar, and not kept."""
    jar: CookieLines | None = None
    """Cookies of its session that it may send, if they are for its URL; what the answer sets is ``Page.cookies``.
    A fetcher keeps none from one request to the next. None: none but ``cookies``, and the answer sets none."""
    trusted: bool = False
    """The host key was typed as a seed: the network guard lets it through. The same for every request of a host key."""
    proxy: str = ""
    """The URL of the proxy that it must go through, in place of the one of the settings; empty: that one, if any."""
    proxy_trusted: bool = False
    """The proxy is one of the job's pool: it may have a private address. One that a request names may not."""
    timeout_seconds: float | None = None
    """None: the setting of that name."""
    connect_timeout_seconds: float | None = None
    """None: the setting of that name."""
    start_by: float | None = None
    """By the monotonic clock: a request that is not at the socket by then is not sent. None: no hurry."""
    on_send: Callable[[], None] | None = None
    """Called when it is about to be sent: after the handshake, if a connection has to be opened for it."""
    on_headers: Callable[[Page], bool] | None = None
    """Called with status and headers of the answer, before its body is read; False: the body is not read, and the page
    comes without it. What it raises is its own. A fetcher may leave this out: then the body is read for nothing."""
    truncate_bytes: int | None = None
    """Read this much of the decoded body and take it for the whole; None: an oversized body is an error."""
    certificate: ClientCertificate | None = None
    """Set for origins whose credentials have one; fetchers of other packages are never given any."""
    render: bool = False
    """A browser is to load it. Only a fetcher that ``RendersPages`` is given such a request."""
    actions: Sequence[Any] = ()
    """What the browser does with the page before its content is taken (``model.browser_actions``)."""
    on_page: Callable[[Any], Awaitable[None]] | None = None
    """Called with the browser's page after the actions."""
    may_navigate: Callable[[str], bool] | None = None
    """Whether the page may go on to this URL of its host, by a script or an action. None: it may."""

    def __repr__(self) -> str:
        # The repr may get into a log: no headers, no cookies, no proxy with its password.
        return f"<FetchRequest {self.method} {shown_url(self.url)}>"


class Fetcher(Protocol):
    """Sends requests, many at a time, on the loop that runs."""

    async def fetch(self, request: FetchRequest) -> Page:
        """Return the server's answer, whatever its status.

        Raises FetchError when there is none: its ``error_class`` is dns, connect, proxy, tls, timeout, slow,
        truncated, protocol, memory, too_large, guard or browser. Cancelling the caller ends the transfer at once.

        Raises BrowserLostError, a FetchError, when the browser that had the page has crashed or hangs: the page may not
        be to blame, and whoever called hands it back without an attempt. A fetcher bounds how often that happens.

        Raises LateError when ``start_by`` had passed before a connection was begun, or, on one that was
        kept, before the request was sent: the server has noticed nothing.
        """
        ...

    async def close(self) -> None:
        """Release all resources; fetches in flight end with a FetchError. Idempotent."""
        ...


@runtime_checkable
class SlowTransferLimit(Protocol):
    """Optional for a fetcher: slow transfers do not count as in flight, so that they hold up no others.

    Without it each fetch holds one of a worker's ``concurrency`` slots until it ends, and a few servers that accept
    and say nothing can have all of them until ``timeout_seconds``.
    """

    def slow_transfers(self, most: int) -> int:
        """How many of the fetches in flight take much longer than others do, at most ``most``.

        What is slow beyond that ends with a FetchError (``slow``). With 0 none counts as slow, and none is ended.
        A worker calls it before each lease, so it is quick.
        """
        ...


@runtime_checkable
class RendersPages(Protocol):
    """Optional for a fetcher: it can send requests with ``render``. Its worker says so with each lease."""

    def watch_room(self, tell: Callable[[bool, bool], None]) -> None:
        """Call ``tell`` on the loop when it changes whether a page more can be rendered now, and whether any can be."""
        ...


def slow_transfers_of(fetcher: Fetcher) -> Callable[[int], int]:
    """Return the fetcher's ``slow_transfers``, or a function that returns 0 if it has none."""
    return fetcher.slow_transfers if isinstance(fetcher, SlowTransferLimit) else lambda _most: 0
