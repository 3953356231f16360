"""A store that is deleted, replaced or emptied during a crawl: its error, and delivery of what can be read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skitter.app.config import CrawlConfig
from skitter.app.frontiers import use_open_file
from skitter.delivery.job_sinks import OnEvent, choose_sinks, make_delivery
from skitter.delivery.runner import Delivery
from skitter.errors import BackendError, SkitterError, VanishedError
from skitter.frontier.contract import Frontier

ANSWER_SECONDS = 5.0


class CurrentDelivery:
    """The delivery of a crawl, known to whoever explains a store that has vanished."""

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        """None: the crawl had not come so far."""


@asynccontextmanager
async def explain_vanished_store(
    frontier: Frontier, config: CrawlConfig, on_event: OnEvent
) -> AsyncIterator[CurrentDelivery]:
    """Turn what a vanished store made fail in the body into a VanishedError that says what became of the items."""
    current = CurrentDelivery()
    try:
        yield current
    except BackendError as error:
        gone = await _absence(frontier)
        if gone is None:
            raise
        delivered = 0 if current.delivery is None else current.delivery.delivered
        try:
            told = await _deliver_the_rest(frontier, config, delivered, on_event)
        except BackendError as problem:
            told = f"{delivered} items were delivered, but the rest could not be: {problem}"
        raise VanishedError(f"{gone}: {told}", hint=gone.hint) from error


async def _absence(frontier: Frontier) -> VanishedError | None:
    """The error of a store that has vanished, asked of the store: that of a worker process comes as text. None: it has
    not, or does not answer."""
    with contextlib.suppress(SkitterError, TimeoutError):
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await frontier.counts()
        except VanishedError as gone:
            return gone
    return None


async def _deliver_the_rest(frontier: Frontier, config: CrawlConfig, delivered: int, on_event: OnEvent) -> str:
    """Deliver from the file that is still open, where there is one; a sentence about the items."""
    if not use_open_file(frontier):
        return f"at least {delivered} items had been delivered; the others are lost"
    job, password = config.spec.name, config.sink_password
    trusted = config.settings.run.trusted
    sinks = await choose_sinks(
        frontier, job, config.outputs, fresh=False, password=password, trusted=trusted, on_event=on_event
    )
    delivery = make_delivery(frontier, sinks, job, on_event)
    try:
        await delivery.open()
        await delivery.finish(complete=False)
    finally:
        await delivery.close()
    left = (await frontier.report()).undelivered
    return f"{delivered + delivery.delivered} items were delivered, and {left} committed items were not"
