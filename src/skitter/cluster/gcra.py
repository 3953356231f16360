"""The generic cell rate algorithm: when the next event of a limit may happen. Pure: the caller passes the time."""

from __future__ import annotations


def next_event(
    theoretical: float | None, now: float, *, per_second: float, burst: int, wait_seconds: float | None
) -> tuple[float | None, float | None]:
    """Return in how many seconds an event may happen, and the theoretical time to store with it.

    ``theoretical`` is what was stored last: when, at the pace of the limit, the event after all so far is due; None:
    nothing is stored. None for the seconds: it would be more than ``wait_seconds``, and nothing is to be stored.
    """
    interval = 1.0 / per_second
    due = max(theoretical if theoretical is not None else now, now)
    delay = max(0.0, due - (burst - 1) * interval - now)
    if wait_seconds is not None and delay > wait_seconds:
        return None, theoretical
    return delay, due + interval
