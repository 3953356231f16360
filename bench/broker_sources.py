"""RabbitMQ and Kafka as sources of ``bench_intakes``: filled, drained by the driver alone, and read by an intake."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pika
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rig.servers.streams import OwnKafka, OwnRabbitmq
from skitter.intakes.contract import Intake
from skitter.intakes.sources import intake_of, parse_source

BATCH = 1000


class QueueSource:
    """A durable queue, classic or quorum."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self._connection = pika.BlockingConnection(pika.URLParameters(f"{url}/%2F"))
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=BATCH)
        self._name = f"urls-{uuid4().hex[:8]}"
        arguments = {"x-queue-type": kind.partition(" ")[2]}
        self._channel.queue_declare(self._name, durable=True, arguments=arguments)
        self.url = f"{url}#{self._name}"

    def fill(self, bodies: list[bytes]) -> None:
        self._count = len(bodies)
        # Without confirms: the declaration behind it is answered when all of them are there.
        for body in bodies:
            self._channel.basic_publish("", self._name, body, pika.BasicProperties(delivery_mode=2))
        while self._channel.queue_declare(self._name, passive=True).method.message_count < len(bodies):
            self._connection.process_data_events(0.01)

    def drain(self) -> int:
        total = 0
        for method, _, _ in self._channel.consume(self._name):
            total += 1
            if total % (BATCH // 2) == 0 or total == self._count:
                self._channel.basic_ack(method.delivery_tag, multiple=True)
            if total == self._count:
                break
        self._channel.cancel()
        return total

    def intake(self) -> Intake:
        return intake_of(parse_source(self.url, job="bench"))

    def close(self) -> None:
        self._connection.close()


class TopicSource:
    """A topic with three partitions, a new one for each filling: what is read stays there."""

    kind = "kafka"

    def __init__(self, url: str) -> None:
        self._url, self._settings = url, {"bootstrap.servers": url.removeprefix("kafka://"), "log_level": 0}
        self._name = ""

    def fill(self, bodies: list[bytes]) -> None:
        self._name = f"urls-{uuid4().hex[:8]}"
        admin = AdminClient(self._settings)
        admin.create_topics([NewTopic(self._name, 3, 1)])[self._name].result(30)
        producer = Producer(self._settings | {"enable.idempotence": True})
        for body in bodies:
            producer.produce(self._name, body, body)
            producer.poll(0)
        self._count = len(bodies)
        producer.flush(60)

    def drain(self) -> int:
        own = {"group.id": "bare", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer: Any = Consumer(self._settings | own)
        consumer.subscribe([self._name])
        total = 0
        while total < self._count:
            if found := consumer.consume(BATCH, 0.2):
                total += len(found)
                consumer.commit(asynchronous=False)
        consumer.close()
        return total

    def intake(self) -> Intake:
        return intake_of(parse_source(f"{self._url}#{self._name}", job="bench"))

    def close(self) -> None:
        """Nothing is open."""


@contextlib.contextmanager
def broker_sources() -> Iterator[list[Any]]:
    """Functions that make a source in a folder, of private servers that end with the block."""
    rabbitmq, kafka = OwnRabbitmq(), OwnKafka()
    made: list[Any] = []

    def queue(kind: str, _: Path) -> QueueSource:
        made.append(QueueSource(kind, rabbitmq.url))
        return made[-1]

    try:
        yield [
            lambda folder: queue("rabbitmq classic", folder),
            lambda folder: queue("rabbitmq quorum", folder),
            lambda _: TopicSource(kafka.url),
        ]
    finally:
        for source in made:
            source.close()
        rabbitmq.remove()
        kafka.remove()
