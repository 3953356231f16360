"""Events in an AMQP exchange, ``amqp://USER:PASSWORD@HOST,HOST/VHOST#EXCHANGE``; subscribers bind their own queues.

Messages are published with confirms and without ``mandatory``: an exchange without a bound queue has no subscribers,
which is not an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pika

from skitter.amqp_driver import address
from skitter.amqp_driver.connection import AmqpConnection
from skitter.amqp_driver.errors import BrokerError, explained
from skitter.amqp_driver.publisher import PERSISTENT, Outgoing, Publisher
from skitter.amqp_driver.topology import declare_exchange, exchange_type
from skitter.errors import EventStreamError, EventStreamUnavailableError, UsageError
from skitter.event_streams.contract import EventMessage
from skitter.event_streams.stream_urls import StreamUrl
from skitter.observe import events

_CONFIRM_SECONDS = 10.0
_KEY_BYTES = 255
"""Maximum length of a routing key in AMQP."""


class AmqpEventStream:
    """Exchange of events. The routing key is ``JOB.EVENT``; the headers are ``job``, ``event`` and ``level``."""

    def __init__(self, url: StreamUrl) -> None:
        options = url.known_options("exchange_type", *address.TLS_OPTIONS)
        located = address.locate(url.scheme, url.hosts, url.path, url.user, url.password, options)
        if located is None:
            raise UsageError(f"no exchange is named: {url.name}", hint="amqp://USER:PASSWORD@HOST:PORT/VHOST#EXCHANGE")
        self.name = url.name
        self._exchange = url.fragment
        self._kind = exchange_type(options, url.name)
        # No heartbeats: the event loop of the connection does not run between batches.
        self._connection = AmqpConnection(located, heartbeat_seconds=0)
        self._publisher: Publisher | None = None
        self.keeps_events = False
        self.is_at_end = True
        self._came: deque[bytes] = deque()

    def open(self) -> None:
        """Connect or reconnect, and declare the exchange."""
        with self._stream_errors():
            self._connection.open()
            declare_exchange(self._connection, self._exchange, self._kind)
            self._publisher = Publisher(self._connection)

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publish in this order, and wait for the confirms of the server."""
        assert self._publisher is not None, "open() comes first"
        with self._stream_errors():
            outgoing = map(self._outgoing, messages)
            self._publisher.publish(outgoing, mandatory=False, timeout_seconds=_CONFIRM_SECONDS)

    def begin(self, job: str, since: float) -> None:  # noqa: ARG002  an exchange keeps nothing
        """Bind a temporary queue for the events of a job. Earlier events are not available."""
        with self._stream_errors():
            self._connection.open()
            declare_exchange(self._connection, self._exchange, self._kind)
            channel = self._connection.channel()
            queue = self._connection.call(channel.queue_declare, "", exclusive=True, auto_delete=True).queue
            # A direct exchange compares whole keys; the other types match by pattern or headers, or deliver everything.
            keys = [f"{job}.{name}" for name in events.KINDS] if self._kind == "direct" else [f"{job}.#"]
            for key in keys:
                arguments = {"x-match": "all", "job": job} if self._kind == "headers" else None
                self._connection.call(channel.queue_bind, queue, self._exchange, key, arguments=arguments)

            def take(_channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
                self._came.append(body)
                self._connection.wake()

            self._connection.call(channel.basic_consume, queue, take, auto_ack=True)

    def read(self, wait_seconds: float) -> list[bytes]:
        """Return the events that arrived; an empty list if none came within ``wait_seconds``."""
        with self._stream_errors():
            self._connection.run(lambda: bool(self._came), wait_seconds)
        found, self._came = list(self._came), deque()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _outgoing(self, message: EventMessage) -> Outgoing:
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=PERSISTENT,
            message_id=message.id,
            timestamp=int(message.at),
            type=message.event,
            app_id="skitter",
            headers={"job": message.job, "event": message.event, "level": message.level},
        )
        job = message.job.encode()[: _KEY_BYTES - len(message.event) - 1].decode(errors="ignore")
        return Outgoing(self._exchange, f"{job}.{message.event}", message.body, properties)

    @contextmanager
    def _stream_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokerError as error:
            self._connection.close()
            raise explained(
                error, self.name, refused=EventStreamError, unavailable=EventStreamUnavailableError
            ) from error
