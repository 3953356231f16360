"""Settings of Kafka clients from the parts of a URL, and topics that are looked for or made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PORT = 9092
OPTIONS = ("mechanism", "ca", "client_cert", "client_key")
"""Options of a URL that say how to connect."""
ANSWER_SECONDS = 10.0
_NEW_TOPIC_SECONDS = 2.0
_FILES = {"ca": "ssl.ca.location", "client_cert": "ssl.certificate.location", "client_key": "ssl.key.location"}


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers of one cluster, and who connects to them."""

    name: str
    """As people see it, without secrets."""
    scheme: str
    hosts: str
    user: str = ""
    password: str = ""
    options: Mapping[str, str] = {}

    def settings(self, on_error: Callable[[KafkaError], None] = lambda _: None) -> dict[str, Any]:
        """Return the settings that all kinds of clients share."""
        secured = self.scheme == "kafka+ssl"
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(
                host if ":" in host.rpartition("]")[2] else f"{host}:{PORT}" for host in self.hosts.split(",")
            ),
            "security.protocol": ("SASL_" if self.user else "") + ("SSL" if secured else "PLAINTEXT"),
            "client.id": "skitter",
            # Whoever calls tells once that a broker is unavailable; the driver would do so every second.
            "log_level": 0,
            "error_cb": on_error,
        }
        if self.user:
            settings |= {
                "sasl.mechanism": self.options.get("mechanism", "PLAIN"),
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return settings | {_FILES[name]: self.options[name] for name in _FILES if name in self.options}


def find_topic(client: Any, name: str, timeout_seconds: float = ANSWER_SECONDS) -> list[int]:
    """Return the partitions of a topic. Raises KafkaException if it is not there, or nobody answers."""
    # A new topic is not known to every broker at once.
    deadline = time.monotonic() + _NEW_TOPIC_SECONDS
    while True:
        topic = client.list_topics(name, timeout=timeout_seconds).topics[name]
        if topic.error is None:
            return sorted(topic.partitions)
        if topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
            raise KafkaException(topic.error)
        time.sleep(0.1)


def create_topic(broker: Broker, name: str, partitions: int, replication: int) -> None:
    """Make a topic, unless it is there. ``replication``: copies of each partition; -1 leaves that to the brokers."""
    admin = AdminClient(broker.settings())
    made = admin.create_topics(
        [NewTopic(name, num_partitions=partitions, replication_factor=replication)],
        operation_timeout=ANSWER_SECONDS,
        request_timeout=ANSWER_SECONDS,
    )
    try:
        made[name].result(2 * ANSWER_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
