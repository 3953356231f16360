"""The AMQP sink, ``amqp://USER:PASSWORD@HOST/VHOST#EXCHANGE/ROUTING-KEY``: each item is a persistent message.

At least once. A broker has nothing that a batch could be found again by: what was sent and not recorded is sent again,
with the same ids, and readers may drop what they have had. A batch is recorded when the broker has confirmed each of
its messages, and none was returned because no queue takes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from skitter.errors import BadItemsError, SinkAwayError, SinkError, UsageError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.databases.column_names import short_key
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.databases.sql_statements import certificate_error, driver_message
from skitter.sinks.streams.amqp_channel import AmqpChannel, ChannelClosed, Destination
from skitter.sinks.streams.messages import Message, known_options, messages_of
from skitter.sinks.targets import Target

_MARK = b"1"
_ID_BYTES = 255
"""The longest message id of AMQP."""
_TOO_LARGE = re.compile(r"larger than configured max size (\d+)")
_HINTS = {
    403: "check user and password, and what the user may do there",
    404: "declare the exchange, or the queue, first",
    530: "check the name of the virtual host: amqp://HOST/VHOST, / itself is written %2F",
}
"""By the reply codes of AMQP. Any other end of a connection may be over soon."""


class AmqpSink:
    """A sink that publishes to an exchange; with no name (``#/QUEUE``) the routing key is the name of a queue."""

    exact = False

    def __init__(self, target: Target) -> None:
        exchange, slash, routing_key = target.fragment.partition("/")
        if not target.hosts or "," in target.hosts or not slash or not (exchange or routing_key):
            raise UsageError(
                f"no exchange or no routing key is named: {target.name}",
                hint="amqp://USER:PASSWORD@HOST:PORT/VHOST#EXCHANGE/ROUTING-KEY; #/QUEUE for a queue",
            )
        options = known_options(target, "ca", "client_cert", "client_key")
        self.target = target.name
        self._target = target
        self._place = Destination(exchange, routing_key)
        self._channel = AmqpChannel(target, self._place, options)
        self._lock = MachineLock(target.job, self.target)

    def take(self) -> None:
        if self._target.overwrite:
            raise SinkError(
                f"what was sent cannot be taken back: {self.target}",
                hint="-o instead of -O: a broker's queues are its own",
            )
        self._lock.take()

    def open(self, progress: SinkProgress) -> bytes:
        try:
            self._channel.open()
        except ChannelClosed as closed:
            raise self._error(closed) from closed.__cause__
        return progress.mark or _MARK

    def write(self, items: Sequence[Item]) -> bytes:
        messages = messages_of(items, self._target.key_fields, self.target)
        try:
            unroutable = self._channel.publish([(short_key(each.key, _ID_BYTES), each.body) for each in messages])
        except ChannelClosed as closed:
            self._channel.close()
            raise self._too_large(closed, messages) or self._error(closed) from closed.__cause__
        if unroutable:
            raise SinkError(
                f"no queue takes the messages: {self.target}",
                hint="bind a queue to the exchange with this routing key; nothing is lost",
            )
        return _MARK

    def finish(self) -> None:
        """Do nothing: the broker has confirmed every message."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  nothing is kept for the resuming
        self._channel.close()
        self._lock.release()

    def _too_large(self, closed: ChannelClosed, messages: Sequence[Message]) -> BadItemsError | None:
        found = _TOO_LARGE.search(closed.text)
        if found is None:
            return None
        limit = int(found[1])
        large = [each.position for each in messages if len(each.body) > limit]
        reason = f"it is larger than the {limit} bytes that the broker takes"
        return BadItemsError(self.target, dict.fromkeys(large, reason)) if large else None

    def _error(self, closed: ChannelClosed) -> SinkError:
        text = driver_message(self._target, closed)
        if closed.code in _HINTS:
            return SinkError(f"the broker says: {text}: {self.target}", hint=_HINTS[closed.code])
        return certificate_error(self._target, closed, "ca") or SinkAwayError(
            f"the broker cannot be reached: {self.target}: {text}",
            hint="is it running? check host, port and network; nothing is lost",
        )
