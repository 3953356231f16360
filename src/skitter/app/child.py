"""The process of one worker: ``python -m skitter.app CONFIG``, started by a supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from skitter.app.backends import open_frontier
from skitter.errors import SkitterError
from skitter.fetch.engine import CurlFetcher
from skitter.frontier.contract import Frontier
from skitter.model.job import Job
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.loading import load_spider
from skitter.worker.identity import worker_id
from skitter.worker.loop import Worker
from skitter.worker.renewal import RenewalThread

_MAX_LOG_CHARS = 3000
"""A line that fits a pipe's atomic write, so that lines of two threads never mix."""


class ChildConfig(msgspec.Struct, kw_only=True):
    """What a supervisor tells its children."""

    frontier: str
    job: str
    run: dict[str, Any]
    """The group ``run`` of the settings: this node's own."""
    stay: bool = False
    verbosity: int = 0
    pipe: int = -1


class Voice:
    """The pipe to the supervisor. Never blocks: a beat that does not fit is followed by another."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.is_broken = False
        os.set_blocking(pipe, False)

    def say(self, **message: Any) -> None:
        try:
            os.write(self._pipe, json.dumps(message).encode() + b"\n")
        except BlockingIOError:
            pass
        except OSError:
            self.is_broken = True


class _VoiceHandler(logging.Handler):
    def __init__(self, voice: Voice) -> None:
        super().__init__()
        self._voice = voice

    def emit(self, record: logging.LogRecord) -> None:
        self._voice.say(log=self.format(record)[:_MAX_LOG_CHARS])


def make_spider(job: Job) -> Spider:
    """The job's spider, with its arguments; the built-in one gets the job's seeds."""
    spider = load_spider(job.spec.spider, Path.cwd())(**job.spec.arguments)
    if not job.spec.spider:
        spider.start_urls = job.spec.seeds
    return spider


def job_settings(job: Job, run: dict[str, Any]) -> Settings:
    """Job-wide settings from the job, this node's own from its command line."""
    return Settings.from_layers([("the job", job.spec.settings), ("the command line", run)])


def make_worker(
    frontier: Frontier, fetcher: CurlFetcher, spider: Spider, job: Job, settings: Settings, *, stay: bool
) -> Worker:
    """A worker on open parts."""
    return Worker(
        worker_id(),
        source=frontier,
        fetcher=fetcher,
        spider=spider,
        job=job,
        settings=settings,
        by_seeds=not job.spec.spider and not spider.allowed_domains,
        stay=stay,
    )


async def _work(config: ChildConfig, voice: Voice) -> None:
    frontier = open_frontier(config.frontier, config.job, create=False)
    try:
        job = await frontier.job()
        settings = job_settings(job, config.run)
        fetcher = CurlFetcher(settings.fetch)
        worker = make_worker(frontier, fetcher, make_spider(job), job, settings, stay=config.stay)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, worker.stop)
        voice.say(hello=worker.id)

        def beat() -> None:
            culprit = worker.watch.culprit()
            lease = [culprit.work, culprit.id, culprit.epoch] if culprit else None
            voice.say(beat=round(worker.watch.blocked_seconds(), 1), lease=lease)
            if voice.is_broken:
                loop.call_soon_threadsafe(worker.stop)

        def own_source() -> tuple[Frontier, Any]:
            source = open_frontier(config.frontier, config.job, create=False)
            return source, source.close

        with RenewalThread(worker, own_source, settings.limits.lease_seconds, beat):
            await worker.run()
        await fetcher.close()
    finally:
        await frontier.close()


def main() -> int:
    config = msgspec.json.decode(sys.argv[1], type=ChildConfig)
    # Ctrl-C reaches the whole process group; only the supervisor decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    voice = Voice(config.pipe)
    handler = _VoiceHandler(voice)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO if config.verbosity > 0 else logging.WARNING)
    # The spider's file is found, and imports its neighbours, as if it were run from here.
    sys.path.insert(0, str(Path.cwd()))
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_work(config, voice))
    except SkitterError as error:
        voice.say(error=str(error), hint=error.hint, code=error.exit_code)
        return error.exit_code
    return 0


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
