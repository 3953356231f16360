"""What may be tried again, and when. Pure: the caller brings the clock and the chance."""

from __future__ import annotations

import re
from datetime import UTC

RETRY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, *range(520, 525)})
"""The server may well answer next time."""
BLOCK_STATUSES = frozenset({429, 503})
"""The server asks for less: the whole host backs off, and the request spends no attempt."""
RETRY_ERROR_CLASSES = frozenset({"dns", "connect", "tls", "timeout", "truncated", "protocol", "memory"})
"""Kinds of FetchError to try again; too_large, guard and redirect are final."""
BACKOFF_ERROR_CLASSES = frozenset({"proxy", "slow"})
"""A proxy's fault, or a host that keeps us waiting while too many others do: the host waits as it does after a 503."""
UNREACHABLE_ERROR_CLASSES = frozenset({"dns", "connect", "tls"})
"""The host as a whole cannot be reached; the page is not to blame."""
DEAD_CLASSES = (
    *("dns", "connect", "tls", "proxy", "timeout", "slow", "truncated", "protocol", "memory", "too_large"),
    *("http_4xx", "http_5xx", "redirect", "callback", "sitemap", "lost", "internal"),
)
"""Every class that a dead request may have, as the reference lists them."""

MAX_RETRY_AFTER_SECONDS = 86_400.0
MAX_BACKOFF_SECONDS = 3_600.0

_DELTA = re.compile(r"[+-]?[0-9]+", re.ASCII)


def retry_after_seconds(value: str | None, now: float, date: str | None = None) -> float | None:
    """How long a Retry-After header asks to wait, at most a day; None when it is absent or cannot be read.

    It is a number of seconds or an HTTP date. A date means so long after the answer's own ``Date``: both are of the
    server's clock, and a clock that is an hour wrong is still right about that. ``now`` counts where there is none.
    """
    text = (value or "").strip()
    if not text:
        return None
    if _DELTA.fullmatch(text):
        # Ten digits are already 300 years; int() refuses thousands of them.
        seconds = 0.0 if text[0] == "-" else float(text.lstrip("+0")[:10] or 0)
    else:
        until, since = _time_of(text), _time_of((date or "").strip())
        if until is None:
            return None
        seconds = until - (now if since is None else since)
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _time_of(date: str) -> float | None:
    """Of an HTTP date in any of its three forms."""
    from email.utils import parsedate_to_datetime  # drags in much of the standard library, for a rare header

    try:
        when = parsedate_to_datetime(date)
        # A date without a zone is read as GMT, the only one HTTP knows.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def backoff_seconds(attempt: int, base: float, jitter: float) -> float:
    """The delay after failed attempt number ``attempt`` (the first is 1): ``base`` doubling, at most an hour.

    Half of it is certain and ``jitter``, in [0, 1), says how much of the other half is added, so that
    requests that failed together do not return together.
    """
    # 2**64 times anything is beyond the cap, and a float still holds it.
    full = min(base * 2.0 ** min(max(attempt - 1, 0), 64), MAX_BACKOFF_SECONDS)
    return full / 2 + full / 2 * jitter


def error_class(status: int) -> str:
    """The class under which an HTTP error status is counted."""
    return "http_5xx" if status >= 500 else "http_4xx"
