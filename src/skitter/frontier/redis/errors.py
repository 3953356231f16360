"""Errors of the Redis driver as errors of the frontier, with a hint and whether waiting helps."""

from __future__ import annotations

from typing import NamedTuple

from skitter.errors import DamageError, FormatError, FrontierError
from skitter.redis_driver.address import Address
from skitter.redis_driver.errors import (
    TROUBLES,
    WRONG_TYPE,
    Remedy,
    connection_trouble,
    is_not_redis,
    is_reply,
    reply_code,
)

_WITH_DETAILS = ("NOPERM", "TOOOLD", "FEWREPLICAS")
"""The codes whose replies have details that help."""


class OtherFormatError(FormatError):
    """The job was written by another version: it is not damaged, but this version cannot read it."""


class Failure(NamedTuple):
    """An error of the driver, as the frontier raises or waits for it."""

    error: FrontierError
    passes: bool
    """It may be over by itself, or somebody ends it: a frontier that has worked before waits for that."""
    failing_over: bool = False
    """It may be over as soon as another server has become the master."""


def explain(error: Exception, address: Address) -> Failure:
    """The error of the driver as one of the frontier."""
    text, where, code = str(error), str(address), reply_code(error)
    if code in TROUBLES:
        trouble = TROUBLES[code]
        details = f": {text.removeprefix(code).strip()}" if code in _WITH_DETAILS else ""
        known = FrontierError(f"the Redis at {where} {trouble.text}{details}", hint=trouble.hint)
        return Failure(known, trouble.remedy is not Remedy.CHANGE, trouble.failing_over)
    if is_reply(error):
        return Failure(_unknown_reply(code, text, where), passes=False)
    if is_not_redis(error):
        # While a job runs, something else may listen there for a moment: a proxy, or another server.
        return Failure(
            FrontierError(f"not a Redis server: {where}", hint="check host and port of --frontier"), passes=True
        )
    reason, hint = connection_trouble(error, tls=address.tls)
    unreachable = FrontierError(f"the frontier cannot be reached: {where}: {reason}", hint=hint)
    return Failure(unreachable, passes=True, failing_over=True)


def _unknown_reply(code: str, text: str, where: str) -> FrontierError:
    if "unknown command" in text.lower():
        return FrontierError(
            f"the server lacks a feature that skitter needs: {where}: {text}",
            hint="use Redis 6.2 or newer, or Valkey; for sentinels, use redis+sentinel://HOST,HOST/MASTER",
        )
    if code == WRONG_TYPE or "user_script" in text or "Error running script" in text:
        # Words of 1_job.lua. Any other failure of a script is due to what it has read.
        kind = OtherFormatError if "the job has another format" in text else DamageError
        return kind(f"the key was not written by this version of skitter: {where}: {text}", hint="use another /DB")
    return FrontierError(f"Redis says: {text}: {where}", hint="run with -v for the details")
