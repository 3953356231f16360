"""Between two runs of a resident crawl (``--recrawl --stay``): it waits until a known page is due.

A resident crawl is one run after the other. So its storage is bounded by its pages: a run holds what is due, and the
next one begins with nothing of it. Requests keep their ids, and with them items keep their keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from skitter.frontier.contract import Frontier
from skitter.model.job import State
from skitter.policy.recrawl import MIN_INTERVAL_SECONDS
from skitter.stop_request import StopRequest

POLL_SECONDS = 10.0
"""Between two looks, and so the least time between two runs: what is due meanwhile goes together."""


async def wait_for_due_page(frontier: Frontier, stop: StopRequest) -> bool:
    """Wait until another run is to begin; False: the node is asked to stop.

    What became due before the end of the last run has failed there, and waits for an hour.
    """
    job, began = await frontier.job(), time.monotonic()
    stopped = asyncio.Event()
    stop.set_handlers(stopped.set, stopped.set)
    while not await _is_set_within(stopped, POLL_SECONDS):
        waited = time.monotonic() - began
        after = 0.0 if waited >= MIN_INTERVAL_SECONDS else job.ended_at
        # By the store's clock, which went on as this machine's has.
        if await frontier.known_pages(after, job.ended_at + waited, 1):
            return True
        if (await frontier.state()).state is not State.FINISHED:
            # Somebody has added requests.
            return True
    return False


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
