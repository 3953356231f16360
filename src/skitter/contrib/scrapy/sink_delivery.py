"""Delivery of a job's items by Scrapy processes: one of them writes the outputs of ``SKITTER_SINKS``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from skitter.app.job_items import Written, make_delivery_node
from skitter.contrib.scrapy.scheduler_settings import SchedulerSettings
from skitter.errors import FrontierError, JobError, SinkError
from skitter.frontier.contract import Frontier
from skitter.node.node import Node
from skitter.observe import events

log = logging.getLogger("skitter.scrapy")
RETRY_SECONDS = 2.0
"""Pause between attempts to become the writer while another process is."""
COMPLETE_SECONDS = 60.0
"""How long a process waits after the end of the job for complete outputs. ``skitter deliver`` writes the rest."""


class SinkDelivery:
    """Delivers items while the job runs, unless another process does."""

    def __init__(
        self, settings: SchedulerSettings, frontier: Frontier, on_event: Callable[[events.Event], None]
    ) -> None:
        self._settings = settings
        self._frontier = frontier
        self._on_event = on_event
        self._node: Node[Written] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Start delivery in the background if there are outputs."""
        if self._settings.outputs:
            self._task = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        while not self._stopping.is_set():
            await self._deliver_once(stay=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._stopping.wait()

    async def _deliver_once(self, *, stay: bool) -> None:
        self._node = make_delivery_node(
            frontier=self._settings.frontier,
            job=self._settings.spec.name,
            outputs=self._settings.outputs,
            on_event=self._on_event,
            stay=stay,
        )
        try:
            await self._node.run()
        except (SinkError, JobError, FrontierError) as error:
            # Another process writes them, or an output is unavailable: the items stay in the frontier.
            log.debug("outputs are not written here: %s", error)
        finally:
            self._node = None

    async def close(self, *, complete: bool) -> None:
        """Stop. ``complete``: the job is finished, so wait for complete outputs, whichever process writes them."""
        if self._task is None:
            return
        self._stopping.set()
        if not complete and self._node is not None:
            self._node.stop()
        await asyncio.wait([self._task], timeout=COMPLETE_SECONDS)
        until = time.monotonic() + COMPLETE_SECONDS
        while complete and await self._is_incomplete():
            if time.monotonic() > until:
                log.warning(
                    "outputs are incomplete: skitter deliver %s -o OUTPUT writes the undelivered items",
                    self._settings.spec.name,
                )
                return
            await self._deliver_once(stay=False)
            await asyncio.sleep(RETRY_SECONDS / 4)

    async def _is_incomplete(self) -> bool:
        return any(sink.is_incomplete for sink in await self._frontier.sinks())
