"""A client of one master: connections, calls that are sent again, and waiting while the master is unavailable."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from typing import NamedTuple

import aiohttp

from skitter.errors import FrontierError
from skitter.frontier.http import wire
from skitter.frontier.http.address import Address
from skitter.frontier.outage import FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, Outage

CONNECT_SECONDS = 5.0
ANSWER_MARGIN_SECONDS = 5.0
"""A client waits so much longer than the master works at a call."""
IDLE_SECONDS = 50.0
"""Less than a master keeps an idle connection, so that the client lets go of it first."""
CONNECTIONS = 8
"""Of one frontier object. A long poll has one of them, and a call that comes meanwhile another."""
_AWAY = frozenset((408, 429, 502, 503, 504))
"""Statuses of a master that is busy or about to end, or of a proxy before it that does not reach it."""


class _Failure(NamedTuple):
    error: FrontierError
    passes: bool
    """It may be over by itself, or somebody ends it: a client that was answered before waits for that."""


class MasterClient:
    """The way to one master, for one event loop."""

    def __init__(self, address: Address, *, patient: bool = False) -> None:
        self._address = address
        self._reached = patient
        self._outage = Outage()
        self._session: aiohttp.ClientSession | None = None
        self.round_trip_seconds = 0.0
        """How long calls took of late: it rises with the slowest at once, and falls slowly."""

    async def call(
        self,
        path: str,
        body: bytes,
        timeout_seconds: float,
        *,
        headers: dict[str, str] | None = None,
        timed: bool = False,
    ) -> bytes:
        """The answer. While the job runs, a master that is unavailable is waited for; at the start it is an error.

        ``timed``: the time that it took counts as a round trip.
        """
        pause = FIRST_WAIT_SECONDS
        while True:
            sent_at = time.monotonic()
            answer = await self._send(path, body, timeout_seconds, headers)
            if isinstance(answer, bytes):
                self._reached = True
                self._outage.end(self)
                if timed:
                    self._note_round_trip(time.monotonic() - sent_at)
                return answer
            if not (answer.passes and self._reached):
                raise answer.error
            self._outage.begin(self, self._address.url, str(answer.error))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, MAX_WAIT_SECONDS)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _note_round_trip(self, seconds: float) -> None:
        before = self.round_trip_seconds
        self.round_trip_seconds = max(seconds, before + 0.1 * (seconds - before))

    async def _send(
        self, path: str, body: bytes, timeout_seconds: float, headers: dict[str, str] | None
    ) -> bytes | _Failure:
        timeout = aiohttp.ClientTimeout(timeout_seconds + ANSWER_MARGIN_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._opened().post(
                self._address.url + path, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                content = await answer.read()
                if answer.status == 200 and wire.VERSION_HEADER in answer.headers:
                    return content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._unreachable(error)
        return self._refused(answer, content)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Here, and not when the object is made: connections belong to the loop that runs now.
            headers = {wire.VERSION_HEADER: wire.VERSION, "Content-Type": wire.CONTENT_TYPE}
            if self._address.token:
                headers["Authorization"] = f"Bearer {self._address.token}"
            self._session = aiohttp.ClientSession(
                headers=headers,
                connector=aiohttp.TCPConnector(
                    ssl=self._address.ssl_context(), limit=CONNECTIONS, keepalive_timeout=IDLE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The proxy of pages is none for the master.
                trust_env=False,
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        return self._session

    def _refused(self, answer: aiohttp.ClientResponse, content: bytes) -> _Failure:
        where = self._address.url
        if wire.VERSION_HEADER not in answer.headers:
            if answer.status in _AWAY:
                text = f"the frontier cannot be reached: {where}: a proxy in front of it answers {answer.status}"
                return _Failure(FrontierError(text, hint="is the master running?"), passes=True)
            text = f"not a master: {where}: it answers {answer.status}"
            return _Failure(
                FrontierError(text, hint="check host and port of --frontier: they must be those of skitter serve"),
                passes=True,
            )
        error = wire.unpack_error(content)
        if error is None:
            text = f"the answer of the master cannot be read: {where}: {answer.status}"
            return _Failure(FrontierError(text, hint="does it run the same version?"), passes=False)
        if isinstance(error, FrontierError):
            # A credential that is refused may just be being changed, as a password of a Redis.
            return _Failure(error, passes=answer.status in _AWAY or answer.status == 401)
        raise error

    def _unreachable(self, error: Exception) -> _Failure:
        reason, hint = _connection_trouble(error)
        return _Failure(
            FrontierError(f"the frontier cannot be reached: {self._address.url}: {reason}", hint=hint), passes=True
        )


def _connection_trouble(error: Exception) -> tuple[str, str]:
    """The reason why there is no answer, and a hint."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is refused: {error.certificate_error}", "?ca=FILE names the certificate authority"
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return (
            "it does not use TLS, or requires a client certificate",
            "use http:// without TLS, or ?cert=FILE&key=FILE for a client certificate",
        )
    if isinstance(error, TimeoutError):
        return "no answer in time", "is it running? check host, port and network"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "it closed the connection", "does it use TLS? then use https://HOST:PORT"
    strerror = getattr(error, "strerror", None)
    return strerror or str(error) or type(error).__name__, "is it running? check host, port and network"
