"""The seeding: running the spider's ``start()`` under a lease, and committing what it yields in parts."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterable, Awaitable
from typing import Any

from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.worker.harvest import Harvest, Rules
from skitter.worker.visit import CommitPart, LeaseLostError
from skitter.worker.watch import Watch

FIRST_PART = 64
"""A long list of seeds starts the crawl before it is read to its end."""


class Seeder:
    """Adds the first requests. Only the last part closes the seeding, so a seeding that dies is run again."""

    def __init__(self, *, rules: Rules, watch: Watch, commit_part: CommitPart) -> None:
        self._rules = rules
        self._watch = watch
        self._commit_part = commit_part

    async def seed(self, lease: Lease) -> tuple[Outcome, list[str]]:
        harvest = Harvest(self._rules, lease.id, None)
        self._parts = 0
        try:
            # Not under the callback's time limit: a start() may read a feed for hours. But a blocked loop is noticed.
            with self._watch.running(lease):
                outputs: Any = self._rules.spider.start()
                if isinstance(outputs, Awaitable):
                    outputs = await outputs
                if isinstance(outputs, AsyncIterable):
                    async for output in outputs:
                        await self._take(lease, harvest, output)
                else:
                    for output in outputs or ():
                        await self._take(lease, harvest, output)
        except LeaseLostError:
            raise
        except Exception:  # noqa: BLE001  whatever start() raises ends the seeding; what it yielded before stays
            problem = "start() failed:\n" + traceback.format_exc()
            return Outcome(lease=lease, ending=Ending.DEAD, error_class="callback", error=problem), []
        outcome = Outcome(lease=lease, ending=Ending.DONE, links=harvest.links, tally=dict(harvest.tally))
        return outcome, harvest.urls

    async def _take(self, lease: Lease, harvest: Harvest, output: Any) -> None:
        harvest.take(output)
        if harvest.items:
            raise TypeError("start() yields Requests, not items")
        if harvest.is_large or (self._parts == 0 and len(harvest.links) >= FIRST_PART):
            self._parts += 1
            part = Outcome(lease=lease, ending=Ending.DONE, links=harvest.links, tally=dict(harvest.tally), more=True)
            urls = harvest.urls
            harvest.start_part()
            if not await self._commit_part(part, urls):
                raise LeaseLostError
            # The pages that are already there get their turn.
            await asyncio.sleep(0)
