"""The web server of the tests: every answer of it, and every fault, is what the test says.

What a path answers is bytes as they go over the wire, a status with headers and a body, a function of the request, or
several of these, one after the other. ``rig/web_faults.py`` has functions for answers that are none.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self

from rig.web_connection import Connection, Server, tls_context

WAIT_SECONDS = 100.0
"""Only for a hang: below pytest's own limit, so that the failure says what was asked for."""


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    at: float
    """By the monotonic clock."""
    head: bytes = field(repr=False)
    """As it came over the wire."""

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")


Whole = tuple[int | str, Mapping[str, str], bytes]
"""Status (with or without its phrase), headers (several of a name: a line each) and body."""
Fixed = Whole | bytes
"""Bytes are sent as they are."""
Decided = Callable[[Seen, Connection], Fixed | bool | None]
"""A function writes the answer itself where it returns True or None, and with None the connection ends."""
Answer = Fixed | Decided
NOT_FOUND: Whole = (404, {}, b"")


def encoded(answer: Fixed, method: str = "GET") -> bytes:
    """A whole answer of HTTP/1.1."""
    if isinstance(answer, bytes):
        return answer
    status, headers, body = answer
    phrase = "" if isinstance(status, str) else f" {PHRASES.get(status, 'Unknown')}"
    lines = [f"HTTP/1.1 {status}{phrase}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {line}" for name, value in headers.items() for line in value.split("\n")]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body)


PHRASES = {status.value: status.phrase for status in HTTPStatus}


def read_request(connection: Connection) -> Seen:
    """The next request of a connection, with its body."""
    head = connection.read_head()
    at = time.monotonic()
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, *_ = [*first.split(" "), ""]
    named = (line.partition(":") for line in lines if line)
    headers = {name.lower(): value.strip() for name, _, value in named}
    if headers.get("expect") == "100-continue":
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Seen(method, path, headers, connection.read(int(headers.get("content-length", 0))), at, head)


class Site(Server):
    """A host on loopback. Pages that nobody has given it are 404, robots.txt among them; it runs from the start.

    ``keep``: the connection is kept after bytes that the test gave, as it is after every other answer.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        tls: bool | ssl.SSLContext = False,
        keep: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        context = tls_context() if tls is True else tls or None
        super().__init__(self._serve_site, tls=context, host=host, port=port)
        self.answers: dict[str, Answer] = dict(answers or {})
        """By path; the path ``*`` stands for all others."""
        self._in_turn: dict[str, list[Answer]] = {}
        self.seen: list[Seen] = []
        self.under_way = 0
        """Requests that are being answered."""
        self.most_at_once = 0
        self._keep = keep
        self.base = super().url("")
        """What its URLs begin with; a test may give it the name of another host of this machine."""
        self.start()

    def url(self, path: str = "/", host: str = "") -> str:
        return super().url(path, host) if host else self.base + path

    def page(self, path: str, body: str | bytes = "", *lines: str, status: int | str = 200, **headers: str) -> None:
        """HTML, unless a header (``content_type``, or a line of its own) says otherwise."""
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        named |= {name: value.removeprefix(" ") for name, _, value in (line.partition(":") for line in lines)}
        if "content-type" not in map(str.lower, named):
            named["Content-Type"] = "text/html; charset=utf-8"
        self.on(path, (status, named, body.encode() if isinstance(body, str) else body))

    def on(self, path: str, *answers: Answer) -> None:
        """What a path answers; of several, one after the other, and the last one for ever."""
        with self.changed:
            self.answers[path] = answers[-1]
            self._in_turn[path] = list(answers[:-1])

    def hold(self, path: str, answer: Answer = NOT_FOUND) -> Held:
        """Answer a path only when the test releases it."""
        held = Held(self, answer)
        self.on(path, held)
        return held

    def asked(self) -> list[str]:
        """What was asked for, in order, but for icons, which Chromium wants by itself."""
        return [seen.path for seen in self.seen if seen.path != "/favicon.ico"]

    def paths(self) -> list[str]:
        """What was asked for, in order, robots.txt aside."""
        return [path for path in self.asked() if path != "/robots.txt"]

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until something about this site is so; it is looked at with every request and every connection."""
        with self.changed:
            told = self.changed.wait_for(condition, WAIT_SECONDS)
        assert told, f"it did not come to it: {self!r}"

    def wait_for(self, path: str, count: int = 1) -> None:
        """Wait until a path has been asked for so often."""
        self.wait_until(lambda: [seen.path for seen in self.seen].count(path) >= count)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait as ``wait_until`` does, in a coroutine."""
        await asyncio.to_thread(self.wait_until, condition)

    def __repr__(self) -> str:
        counts = Counter(f"{seen.method} {seen.path}" for seen in self.seen)
        asked = ", ".join(f"{line} ({count} times)" if count > 1 else line for line, count in counts.items())
        return f"<{type(self).__name__} {self.base}: {asked or 'nothing was asked for'}>"

    def _serve_site(self, connection: Connection) -> None:
        while self._answer_next(connection):
            pass
        connection.end_tls()

    def _answer_next(self, connection: Connection) -> bool:
        """Answer a request; whether the connection is kept for another one."""
        seen = read_request(connection)
        with self.changed:
            self.seen.append(seen)
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
            answer = self._answer_of(seen.path)
            self.changed.notify_all()
        try:
            decided = answer(seen, connection) if callable(answer) else answer
        finally:
            # Not while it is sent: a client that has it may ask again before this thread goes on.
            with self.changed:
                self.under_way -= 1
        if isinstance(decided, bool) or decided is None:
            return bool(decided)
        connection.send(encoded(decided, seen.method))
        is_kept = self._keep or not isinstance(decided, bytes)
        return is_kept and seen.headers.get("connection", "").lower() != "close"

    def _answer_of(self, path: str) -> Answer:
        for name in (path, path.partition("?")[0], "*"):
            if name in self.answers:
                in_turn = self._in_turn.get(name)
                return in_turn.pop(0) if in_turn else self.answers[name]
        return NOT_FOUND


class Held:
    """An answer that waits for the test. ``waiting`` requests are held at the moment."""

    def __init__(self, site: Site, answer: Answer) -> None:
        self.waiting = 0
        self._site = site
        self._answer = answer
        self._is_released = threading.Event()

    def __call__(self, seen: Seen, connection: Connection) -> Fixed | bool | None:
        with self._site.changed:
            self.waiting += 1
            self._site.changed.notify_all()
            self._site.changed.wait_for(lambda: self._is_released.is_set() or connection.stopping.is_set())
            self.waiting -= 1
        return self._answer(seen, connection) if callable(self._answer) else self._answer

    def release(self) -> None:
        """Answer all that wait, and all that come from now on."""
        self._is_released.set()
        with self._site.changed:
            self._site.changed.notify_all()

    def hold_again(self) -> Self:
        """Hold what comes from now on."""
        self._is_released.clear()
        return self
