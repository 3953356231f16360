"""The node of ``skitter crawl``: begins, resumes or joins a job, works until it ends, and delivers its items."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skitter.app.alert_loading import alerts_of, check_alerts
from skitter.app.audit import local_actor
from skitter.app.config import CrawlConfig, check_one_process, trusting_own_code
from skitter.app.frontiers import is_shared, open_frontier
from skitter.app.intakes import intakes_read
from skitter.app.job_checks import check_same_version, is_begun, is_over, refuse_live_workers, settings_to_join
from skitter.app.node_coordinator import check_coordinator, node_membership
from skitter.app.node_metrics import node_metrics
from skitter.app.own_files import refuse_own_files
from skitter.app.proxy_check import check_proxy
from skitter.app.proxy_registration import check_proxies, proxies_registered
from skitter.app.report_polling import OnReport, reporting
from skitter.app.resident_crawl import wait_for_due_page
from skitter.app.summary import Summary, summary_of
from skitter.app.vanished_store import explain_vanished_store
from skitter.app.worker_processes import work_supervised
from skitter.cluster.process_identity import worker_id
from skitter.delivery.failover import SinkFailover, sink_failover
from skitter.delivery.item_buffer import ItemBuffer
from skitter.delivery.job_sinks import OnEvent, choose_sinks, finish_delivery, make_delivery, work_and_deliver
from skitter.delivery.runner import Delivery
from skitter.delivery.stream_runner import CLIENT, StreamRunner
from skitter.errors import CrawlTimeoutError, JobError, UsageError
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.job import Begun, State
from skitter.node.dead_workers import dead_worker_recovery, recover_dead_workers
from skitter.node.node import Node
from skitter.observe import events
from skitter.sinks.contract import Sink
from skitter.sinks.rejects_file import SUFFIX, RejectsFile
from skitter.sinks.targets import sink_of
from skitter.spiders.base import Spider
from skitter.stop_request import StopRequest

if TYPE_CHECKING:
    from skitter.node.node_membership import NodeMembership
    from skitter.node.node_metrics import NodeMetrics


def make_crawl_node(
    config: CrawlConfig,
    *,
    on_report: OnReport,
    on_event: OnEvent,
    spider: Spider | None = None,
    buffer: ItemBuffer | None = None,
) -> Node[Summary]:
    """A node that crawls. ``spider``: an object to use in this process, where no other process could load it.

    ``buffer``: of a program that takes the items, besides the outputs of the configuration.
    """
    return Node(lambda stop: _CrawlRun(config, stop, on_report, on_event, spider, buffer).run())


@asynccontextmanager
async def opened(url: str, job: str, *, create: bool) -> AsyncIterator[Frontier]:
    """The frontier of a job, closed in the end."""
    frontier = open_frontier(url, job, create=create)
    try:
        yield frontier
    finally:
        await frontier.close()


class _CrawlRun:
    """One run of a crawl's node."""

    def __init__(
        self,
        config: CrawlConfig,
        stop: StopRequest,
        on_report: OnReport,
        on_event: OnEvent,
        spider: Spider | None,
        buffer: ItemBuffer | None,
    ) -> None:
        self._config = msgspec.structs.replace(config, settings=trusting_own_code(config.settings))
        self._stop = stop
        self._on_report = on_report
        self._on_event = on_event
        self._spider = spider
        self._buffer = buffer
        self._inline = spider is not None or not is_shared(config.frontier)
        self._metrics: NodeMetrics | None = None
        self._code_before = ""
        self._is_late = False

    async def run(self) -> Summary:
        self._check()
        await check_proxy(self._config.settings.run)
        await check_proxies(self._config.settings.run)
        async with node_metrics(self._config.settings.run, self._on_event) as self._metrics:
            if self._config.timeout is not None:
                asyncio.get_running_loop().call_later(self._config.timeout, self._stop_late)
            summary = await self._run_all()
        if self._is_late and summary.state not in (State.FINISHED, State.STOPPED):
            raise CrawlTimeoutError(
                f"job {summary.job} was stopped after {self._config.timeout:g} s and {summary.pages} pages",
                hint="the same call resumes it, unless it is in memory; requests in flight may take shutdown_seconds",
            )
        return summary

    def _stop_late(self) -> None:
        self._is_late = not self._stop.requested
        self._stop.stop()

    async def _run_all(self) -> Summary:
        summary = await self._run_once()
        while self._config.settings.recrawl.stay and summary.state == State.FINISHED and not self._stop.requested:
            # What was written before stays, and what was added since is not forgotten.
            outputs = [msgspec.structs.replace(target, overwrite=False) for target in self._config.outputs]
            # The key was for the first run.
            spec = msgspec.structs.replace(self._config.spec, run_keys=[])
            self._config = msgspec.structs.replace(self._config, spec=spec, fresh=False, outputs=outputs)
            async with opened(self._config.frontier, self._config.spec.name, create=False) as frontier:
                if not await wait_for_due_page(frontier, self._stop):
                    break
            summary = await self._run_once()
        return summary

    async def _run_once(self) -> Summary:
        config = self._config
        began = time.monotonic()
        async with (
            opened(config.frontier, config.spec.name, create=True) as frontier,
            explain_vanished_store(frontier, config, self._on_event) as current,
            # Before the run begins, too: without its coordinator the node would do nothing.
            node_membership(config.settings.run, config.spec.name, self._on_event) as membership,
        ):
            if await is_begun(frontier, config.spec):
                config = self._config = msgspec.structs.replace(config, fresh=False)
                if await is_over(frontier):
                    # The run of this key is done: its targets are not opened again, and not emptied.
                    return await self._summary_of_ended_run(frontier)
            joins = await self._prepare(frontier)
            sinks = await self._choose_sinks(frontier)
            streams = self._streams(frontier)
            delivery = current.delivery = make_delivery(frontier, sinks, config.spec.name, self._on_event, streams)
            targets = [*(sink.target for sink in sinks), *(CLIENT for _ in streams)]
            # From here on the crawl ends in order, with a summary.
            self._stop.hold()
            try:
                # Before the run begins: a target that cannot be written must not cost the results of the last run.
                await delivery.take()
                begun = await self._recorded(frontier).begin(self._config.spec, fresh=config.fresh, sinks=targets)
                begun = Begun.JOINED if joins else begun
                before = await frontier.counts()
                run = (await frontier.state()).run
                self._on_event(events.JOB_BEGUN(begun=begun, run=run))
                if begun is Begun.RESUMED and not joins and self._code_before not in ("", self._config.spec.code):
                    self._on_event(events.JOB_EDITED_CODE(spider=self._config.spec.spider))
                self._tell_dedup(begun)
                self._warn_of_earlier_results(begun, run, sinks)
                await delivery.open()
                await self._tell_waiting_items(frontier, begun)
                if not targets and not joins:
                    # A crawl that joins leaves the outputs to those that are at work.
                    self._on_event(events.JOB_NO_OUTPUT())
                async with (
                    dead_worker_recovery(frontier, self._on_event, membership),
                    reporting(
                        *(frontier, self._on_report, self._on_event), stats_seconds=config.settings.run.stats_seconds
                    ) as pass_on,
                    # Before the workers: a job without seeds would be finished at once.
                    intakes_read(
                        *(frontier, config.intakes, config.settings, self._stop, self._on_event),
                        operator=self._recorded(frontier),
                    ),
                    proxies_registered(frontier, config.settings.run, self._on_event),
                    alerts_of(frontier, config.frontier, config.spec.name, config.settings.run, self._on_event),
                ):
                    await self._work(frontier, delivery, sinks, membership)
            finally:
                await delivery.close()
            report = await frontier.report()
            pass_on(report)
            return await summary_of(frontier, report, begun, time.monotonic() - began, before.done)

    def _recorded(self, frontier: Frontier) -> Frontier:
        """A view for what whoever runs this does; what the node does by itself is not recorded."""
        return acting_for(frontier, self._config.actor or local_actor("program"))

    def _streams(self, frontier: Frontier) -> list[StreamRunner]:
        if self._buffer is None:
            return []
        rejects = RejectsFile(f".skitter/{self._config.spec.name}{SUFFIX}")
        return [StreamRunner(frontier, worker_id(), self._buffer, rejects)]

    async def _tell_waiting_items(self, frontier: Frontier, begun: Begun) -> None:
        """Warn of items that wait for a ``stream``; and a ``stream``, of items that an earlier one has returned."""
        for sink in await frontier.sinks():
            if sink.target == CLIENT and self._buffer is None and not sink.owner:
                self._on_event(events.SINK_FOR_PROGRAM(items=sink.undelivered))
            elif sink.target == CLIENT and self._buffer is not None and begun is Begun.RESUMED:
                returned = (await frontier.report()).items - sink.undelivered
                if returned > 0:
                    self._on_event(events.SINK_RESUMED(items=returned))

    async def _summary_of_ended_run(self, frontier: Frontier) -> Summary:
        report = await frontier.report()
        self._on_event(events.JOB_RUN_KNOWN(key=self._config.spec.run_keys[0], run=report.job.run))
        return await summary_of(frontier, report, Begun.RESUMED, 0.0, report.counts.done)

    def _tell_dedup(self, begun: Begun) -> None:
        """What a Bloom filter costs is told once, when its run begins."""
        dedup = self._config.settings.dedup
        if dedup.dedup == "bloom" and begun in (Begun.NEW, Begun.RERUN):
            percent = f"{100 * dedup.dedup_error_rate:g}"
            self._on_event(events.JOB_BLOOM(percent=percent, capacity=dedup.dedup_capacity))

    def _warn_of_earlier_results(self, begun: Begun, run: int, sinks: list[Sink]) -> None:
        """Warn of files that a new run appends to. Pages that both runs fetched are in them twice."""
        settings = self._config.settings
        if begun not in (Begun.NEW, Begun.RERUN) or settings.recrawl.is_on or settings.dedup.dedup_scope == "job":
            return
        emptied = {sink_of(target).target for target in self._config.outputs if target.overwrite}
        for sink in sinks:
            path = Path(sink.target)
            if sink.target not in emptied and path.is_file() and path.stat().st_size:
                self._on_event(events.JOB_APPENDS(target=sink.target, run=run))

    def _check(self) -> None:
        """UsageError for what cannot work, before anything is made."""
        workers = self._config.settings.run.workers
        check_one_process(self._config.frontier, workers, has_file=self._spider is None)
        if self._inline and self._config.settings.run.coordinator:
            raise UsageError(
                "--coordinator needs worker processes",
                hint="use a frontier that processes can share, and a spider in a file",
            )
        check_coordinator(self._config.settings.run)
        check_alerts(self._config.settings.run)
        for target in self._config.outputs:
            # A target without a format is a mistake of typing.
            sink_of(target)
        refuse_own_files(self._config.outputs, self._config.frontier, self._own_files())

    def _own_files(self) -> Iterator[tuple[str, str]]:
        """The files of this command besides the frontier's, as ``refuse_own_files`` takes them."""
        config = self._config
        yield from (("an intake of this job", one.path) for one in config.intakes.sources if one.scheme == "file")
        spider = config.spec.spider.partition(":")[0]
        if spider.endswith(".py"):
            yield "the file of the spider", spider
        if config.settings.logging.log_file != "-":
            yield "the log file", config.settings.logging.log_file

    async def _prepare(self, frontier: Frontier) -> bool:
        """Look at what is there of the job; whether others are at it."""
        if self._config.fresh:
            await refuse_live_workers(frontier)
        await recover_dead_workers(frontier, self._on_event)
        with contextlib.suppress(JobError):
            job = await frontier.job()
            self._code_before = job.spec.code
            check_same_version(job, self._on_event)
        self._config, joins = await settings_to_join(frontier, self._config, self._on_event)
        return joins

    async def _choose_sinks(self, frontier: Frontier) -> list[Sink]:
        return await choose_sinks(
            self._recorded(frontier),
            self._config.spec.name,
            self._config.outputs,
            fresh=self._config.fresh,
            password=self._config.sink_password,
            trusted=self._config.settings.run.trusted,
            on_event=self._on_event,
        )

    async def _work(
        self, frontier: Frontier, delivery: Delivery, sinks: list[Sink], membership: NodeMembership | None
    ) -> None:
        config = self._config
        if self._inline:
            from skitter.app.inline_worker import work_inline

            working = work_inline(config, frontier, self._spider, self._stop, self._metrics)
        else:
            working = work_supervised(
                *(config, frontier, self._stop, self._on_event),
                spider=config.spec.spider,
                membership=membership,
                metrics=self._metrics,
            )
        failover = SinkFailover(
            frontier,
            config.spec.name,
            password=config.sink_password,
            on_event=self._on_event,
            trusted=config.settings.run.trusted,
            named=config.outputs,
            excluded=[sink.target for sink in sinks],
        )
        async with sink_failover(failover, self._stop, self._on_event):
            await work_and_deliver(working, delivery, self._stop, self._on_event)
        if not self._stop.forced:
            finished = (await frontier.state()).state is State.FINISHED
            await finish_delivery(delivery, self._stop, complete=finished)
