"""The node of ``skitter worker``: joins a job of another crawl, on this or another machine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skitter.app.alert_loading import alerts_of, check_alerts
from skitter.app.audit import local_actor
from skitter.app.config import CrawlConfig
from skitter.app.crawl_node import opened
from skitter.app.frontiers import is_shared
from skitter.app.intakes import IntakeConfig, intakes_read
from skitter.app.job_checks import check_same_code, check_same_spider, check_same_version, refuse_other_code
from skitter.app.node_coordinator import check_coordinator, node_membership
from skitter.app.node_metrics import node_metrics
from skitter.app.proxy_check import check_proxy
from skitter.app.proxy_registration import check_proxies, proxies_registered
from skitter.app.report_polling import OnReport, reporting
from skitter.app.summary import Summary, summary_of
from skitter.app.worker_config import job_settings
from skitter.app.worker_processes import work_supervised
from skitter.delivery.failover import SinkFailover, sink_failover
from skitter.delivery.job_sinks import OnEvent
from skitter.errors import JobError, UsageError
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.audit import Actor
from skitter.model.job import Begun, Job
from skitter.node.dead_workers import dead_worker_recovery, recover_dead_workers
from skitter.node.node import Node
from skitter.observe import events
from skitter.spiders.loading import check_trusted, code_of
from skitter.stop_request import StopRequest

if TYPE_CHECKING:
    from skitter.node.node_metrics import NodeMetrics

POLL_SECONDS = 1.0


def make_worker_node(
    *,
    frontier: str,
    job: str,
    spider: str = "",
    settings_overrides: dict[str, Any],
    stay: bool,
    on_report: OnReport,
    on_event: OnEvent,
    verbosity: int = 0,
    event_level: int = events.Level.INFO,
    print_fd: int = 2,
    sink_password: str | None = None,
    intakes: IntakeConfig | None = None,
    same_code: bool = False,
    unowned_seconds: float | None = None,
    task: str = "",
    actor: Actor | None = None,
    metrics: NodeMetrics | None = None,
) -> Node[Summary | None]:
    """A node that works for a job until that is finished; with ``stay``, it waits for the job and for more.

    ``settings_overrides``: the group ``run`` of the settings. ``same_code``: JobError for another file of the spider
    than the job was begun with. ``unowned_seconds``: see ``SinkFailover``. ``task``: see
    ``WorkerHeartbeat``. ``actor``: who is recorded where an intake is closed that nobody reads. ``metrics``: of the
    fleet
    that it is a part of, in place of its own. Its result is None if it was stopped before there was a job.
    """
    if not is_shared(frontier):
        raise UsageError(f"cannot be shared with another process: {frontier}", hint="use --frontier sqlite:PATH")

    async def work(stop: StopRequest) -> Summary | None:
        began = time.monotonic()
        async with opened(frontier, job, create=stay) as store:
            found = await _wait_for_job(store, stop) if stay else await store.job()
            if found is None:
                return None
            # From here on it ends in order, with a summary.
            stop.hold()
            settings = job_settings(found, settings_overrides)
            await check_proxy(settings.run)
            await check_proxies(settings.run)
            check_coordinator(settings.run)
            check_alerts(settings.run)
            check_same_spider(found, spider)
            if not spider:
                check_trusted(found.spec.spider, Path.cwd(), settings.run.trusted)
            check_same_version(found, on_event)
            code = code_of(spider or found.spec.spider, Path.cwd())
            if same_code:
                refuse_other_code(found, code)
            check_same_code(found, code, spider, on_event)
            await recover_dead_workers(store, on_event)
            before = await store.counts()
            config = CrawlConfig(
                spec=found.spec,
                frontier=frontier,
                settings=settings,
                verbosity=verbosity,
                event_level=event_level,
                print_fd=print_fd,
            )
            failover = SinkFailover(
                store,
                job,
                password=sink_password,
                on_event=on_event,
                trusted=settings.run.trusted,
                archives=True,
                unowned_seconds=unowned_seconds,
            )
            operator = acting_for(store, actor or local_actor("program"))
            async with (
                node_metrics(settings.run, on_event) as own_metrics,
                node_membership(settings.run, job, on_event) as membership,
                dead_worker_recovery(store, on_event, membership),
                reporting(store, on_report, on_event, stats_seconds=settings.run.stats_seconds) as pass_on,
                sink_failover(failover, stop, on_event),
                intakes_read(store, intakes or IntakeConfig(), settings, stop, on_event, operator=operator),
                proxies_registered(store, settings.run, on_event),
                alerts_of(store, frontier, job, settings.run, on_event),
            ):
                await work_supervised(
                    *(config, store, stop, on_event),
                    stay=stay,
                    spider=spider,
                    task=task,
                    membership=membership,
                    metrics=metrics or own_metrics,
                )
            report = await store.report()
            pass_on(report)
            return await summary_of(store, report, Begun.RESUMED, time.monotonic() - began, before.done)

    return Node(work)


async def _wait_for_job(frontier: Frontier, stop: StopRequest) -> Job | None:
    """The job, as soon as there is one; None: it was stopped before."""
    stopped = asyncio.Event()
    stop.set_handlers(stopped.set, stopped.set)
    while not stopped.is_set():
        with contextlib.suppress(JobError):
            return await frontier.job()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await stopped.wait()
    return None
