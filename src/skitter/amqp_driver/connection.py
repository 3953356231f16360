"""A connection to a broker, whose event loop runs only while somebody waits here. Every wait has an end.

The driver's blocking connection waits after each message that is published, some milliseconds of the broker's disk; and
its own threads would be one more thing to end. So this is its event loop, in the thread of whoever calls.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pika

from skitter.amqp_driver.address import Address
from skitter.amqp_driver.errors import REFUSED, BrokerError, broker_error
from skitter.errors import UsageError

CONNECT_SECONDS = 5.0
"""For one host: another one may answer sooner."""
ANSWER_SECONDS = 15.0
"""For one answer: a queue of a cluster may have to choose another leader first."""
_GOODBYE_SECONDS = 1.0
_LAST_TURNS = 10

# It reports each broken connection with tracebacks; whoever calls tells once that a broker is unavailable.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class AmqpConnection:
    """A connection to the first of several hosts that takes it, opened by ``open``. Methods raise BrokerError."""

    def __init__(self, address: Address, *, heartbeat_seconds: int = 0) -> None:
        """``heartbeat_seconds``: how soon a silent broker is noticed; 0 if nobody runs the loop between two calls."""
        self._address, self._heartbeat = address, heartbeat_seconds
        self._first = 0
        """The host to begin with: the one that took the last connection, or the next after it broke."""
        self._connection: Any = None
        self._loop: Any = None
        self._closed: BrokerError | None = None
        self._broken: list[BrokerError] = []
        """Why channels were closed by the broker, until it is told."""

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._closed is None

    def open(self) -> None:
        self.close()
        errors: list[BrokerError] = []
        hosts = self._address.hosts
        for n in range(len(hosts)):
            number = (self._first + n) % len(hosts)
            try:
                self._connect(hosts[number])
            except BrokerError as error:
                if error.code == REFUSED or not error.may_pass:
                    raise
                errors.append(error)
                continue
            # After this connection breaks, another host is more likely to take the next.
            self._first = number + 1
            return
        raise errors[0]

    def _connect(self, host: tuple[str, int]) -> None:
        self._closed, self._broken = None, []
        opened: list[bool] = []

        def is_open(_: Any) -> None:
            opened.append(True)
            self.wake()

        self._connection = pika.SelectConnection(
            self._parameters(host),
            on_open_callback=is_open,
            on_open_error_callback=lambda _, error: self._ended(error),
            on_close_callback=lambda _, error: self._ended(error),
        )
        self._loop = self._connection.ioloop
        try:
            # The driver's own limits are for parts of the way.
            self._run_or_end(lambda: bool(opened), CONNECT_SECONDS + 1.0)
        except BrokerError:
            self.close()
            raise

    def channel(self) -> Any:
        """Open a channel: the driver's own."""
        opened: list[Any] = []

        def is_open(channel: Any) -> None:
            channel.add_on_close_callback(lambda _, error: self._lose_channel(error))
            opened.append(channel)
            self.wake()

        self._raise_if_over()
        try:
            self._connection.channel(on_open_callback=is_open)
        except pika.exceptions.AMQPError as error:
            raise self.reason_of(error) from error
        self._run_or_end(lambda: bool(opened), ANSWER_SECONDS)
        return opened[0]

    def call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method of a channel that the broker answers, and return the answer."""
        answers: list[Any] = []

        def answer(frame: Any) -> None:
            answers.append(frame)
            self.wake()

        try:
            method(*arguments, callback=answer, **options)
        except pika.exceptions.AMQPError as error:
            raise self.reason_of(error) from error
        self._run_or_end(lambda: bool(answers), ANSWER_SECONDS)
        return answers[0].method

    def run(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Let the connection work until ``is_done`` or for so long; whether it is done."""
        late: list[bool] = []

        def give_up() -> None:
            late.append(True)
            self.wake()

        self._raise_if_over()
        loop = self._loop
        timer = loop.call_later(seconds, give_up)
        try:
            while not (is_done() or self._closed or self._broken or late):
                loop.start()
        finally:
            loop.remove_timeout(timer)
        if not is_done():
            self._raise_if_over()
        return is_done()

    def wake(self) -> None:
        """Let ``run`` look again; for the driver's callbacks."""
        if self._loop is not None:
            self._loop.stop()

    def reason_of(self, error: Exception) -> BrokerError:
        """Return why a call of the driver failed: what the broker said, if it said something."""
        known = self._broken[0] if self._broken else self._closed
        self._broken.clear()
        return known or broker_error(error, self._address.password)

    def close(self) -> None:
        """Never raises."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(Exception):
            if connection.is_open:
                connection.close()
                self._loop.call_later(_GOODBYE_SECONDS, self._loop.stop)
                self._loop.start()
        with suppress(Exception):
            if connection._transport is not None:  # noqa: SLF001  it has no other way not to wait for the broker
                connection._transport.abort()  # noqa: SLF001
            # The driver closes the socket some turns of its loop after it has said that it is closed.
            for _ in range(_LAST_TURNS):
                self._loop.call_later(0, self._loop.stop)
                self._loop.start()
            self._loop.close()
        self._loop = None

    def _run_or_end(self, is_done: Callable[[], bool], seconds: float) -> None:
        if not self.run(is_done, seconds):
            # Later answers would be taken for those to later questions.
            self._closed = BrokerError("no answer in time")
            self.close()
            raise self._closed

    def _raise_if_over(self) -> None:
        if self._broken:
            # The first reason is the true one; the end of the connection comes after that of the channel.
            reason = self._broken[0]
            self._broken.clear()
            raise reason
        if self._closed is not None or self._connection is None:
            raise self._closed or BrokerError("it is not connected")

    def _ended(self, error: Any) -> None:
        self._closed = self._closed or broker_error(error, self._address.password)
        self.wake()

    def _lose_channel(self, error: Any) -> None:
        reason = broker_error(error, self._address.password)
        if not isinstance(error, pika.exceptions.ChannelClosedByClient):
            self._broken.append(reason)
        self.wake()

    def _parameters(self, host: tuple[str, int]) -> pika.ConnectionParameters:
        address = self._address
        tls = None
        if address.tls:
            try:
                context = ssl.create_default_context(cafile=address.ca)
                if address.cert:
                    context.load_cert_chain(address.cert, address.key)
            except OSError as error:
                file = error.filename or address.cert or address.ca
                raise UsageError(
                    f"not a certificate or a key: {file}: {error.strerror or error}",
                    hint="ca, client_cert and client_key must be PEM files",
                ) from error
            tls = pika.SSLOptions(context, host[0])
        return pika.ConnectionParameters(
            *host,
            address.virtual_host,
            pika.PlainCredentials(address.user, address.password),
            heartbeat=self._heartbeat,
            ssl_options=tls,
            socket_timeout=CONNECT_SECONDS,
            stack_timeout=CONNECT_SECONDS,
            client_properties={"connection_name": "skitter"},
        )
