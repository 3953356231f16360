"""Events in a Kafka topic, ``kafka://HOST,HOST#TOPIC``. The key is the job, so that its events stay in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from skitter.errors import EventStreamError, EventStreamUnavailableError, UsageError
from skitter.event_streams.contract import EventMessage
from skitter.event_streams.stream_urls import StreamUrl
from skitter.kafka_driver.client import ANSWER_SECONDS, OPTIONS, Broker, create_topic, find_topic
from skitter.kafka_driver.errors import explained, is_refusal

READ_MESSAGES = 500
_SETTINGS = {
    "enable.idempotence": True,  # implies acks=all, and keeps the order of retries
    "compression.type": "lz4",
    "linger.ms": 5,
    "delivery.timeout.ms": int(ANSWER_SECONDS * 1000),
}


class KafkaEventStream:
    """Topic of events. ``?partitions=N`` creates it if it does not exist."""

    def __init__(self, url: StreamUrl) -> None:
        options = url.known_options("partitions", "replication", *OPTIONS)
        if not url.hosts or url.path.strip("/"):
            raise UsageError(f"no topic is named: {url.name}", hint="kafka://HOST:PORT,HOST:PORT#TOPIC")
        self.name = url.name
        self._topic = url.fragment
        self._partitions, self._replication = url.number("partitions"), url.number("replication") or -1
        self._broker = Broker(
            name=url.name, scheme=url.scheme, hosts=url.hosts, user=url.user, password=url.password, options=options
        )
        self._producer: Any = None
        self._consumer: Any = None
        self.keeps_events = True
        self._unread: set[int] = set()
        """Partitions whose end has not been reached."""
        self._refusal: KafkaError | None = None

    def open(self) -> None:
        """Connect or reconnect, and create the topic if ``?partitions=N`` is given."""
        self.close()
        self._refusal = None
        with self._stream_errors():
            if self._partitions:
                create_topic(self._broker, self._topic, self._partitions, self._replication)
            self._producer = Producer(self._broker.settings(self._on_error) | _SETTINGS)
            find_topic(self._producer, self._topic)

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publish in this order, and wait until the broker has all messages."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        with self._stream_errors():
            for message in messages:
                headers = {"event": message.event, "level": message.level, "id": message.id}
                self._producer.produce(
                    self._topic,
                    message.body,
                    message.job,
                    headers=headers,
                    timestamp=int(message.at * 1000),
                    on_delivery=delivered,
                )
            late = self._producer.flush(ANSWER_SECONDS)
            if failed or late:
                raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    @property
    def is_at_end(self) -> bool:
        """Whether all partitions have been read to their end."""
        return not self._unread

    def begin(self, job: str, since: float) -> None:  # noqa: ARG002  several jobs may share a topic
        """Assign all partitions of the topic, from the first event since this time."""
        self.close()
        self._refusal = None
        with self._stream_errors():
            # The client requires a group id; it is not used to join a group or to store offsets.
            own = {"group.id": "skitter-logs", "enable.auto.commit": False, "enable.partition.eof": True}
            self._consumer = Consumer(self._broker.settings(self._on_error) | own)
            self._unread = set(find_topic(self._consumer, self._topic))
            times = [TopicPartition(self._topic, number, max(0, int(since * 1000))) for number in self._unread]
            self._consumer.assign(self._consumer.offsets_for_times(times, timeout=ANSWER_SECONDS))

    def read(self, wait_seconds: float) -> list[bytes]:
        """Return the next events; an empty list if none came within ``wait_seconds``."""
        found = []
        with self._stream_errors():
            for message in self._consumer.consume(READ_MESSAGES, wait_seconds):
                if message.error() is None:
                    self._unread.add(message.partition())
                    found.append(message.value())
                elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    self._unread.discard(message.partition())
                else:
                    raise KafkaException(message.error())
        return found

    def close(self) -> None:
        """Close consumer and producer, and discard unsent messages."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        producer, self._producer = self._producer, None
        if producer is not None:
            # Unsent messages are published again after the next open, so this producer must not send them too.
            producer.purge()
            producer.flush(1.0)

    def _on_error(self, error: KafkaError) -> None:
        if is_refusal(error):
            self._refusal = error

    @contextmanager
    def _stream_errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as caught:
            if self._producer is not None:
                # The reason comes through the error callback: the call itself only reports a timeout.
                self._producer.poll(0)
            error = KafkaException(self._refusal) if self._refusal is not None else caught
            self.close()
            raise explained(
                error, self._broker, refused=EventStreamError, unavailable=EventStreamUnavailableError
            ) from caught
