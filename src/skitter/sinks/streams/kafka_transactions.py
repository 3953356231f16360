"""A Kafka topic written by transactions, each with a note of its batch, and the mapping of driver errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from skitter.errors import SinkError, SinkUnavailableError, UsageError
from skitter.kafka_driver.client import OPTIONS, Broker, find_topic
from skitter.kafka_driver.errors import explained
from skitter.sinks.streams.messages import Message, known_options
from skitter.sinks.targets import Target

_SECONDS = 30.0
_MAX_BYTES = 1_000_000
"""The default message limit of brokers."""
_OVERHEAD_BYTES = 500
_HINTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user needs Write and Describe on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the user needs Read on groups skitter-…",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user needs Write on transactional ids skitter-…",
    KafkaError._FENCED: "another process delivers; nothing is lost",  # noqa: SLF001  so the driver calls its own codes
    KafkaError.INVALID_PRODUCER_EPOCH: "another process delivers; nothing is lost",
}


class BatchNote(NamedTuple):
    """The note that a transaction writes beside its messages: which batch it was."""

    batch: int
    """0: no transaction of this run was committed."""
    size: int = 0
    digest: str = ""
    """Of the items of the batch, of which there were so many."""


class KafkaTopic:
    """A topic, opened by ``open``."""

    def __init__(self, target: Target) -> None:
        options = known_options(target, *OPTIONS, "max_message_bytes")
        limit = options.get("max_message_bytes", str(_MAX_BYTES))
        if not limit.isdecimal() or not 1_000 <= int(limit) <= 1_000_000_000:
            raise UsageError(
                f"not a number of bytes: max_message_bytes={limit}: {target.name}",
                hint="use max.message.bytes of the topic, for example max_message_bytes=1000000",
            )
        self._broker = Broker(
            name=target.name,
            scheme=target.scheme,
            hosts=target.hosts,
            user=target.user,
            password=target.password or "",
            options=options,
        )
        self._name = target.fragment
        self._max_bytes = int(limit)
        self._producer: Any = None
        self._group: Any = None
        self.noted: BatchNote | None = None
        """What the last committed transaction of the run says; None: it has to be asked for (``open``)."""

    def open(self, run: str) -> BatchNote:
        """Abort and fence the former writer of this run, and return the note of its last commit."""
        self.close()
        name = f"skitter-{run}"
        with self._sink_errors():
            self._producer = Producer(
                self._broker.settings()
                | {"transactional.id": name, "message.max.bytes": self._max_bytes, "compression.type": "lz4"}
            )
            find_topic(self._producer, self._name, _SECONDS)
            self._producer.init_transactions(_SECONDS)
            consumer: Any = Consumer(self._broker.settings() | {"group.id": name, "enable.auto.commit": False})
            try:
                (position,) = consumer.committed([TopicPartition(self._name, 0)], timeout=_SECONDS)
                if position.error is not None:
                    raise KafkaException(position.error)
                self._group = consumer.consumer_group_metadata()
            finally:
                consumer.close()
        self.noted = _noted(position)
        return self.noted

    def has_room_for(self, message: Message) -> bool:
        return len(message.body) + len(message.key.encode()) + _OVERHEAD_BYTES <= self._max_bytes

    def write(self, messages: Sequence[Message], note: BatchNote) -> None:
        """Write messages and note in one transaction; ``noted`` is None if it raises, as the outcome is unknown."""
        self.noted = None
        with self._sink_errors():
            self._producer.begin_transaction()
            for message in messages:
                self._produce(message)
            position = TopicPartition(self._name, 0, note.batch, f"{note.size} {note.digest}")
            self._producer.send_offsets_to_transaction([position], self._group, _SECONDS)
            self._producer.commit_transaction(_SECONDS)
        self.noted = note

    def _produce(self, message: Message) -> None:
        while True:
            try:
                self._producer.produce(self._name, value=message.body, key=message.key)
                break
            except BufferError:
                # Its queue is full: some have to go first.
                self._producer.poll(0.5)
        self._producer.poll(0)

    def close(self) -> None:
        """Never raises."""
        producer, self._producer, self._group, self.noted = self._producer, None, None, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.flush(1.0)

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            self.close()
            raise explained(
                error, self._broker, refused=SinkError, unavailable=SinkUnavailableError, hints=_HINTS
            ) from error


def _noted(position: Any) -> BatchNote:
    if position.offset < 0:
        return BatchNote(0)
    size, _, digest = (position.metadata or "0 ").partition(" ")
    return BatchNote(position.offset, int(size), digest)
