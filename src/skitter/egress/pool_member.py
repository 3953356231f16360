"""Membership of an egress in a job's pool of proxies: registered for a while, renewed, drained, removed.

A registration that is not renewed ends by itself, so an egress that was killed is gone without anybody's doing. A store
that is away is waited for: the egress serves what was granted, and registers again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from skitter.errors import FrontierError, JobError
from skitter.frontier.contract import Frontier
from skitter.model.proxy import ProxySeen, shown_proxy
from skitter.observe import events
from skitter.observe.events import Event

DRAIN_POLL_SECONDS = 0.2
RENEWALS = 3
"""In the time that a registration lasts."""


class PoolMember:
    """One egress in the pool of one job."""

    def __init__(
        self, pool: Frontier, *, owner: str, lifetime_seconds: float, on_event: Callable[[Event], None]
    ) -> None:
        self._pool = pool
        self._owner = owner
        self._lifetime_seconds = lifetime_seconds
        self._on_event = on_event
        self._url = ""
        self._id = ""
        self._renew_at = 0.0
        self._away_since = 0.0

    async def register(self, url: str, address: str) -> None:
        """Become a proxy of the pool; if the store is away, ``look`` does it later."""
        self._url, self._renew_at = url, 0.0
        self._on_event(events.EGRESS_OPENED(proxy=shown_proxy(url), address=address or "unknown"))
        await self.look()

    async def look(self) -> ProxySeen | None:
        """Renew the registration if it is time to; return what the store tells of it, or None while it is away."""
        try:
            if time.monotonic() >= self._renew_at:
                self._id = await self._pool.register_proxy(self._url, self._owner, self._lifetime_seconds)
                self._renew_at = time.monotonic() + self._lifetime_seconds / RENEWALS
            seen = next((one for one in await self._pool.proxies() if one.id == self._id), None)
        except (FrontierError, JobError) as error:
            self._is_away(error)
            return None
        if seen is None:
            self._renew_at = 0.0  # it has expired, in a process that was stopped for a while
        if self._away_since:
            self._on_event(events.EGRESS_STORE_BACK(seconds=round(time.monotonic() - self._away_since, 1)))
            self._away_since = 0.0
        return seen

    async def leave(self, limit_seconds: float, reason: str) -> None:
        """Be granted nothing more, wait for what is in flight, and leave the pool."""
        if not self._id:
            return
        deadline = time.monotonic() + limit_seconds
        in_flight = await self._in_flight()
        self._on_event(events.EGRESS_DRAINING(reason=reason, in_flight="unknown" if in_flight < 0 else in_flight))
        while in_flight and time.monotonic() < deadline:
            await asyncio.sleep(DRAIN_POLL_SECONDS)
            in_flight = await self._in_flight()
        if in_flight > 0:
            self._on_event(events.EGRESS_CUT(in_flight=in_flight, seconds=limit_seconds))
        try:
            await self._pool.remove_proxy(self._id)
        except (FrontierError, JobError) as error:
            self._is_away(error)
        self._id = ""

    async def _in_flight(self) -> int:
        """Return how many requests are in flight, or -1 while the store is away."""
        try:
            return await self._pool.drain_proxy(self._id)
        except (FrontierError, JobError) as error:
            self._is_away(error)
            return -1

    def _is_away(self, error: Exception) -> None:
        if not self._away_since:
            self._away_since = time.monotonic()
            self._on_event(events.EGRESS_STORE_AWAY(error=str(error)))
