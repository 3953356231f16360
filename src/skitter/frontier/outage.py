"""The events of an outage of a frontier on servers, and how long a client pauses between two attempts."""

from __future__ import annotations

import time

from skitter.observe import events

FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 5.0


class Outage:
    """The events of an outage of one job's frontier, which may be on several servers.

    However many calls or servers notice it, it begins once, each reason is reported once, and it ends once: when all
    servers that were unavailable have answered again.
    """

    def __init__(self) -> None:
        self._unavailable: set[object] = set()
        self._since = 0.0
        self._reported: set[str] = set()

    def begin(self, server: object, reason: str) -> None:
        """Report that a server is unavailable, unless this reason is known already."""
        if not self._unavailable:
            self._since = time.monotonic()
        self._unavailable.add(server)
        # A server that is first gone and then refuses the password has two reasons.
        if reason not in self._reported:
            self._reported.add(reason)
            events.emit(events.FRONTIER_AWAY(reason=reason))

    def end(self, server: object) -> None:
        """Report that the frontier is back, if this server was the last one unavailable. Costs nothing if it was not
        unavailable."""
        if server not in self._unavailable:
            return
        self._unavailable.discard(server)
        if not self._unavailable:
            events.emit(events.FRONTIER_BACK(seconds=round(time.monotonic() - self._since, 1)))
            self._reported.clear()
