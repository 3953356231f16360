"""Nodes are objects: a program runs several in one event loop, stops them, and keeps its own signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.app import CrawlConfig, Summary, make_crawl_node, make_worker_node, open_frontier
from skitter.model.job import JobSpec, Report
from skitter.node.node import Node
from skitter.observe.events import Event
from skitter.settings import Settings
from skitter.testing.web import SyntheticWeb, WebSpec


class Running:
    """A node at work, and what it reports."""

    def __init__(self, folder: Path | None, job: str, url: str, **settings: object) -> None:
        joined = Settings.from_layers([("test", {"allow_private": True, **settings})])
        spec = JobSpec(name=job, spider="", seeds=[url], settings=joined.job_wide())
        self.frontier = f"sqlite:{folder / job}.db" if folder else "memory:"
        self.config = CrawlConfig(spec=spec, frontier=self.frontier, settings=joined)
        self.has_pages = asyncio.Event()
        self.told: list[str] = []
        self.node: Node[Summary] = make_crawl_node(self.config, on_report=self._report, on_event=self._event)
        self.result = asyncio.create_task(self.node.run())

    def _report(self, report: Report) -> None:
        if report.counts.done:
            self.has_pages.set()

    def _event(self, event: Event) -> None:
        self.told.append(event.kind.name)

    async def leased(self) -> int:
        frontier = open_frontier(self.frontier, self.config.spec.name, create=False)
        try:
            return (await frontier.counts()).leased
        finally:
            await frontier.close()


@contextlib.contextmanager
def untouched_handlers() -> Iterator[None]:
    """The handlers of Ctrl-C and SIGTERM are the program's own, and a node that sets one fails."""
    set_handler = signal.signal

    def checked(number: int, handler: object) -> object:
        assert number not in (signal.SIGINT, signal.SIGTERM), f"a node has set the handler of signal {number}"
        return set_handler(number, handler)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", checked)
        yield


async def test_two_nodes_of_different_jobs_run_and_are_stopped_in_one_event_loop(tmp_path: Path) -> None:
    async with (
        contextlib.AsyncExitStack() as program,
        SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=10)) as small,
        SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=5000, latency_seconds=0.02)) as large,
    ):
        program.enter_context(untouched_handlers())
        first = Running(tmp_path, "first", small.urls[0])
        second = Running(tmp_path, "second", large.urls[0])
        done = await first.result
        assert done is not None
        assert (done.job, done.state, done.pages) == ("first", "finished", len(small.expected().done))
        await second.has_pages.wait()
        assert not second.result.done(), "the end of one node is not that of another"
        second.node.stop()
        stopped = await second.result
        assert stopped is not None
        assert (stopped.job, stopped.state, stopped.signal) == ("second", "running", 0)
        assert stopped.pages > 0
        assert await second.leased() == 0, "what was in flight is finished or handed back"
        assert "worker.left" in second.told


async def test_two_nodes_that_work_in_this_process_leave_its_standard_output_as_it_was() -> None:
    async with (
        SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=10)) as small,
        SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=40, latency_seconds=0.3)) as large,
    ):
        before = sys.stdout
        first = Running(None, "first", small.urls[0])
        second = Running(None, "second", large.urls[0])
        done = await first.result
        assert done is not None
        assert not second.result.done(), "they end in the order in which they began"
        assert sys.stdout is not before, "what a spider prints is no data"
        finished = await second.result
        assert finished is not None
        assert (done.pages, finished.pages) == (len(small.expected().done), len(large.expected().done))
        assert sys.stdout is before


async def test_a_killed_node_ends_at_once_and_another_one_goes_on_with_the_job(tmp_path: Path) -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=200, latency_seconds=0.02)) as web:
        killed = Running(tmp_path, "job", web.urls[0], per_host=4)
        await killed.has_pages.wait()
        killed.node.kill()
        summary = await killed.result
        assert summary is not None
        assert "worker.left" not in killed.told
        assert summary.state == "running"
        joining = make_worker_node(
            frontier=killed.frontier,
            job="job",
            settings_overrides={},
            stay=False,
            on_report=lambda _: None,
            on_event=lambda _: None,
        )
        finished = await joining.run()
        assert finished is not None
        assert (finished.state, finished.pages) == ("finished", len(web.expected().done))


async def test_a_node_that_waits_for_its_job_can_be_stopped(tmp_path: Path) -> None:
    node = make_worker_node(
        frontier=f"sqlite:{tmp_path / 'later.db'}",
        job="later",
        settings_overrides={},
        stay=True,
        on_report=lambda _: None,
        on_event=lambda _: None,
    )
    running = asyncio.create_task(node.run())
    await asyncio.sleep(0)
    node.stop()
    assert await running is None
