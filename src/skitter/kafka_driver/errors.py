"""Errors of Kafka: their codes, and what a user can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from skitter.errors import BackendError, UsageError
from skitter.kafka_driver.client import Broker

E = TypeVar("E", bound=BackendError)

_CHECK_USER = "check user, password and ?mechanism="
_HINTS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic first",
    KafkaError._UNKNOWN_TOPIC: "create the topic first",  # noqa: SLF001  so the driver calls its own codes
    KafkaError._AUTHENTICATION: _CHECK_USER,  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED: _CHECK_USER,
    KafkaError._SSL: "check ?ca=, ?client_cert= and ?client_key=, and that the port uses TLS",  # noqa: SLF001
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user needs Describe on the topic, and Read or Write",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the user needs Read on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the user may not create topics: create it first",
    KafkaError.INVALID_REPLICATION_FACTOR: "there are fewer brokers than that",
}
"""Error codes that waiting does not resolve."""
NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001


def code_of(error: KafkaException) -> int:
    inner = error.args[0]
    return inner.code() if isinstance(inner, KafkaError) else 0


def is_refusal(error: KafkaError) -> bool:
    """Return whether an error that a client reports by itself is one that waiting does not resolve."""
    return error.code() in _HINTS


def explained(
    error: KafkaException,
    broker: Broker,
    *,
    refused: type[E],
    unavailable: type[E],
    hints: Mapping[int, str] | None = None,
) -> E | UsageError:
    """Return an error of skitter's for one of Kafka's: ``refused`` if waiting does not help, else ``unavailable``."""
    inner = error.args[0]
    text = inner.str() if isinstance(inner, KafkaError) else str(error)
    text = " ".join(text.split()).replace(broker.password or "\0", "…") or type(error).__name__
    code, known = code_of(error), _HINTS | dict(hints or {})
    if code == KafkaError._INVALID_ARG:  # noqa: SLF001
        return UsageError(
            f"not the address of a Kafka broker: {broker.name}: {text}", hint="kafka://USER:PASSWORD@HOST:PORT#TOPIC"
        )
    if code in known:
        return refused(f"Kafka says: {text}: {broker.name}", hint=known[code])
    return unavailable(
        f"Kafka cannot be reached: {broker.name}: {text}",
        hint="is it running? check host, port and network; nothing is lost",
    )
