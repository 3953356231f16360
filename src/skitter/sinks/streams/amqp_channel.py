"""An AMQP channel with publisher confirms: a whole batch is sent, then its confirms are awaited.

The driver's blocking connection waits after each message, some milliseconds of the broker's disk. So this is its
event loop, which runs only while somebody waits here.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pika
from pika import exceptions

from skitter.sinks.targets import Target

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
"""A broker that is short of memory or disk lets publishers wait."""
_GOODBYE_SECONDS = 1.0
_LAST_STEPS_SECONDS = 0.02
_PERSISTENT = 2

# It reports each broken connection with tracebacks; a target that is away is told once, by the delivery.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class Destination(NamedTuple):
    """An exchange and a routing key."""

    exchange: str
    """Empty: the one that every broker has, which knows queues by their names."""
    routing_key: str


class ChannelClosed(Exception):  # noqa: N818  it is over, which may be nobody's error
    """The channel is closed or could not be opened. ``code``: the broker's AMQP reply code, or 0."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.text, self.code = text, code


class AmqpChannel:
    """A channel, opened by ``open``. Every method raises ChannelClosed."""

    def __init__(self, target: Target, destination: Destination, options: Mapping[str, str]) -> None:
        self._target, self._place, self._options = target, destination, options
        self._connection: Any = None
        self._loop: Any = None
        """Of the connection."""
        self._channel: Any = None
        self._closed: ChannelClosed | None = None
        self._published = 0
        self._confirmed = 0
        """All up to here; confirms of later ones wait in ``_early``."""
        self._early: set[int] = set()
        self._refused = False
        self._returned = 0

    def open(self) -> None:
        self.close()
        self._closed, self._published, self._confirmed, self._early = None, 0, 0, set()
        ready: list[bool] = []

        def begin(channel: Any) -> None:
            self._channel = channel
            channel.add_on_close_callback(lambda _, error: self._ended(error))
            channel.add_on_return_callback(self._on_return)
            channel.confirm_delivery(self._on_confirm, callback=lambda _: look(channel))

        def look(channel: Any) -> None:
            # Passive: it is there, or the channel is closed.
            if self._place.exchange:
                channel.exchange_declare(self._place.exchange, passive=True, callback=is_ready)
            else:
                channel.queue_declare(self._place.routing_key, passive=True, callback=is_ready)

        def is_ready(_: Any) -> None:
            ready.append(True)
            self._loop.stop()

        self._connection = pika.SelectConnection(
            self._parameters(),
            on_open_callback=lambda connection: connection.channel(on_open_callback=begin),
            on_open_error_callback=lambda _, error: self._ended(error),
            on_close_callback=lambda _, error: self._ended(error),
        )
        self._loop = self._connection.ioloop
        self._run(lambda: bool(ready), _CONNECT_SECONDS)

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> int:
        """Publish ids and bodies durably; return how many the broker returned because no queue takes them."""
        if self._channel is None:
            self.open()
        self._refused, self._returned = False, 0
        for identity, body in messages:
            properties = pika.BasicProperties(
                content_type="application/json", delivery_mode=_PERSISTENT, message_id=identity, app_id="skitter"
            )
            try:
                self._channel.basic_publish(*self._place, body, properties, mandatory=True)
            except exceptions.AMQPError as error:
                raise self._closed or _closed_by(error) from error
            self._published += 1
        self._run(lambda: self._confirmed == self._published, _ANSWER_SECONDS)
        if self._refused:
            raise ChannelClosed("it refuses messages: a queue is full, or in trouble")
        return self._returned

    def close(self) -> None:
        """Never raises."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is None:
            return
        with suppress(Exception):
            if connection.is_open:
                connection.close()
                self._loop.call_later(_GOODBYE_SECONDS, self._loop.stop)
                self._loop.start()
        with suppress(Exception):
            # The driver closes the socket some steps after it has said that it is closed.
            self._loop.call_later(_LAST_STEPS_SECONDS, self._loop.stop)
            self._loop.start()
            self._loop.close()
        self._loop = None

    # ---- the driver's callbacks

    def _run(self, is_done: Callable[[], bool], seconds: float) -> None:
        loop = self._loop
        late: list[bool] = []

        def give_up() -> None:
            late.append(True)
            loop.stop()

        timer = loop.call_later(seconds, give_up)
        try:
            while not (is_done() or self._closed or late):
                loop.start()
        finally:
            loop.remove_timeout(timer)
        if not is_done():
            ended = self._closed or ChannelClosed("no answer in time")
            self.close()
            raise ended

    def _ended(self, error: Any) -> None:
        # The first reason is the true one; the end of the connection comes after that of the channel.
        self._closed = self._closed or _closed_by(error)
        if self._loop is not None:
            self._loop.stop()

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
            self._loop.stop()

    def _parameters(self) -> pika.ConnectionParameters:
        secured = self._target.scheme == "amqps"
        host, colon, port = self._target.hosts.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = self._target.hosts, "5671" if secured else "5672"
        host = host.strip("[]")
        tls = None
        if secured:
            context = ssl.create_default_context(cafile=self._options.get("ca"))
            if self._options.get("client_cert"):
                context.load_cert_chain(self._options["client_cert"], self._options.get("client_key"))
            tls = pika.SSLOptions(context, host)
        return pika.ConnectionParameters(
            host,
            int(port or "0"),
            self._target.path[1:] or "/",
            pika.PlainCredentials(self._target.user or "guest", self._target.password or "guest"),
            # Nobody runs the loop between two batches. What has died meanwhile is found by the next one.
            heartbeat=0,
            ssl_options=tls,
            socket_timeout=5.0,
            stack_timeout=_CONNECT_SECONDS,
            client_properties={"connection_name": "skitter"},
        )


def _closed_by(error: Any) -> ChannelClosed:
    """Return the innermost reason of a driver's error."""
    while inner := getattr(error, "exceptions", None) or getattr(error, "exception", None):
        error = inner[-1] if isinstance(inner, tuple) else inner
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        closed = ChannelClosed("it refuses the user or the password", 403)
    elif isinstance(error, exceptions.ConnectionClosed | exceptions.ChannelClosed):
        closed = ChannelClosed(error.reply_text, error.reply_code)
    elif isinstance(error, exceptions.ProbableAccessDeniedError):
        closed = ChannelClosed("it refuses the virtual host", 530)
    else:
        closed = ChannelClosed(str(error) or type(error).__name__)
    closed.__cause__ = error if isinstance(error, BaseException) else None
    return closed
