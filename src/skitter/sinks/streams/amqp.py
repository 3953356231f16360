"""The AMQP sink, ``amqp://USER:PASSWORD@HOST/VHOST#EXCHANGE/ROUTING-KEY``: each item is a persistent message.

At least once. A broker has nothing that a batch could be found again by: what was sent and not recorded is sent again,
with the same ids, and readers may drop what they have had. A batch is recorded when the broker has confirmed each of
its messages, and none was returned because no queue takes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pika

from skitter.amqp_driver import address
from skitter.amqp_driver.connection import AmqpConnection
from skitter.amqp_driver.errors import BrokerError, explained
from skitter.amqp_driver.publisher import PERSISTENT, Outgoing, Publisher
from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.databases.column_names import short_key
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.streams.messages import Message, known_options, messages_of
from skitter.sinks.targets import Target

_MARK = b"1"
_ID_BYTES = 255
"""The longest message id of AMQP."""
_TOO_LARGE = re.compile(r"larger than configured max size (\d+)")


class AmqpSink:
    """A sink that publishes to an exchange; with no name (``#/QUEUE``) the routing key is the name of a queue."""

    exact = False

    def __init__(self, target: Target) -> None:
        exchange, slash, routing_key = target.fragment.partition("/")
        options = known_options(target, *address.TLS_OPTIONS)
        located = address.locate(target.scheme, target.hosts, target.path, target.user, target.password, options)
        if located is None or not slash or not (exchange or routing_key):
            raise UsageError(
                f"no exchange or no routing key is named: {target.name}",
                hint="amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST#EXCHANGE/ROUTING-KEY; #/QUEUE for a queue",
            )
        self.target = target.name
        self._target = target
        self._exchange, self._routing_key = exchange, routing_key
        # Nobody runs its loop between two batches. What has died meanwhile is found by the next one.
        self._connection = AmqpConnection(located, heartbeat_seconds=0)
        self._publisher: Publisher | None = None
        self._lock = MachineLock(target.job, self.target)

    def take(self) -> None:
        if self._target.overwrite:
            raise SinkError(
                f"messages that were sent cannot be removed: {self.target}",
                hint="use -o instead of -O",
            )
        self._lock.take()

    def open(self, progress: SinkProgress) -> bytes:
        try:
            self._connect()
        except BrokerError as error:
            raise self._error(error) from error.__cause__
        return progress.mark or _MARK

    def _connect(self) -> Publisher:
        self._connection.open()
        publisher = Publisher(self._connection)
        # Passive: it is there, or the channel is closed.
        if self._exchange:
            self._connection.call(publisher.channel.exchange_declare, self._exchange, passive=True)
        else:
            self._connection.call(publisher.channel.queue_declare, self._routing_key, passive=True)
        self._publisher = publisher
        return publisher

    def write(self, items: Sequence[Item]) -> bytes:
        messages = messages_of(items, self._target.key_fields, self.target)
        try:
            publisher = self._publisher or self._connect()
            unroutable = publisher.publish(map(self._outgoing, messages))
        except BrokerError as error:
            self._disconnect()
            raise self._too_large(error, messages) or self._error(error) from error.__cause__
        if unroutable:
            raise SinkError(
                f"no queue accepts the messages: {self.target}",
                hint="bind a queue to the exchange with this routing key; nothing is lost",
            )
        return _MARK

    def _outgoing(self, message: Message) -> Outgoing:
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=PERSISTENT,
            message_id=short_key(message.key, _ID_BYTES),
            app_id="skitter",
        )
        return Outgoing(self._exchange, self._routing_key, message.body, properties)

    def finish(self) -> None:
        """Do nothing: the broker has confirmed every message."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  nothing is kept for the resuming
        self._disconnect()
        self._lock.release()

    def _disconnect(self) -> None:
        self._publisher = None
        self._connection.close()

    def _too_large(self, error: BrokerError, messages: Sequence[Message]) -> BadItemsError | None:
        found = _TOO_LARGE.search(error.text)
        if found is None:
            return None
        limit = int(found[1])
        large = [each.position for each in messages if len(each.body) > limit]
        reason = f"it is larger than the {limit} bytes that the broker accepts"
        return BadItemsError(self.target, dict.fromkeys(large, reason)) if large else None

    def _error(self, error: BrokerError) -> SinkError:
        return explained(error, self.target, refused=SinkError, unavailable=SinkUnavailableError)
