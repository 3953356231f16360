"""Length of a slice, limited by redelivery of the broker and time limits of the app. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skitter.app.worker_slice import START_SECONDS
from skitter.errors import UsageError

SLICE_SECONDS = 1200.0
MAX_SLICE_SECONDS = 1500.0
"""RabbitMQ closes the channel of a message that is not acknowledged within 30 minutes, and Redis redelivers it after an
hour; ending a slice takes some of that time."""
VISIBILITY_SECONDS = {"redis": 3600.0, "rediss": 3600.0, "sentinel": 3600.0, "sqs": 1800.0}
"""Default visibility timeout by the scheme of the broker URL."""
CONSUMER_SECONDS = 1800.0
"""Default ``consumer_timeout`` of RabbitMQ."""
MIN_LIMIT_SECONDS = 60.0
"""Minimum of any limit. A slice that is stopped during its start would be followed by another such slice, forever."""
SHARE = 0.8
"""Share of each limit that a slice may use. The rest is for requests in flight and for the last deliveries."""


def slice_seconds(
    asked: float | None,
    *,
    broker: str,
    transport_options: Mapping[str, Any],
    prefetch: int,
    time_limits: tuple[float | None, ...] = (),
) -> float:
    """Return ``asked`` or the default, shortened so that the slice ends before its message is redelivered.

    A prefetched message may wait in its worker while ``prefetch`` - 1 others run, unacknowledged all that time.
    ``time_limits`` are the soft and hard time limits of the task, if it has any.
    """
    seconds = SLICE_SECONDS if asked is None else asked
    if not 0 < seconds <= MAX_SLICE_SECONDS:
        raise UsageError(
            f"invalid slice_seconds: {seconds:g}", hint=f"give more than 0, and at most {MAX_SLICE_SECONDS:g}"
        )
    scheme = broker.partition("://")[0].partition("+")[0].lower()
    redelivered = float(transport_options.get("visibility_timeout", VISIBILITY_SECONDS.get(scheme, CONSUMER_SECONDS)))
    limit = min([redelivered / max(1, prefetch), *(limit for limit in time_limits if limit)])
    if limit < MIN_LIMIT_SECONDS:
        raise UsageError(
            f"too short for a slice: {limit:g} seconds",
            hint=f"time limits, and visibility timeout per prefetched message, must be at least {MIN_LIMIT_SECONDS:g}",
        )
    return min(seconds, SHARE * limit - START_SECONDS)
