"""Events in a Redis stream, ``redis://HOST:PORT/DB#STREAM``. ``?maxlen=N`` keeps about the last N events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from redis import exceptions

from skitter.errors import EventStreamError, EventStreamUnavailableError, UsageError
from skitter.event_streams.contract import EventMessage
from skitter.event_streams.stream_urls import StreamUrl
from skitter.redis_driver.address import Address, locate
from skitter.redis_driver.connections import blocking_client
from skitter.redis_driver.errors import TROUBLES, WRONG_TYPE, Remedy, connection_trouble, is_reply, reply_code

READ_ENTRIES = 500


class RedisEventStream:
    """Stream whose entries have the fields ``job``, ``event``, ``level``, ``id`` and ``data`` (the event as JSON)."""

    def __init__(self, url: StreamUrl) -> None:
        self.name = url.name
        url.known_options("maxlen", "db", "ca", "client_cert", "client_key")
        self._stream = url.fragment
        self._maxlen = url.number("maxlen") or None
        self._address = _address(url)
        self._client: Any = None
        self.keeps_events = True
        self.is_at_end = False
        self._last = b"0-0"

    def open(self) -> None:
        """Connect or reconnect. Raises EventStreamError if the key is not a stream."""
        self.close()
        with self._stream_errors():
            self._client = blocking_client(self._address)
            kind = self._client.type(self._stream)
        if kind not in (b"none", b"stream"):
            raise EventStreamError(
                f"not a stream, but a {kind.decode()}: {self.name}", hint="give another name after #"
            )

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Add the events to the stream in this order."""
        with self._stream_errors():
            pipeline = self._client.pipeline(transaction=False)
            for message in messages:
                entry = {
                    "job": message.job,
                    "event": message.event,
                    "level": message.level,
                    "id": message.id,
                    "data": message.body,
                }
                pipeline.xadd(self._stream, entry, maxlen=self._maxlen, approximate=True)
            pipeline.execute()

    def begin(self, job: str, since: float) -> None:  # noqa: ARG002  a stream has no part for one job
        """Connect, and read entries since this time."""
        self.open()
        # Ids of entries are times of the server's clock; XREAD returns the entries after this id.
        self._last = b"%d-0" % max(0, since * 1000 - 1)

    def read(self, wait_seconds: float) -> list[bytes]:
        """Return the next events; an empty list if none came within ``wait_seconds``."""
        with self._stream_errors():
            block = max(1, int(wait_seconds * 1000)) if wait_seconds else None
            found = self._client.xread({self._stream: self._last}, count=READ_ENTRIES, block=block) or []
            entries = found[0][1] if found else []
            if entries:
                self._last = entries[-1][0]
            self.is_at_end = len(entries) < READ_ENTRIES
            return [fields[b"data"] for _, fields in entries if b"data" in fields]

    def close(self) -> None:
        """Close the connection; ignore its errors."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(exceptions.RedisError, OSError):
                client.close()

    @contextmanager
    def _stream_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            self.close()
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> EventStreamError:
        code = reply_code(error)
        trouble = TROUBLES.get(code)
        if trouble is not None and trouble.remedy is Remedy.WAIT:
            return EventStreamUnavailableError(f"Redis does not accept data now: {self.name}: it {trouble.text}")
        if is_reply(error):
            hint = "the key has another type: give another name after #" if code == WRONG_TYPE else ""
            return EventStreamError(
                f"Redis says: {' '.join(str(error).split())}: {self.name}",
                hint=hint or (trouble.hint if trouble is not None else "the user needs the commands TYPE and XADD"),
            )
        reason, hint = connection_trouble(error, tls=self._address.tls)
        return EventStreamUnavailableError(f"Redis cannot be reached: {self.name}: {reason}", hint=hint)


def _address(url: StreamUrl) -> Address:
    scheme, _, kind = url.scheme.partition("+")
    is_socket = scheme == "unix"
    try:
        address = locate("unix" if is_socket else kind, url.hosts, url.path, db=url.options.get("db", ""))
    except ValueError as error:
        raise UsageError(
            f"invalid Redis address: {url.name}", hint="redis://USER:PASSWORD@HOST:PORT/DB#STREAM"
        ) from error
    return msgspec.structs.replace(
        address,
        username=url.user or None,
        password=url.password or None,
        tls=scheme == "rediss",
        ca=url.options.get("ca"),
        cert=url.options.get("client_cert"),
        key=url.options.get("client_key"),
    )
