"""Work for a job in processes of their own, under a supervisor.

This process only watches: what a worker needs, from the fetch engine to the parser, is not loaded here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from skitter.app.config import CrawlPlan, WorkerConfig
from skitter.frontier.contract import Frontier
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.node.supervisor import Supervisor
from skitter.observe.events import Event
from skitter.worker.url_table import new_table


async def work_supervised(
    plan: CrawlPlan,
    frontier: Frontier,
    stop: ShutdownSignals,
    on_event: Callable[[Event], None],
    *,
    stay: bool = False,
    spider: str = "",
) -> None:
    """Worker processes, until each has ended."""
    workers = plan.settings.run.workers
    url_table = new_table(plan.settings.limits.max_known_urls) if workers > 1 else -1
    config = WorkerConfig(
        frontier=plan.frontier,
        job=plan.spec.name,
        spider=spider,
        run=msgspec.to_builtins(plan.settings.run),
        stay=stay,
        verbosity=plan.verbosity,
        event_level=plan.event_level,
        url_table=url_table,
    )
    supervisor = Supervisor(
        lambda pipe, status: [sys.executable, "-P", "-m", "skitter.app", str(pipe), str(status)],
        workers,
        frontier=frontier,
        callback_seconds=plan.settings.limits.callback_seconds,
        lease_seconds=plan.settings.limits.lease_seconds,
        shutdown_seconds=plan.settings.run.shutdown_seconds,
        on_event=on_event,
        told=msgspec.json.encode(config),
        inherits=[url_table] if workers > 1 else [],
        locks=plan.frontier.startswith("sqlite:"),
    )
    stop.aim(supervisor.stop, supervisor.kill)
    try:
        await supervisor.run()
    finally:
        if workers > 1:
            os.close(url_table)
