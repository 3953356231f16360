"""Submission of a job: it begins or resumes as with ``skitter crawl``, and a fleet does the work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from skitter.app.audit import local_actor
from skitter.app.config import CrawlConfig, crawl_config
from skitter.app.crawl_node import opened
from skitter.app.crawl_source import source_of_spider, source_of_urls
from skitter.app.frontiers import is_shared
from skitter.app.intakes import intakes_read
from skitter.app.job_checks import is_begun, refuse_live_workers, settings_to_join
from skitter.cluster.process_identity import live_workers
from skitter.delivery.job_sinks import STDOUT, OnEvent, as_kept
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import UsageError
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.audit import Actor
from skitter.model.job import Begun, State
from skitter.model.secrets import shown_frontier
from skitter.node.dead_workers import recover_dead_workers
from skitter.node.node import Node
from skitter.observe import events
from skitter.settings import Settings
from skitter.sinks.file_targets import archive_of
from skitter.sinks.targets import Target, is_on_one_machine, sink_of
from skitter.spiders.loading import full_reference, load_spider
from skitter.spiders.scrapy_settings import translated
from skitter.stop_request import StopRequest


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was submitted."""

    job: str
    frontier: str
    """Its URL, without a password."""
    begun: Begun
    run: int
    state: State
    workers: int
    """Number of workers that already work for the job."""
    outputs: list[str]


def make_submit_node(config: CrawlConfig, *, on_event: OnEvent) -> Node[Submitted]:
    """A node that begins or resumes a job, and reads its intakes until they are closed."""
    return Node(lambda stop: submit_job(config, on_event=on_event, stop=stop))


async def submit_job(
    config: CrawlConfig,
    *,
    on_event: OnEvent,
    stop: StopRequest | None = None,
    keeps_items: bool = False,
    actor: Actor | None = None,
) -> Submitted:
    """Begin or resume a job, and work on nothing; its intakes are read until they are closed.

    ``keeps_items``: where no output is given, items are kept for programs (``client:``) instead of dropped.
    ``actor``: who is recorded, instead of the one of the configuration.
    """
    check_submission(config)
    actor = actor or config.actor or local_actor("program")
    async with opened(config.frontier, config.spec.name, create=True) as frontier:
        if config.fresh and not await is_begun(frontier, config.spec):
            await refuse_live_workers(frontier)
        await recover_dead_workers(frontier, on_event)
        config, joins = await settings_to_join(frontier, config, on_event)
        try:
            kept = [seen.target for seen in await frontier.sinks()]
        except UsageError:
            kept = []
        outputs = [sink_of(as_kept(target, kept)).target for target in config.outputs]
        if keeps_items and not outputs:
            outputs = kept or [CLIENT]
        operator = acting_for(frontier, actor)
        begun = await operator.begin(config.spec, fresh=config.fresh, sinks=outputs)
        await _read_intakes(frontier, operator, config, stop or StopRequest(), on_event)
        report = await frontier.report(0)
    if not report.sinks:
        on_event(events.JOB_NO_OUTPUT())
    return Submitted(
        job=config.spec.name,
        frontier=shown_frontier(config.frontier),
        begun=Begun.JOINED if joins else begun,
        run=report.job.run,
        state=report.job.state,
        workers=len(live_workers(report)),
        outputs=[sink.target for sink in report.sinks],
    )


async def _read_intakes(
    frontier: Frontier, operator: Frontier, config: CrawlConfig, stop: StopRequest, on_event: OnEvent
) -> None:
    work = asyncio.current_task()
    assert work is not None, "this is a task"
    intakes = intakes_read(frontier, config.intakes, config.settings, stop, on_event, operator=operator)
    async with intakes as reading:
        # A reader looks by itself whether it was asked to stop, and hands back what it has not added.
        stop.set_handlers(lambda: None, work.cancel)
        if reading:
            await asyncio.wait(reading, return_when=asyncio.FIRST_EXCEPTION)


def submission_config(
    spider: str | None,
    urls: Sequence[str],
    *,
    sitemaps: Sequence[str] = (),
    output: str | Sequence[str] | None = None,
    job: str | None = None,
    frontier: str,
    settings: Mapping[str, Any],
    arguments: Mapping[str, str],
    fresh: bool = False,
    sink_password: str | None = None,
) -> CrawlConfig:
    """The configuration of a job from plain values, as a message of another system has them.

    ``spider``: the reference of a class or a function, as in ``books.py:Books``; None: the built-in one, from ``urls``.
    """
    if spider is None:
        if arguments:
            raise UsageError(
                f"arguments without a spider: {next(iter(arguments))}", hint="the built-in spider takes none"
            )
        source = source_of_urls(urls, sitemaps)
    else:
        folder = Path.cwd()
        kind = load_spider(spider, folder)
        source = source_of_spider(kind, full_reference(spider, kind, folder), arguments, sitemaps, urls)
    (origin, own), _, _ = translated("settings", settings, [])
    return crawl_config(
        source,
        Settings.from_layers([("the spider", source.settings), (origin, own)]),
        job=job,
        frontier=frontier,
        outputs=[(each, False) for each in ([output] if isinstance(output, str) else output or [])],
        sink_password=sink_password,
        fresh=fresh,
    )


def check_submission(config: CrawlConfig) -> None:
    """UsageError for a job that other processes could not serve as it is meant."""
    if not is_shared(config.frontier):
        raise UsageError(
            f"exists inside one process only: {config.frontier}", hint="use --frontier sqlite:PATH or redis://…"
        )
    if config.spec.spider.startswith("notebook:"):
        raise UsageError(
            f"a spider without a file: {config.spec.name}", hint="write it into a file that every node has"
        )
    if config.settings.recrawl.stay:
        raise UsageError("--stay cannot be submitted", hint="use skitter crawl --recrawl --stay; workers may join it")
    _check_targets(config.outputs, config.settings.fleet.deliver_node)


def _check_targets(outputs: Iterable[Target], deliver_node: str) -> None:
    for target in outputs:
        if target.name == STDOUT or archive_of(target.name) is not None:
            raise UsageError(
                f"a submitted job cannot write to: {target.name}",
                hint="use skitter crawl; a fleet writes files, databases and streams",
            )
        if is_on_one_machine(target.name) and not deliver_node:
            raise UsageError(
                f"no node given to write this: {target.name}",
                hint="use --deliver NODE, or a database or stream, which every node can write",
            )
