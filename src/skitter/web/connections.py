"""Connections of a master: how many there may be, and how long one may stay without a request."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from skitter.web.access import HEADERS

MAX_CONNECTIONS = 20_000
FIRST_REQUEST_SECONDS = 10.0
"""For the headers of the first request: who sends them byte by byte is cut off."""
TAKE_SECONDS = 30.0
"""For a client to take something of what waits for it: one that does not read at all is cut off."""
LINGER_SECONDS = 2.0
"""For the rest of a body that nobody reads, because its request was refused."""
KEEP_ALIVE_SECONDS = 75.0
"""Longer than a client keeps an idle connection."""
MAX_LINE_BYTES = 65_536
"""Of a request: room for the longest URL of a page as a parameter, each character escaped as four bytes."""


class Connection(RequestHandler):
    """A connection that has to bring a request in time."""

    count = 0
    """Of all that are open in this process: a server would count its own by a list of them."""

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        # Calls are not logged one by one; the annotation leaves out that none is a value.
        without_log: dict[str, Any] = {"access_log": None}
        super().__init__(
            server,
            loop=loop,
            **without_log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            # A body is what it says: a small one must not become a large one.
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
        )
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        Connection.count += 1
        if Connection.count > MAX_CONNECTIONS:
            self.force_close()
            return
        self._timer = asyncio.get_running_loop().call_later(FIRST_REQUEST_SECONDS, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        Connection.count -= 1
        self.came()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            # Not closed in order: that would wait for the client again.
            self._write_timer = asyncio.get_running_loop().call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def handle_error(self, *args: Any, **options: Any) -> web.StreamResponse:
        """The answer to what is no request, which no handler sees."""
        answer = super().handle_error(*args, **options)
        answer.headers.update(HEADERS)
        return answer

    def log_exception(self, *args: Any, **options: Any) -> None:
        """Log an error of a handler; a malformed request only at DEBUG, or any stranger could fill the log."""
        if isinstance(options.get("exc_info"), HttpProcessingError):
            self.logger.debug(*args, **options)
        else:
            super().log_exception(*args, **options)

    def came(self) -> None:
        """Note that a whole request has come: from now on the limit is that of an idle connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
