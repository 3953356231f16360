"""``skitter.crawl`` and ``skitter.acrawl``: the same as the command, from a script or a notebook."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import msgspec

from skitter.app.config import CrawlConfig, crawl_config
from skitter.app.crawl_node import make_crawl_node
from skitter.app.crawl_source import CrawlSource, source_of_spider, source_of_urls
from skitter.app.crawl_thread import RUNNING, CrawlThread
from skitter.app.event_loop import new_loop
from skitter.app.script_log import logging_as
from skitter.app.summary import Summary
from skitter.concurrency import LoopThread
from skitter.errors import UsageError
from skitter.model.job import Report
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.observe.events import emit, logger
from skitter.settings import Run, Settings
from skitter.spiders.base import Spider
from skitter.spiders.class_changes import attributes_of
from skitter.spiders.function_spider import function_spider
from skitter.spiders.loading import LOADING, full_reference
from skitter.spiders.scrapy_settings import translated

T = TypeVar("T")
log = logging.getLogger("skitter")
_NEEDS_PROCESSES = ("workers", "coordinator", "max_worker_bytes", "memory_warning_bytes", "memory_limit_bytes")
"""Settings whose other values need worker processes."""

Target = type[Spider] | Callable[..., Any] | str | Sequence[str]
"""A spider class, a function, a URL or several."""


def crawl(
    target: type[Spider] | Callable[..., Any] | str | Sequence[str] = (),
    urls: str | Sequence[str] = (),
    *,
    sitemaps: Sequence[str] = (),
    output: str | Path | Sequence[str | Path] | None = None,
    overwrite: bool = False,
    job: str | None = None,
    frontier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    fresh: bool = False,
    timeout: float | None = None,
) -> Summary:
    """Crawl with a spider class, from one or several URLs, or with a function for each of ``urls``, until the end.

    A function is ``scrape(url, meta)``, which fetches by itself, or ``scrape(response, meta)``; ``meta`` is
    optional. It may be async, and returns a dict, a list of dicts or None.

    ``sitemaps``: crawl the pages that they list, in addition or instead; "robots" stands for those in robots.txt of the
    seeds' hosts. ``settings`` uses the names of docs/reference/settings.md, or Scrapy's, and overrides the spider's
    own; ``log_level``, ``log_file`` and ``events`` change ``logging`` during the crawl. The class runs in this process.
    With ``workers`` of 2 or more it runs in worker processes, which load it from its file: then call this function
    under ``if __name__ == "__main__":``. After ``timeout`` seconds the crawl stops gracefully, and CrawlTimeoutError is
    raised. Ctrl-C and SIGTERM stop it gracefully too, and end the program as they do without a crawl."""
    refuse_while_loading("crawl")
    config, inline, given = script_config(
        target,
        urls,
        sitemaps=sitemaps,
        output=output,
        overwrite=overwrite,
        job=job,
        frontier=frontier,
        settings=settings,
        arguments=arguments,
        fresh=fresh,
    )
    config = msgspec.structs.replace(config, timeout=timeout)
    if _is_in_loop():
        thread = CrawlThread(config, inline, given)
        thread.start()
        return thread.wait()
    # Only what was asked for: a script that says nothing of its log has set up ``logging`` as it likes.
    with RUNNING.taken(config), logging_as(config.settings.logging, given, config.spec.name):
        config = msgspec.structs.replace(config, event_level=logger.getEffectiveLevel())
        return run(_crawl(config, inline))


async def acrawl(
    target: type[Spider] | Callable[..., Any] | str | Sequence[str] = (),
    urls: str | Sequence[str] = (),
    *,
    sitemaps: Sequence[str] = (),
    output: str | Path | Sequence[str | Path] | None = None,
    overwrite: bool = False,
    job: str | None = None,
    frontier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    fresh: bool = False,
    timeout: float | None = None,  # noqa: ASYNC109  the crawl stops gracefully, and then it is raised
) -> Summary:
    """Run ``crawl`` in a program with an event loop: other tasks continue, and several crawls may run at a time.

    Each crawl has its own thread and event loop. Cancelling it stops the crawl gracefully, as Ctrl-C does in a notebook
    cell and under ``asyncio.run``; the same call resumes it. A program can crawl a job only once at a time.

        books, films = await asyncio.gather(skitter.acrawl(Books), skitter.acrawl(Films))
    """
    refuse_while_loading("acrawl")
    config, inline, given = script_config(
        target,
        urls,
        sitemaps=sitemaps,
        output=output,
        overwrite=overwrite,
        job=job,
        frontier=frontier,
        settings=settings,
        arguments=arguments,
        fresh=fresh,
    )
    config = msgspec.structs.replace(config, timeout=timeout)
    thread = CrawlThread(config, inline, given)
    thread.start()
    summary = await thread.wait_in_loop()
    assert summary is not None, "only who was cancelled stops it before it has begun"
    return summary


def refuse_while_loading(function: str) -> None:
    """UsageError in a worker that loads its spider: it would start the crawl again, and so would its workers."""
    if file := LOADING.get():
        raise UsageError(
            f"{function}() is called while {file} is being loaded", hint='call it under if __name__ == "__main__":'
        )


def script_config(
    target: Target = (),
    urls: str | Sequence[str] = (),
    *,
    sitemaps: Sequence[str] = (),
    output: str | Path | Sequence[str | Path] | None = None,
    overwrite: bool = False,
    job: str | None = None,
    frontier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> tuple[CrawlConfig, Spider | None, set[str]]:
    """The configuration that ``crawl`` runs; the spider, if it runs in this process; the settings given."""
    source = source_of(target, urls, arguments or {}, sitemaps)
    warnings = list(source.warnings)
    (origin, own), feeds, named = translated("settings", settings or {}, warnings)
    if feeds:
        source = source._replace(sinks=feeds)
    for warning in warnings:
        log.warning(warning)
    outputs: Any = [output] if isinstance(output, (str, Path)) else output or []
    if not (isinstance(outputs, Sequence) and all(isinstance(each, (str, Path)) for each in outputs)):
        raise UsageError(f"not an output: {output!r:.100}", hint="give a path, a URL or a list of them")
    if frontier is not None and not isinstance(frontier, str):
        raise UsageError(f"not the URL of a frontier: {frontier!r:.100}", hint=f'as in frontier="sqlite:{frontier}"')
    config = crawl_config(
        source,
        Settings.from_layers([("the spider", source.settings), (origin, own)]),
        job=job,
        frontier=frontier or named or None,
        outputs=[(str(each), overwrite) for each in outputs],
        fresh=fresh,
    )
    if source.spider is None or runs_here(config.settings.run):
        return config, source.instance, {*source.settings, *own}
    attributes = {} if source.instance is None else attributes_of(type(source.instance))
    return msgspec.structs.replace(config, attributes=attributes), None, {*source.settings, *own}


def runs_here(run: Run) -> bool:
    """Whether the crawl runs in this process: nothing asks for several worker processes, or limits one."""
    return all(getattr(run, name) == getattr(Run(), name) for name in _NEEDS_PROCESSES)


def source_of(
    target: Target,
    urls: str | Sequence[str],
    arguments: Mapping[str, str],
    sitemaps: Sequence[str] = (),
    *,
    starts_empty: bool = False,
) -> CrawlSource:
    """What a target of ``crawl`` is; ``starts_empty``: see ``source_of_spider``."""
    seeds = [urls] if isinstance(urls, str) else list(urls)
    kind = function_spider(target) if isinstance(target, FunctionType) else target
    if isinstance(kind, type) and issubclass(kind, Spider):
        named = target if isinstance(target, FunctionType) else kind
        return source_of_spider(kind, _reference(named), arguments, sitemaps, seeds, starts_empty=starts_empty)
    if not isinstance(target, (str, Sequence)):
        raise UsageError(f"not a spider: {target!r:.100}", hint="give a spider class, a function or URLs")
    seeds = [*([target] if isinstance(target, str) else list(target)), *seeds]
    if not seeds and not sitemaps:
        raise UsageError("nothing to crawl", hint="give a spider class or at least one URL")
    if arguments:
        raise UsageError(f"arguments without a spider: {next(iter(arguments))}", hint="the built-in spider takes none")
    return source_of_urls(seeds, sitemaps)


async def _crawl(config: CrawlConfig, spider: Spider | None) -> Summary:
    """Crawl; in the main thread, Ctrl-C and SIGTERM stop it as they stop the command."""
    node = make_crawl_node(config, on_report=_ignore, on_event=emit, spider=spider)
    signals = ShutdownSignals(emit, stop=node.stop, kill=node.kill)
    with signals.listening():
        summary = await node.run()
    if signals.signal or summary is None:
        # As without a handler, so that the program does not go on as if the crawl were complete.
        raise KeyboardInterrupt if signals.signal == signal.SIGINT else SystemExit(128 + signals.signal)
    return summary


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a loop of skitter's own, also where one is running already (a notebook)."""
    if not _is_in_loop():
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(work)
    thread = LoopThread("skitter-run", new_loop())
    try:
        return thread.wait_for(work)
    finally:
        thread.stop()


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _reference(spider: type[Spider] | FunctionType) -> str | None:
    """``FILE:NAME`` for workers to load, as the command line has it; None when it cannot be loaded from a file."""
    try:
        file = Path(inspect.getfile(spider)).absolute()
    except (TypeError, OSError):
        return None
    if file.suffix != ".py" or not file.exists() or not spider.__qualname__.isidentifier():
        return None
    return full_reference(str(file), spider, Path.cwd())


def _ignore(report: Report) -> None:
    pass
