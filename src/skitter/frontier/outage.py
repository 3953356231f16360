"""The events of an outage of a frontier on servers, and how long a client pauses between two attempts."""

from __future__ import annotations

import time

from skitter.observe import events
from skitter.observe.outage_reports import OutageReports

FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 5.0


class Outage:
    """The events of an outage of one job's frontier, which may be on several servers.

    However many calls or servers notice it, it begins once and ends once: when all servers that were unavailable have
    answered again.
    """

    def __init__(self) -> None:
        self._unavailable: set[object] = set()
        self._since = 0.0
        self._store = ""
        self._reports = OutageReports()
        self.failed_at: dict[tuple[str, int], float] = {}
        """When hosts of the servers failed: what one client has found out, the others need not."""
        self.is_advised = False
        """Advice on the setup of the servers was logged."""

    def begin(self, server: object, store: str, reason: str) -> None:
        """Report that a server is unavailable. ``store``: the address of the frontier."""
        now = time.monotonic()
        if not self._unavailable:
            self._since = now
        self._unavailable.add(server)
        self._store = store
        if self._reports.tells_begin(reason, now):
            events.emit(events.FRONTIER_AWAY(store=store, reason=reason))

    def end(self, server: object) -> None:
        """Report that the frontier is back, if this server was the last one unavailable. Costs nothing if it was not
        unavailable."""
        if server not in self._unavailable:
            return
        self._unavailable.discard(server)
        now = time.monotonic()
        if not self._unavailable and self._reports.tells_end(now):
            events.emit(events.FRONTIER_BACK(store=self._store, seconds=round(now - self._since, 1)))
