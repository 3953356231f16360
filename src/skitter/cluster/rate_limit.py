"""A rate limit that all processes share."""

from __future__ import annotations

import asyncio

from skitter.cluster.contract import Rates
from skitter.cluster.session import Session
from skitter.errors import UsageError


class RateLimit:
    """A limit of events per second, shared by all processes that use the same key. Made by ``Cluster.rate``.

    A process that uses the key with another rate gets that rate: the store keeps only the time of the next event.
    """

    def __init__(self, session: Session, rates: Rates, key: str, *, per_second: float, burst: int) -> None:
        if not per_second > 0 or burst < 1:
            raise UsageError(
                f"invalid rate limit: per_second={per_second} burst={burst}",
                hint="give numbers above 0; burst is a whole number",
            )
        self.key = key
        self._session = session
        self._rates = rates
        self._per_second = per_second
        self._burst = burst

    async def wait(self, *, timeout_seconds: float | None = None) -> None:
        """Wait until one event may happen.

        Raises TimeoutError, without reserving, if that would take longer than ``timeout_seconds``. A reserved event is
        used up even if the wait is cancelled.
        """
        if not await self._reserve(timeout_seconds):
            raise TimeoutError(f"the limit is reached: {self.key}")

    async def take(self) -> bool:
        """Return whether the event may happen now; if False, nothing is reserved."""
        return await self._reserve(0.0)

    async def _reserve(self, wait_seconds: float | None) -> bool:
        reserved = self._rates.reserve(
            self.key, per_second=self._per_second, burst=self._burst, wait_seconds=wait_seconds
        )
        delay = await self._session.call(reserved)
        if delay is None:
            return False
        if delay > 0:
            await asyncio.sleep(delay)
        return True
