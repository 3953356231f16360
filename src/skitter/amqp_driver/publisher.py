"""Confirmed publishing: a whole batch is sent, then its confirms are awaited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pika
from pika import exceptions

from skitter.amqp_driver.connection import AmqpConnection
from skitter.amqp_driver.errors import BrokerError

CONFIRM_SECONDS = 60.0
"""A broker that is short of memory or disk lets publishers wait."""
PERSISTENT = 2


class Outgoing(NamedTuple):
    """A message to publish."""

    exchange: str
    """Empty: the one that every broker has, which knows queues by their names."""
    routing_key: str
    body: bytes
    properties: pika.BasicProperties


class Publisher:
    """A channel with publisher confirms on an open connection. Methods raise BrokerError."""

    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self.channel: Any = connection.channel()
        self._published = 0
        self._confirmed = 0
        """All up to here; confirms of later ones wait in ``_early``."""
        self._early: set[int] = set()
        self._refused = False
        self._returned = 0
        self.channel.add_on_return_callback(self._on_return)
        connection.call(self.channel.confirm_delivery, self._on_confirm)

    def publish(
        self, messages: Iterable[Outgoing], *, mandatory: bool = True, timeout_seconds: float = CONFIRM_SECONDS
    ) -> int:
        """Publish messages and wait until all are confirmed.

        Return how many the broker gave back because no queue takes them: ``mandatory`` asks for that.
        """
        self._refused, self._returned = False, 0
        for exchange, routing_key, body, properties in messages:
            try:
                self.channel.basic_publish(exchange, routing_key, body, properties, mandatory=mandatory)
            except (exceptions.AMQPError, OSError) as error:
                raise self._connection.reason_of(error) from error
            self._published += 1
        if not self._connection.run(lambda: self._confirmed == self._published, timeout_seconds):
            self._connection.close()
            raise BrokerError("it did not confirm in time")
        if self._refused:
            raise BrokerError("it refuses messages: a queue is full or failing")
        return self._returned

    def _on_return(self, *_: Any) -> None:
        self._returned += 1

    def _on_confirm(self, frame: Any) -> None:
        tag: int = frame.method.delivery_tag
        self._refused = self._refused or isinstance(frame.method, pika.spec.Basic.Nack)
        if frame.method.multiple:
            self._confirmed = max(self._confirmed, tag)
        else:
            self._early.add(tag)
        while self._confirmed + 1 in self._early:
            self._confirmed += 1
        self._early = {early for early in self._early if early > self._confirmed}
        if self._confirmed == self._published:
            self._connection.wake()
