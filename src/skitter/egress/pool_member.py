"""Membership of an egress in a job's proxy pool: registered for a limited time, renewed, drained, removed.

A registration that is not renewed expires, so an egress that was killed leaves the pool by itself. While the store is
unavailable, the egress continues to serve requests that it was granted; afterwards it registers again.
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
"""Number of renewals within the lifetime of a registration."""


class PoolMember:
    """Registration of one egress in the pool of one job."""

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
        self._unavailable_since = 0.0

    async def register(self, url: str, address: str) -> None:
        """Register as a proxy of the pool; if the store is unavailable, ``look`` does it later."""
        self._url, self._renew_at = url, 0.0
        self._on_event(events.EGRESS_OPENED(proxy=shown_proxy(url), address=address or "unknown"))
        await self.look()

    async def look(self) -> ProxySeen | None:
        """Renew the registration if it is due; return the proxy as the store has it.

        Return None if the store is unavailable or the registration has expired.
        """
        try:
            if time.monotonic() >= self._renew_at:
                self._id = await self._pool.register_proxy(self._url, self._owner, self._lifetime_seconds)
                self._renew_at = time.monotonic() + self._lifetime_seconds / RENEWALS
            seen = next((one for one in await self._pool.proxies() if one.id == self._id), None)
        except (FrontierError, JobError) as error:
            self._is_unavailable(error)
            return None
        if seen is None:
            self._renew_at = 0.0  # it has expired: this process was suspended for a while
        if self._unavailable_since:
            self._on_event(events.EGRESS_STORE_BACK(seconds=round(time.monotonic() - self._unavailable_since, 1)))
            self._unavailable_since = 0.0
        return seen

    async def leave(self, limit_seconds: float, reason: str) -> None:
        """Get no new requests, wait for those in flight, and leave the pool."""
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
            self._is_unavailable(error)
        self._id = ""

    async def _in_flight(self) -> int:
        """Return the number of requests in flight, or -1 if the store is unavailable."""
        try:
            return await self._pool.drain_proxy(self._id)
        except (FrontierError, JobError) as error:
            self._is_unavailable(error)
            return -1

    def _is_unavailable(self, error: Exception) -> None:
        if not self._unavailable_since:
            self._unavailable_since = time.monotonic()
            self._on_event(events.EGRESS_STORE_AWAY(error=str(error)))
