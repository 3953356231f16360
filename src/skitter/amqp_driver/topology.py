"""Queues, exchanges and bindings: found, or made durable where somebody asked for it. Nothing is made transient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from skitter.amqp_driver.connection import AmqpConnection
from skitter.amqp_driver.errors import NOT_FOUND, BrokerError
from skitter.errors import UsageError

EXCHANGE_TYPES = ("direct", "topic", "fanout", "headers")


def declare_queue(connection: AmqpConnection, name: str, arguments: Mapping[str, Any] | None) -> None:
    """Find a queue, or make a durable one with these arguments; None: it must be there.

    One that is there is taken as it is. Raises BrokerError.
    """
    try:
        connection.call(connection.channel().queue_declare, name, passive=True)
    except BrokerError as error:
        if error.code != NOT_FOUND or error.may_pass or arguments is None:
            raise
        connection.call(connection.channel().queue_declare, name, durable=True, arguments=dict(arguments))


def declare_exchange(connection: AmqpConnection, name: str, kind: str) -> None:
    """Find an exchange, or make a durable one of this kind; empty: it must be there. Raises BrokerError."""
    try:
        connection.call(connection.channel().exchange_declare, name, passive=True)
    except BrokerError as error:
        if error.code != NOT_FOUND or error.may_pass or not kind:
            raise
        connection.call(connection.channel().exchange_declare, name, kind, durable=True)


def exchange_type(options: Mapping[str, str], name: str) -> str:
    """Return the option ``exchange_type``, checked; empty: it is not given."""
    kind = options.get("exchange_type", "")
    if kind and kind not in EXCHANGE_TYPES:
        raise UsageError(f"unknown exchange type: {kind}: {name}", hint=f"one of {', '.join(EXCHANGE_TYPES)}")
    return kind


class Binding(msgspec.Struct, frozen=True):
    """A binding of a queue to an exchange."""

    exchange: str
    kind: str = ""
    """To declare the exchange with; empty: it must be there."""
    key: str = ""
    arguments: dict[str, str] = {}
    """For an exchange that looks at headers."""

    def bind(self, connection: AmqpConnection, channel: Any, queue: str) -> None:
        declare_exchange(connection, self.exchange, self.kind)
        connection.call(channel.queue_bind, queue, self.exchange, self.key, arguments=self.arguments)


def read_binding(options: Mapping[str, str], name: str) -> Binding | None:
    """Return the binding that the options of a URL ask for; None: none.

    ``exchange``, ``exchange_type``, ``binding`` (the key), ``headers`` (``NAME:VALUE,NAME:VALUE``) and ``match``.
    """
    kind = exchange_type(options, name)
    exchange = options.get("exchange", "")
    pairs = [pair.partition(":") for pair in options.get("headers", "").split(",") if pair]
    match = options.get("match", "all")
    if not exchange:
        alone = [option for option in ("exchange_type", "binding", "headers", "match") if option in options]
        if alone:
            raise UsageError(f"an option needs an exchange: {alone[0]}: {name}", hint="?exchange=NAME names it")
        return None
    if match not in ("all", "any") or not all(header and colon for header, colon, _ in pairs):
        raise UsageError(
            f"invalid headers or match: {name}", hint="write headers=NAME:VALUE,NAME:VALUE&match=all (or any)"
        )
    arguments = {header: value for header, _, value in pairs} | ({"x-match": match} if pairs else {})
    return Binding(exchange, kind, options.get("binding", ""), arguments)
