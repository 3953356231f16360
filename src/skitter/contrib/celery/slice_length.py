"""How long a slice may be, by what its broker and its app do to tasks that run long. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skitter.app.worker_slice import START_SECONDS
from skitter.errors import UsageError

SLICE_SECONDS = 1200.0
MAX_SLICE_SECONDS = 1500.0
"""RabbitMQ closes the channel of a message that is not acknowledged for 30 minutes, and Redis delivers it again after
an hour; the end of a slice takes some of that."""
VISIBILITY_SECONDS = {"redis": 3600.0, "rediss": 3600.0, "sentinel": 3600.0, "sqs": 1800.0}
CONSUMER_SECONDS = 1800.0
"""Of RabbitMQ, by default."""
MIN_LIMIT_SECONDS = 60.0
"""Of any limit: a slice that is ended while it starts would be followed by another one of its kind, for ever."""
SHARE = 0.8
"""Of each limit: the rest is for finishing what is in flight, and for the last deliveries."""


def slice_seconds(
    asked: float | None,
    *,
    broker: str,
    transport_options: Mapping[str, Any],
    prefetch: int,
    time_limits: tuple[float | None, ...] = (),
) -> float:
    """``asked`` or the default, shortened to what comes to its end before anybody delivers its message again.

    A message may wait in its worker while ``prefetch`` - 1 others run, and all that time it is not acknowledged.
    ``time_limits``: the soft and the hard one of the task, where it has any.
    """
    seconds = SLICE_SECONDS if asked is None else asked
    if not 0 < seconds <= MAX_SLICE_SECONDS:
        raise UsageError(f"slice_seconds: {seconds:g}", hint=f"more than 0, and at most {MAX_SLICE_SECONDS:g}")
    scheme = broker.partition("://")[0].partition("+")[0].lower()
    redelivered = float(transport_options.get("visibility_timeout", VISIBILITY_SECONDS.get(scheme, CONSUMER_SECONDS)))
    limit = min([redelivered / max(1, prefetch), *(limit for limit in time_limits if limit)])
    if limit < MIN_LIMIT_SECONDS:
        raise UsageError(
            f"too short for a slice: {limit:g} seconds",
            hint=f"time limits, and the visibility timeout for each prefetched message: {MIN_LIMIT_SECONDS:g} or more",
        )
    return min(seconds, SHARE * limit - START_SECONDS)
