"""Redis as a source: ``intake`` reads a list, a set or a sorted set by ``queue`` and a stream by ``stream``."""

from __future__ import annotations

from skitter.errors import ExtraMissingError
from skitter.intakes.contract import Intake
from skitter.intakes.sources import Source


def redis_intake(source: Source) -> Intake:
    try:
        from skitter.intakes.redis.intake import RedisIntake
    except ModuleNotFoundError as error:
        raise ExtraMissingError("requests from Redis", "redis") from error
    return RedisIntake(source)
