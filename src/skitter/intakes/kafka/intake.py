"""The Kafka intake, ``kafka://HOST:PORT,HOST:PORT#TOPIC``: a consumer group that commits offsets by hand.

An offset is committed when the requests of all messages before it are in the frontier. A partition that goes to another
reader takes its uncommitted messages along: they are read again there, and the frontier knows their requests.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.intakes.contract import Backlog, DeadLetter, Message
from skitter.intakes.kafka.dead_letters import HINTS, DeadLetterTopic
from skitter.intakes.sources import Source
from skitter.kafka_driver.client import OPTIONS, Broker, create_topic, find_topic
from skitter.kafka_driver.errors import NO_TOPIC, code_of, explained, is_refusal

DOWN_SECONDS = 20.0
"""The driver connects again by itself. Only after so long is the intake opened anew, and the group shares anew."""
COMMIT_SECONDS = 15.0
LAG_SECONDS = 2.0
CLOSE_SECONDS = 5.0
_COMMIT_POLL_SECONDS = 0.002
_LEFT_GROUP = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._STATE,  # noqa: SLF001  so the driver calls its own codes
    KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
)
"""Why a commit may be refused while the group shares its partitions anew: what it was for comes again."""
_TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
_MAX_POLL_EXCEEDED = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001
_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
_ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
_SETTINGS = {
    "enable.auto.commit": False,
    # The end of a partition may be behind its last message: transactions leave marks there, and compaction gaps.
    "enable.partition.eof": True,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    # Not cooperative-sticky, which was seen to share partitions again and again without an end.
    "partition.assignment.strategy": "range,roundrobin",
    # How soon the partitions of a reader that was killed go to another.
    "session.timeout.ms": 15_000,
    "socket.timeout.ms": 10_000,
    "queued.max.messages.kbytes": 16_384,
}


class _Record(NamedTuple):
    assignment: int
    """When its partition was given to this reader: a counter. Offsets of an earlier one are not ours to commit."""
    partition: int
    offset: int
    key: bytes | None
    headers: list[tuple[str, bytes | None]]


class _Partition:
    """A partition of this reader."""

    def __init__(self, assignment: int) -> None:
        self.assignment = assignment
        self.unacked: deque[int] = deque()
        """Offsets of messages that were read, in order."""
        self.end = 0
        """The offset where the partition was last found to end."""
        self.read_at: float | None = None
        """The time of the last message, by its producer or its broker."""


class KafkaIntake:
    """An intake that reads a topic as a member of a consumer group."""

    shared = True
    is_exhausted = False

    def __init__(self, source: Source) -> None:
        options = source.known_options("group", "partitions", "replication", *OPTIONS)
        if not source.hosts or not source.fragment or source.path.strip("/"):
            raise UsageError(f"no topic is named: {source.name}", hint="kafka://HOST:PORT,HOST:PORT#TOPIC")
        self.source = source.name
        self._topic = source.fragment
        self._group = options.get("group") or f"skitter.{source.job}"
        self._partitions = _number(source, "partitions")
        self._replication = _number(source, "replication") or -1
        self._broker = Broker(
            name=source.name,
            scheme=source.scheme,
            hosts=source.hosts,
            user=source.user,
            password=source.password or "",
            options=options,
        )
        self._letters = DeadLetterTopic(self._broker, f"{self._topic}.dead-letters", self._replication)
        self._consumer: Any = None
        self._all: list[int] = []
        """The partitions of the topic."""
        self._own: dict[int, _Partition] = {}
        self._assignments = 0
        self._waiting: deque[Any] = deque()
        """Messages that came when none was asked for."""
        self._answers: list[list[KafkaError]] = []
        """To the present commit: what went wrong."""
        self._last_lag = 0
        self._is_paused = False
        self._was_open = False
        self._lost: KafkaException | None = None
        """Why there is no consumer: whoever found it out may not have told it."""
        self._refusal: KafkaError | None = None
        self._down_since: float | None = None

    def open(self, mark: bytes) -> None:  # noqa: ARG002  the brokers remember
        self._disconnect()
        self._refusal = self._down_since = None
        with self._intake_errors(opens=True):
            if self._partitions:
                create_topic(self._broker, self._topic, self._partitions, self._replication)
            own = {"group.id": self._group, "on_commit": self._on_commit}
            self._consumer = Consumer(self._broker.settings(self._on_error) | _SETTINGS | own)
            self._all = find_topic(self._consumer, self._topic)
            self._consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
        self._was_open, self._lost = True, None

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        with self._intake_errors():
            self._check_brokers()
            self._pause(limit == 0)
            if limit == 0:
                # It has to be asked all the same, or the group takes this reader for dead.
                self._keep(self._consumer.poll(timeout_seconds))
                return []
            deadline = time.monotonic() + timeout_seconds
            # The end of a partition is told like a message, and is none: another partition may have more.
            while not self._waiting:
                record = self._consumer.poll(max(0.0, deadline - time.monotonic()))
                if record is None:
                    break
                self._keep(record)
            if 0 < len(self._waiting) < limit:
                for record in self._consumer.consume(limit - len(self._waiting), 0):
                    self._keep(record)
        return [self._message(self._waiting.popleft()) for _ in range(min(limit, len(self._waiting)))]

    def ack(self, messages: Sequence[Message]) -> bytes:
        acked: dict[int, set[int]] = {}
        for ref in (message.ref for message in messages):
            if (own := self._own.get(ref.partition)) is not None and own.assignment == ref.assignment:
                acked.setdefault(ref.partition, set()).add(ref.offset)
        positions = []
        for partition, offsets in acked.items():
            own = self._own[partition]
            own.unacked = deque(offset for offset in own.unacked if offset not in offsets)
            # Up to the first that is not acknowledged, if there is one.
            after = own.unacked[0] if own.unacked else max(offsets) + 1
            positions.append(TopicPartition(self._topic, partition, after))
        if positions:
            with self._intake_errors():
                self._commit(positions)
        return b""

    def _commit(self, positions: list[Any]) -> None:
        # Not by the driver's synchronous call: it waits without end for a broker that stands still.
        self._answers.clear()
        try:
            self._consumer.commit(offsets=positions, asynchronous=True)
            deadline = time.monotonic() + COMMIT_SECONDS
            while not self._answers and time.monotonic() < deadline:
                self._keep(self._consumer.poll(_COMMIT_POLL_SECONDS))
            for error in self._answers[0] if self._answers else [_TIMED_OUT]:
                raise KafkaException(error)  # noqa: TRY301  as the synchronous call does
        except KafkaException as error:
            if code_of(error) not in _LEFT_GROUP:
                raise

    def _on_commit(self, error: KafkaError | None, positions: list[Any]) -> None:
        errors = [error, *(position.error for position in positions)]
        self._answers.append([each for each in errors if each is not None])

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        with self._intake_errors():
            self._letters.publish(letters)

    def backlog(self) -> Backlog:
        """The lag of the whole group; the age is that of this reader's partitions.

        A lag that nobody tells soon counts as one message at least: a source must not be taken for empty on it. And
        the reader stays in the group: opening anew would make it look for its coordinator again and again.
        """
        if self._consumer is None:
            raise IntakeUnavailableError(f"not connected: {self.source}")
        try:
            lag = self._last_lag = self._lag()
        except KafkaException:
            lag = max(1, self._last_lag)
        oldest = min((own.read_at for own in self._own.values() if own.read_at is not None), default=None)
        return Backlog(lag, max(0.0, time.time() - oldest) if lag and oldest is not None else None)

    def _lag(self) -> int:
        lag = 0
        everything = [TopicPartition(self._topic, partition) for partition in self._all]
        for position in self._consumer.committed(everything, timeout=LAG_SECONDS):
            if position.error is not None:
                raise KafkaException(position.error)
            low, high = self._consumer.get_watermark_offsets(position, timeout=LAG_SECONDS)
            reached = position.offset if position.offset >= 0 else low
            lag += max(0, high - max(reached, self._end_of(position.partition)))
        return lag

    def _end_of(self, partition: int) -> int:
        """The offset up to which nothing is left in a partition of this reader; 0: not known."""
        own = self._own.get(partition)
        is_read = own is not None and not own.unacked and all(one.partition() != partition for one in self._waiting)
        return own.end if own is not None and is_read else 0

    def close(self) -> None:
        """The group is told, so that another reader goes on at once behind the last commit."""
        self._disconnect()
        self._letters.close()

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._own.clear()
        self._waiting.clear()
        self._is_paused = False
        if consumer is not None:
            # Leaving the group waits without end for a broker that stands still. Then it is left behind: the session of
            # a reader that nobody asks any more ends by itself.
            closing = threading.Thread(target=consumer.close, name="kafka-close", daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)

    # ---- the group

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        if consumer is not self._consumer:
            return  # it is being closed
        self._assignments += 1
        self._own |= {each.partition: _Partition(self._assignments) for each in partitions}
        consumer.assign(partitions)
        # Also the other way: a partition that was paused in an earlier assignment still is.
        (consumer.pause if self._is_paused else consumer.resume)(partitions)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        """What is acknowledged is committed already; the rest is for whoever has the partition next."""
        if consumer is not self._consumer:
            return
        gone = {each.partition for each in partitions}
        for partition in gone:
            self._own.pop(partition, None)
        self._waiting = deque(record for record in self._waiting if record.partition() not in gone)

    def _pause(self, wanted: bool) -> None:
        if wanted != self._is_paused:
            assigned = self._consumer.assignment()
            (self._consumer.pause if wanted else self._consumer.resume)(assigned)
            self._is_paused = wanted

    # ---- messages

    def _keep(self, record: Any) -> None:
        if record is None:
            return
        error = record.error()
        if error is None:
            self._down_since = None
            self._waiting.append(record)
        elif error.code() == _PARTITION_EOF:
            if (own := self._own.get(record.partition())) is not None:
                own.end = record.offset()
        elif error.code() != _MAX_POLL_EXCEEDED:
            # After too long a pause between two reads the partitions were lost, and are given out again.
            raise KafkaException(error)

    def _message(self, record: Any) -> Message:
        partition, offset = record.partition(), record.offset()
        own = self._own[partition]
        own.unacked.append(offset)
        kind, milliseconds = record.timestamp()
        own.read_at = milliseconds / 1000 if kind else None
        ref = _Record(own.assignment, partition, offset, record.key(), record.headers() or [])
        return Message(record.value() or b"", ref, f"{partition}/{offset}")

    # ---- errors

    def _on_error(self, error: KafkaError) -> None:
        if is_refusal(error):
            self._refusal = error
        elif error.code() == _ALL_BROKERS_DOWN and self._down_since is None:
            self._down_since = time.monotonic()

    def _check_brokers(self) -> None:
        if self._refusal is not None:
            raise KafkaException(self._refusal)
        if self._down_since is not None and time.monotonic() - self._down_since > DOWN_SECONDS:
            find_topic(self._consumer, self._topic)
            self._down_since = None

    @contextmanager
    def _intake_errors(self, *, opens: bool = False) -> Iterator[None]:
        try:
            if not opens and self._consumer is None:
                raise self._lost or IntakeUnavailableError(f"not connected: {self.source}")
            yield
        except KafkaException as caught:
            error = caught
            if self._consumer is not None and self._refusal is None:
                # The reason is reported on the side: a call only says that nobody answered in time.
                self._consumer.poll(0)
            if self._refusal is not None:
                error = KafkaException(self._refusal)
            self._lost = error
            self._disconnect()
            known = explained(error, self._broker, refused=IntakeError, unavailable=IntakeUnavailableError, hints=HINTS)
            if code_of(error) in NO_TOPIC and self._was_open:
                known = IntakeUnavailableError(
                    str(known), hint="was the topic deleted? it is read again when it exists again"
                )
            raise known from caught


def _number(source: Source, option: str) -> int | None:
    text = source.options.get(option)
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise UsageError(f"not a number from 1 to 10000: {option}={text}: {source.name}", hint="omit it")
    return int(text)
