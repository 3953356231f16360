"""Streams as sinks: each item is a message that other systems read.

``messages`` is what all of them send. ``redis_stream`` writes each item once; what the others promise stands in their
modules.
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
