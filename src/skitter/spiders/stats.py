"""Counters of a spider and its hooks (``self.stats``), which add up over all workers of the job."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

from skitter.model.counters import HOOK, OTHER, STAT

MAX_NAME_CHARS = 100
MAX_PAGE_NAMES = 100
"""Names that one page may count; what it counts beyond is counted under ``OTHER``."""
MAX_PAGE_AMOUNT = 2**40
"""Of one name by one page, so that no sum of a job is too large for its store."""
_PAGE_COUNTS: ContextVar[dict[str, int] | None] = ContextVar("skitter_page_counts", default=None)
"""Of the page whose task, or a task or thread that it began, is running."""


class Stats:
    """Counters that are summed over all workers: ``self.stats.add("captchas")``.

    Counts of a page are stored in the same commit as its outcome: a page that is fetched again because its worker died
    counts once. Counts outside of a page (in ``on_start`` or ``on_event``) are stored with the next page of the worker,
    and are lost with the worker if there is none. ``status`` and the summary show the sums.
    """

    def __init__(self) -> None:
        self._outside: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a counter: a name of at most 100 characters in one line, and a whole number from 0."""
        given: Any = name
        if not isinstance(given, str) or not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
            raise ValueError(
                f"invalid name of a counter: {name!r:.150} (use 1 to {MAX_NAME_CHARS} characters in one line)"
            )
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise TypeError(f"a counter takes whole numbers, not {type(amount).__name__}: {amount!r:.100}")
        if amount < 0:
            raise ValueError(f"a counter cannot decrease: {name}, {amount}")
        self._count(STAT, name, amount)

    def count_decision(self, decision: str, reason: str) -> None:
        """Count a decision of a hook under its reason, as ``status`` shows it."""
        self._count(HOOK, f"{decision}:{' '.join(reason.split())[:MAX_NAME_CHARS]}", 1)

    def begin_page(self) -> dict[str, int]:
        """Start counting for a page in the running task, and return its counters."""
        counts: dict[str, int] = {}
        _PAGE_COUNTS.set(counts)
        return counts

    def take_outside(self) -> dict[str, int]:
        """Return the counts made outside of pages since the last call."""
        if not self._outside:
            return {}
        with self._lock:
            taken, self._outside = self._outside, {}
        return taken

    def _count(self, prefix: str, name: str, amount: int) -> None:
        page = _PAGE_COUNTS.get()
        # A callback may count in threads of its own.
        with self._lock:
            counts = self._outside if page is None else page
            key = prefix + name
            if key not in counts and len(counts) >= MAX_PAGE_NAMES:
                key = prefix + OTHER
            total = counts.get(key, 0) + amount
            if total > MAX_PAGE_AMOUNT:
                raise ValueError(f"a page may add at most {MAX_PAGE_AMOUNT} to a counter: {name}")
            counts[key] = total
