"""The AMQP intake, ``amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST#QUEUE``: competing consumers with manual acks.

A message is acknowledged when its request is in the frontier. A connection that breaks, or is closed, gives everything
else back to the queue, so acknowledgements of a former connection are meaningless: the messages come again, and the
frontier knows them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pika import exceptions

from skitter.amqp_driver import address
from skitter.amqp_driver.connection import AmqpConnection
from skitter.amqp_driver.errors import NOT_FOUND, BrokerError, explained
from skitter.amqp_driver.publisher import Outgoing, Publisher
from skitter.amqp_driver.topology import declare_queue, read_binding
from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.intakes.amqp.dead_letters import dead_letter_properties
from skitter.intakes.contract import Backlog, DeadLetter, Message
from skitter.intakes.sources import Source

HEARTBEAT_SECONDS = 30
"""A broker that is silent for so long, and five seconds more, is unavailable. The reader calls about every second."""
PREFETCH = 1000
HOLD_SECONDS = 300.0
"""How long messages that nobody asks for are kept. Brokers close a channel that keeps one for longer than half an hour
(consumer_timeout), and each return counts towards the delivery limit of a quorum queue."""
_OPTIONS = ("declare", "max_priority", "prefetch", "exchange", "exchange_type", "binding", "headers", "match")
_HINT = "amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST#QUEUE"


class _Delivery(NamedTuple):
    connection: int
    """The number of the connection: tags of an earlier one mean nothing."""
    tag: int
    properties: Any


class AmqpIntake:
    """An intake that consumes a queue, which any number of others may consume too."""

    shared = True
    is_exhausted = False

    def __init__(self, source: Source) -> None:
        options = source.known_options(*_OPTIONS, *address.TLS_OPTIONS)
        located = address.locate(source.scheme, source.hosts, source.path, source.user, source.password, options)
        if located is None or not source.fragment:
            raise UsageError(f"no queue is named: {source.name}", hint=_HINT)
        self.source = source.name
        self._queue = source.fragment
        self._arguments = _queue_arguments(source)
        self._binding = read_binding(options, source.name)
        self._prefetch = _number(source, "prefetch", 65_535) or PREFETCH
        self._connection = AmqpConnection(located, heartbeat_seconds=HEARTBEAT_SECONDS)
        self._number = 0
        """Of the present connection."""
        self._was_open = False
        self._lost: BrokerError | None = None
        """Why there is no connection: whoever found it out may not have told it."""
        self._channel: Any = None
        self._publisher: Publisher | None = None
        self._consumer = ""
        """The consumer's tag; empty: nothing is asked for."""
        self._is_cancelled = False
        """The broker has ended the consumer: its queue is gone."""
        self._waiting: deque[Message] = deque()
        self._unacked: deque[int] = deque()
        """Tags of messages that were read, in order."""
        self._read_at = 0.0
        self._came_at = 0.0
        """When the last message came, or the connection was opened."""
        self._published_at: float | None = None
        """The time that the last message had, if it had one."""

    def open(self, mark: bytes) -> None:  # noqa: ARG002  the broker remembers
        self._disconnect()
        with self._intake_errors(opens=True):
            self._connection.open()
            self._number += 1
            declare_queue(self._connection, self._queue, self._arguments)
            self._channel = self._connection.channel()
            self._channel.add_on_cancel_callback(self._on_cancel)
            if self._binding is not None:
                self._binding.bind(self._connection, self._channel, self._queue)
            # Of each consumer: one for the whole channel (global) is gone from newer brokers.
            self._connection.call(self._channel.basic_qos, prefetch_count=self._prefetch)
        self._was_open, self._lost = True, None
        self._came_at = time.monotonic()

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        with self._intake_errors():
            if limit == 0:
                self._rest(timeout_seconds)
                return []
            self._read_at = time.monotonic()
            if not self._consumer:
                self._consume()
            # One turn at least: heartbeats have to go while messages wait here.
            self._connection.run(lambda: False, 0)
            if not self._waiting:
                self._connection.run(lambda: bool(self._waiting) or self._is_cancelled, timeout_seconds)
            if self._is_cancelled and not self._waiting:
                raise BrokerError(f"the queue was deleted, or its node is down: {self._queue}", NOT_FOUND)
        found = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        self._unacked.extend(message.ref.tag for message in found)
        return found

    def ack(self, messages: Sequence[Message]) -> bytes:
        tags = [message.ref.tag for message in messages if message.ref.connection == self._number]
        if not tags:
            return b""
        with self._intake_errors():
            is_next = self._unacked[0] == tags[0]
            for tag in tags[-1:] if is_next else tags:
                self._channel.basic_ack(tag, multiple=is_next)
            self._connection.run(lambda: False, 0)
        done = set(tags)
        self._unacked = deque(tag for tag in self._unacked if tag not in done)
        return b""

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        queue = f"{self._queue}.dead-letters"
        with self._intake_errors():
            if self._publisher is None:
                is_quorum = (self._arguments or {}).get("x-queue-type") == "quorum"
                declare_queue(self._connection, queue, {"x-queue-type": "quorum" if is_quorum else "classic"})
                self._publisher = Publisher(self._connection)
            unroutable = self._publisher.publish(
                Outgoing("", queue, letter.message.body, dead_letter_properties(letter, self.source))
                for letter in letters
            )
        if unroutable:
            self._disconnect()
            raise IntakeUnavailableError(
                f"no queue accepts the dead letters: {queue}: {self.source}",
                hint="was the queue deleted? it is declared again; nothing is lost",
            )

    def backlog(self) -> Backlog:
        with self._intake_errors():
            answer = self._connection.call(self._channel.queue_declare, self._queue, passive=True)
        ready: int = answer.message_count
        lag = None if self._published_at is None else max(0.0, time.time() - self._published_at)
        messages = ready + len(self._waiting) + len(self._unacked)
        if not messages and answer.consumer_count > bool(self._consumer) and self._may_others_be_dead():
            messages = 1
        return Backlog(messages, lag if ready else None)

    def _may_others_be_dead(self) -> bool:
        """Whether another consumer may hold messages of a machine that is gone, which a broker notices late."""
        return time.monotonic() - self._came_at < 2 * HEARTBEAT_SECONDS + 5

    def close(self) -> None:
        """Everything that is not acknowledged goes back to its place in the queue with the connection."""
        self._disconnect()

    def _disconnect(self) -> None:
        self._connection.close()
        self._channel, self._publisher, self._consumer, self._is_cancelled = None, None, "", False
        self._waiting.clear()
        self._unacked.clear()

    # ---- the consumer

    def _consume(self) -> None:
        answer = self._connection.call(self._channel.basic_consume, self._queue, self._on_message)
        self._consumer = answer.consumer_tag

    def _rest(self, timeout_seconds: float) -> None:
        if self._consumer and time.monotonic() - self._read_at > HOLD_SECONDS:
            self._connection.call(self._channel.basic_cancel, self._consumer)
            self._consumer = ""
            # One by one, and in order: a quorum queue delivers them again in the order of their return.
            while self._waiting:
                self._channel.basic_nack(self._waiting.popleft().ref.tag, requeue=True)
        self._connection.run(lambda: False, timeout_seconds)

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        delivery = _Delivery(self._number, method.delivery_tag, properties)
        self._waiting.append(Message(body, delivery, properties.message_id or "", properties.priority))
        self._came_at = time.monotonic()
        if properties.timestamp:
            self._published_at = float(properties.timestamp)
        self._connection.wake()

    def _on_cancel(self, _frame: Any) -> None:
        self._is_cancelled = True
        self._connection.wake()

    # ---- errors

    @contextmanager
    def _intake_errors(self, *, opens: bool = False) -> Iterator[None]:
        try:
            if not opens and self._channel is None:
                raise self._lost or BrokerError("it is not connected")
            yield
        except (BrokerError, exceptions.AMQPError) as caught:
            error = self._lost = caught if isinstance(caught, BrokerError) else self._connection.reason_of(caught)
            self._disconnect()
            if error.code == NOT_FOUND and self._was_open:
                raise IntakeUnavailableError(
                    f"the broker says: {error.text}: {self.source}",
                    hint="declare the queue again, or use ?declare=classic or ?declare=quorum; then it is read again",
                ) from caught
            raise explained(error, self.source, refused=IntakeError, unavailable=IntakeUnavailableError) from caught


def _queue_arguments(source: Source) -> dict[str, Any] | None:
    """The arguments to declare the queue with; None: it is not declared."""
    kind = source.options.get("declare")
    priorities = _number(source, "max_priority", 255)
    if kind not in (None, "classic", "quorum"):
        raise UsageError(
            f"unknown kind of queue: declare={kind}: {source.name}", hint="use classic or quorum; both are durable"
        )
    if priorities and kind != "classic":
        raise UsageError(
            f"only a classic queue has priorities: max_priority={priorities}: {source.name}",
            hint="use declare=classic, or declare the queue yourself",
        )
    if kind is None:
        return None
    return {"x-queue-type": kind} | ({"x-max-priority": priorities} if priorities else {})


def _number(source: Source, option: str, most: int) -> int | None:
    text = source.options.get(option)
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"not a number from 1 to {most}: {option}={text}: {source.name}", hint="omit it")
    return int(text)
