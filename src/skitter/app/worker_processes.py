"""Work for a job in processes of their own, under a supervisor.

This process only watches: what a worker needs, from the fetch engine to the parser, is not loaded here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from skitter.app.config import CrawlConfig
from skitter.app.worker_config import WorkerConfig
from skitter.frontier.contract import Frontier
from skitter.node.supervisor import Supervisor
from skitter.observe.events import Event
from skitter.stop_request import StopRequest
from skitter.worker.url_table import new_table

if TYPE_CHECKING:
    from skitter.node.node_membership import NodeMembership
    from skitter.node.node_metrics import NodeMetrics


async def work_supervised(
    config: CrawlConfig,
    frontier: Frontier,
    stop: StopRequest,
    on_event: Callable[[Event], None],
    *,
    stay: bool = False,
    spider: str = "",
    task: str = "",
    membership: NodeMembership | None = None,
    metrics: NodeMetrics | None = None,
) -> None:
    """Run worker processes until each has ended. ``membership``: of this node, where it has a coordinator.

    ``metrics``: of this node, where they are asked for.
    """
    workers = config.settings.run.workers
    url_table = new_table(config.settings.limits.max_known_urls) if workers > 1 else -1
    worker_config = WorkerConfig(
        frontier=config.frontier,
        job=config.spec.name,
        spider=spider,
        attributes=config.attributes,
        run=msgspec.to_builtins(config.settings.run),
        stay=stay,
        verbosity=config.verbosity,
        event_level=config.event_level,
        url_table=url_table,
        task=task,
        counts=metrics is not None,
    )
    inherits = [url_table] if workers > 1 else []
    if membership is not None:
        inherits.append(membership.permit_descriptor)
        worker_config.permit = membership.permit_descriptor
        worker_config.member, worker_config.coordinator = membership.name, membership.address
    supervisor = Supervisor(
        lambda pipe, status: [sys.executable, "-P", "-m", "skitter.app", str(pipe), str(status)],
        workers,
        frontier=frontier,
        callback_seconds=config.settings.limits.callback_seconds,
        lease_seconds=config.settings.limits.lease_seconds,
        shutdown_seconds=config.settings.run.shutdown_seconds,
        on_event=on_event,
        config=msgspec.json.encode(worker_config),
        inherits=inherits,
        print_fd=config.print_fd,
        locks=config.frontier.startswith("sqlite:"),
        metrics=metrics,
    )
    stop.set_handlers(supervisor.stop, supervisor.kill)
    try:
        await supervisor.run()
    finally:
        if workers > 1:
            os.close(url_table)
