"""An outage is told once when it begins and once when it ends, however many clients and processes report it."""

from __future__ import annotations

CALM_SECONDS = 10.0
"""A store that fails again so soon after it was back is in the same outage, unless it stays away for longer."""
REPEAT_SECONDS = 60.0
"""A further reason is told so long after the last one: what began as a failover may have become something else."""


class OutageReports:
    """Decides which reports of one store are told. Several may come for one outage, in any order."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        """Reasons that were told in this outage; empty: the store is available."""
        self._told_at = self._ended_at = -CALM_SECONDS

    def tells_begin(self, reason: str, now: float) -> bool:
        """Whether to tell that the store is unavailable."""
        if self._reasons:
            is_told = now - self._told_at >= REPEAT_SECONDS and reason not in self._reasons
        else:
            is_told = now - self._ended_at >= CALM_SECONDS
        if is_told:
            self._reasons.add(reason)
            self._told_at = now
        return is_told

    def tells_end(self, now: float) -> bool:
        """Whether to tell that the store is available again."""
        was_told = bool(self._reasons)
        self._reasons.clear()
        self._ended_at = now
        return was_told
