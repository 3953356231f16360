"""When an alert fires and resolves: once beyond the threshold for long enough, and once back. Pure: pass ``now``."""

from __future__ import annotations

import enum

import msgspec

from skitter.alert_rules import AlertRule


class AlertChange(enum.StrEnum):
    """What has become of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


class AlertState(msgspec.Struct, kw_only=True):
    """An alert of one job. It is stored, so that whoever watches next goes on with it."""

    beyond_since: float | None = None
    """Since when the figure has been beyond the threshold without a break; None: it is not."""
    firing_since: float | None = None
    """None: it does not fire."""
    value: float = 0.0
    """The figure when it last changed."""
    change: AlertChange | None = None
    """What was told last, or is to be told."""
    changed_at: float = 0.0
    is_told: bool = True
    """False: somebody has still to be told of the change."""
    is_paused: bool = True
    """False: the job has still to be paused."""

    def update(self, rule: AlertRule, value: float | None, now: float) -> AlertChange | None:
        """Take a new value; None: the job has no such figure. Return what has changed."""
        if self.firing_since is not None:
            if value is not None and not rule.is_clear(value):
                return None
            self.beyond_since = self.firing_since = None
            return self._changed(AlertChange.RESOLVED, value, now)
        if value is None or not rule.is_beyond(value):
            self.beyond_since = None
            return None
        if self.beyond_since is None:
            self.beyond_since = now
        if now - self.beyond_since < rule.for_seconds:
            return None
        self.firing_since, self.is_paused = now, not rule.pause
        return self._changed(AlertChange.FIRING, value, now)

    def rest(self) -> None:
        """The job does not run: what was beyond has to be so anew. A firing alert stays."""
        if self.firing_since is None:
            self.beyond_since = None

    def _changed(self, change: AlertChange, value: float | None, now: float) -> AlertChange:
        self.change, self.changed_at, self.is_told = change, now, False
        self.value = value if value is not None else 0.0
        return change
