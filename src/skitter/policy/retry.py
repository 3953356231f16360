"""Retry policy. Pure: the caller passes ``now`` and ``jitter``. The setting ``retry_statuses`` has the statuses."""

from __future__ import annotations

import re
from datetime import UTC

BLOCK_STATUSES = frozenset({429, 503})
"""Statuses by which the server asks for a pause: the whole host backs off, and the request spends no attempt."""
RETRY_ERROR_CLASSES = frozenset({"dns", "connect", "tls", "timeout", "truncated", "protocol", "memory", "browser"})
"""Error classes of fetches that are tried again; too_large, guard and redirect are final."""
BACKOFF_ERROR_CLASSES = frozenset({"proxy", "slow"})
"""Error classes that pause the host as a 503 does: the proxy failed, or too many transfers were slow."""
UNREACHABLE_ERROR_CLASSES = frozenset({"dns", "connect", "tls"})
"""Error classes that mean that the host, and not the page, is at fault."""
FAILED_CLASSES = (
    *("dns", "connect", "tls", "proxy", "timeout", "slow", "truncated", "protocol", "memory", "too_large", "browser"),
    *("http_4xx", "http_5xx", "redirect", "callback", "sitemap", "hook", "dropped", "lost", "given_up", "internal"),
)
"""Every class that a failed request may have, as the reference lists them."""

MAX_RETRY_AFTER_SECONDS = 86_400.0
MAX_BACKOFF_SECONDS = 3_600.0

_DELTA = re.compile(r"[+-]?[0-9]+", re.ASCII)


def retry_after_seconds(value: str | None, now: float, date: str | None = None) -> float | None:
    """Return the seconds of a Retry-After header, at most a day; None when it is absent or invalid.

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
        until, since = time_of_http_date(text), time_of_http_date((date or "").strip())
        if until is None:
            return None
        seconds = until - (now if since is None else since)
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def time_of_http_date(date: str) -> float | None:
    """Return the time of an HTTP date in any of its three forms."""
    from email.utils import parsedate_to_datetime  # imported on demand: slow to import, and the header is rare

    try:
        when = parsedate_to_datetime(date)
        # A date without a zone is read as GMT, the only one HTTP knows.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def backoff_seconds(attempt: int, base: float, jitter: float) -> float:
    """Return the delay after failed attempt number ``attempt`` (the first is 1): ``base`` doubling, at most an hour.

    Half of it is certain and ``jitter``, in [0, 1), says how much of the other half is added, so that
    requests that failed together do not return together.
    """
    # 2**64 times anything is beyond the cap, and a float still holds it.
    full = min(base * 2.0 ** min(max(attempt - 1, 0), 64), MAX_BACKOFF_SECONDS)
    return full / 2 + full / 2 * jitter


def error_class(status: int) -> str:
    """Return the error class of an HTTP status."""
    return "http_5xx" if status >= 500 else "http_4xx"
