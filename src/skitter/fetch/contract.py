"""What the worker asks of whatever fetches: one method in, one page or one error out.

An engine sends exactly one request. It follows no redirect, retries nothing, and decides nothing
about politeness: all of that belongs to the frontier, where every worker sees it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from skitter.model.page import Page


class FetchRequest(msgspec.Struct, kw_only=True, frozen=True):
    """One request as an engine sends it. The URL is absolute and WHATWG-parsed, so it is ASCII."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    """Replace the engine's defaults of the same name, in any case; an empty value is sent as such."""
    body: bytes = b""
    cookies: dict[str, str] = {}
    """Sent with this request, beside those of the jar, and not kept."""
    trusted: bool = False
    """The host key was typed as a seed: the network guard lets it through. The same for every request of a host key."""
    timeout_seconds: float | None = None
    """None: the setting of that name."""
    connect_timeout_seconds: float | None = None
    """None: the setting of that name."""
    start_by: float | None = None
    """By the monotonic clock: a request that is not at the socket by then is not sent. None: no hurry."""
    truncate_bytes: int | None = None
    """Read this much of the decoded body and take it for the whole; None: an oversized body is an error."""


class Fetcher(Protocol):
    """Sends requests, many at a time, on the loop that runs."""

    async def fetch(self, request: FetchRequest) -> Page:
        """The server's answer, whatever its status.

        Raises FetchError when there is none: its ``kind`` is dns, connect, proxy, tls, timeout, slow,
        truncated, protocol, memory, too_large or guard. Cancelling the caller ends the transfer at once.

        Raises LateError when ``start_by`` had passed before a connection was begun, or, on one that was
        kept, before the request was sent: the server has noticed nothing.
        """
        ...

    def stand_aside(self, most: int) -> int:
        """How many fetches stand aside, because they take much longer than others: ``most`` of them, not more.

        The others that are slow then end with a FetchError (``slow``). With 0 none stands aside, and none is ended.
        """
        ...

    async def close(self) -> None:
        """Give everything back. Fetches in flight end with a FetchError. May be called twice."""
        ...
