"""Stream sinks: each item is a message that other systems read.

``messages`` makes the messages for all of them. ``redis_stream`` and ``kafka`` add each item once; ``amqp`` sends it at
least once.
"""

from __future__ import annotations

from skitter.errors import ExtraMissingError
from skitter.sinks.contract import Sink
from skitter.sinks.targets import Target


def redis_sink(target: Target) -> Sink:
    try:
        from skitter.sinks.streams.redis_stream import RedisSink
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in a Redis stream", "redis") from error
    return RedisSink(target)


def amqp_sink(target: Target) -> Sink:
    try:
        from skitter.sinks.streams.amqp import AmqpSink
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results as AMQP messages", "amqp") from error
    return AmqpSink(target)


def kafka_sink(target: Target) -> Sink:
    try:
        from skitter.sinks.streams.kafka import KafkaSink
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in Kafka", "kafka") from error
    return KafkaSink(target)
