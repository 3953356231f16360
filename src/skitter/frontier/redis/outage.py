"""Saying that a frontier is away, once."""

from __future__ import annotations

import time

from skitter.observe import events


class Outage:
    """Of one job's frontier, which may be on several servers.

    However many calls or servers have noticed it, it begins once, each reason is named once, and it ends once: when all
    that were away have answered again.
    """

    def __init__(self) -> None:
        self._away: set[object] = set()
        self._since = 0.0
        self._said: set[str] = set()

    def begins(self, server: object, reason: str) -> None:
        """Or goes on."""
        if not self._away:
            self._since = time.monotonic()
        self._away.add(server)
        # A server that is first gone and then refuses the password is in two kinds of trouble.
        if reason not in self._said:
            self._said.add(reason)
            events.tell(events.FRONTIER_AWAY(reason=reason))

    def ends(self, server: object) -> None:
        """For this server. Costs nothing when it was not away."""
        if server not in self._away:
            return
        self._away.discard(server)
        if not self._away:
            events.tell(events.FRONTIER_BACK(seconds=round(time.monotonic() - self._since, 1)))
            self._said.clear()
