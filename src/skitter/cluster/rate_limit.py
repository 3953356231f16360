"""A limit of speed that all processes share."""

from __future__ import annotations

import asyncio

from skitter.cluster.contract import Rates
from skitter.cluster.session import Session
from skitter.errors import UsageError


class RateLimit:
    """So many events a second of all processes that name the same key. Made by ``Cluster.rate``.

    Who names the key with another speed is served by that speed: the store keeps the time of the next event only.
    """

    def __init__(self, session: Session, rates: Rates, key: str, *, per_second: float, burst: int) -> None:
        if not per_second > 0 or burst < 1:
            raise UsageError(
                f"not a limit: per_second={per_second} burst={burst}", hint="both are above 0; burst is a whole number"
            )
        self.key = key
        self._session = session
        self._rates = rates
        self._per_second = per_second
        self._burst = burst

    async def wait(self, *, timeout_seconds: float | None = None) -> None:
        """Wait for the turn of one event. TimeoutError: it would come later than that, and nothing is reserved.

        What is reserved is used up, also if the waiting is cancelled.
        """
        if not await self._reserve(timeout_seconds):
            raise TimeoutError(f"the limit is reached: {self.key}")

    async def take(self) -> bool:
        """Return whether the event may happen now; False: nothing is reserved."""
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
