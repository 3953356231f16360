"""Fetcher contract: one request in, one page or one error out.

A fetcher sends exactly one request. It follows no redirects, does not retry, and makes no decisions about politeness:
all of that belongs to the frontier, where every worker sees it.

A fetcher alone is responsible for two things, which no other component checks:

- The network guard: unless ``trusted`` or the setting ``allow_private`` is set, a fetcher connects only to public
  addresses. It checks the address that it actually connects to.
- The proxy: a fetcher that cannot use the proxy of the settings refuses it when it is created, and a request that names
  a proxy (``proxy``) is sent through it or not at all.

``skitter.testing.FetcherContract`` tests all of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from skitter.model.page import Page
from skitter.model.secrets import shown_url
from skitter.model.session import Cookie


class ClientCertificate(msgspec.Struct, kw_only=True, frozen=True):
    """Files of a client certificate and its key, for servers that ask for one."""

    file: str
    key: str = ""
    """Key file. If empty, ``file`` contains the key too."""
    key_password: str = ""

    def __repr__(self) -> str:
        return f"ClientCertificate({self.file})"


class FetchRequest(msgspec.Struct, kw_only=True, frozen=True):
    """One request as a fetcher sends it. The URL is absolute and WHATWG-parsed, so it is ASCII."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    """Headers; they replace the fetcher's defaults of the same name, in any case. An empty value is sent as such."""
    body: bytes = b""
    cookies: dict[str, str] = {}
    """Cookies that are sent with this request only, in addition to those of the jar."""
    jar: tuple[Cookie, ...] | None = None
    """Cookies of the session, oldest first; those that match the URL are sent (``policy.cookies.sent_pairs``).
    ``Page.cookies`` has those that the response sets (``set_by``). A fetcher keeps none between requests. If None, only
    ``cookies`` are sent, and the response sets none."""
    trusted: bool = False
    """Whether the user typed the host key as a seed: the network guard lets it through. The same for every request of
    a host key."""
    proxy: str = ""
    """URL of the proxy that must be used instead of the one of the settings. If empty, that one is used, if any."""
    proxy_trusted: bool = False
    """Whether the proxy is from the job's pool and may have a private address. A proxy that a request names may not."""
    timeout_seconds: float | None = None
    """None: the setting of that name."""
    connect_timeout_seconds: float | None = None
    """None: the setting of that name."""
    start_by: float | None = None
    """Latest start by the monotonic clock: a request that has not reached the socket by then is not sent. None: no
    limit."""
    on_send: Callable[[], None] | None = None
    """Called right before the request is sent: after the handshake, if a new connection is opened for it."""
    on_headers: Callable[[Page], bool] | None = None
    """Called with the status and headers of the response before its body is read. If it returns False, the body is not
    read and the page has none. It must handle its own exceptions. A fetcher need not support it: then the body is
    read in vain."""
    truncate_bytes: int | None = None
    """Read this much of the decoded body and treat it as the whole. If None, an oversized body is an error."""
    certificate: ClientCertificate | None = None
    """Client certificate, if the credentials of the origin have one. Fetchers of other packages never receive any."""
    render: bool = False
    """Whether a browser loads the page. Only a fetcher that implements ``RendersPages`` receives such requests."""
    actions: Sequence[Any] = ()
    """Actions of the browser before the content of the page is taken (``model.browser_actions``)."""
    on_page: Callable[[Any], Awaitable[None]] | None = None
    """Called with the browser's page after the actions."""
    may_navigate: Callable[[str], bool] | None = None
    """Decides whether a script or an action may navigate the page to this URL of its host. None: always."""

    def __repr__(self) -> str:
        # The repr may get into a log: no headers, no cookies, no proxy with its password.
        return f"<FetchRequest {self.method} {shown_url(self.url)}>"


class Fetcher(Protocol):
    """Sends requests concurrently on the running event loop."""

    async def fetch(self, request: FetchRequest) -> Page:
        """Return the server's response, whatever its status.

        Raises FetchError if there is none: its ``error_class`` is dns, connect, proxy, tls, timeout, slow,
        truncated, protocol, memory, too_large, guard or browser. Cancelling the caller ends the transfer at once.

        Raises BrowserLostError, a FetchError, if the browser with the page crashed or hangs. The page may not be to
        blame, so the caller returns it without counting an attempt. A fetcher limits how often that happens.

        Raises LateError if ``start_by`` passed before a connection was begun or, on a kept connection, before the
        request was sent: the server has noticed nothing.
        """
        ...

    async def close(self) -> None:
        """Release all resources; fetches in flight end with a FetchError. Idempotent."""
        ...


@runtime_checkable
class SlowTransferLimit(Protocol):
    """Optional for a fetcher: slow transfers do not count as in flight, so that they do not hold up others.

    Without it each fetch holds one of a worker's ``concurrency`` slots until it ends, and a few servers that accept
    connections without answering can occupy all slots until ``timeout_seconds``.
    """

    def slow_transfers(self, most: int) -> int:
        """Return how many fetches in flight take much longer than the others, at most ``most``.

        Slow fetches beyond that number end with a FetchError (``slow``). With 0, none counts as slow, and none is
        ended. A worker calls this before each lease, so it must be fast.
        """
        ...


@runtime_checkable
class RendersPages(Protocol):
    """Optional for a fetcher: it can send requests with ``render``. Its worker announces that with each lease."""

    def watch_room(self, tell: Callable[[bool, bool], None]) -> None:
        """Call ``tell`` on the loop at each change, with two flags.

        They say whether one more page can be rendered now, and whether any page can be rendered at all.
        """
        ...


def slow_transfers_of(fetcher: Fetcher) -> Callable[[int], int]:
    """Return the fetcher's ``slow_transfers``, or a function that returns 0 if it has none."""
    return fetcher.slow_transfers if isinstance(fetcher, SlowTransferLimit) else lambda _most: 0
