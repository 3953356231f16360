"""Events to a Redis stream, ``redis://HOST:PORT/DB#STREAM``: ``?maxlen=N`` keeps about the last N."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from redis import exceptions

from skitter.errors import EventStreamAwayError, EventStreamError, UsageError
from skitter.event_streams.contract import EventMessage
from skitter.event_streams.stream_urls import StreamUrl
from skitter.redis_driver.address import Address, locate
from skitter.redis_driver.connections import blocking_client
from skitter.redis_driver.errors import TROUBLES, WRONG_TYPE, Remedy, connection_trouble, is_reply, reply_code


class RedisEventStream:
    """A stream whose entries have the fields ``job``, ``event``, ``level``, ``id`` and ``data``, the event as JSON."""

    def __init__(self, url: StreamUrl) -> None:
        self.name = url.name
        url.known_options("maxlen", "db", "ca", "client_cert", "client_key")
        self._stream = url.fragment
        self._maxlen = url.number("maxlen") or None
        self._address = _address(url)
        self._client: Any = None

    def open(self) -> None:
        self.close()
        with self._stream_errors():
            self._client = blocking_client(self._address)
            kind = self._client.type(self._stream)
        if kind not in (b"none", b"stream"):
            raise EventStreamError(
                f"not a stream, but a {kind.decode()}: {self.name}", hint="give another name behind #"
            )

    def publish(self, messages: Sequence[EventMessage]) -> None:
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

    def close(self) -> None:
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
            return EventStreamAwayError(f"Redis takes nothing for now: {self.name}: it {trouble.text}")
        if is_reply(error):
            hint = "it is another kind of key: give another name behind #" if code == WRONG_TYPE else ""
            return EventStreamError(
                f"Redis says: {' '.join(str(error).split())}: {self.name}",
                hint=hint or (trouble.hint if trouble is not None else "it needs TYPE and XADD"),
            )
        reason, hint = connection_trouble(error, tls=self._address.tls)
        return EventStreamAwayError(f"Redis cannot be reached: {self.name}: {reason}", hint=hint)


def _address(url: StreamUrl) -> Address:
    scheme, _, kind = url.scheme.partition("+")
    is_socket = scheme == "unix"
    try:
        address = locate("unix" if is_socket else kind, url.hosts, url.path, db=url.options.get("db", ""))
    except ValueError as error:
        raise UsageError(
            f"not an address of a Redis: {url.name}", hint="redis://USER:PASSWORD@HOST:PORT/DB#STREAM"
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
