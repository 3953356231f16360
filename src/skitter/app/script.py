"""``skitter.crawl``: the same as the command, from a script or a notebook."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import msgspec

from skitter.app.config import CrawlConfig, crawl_config
from skitter.app.crawl_node import make_crawl_node
from skitter.app.crawl_source import CrawlSource, source_of_spider, source_of_urls
from skitter.app.event_loop import new_loop
from skitter.app.script_log import logging_as
from skitter.app.summary import Summary
from skitter.errors import SkitterError, UsageError
from skitter.model.job import Report
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.observe.events import emit, logger
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.function_spider import function_spider
from skitter.spiders.loading import LOADING, full_reference
from skitter.spiders.scrapy_settings import translated

T = TypeVar("T")
log = logging.getLogger("skitter")


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
) -> Summary:
    """Crawl with a spider class, from one or several URLs, or with a function for each of ``urls``, until the end.

    A function is ``scrape(url, meta)``, which fetches by itself, or ``scrape(response, meta)``; ``meta`` may be left
    out, it may be async, and it returns a dict, a list of dicts or None.

    ``sitemaps``: what they list is crawled as well, or instead; "robots" are those that the seeds' hosts name.
    ``settings`` are the names of docs/reference/settings.md, or Scrapy's, and win over the spider's own; ``log_level``,
    ``log_file`` and ``events`` change ``logging`` while the crawl runs. A spider that was defined in a notebook,
    at a prompt or inside a function runs in this process; any other runs in workers of its own, as
    ``skitter crawl`` does: they load it from its file, so the script calls this under ``if __name__ == "__main__":``.
    """
    if file := LOADING.get():
        # A worker that loads its spider from the script would start the script's crawl again, and so would its workers.
        raise UsageError(
            f"crawl() is called while {file} is being loaded", hint='put it under if __name__ == "__main__":'
        )
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
    try:
        # Only what was asked for: a script that says nothing of its log has set up ``logging`` as it likes.
        with logging_as(config.settings.logging, given, config.spec.name):
            config = msgspec.structs.replace(config, event_level=logger.getEffectiveLevel())
            return run(_crawl(config, inline))
    except SkitterError as error:
        # The command line prints it; here a traceback is all that a person sees.
        if error.hint:
            error.add_note(f"hint: {error.hint}")
        raise


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
    """The configuration that ``crawl`` runs; the spider, where no other process could load it; the settings given."""
    source = source_of(target, urls, arguments or {}, sitemaps)
    warnings = list(source.warnings)
    (origin, own), feeds = translated("settings", settings or {}, warnings)
    if feeds:
        source = source._replace(sinks=feeds)
    for warning in warnings:
        log.warning(warning)
    outputs = [output] if isinstance(output, (str, Path)) else output or []
    config = crawl_config(
        source,
        Settings.from_layers([("the spider", source.settings), (origin, own)]),
        job=job,
        frontier=frontier,
        outputs=[(str(each), overwrite) for each in outputs],
        fresh=fresh,
    )
    return config, source.instance if source.spider is None else None, {*source.settings, *own}


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
    if summary is None:
        # Before there was anything to sum up: as without a handler.
        raise KeyboardInterrupt if signals.signal == signal.SIGINT else SystemExit(128 + signals.signal)
    summary.signal = signals.signal
    return summary


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a loop of skitter's own, also where one is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(work)
    results: list[T] = []
    errors: list[BaseException] = []

    def beside() -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                results.append(runner.run(work))
        except BaseException as error:  # noqa: BLE001  handed on to the caller's thread
            errors.append(error)

    thread = threading.Thread(target=beside, name="skitter-crawl")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


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
