"""The topic of dead letters in Kafka: each keeps its key and headers, and the brokers have it before it is acked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from skitter.errors import IntakeUnavailableError
from skitter.intakes.contract import DeadLetter
from skitter.kafka_driver.client import Broker, create_topic, find_topic
from skitter.kafka_driver.errors import NO_TOPIC, code_of

FLUSH_SECONDS = 30.0
HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "a dead letter does not fit: raise max.message.bytes of the topic of dead letters"
}


class DeadLetterTopic:
    """A topic that is made with the first letter, if it is not there."""

    def __init__(self, broker: Broker, name: str, replication: int) -> None:
        self._broker, self._name, self._replication = broker, name, replication
        self._producer: Any = None

    def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Raises KafkaException or IntakeUnavailableError unless the brokers have all of them."""
        if self._producer is None:
            self._producer = self._opened()
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        for letter in letters:
            ref = letter.message.ref
            told = [("x-skitter-reason", letter.reason[:1000].encode()), ("x-skitter-id", letter.message.id.encode())]
            self._producer.produce(
                self._name, letter.message.body, ref.key, headers=[*ref.headers, *told], on_delivery=delivered
            )
        if self._producer.flush(FLUSH_SECONDS) or failed:
            self.close()
            if failed:
                raise KafkaException(failed[0])
            raise IntakeUnavailableError(
                f"dead letters are not confirmed: {self._name}: {self._broker.name}", hint="nothing is lost"
            )

    def _opened(self) -> Any:
        settings = {
            "enable.idempotence": True,  # and with it acks=all
            "compression.type": "lz4",
            "linger.ms": 5,
            # The topic decides how large a message may be.
            "message.max.bytes": 100_000_000,
            "delivery.timeout.ms": int(FLUSH_SECONDS * 1000),
        }
        producer = Producer(self._broker.settings() | settings)
        try:
            find_topic(producer, self._name)
        except KafkaException as error:
            if code_of(error) not in NO_TOPIC:
                raise
            create_topic(self._broker, self._name, 1, self._replication)
        return producer

    def close(self) -> None:
        """Never raises."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1.0)
