"""``skitter.crawl``: the same as the command, from a script or a notebook."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from skitter._version import __version__
from skitter.app.config import CrawlConfig, Summary
from skitter.app.crawl import crawl_node
from skitter.app.event_loop import new_loop
from skitter.app.frontiers import default_frontier
from skitter.app.outputs import collect_outputs
from skitter.errors import SkitterError, UsageError
from skitter.model.job import JobSpec, Report
from skitter.model.url import absolute, host_key
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.observe.events import logger, tell
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.loading import LOADING, check_spider, code_of, full_reference, make_spider
from skitter.spiders.scrapy_settings import translated
from skitter.spiders.sitemaps import ROBOTS

T = TypeVar("T")
log = logging.getLogger("skitter")


def crawl(
    target: type[Spider] | str | Sequence[str] = (),
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
    """Crawl with a spider class, or from one or several URLs, until the end.

    ``sitemaps``: what they list is crawled as well, or instead; "robots" are those that the seeds' hosts name.
    ``settings`` are the names of docs/reference/settings.md. A spider that was defined in a notebook,
    at a prompt or inside a function runs in this process; any other runs in workers of its own, as
    ``skitter crawl`` does: they load it from its file, so the script calls this under ``if __name__ == "__main__":``.
    """
    if file := LOADING.get():
        # A worker that loads its spider from the script would start the script's crawl again, and so would its workers.
        raise UsageError(
            f"crawl() is called while {file} is being loaded", hint='put it under if __name__ == "__main__":'
        )
    layers: list[tuple[str, Mapping[str, Any]]] = []
    inline: Spider | None = None
    sinks: Sequence[Any] = ()
    item_key: Any = ()
    outputs = [output] if isinstance(output, (str, Path)) else output or []
    if isinstance(target, type) and issubclass(target, Spider):
        warnings: list[str] = []
        own = dict(target.custom_settings)
        sinks = own.pop("sinks", target.sinks)
        layers.append(translated("the spider", own, warnings))
        for warning in warnings:
            log.warning(warning)
        spider = make_spider(target, arguments or {})
        if sitemaps and not isinstance(spider.sitemap_urls, str):
            spider.sitemap_urls = [*spider.sitemap_urls, *sitemaps]
        check_spider(spider)
        item_key = spider.item_key
        reference, seeds = _reference(target), []
        if reference is None:
            inline = spider
        name = job or spider.name or target.__name__
    else:
        seeds = [absolute(url) for url in ([target] if isinstance(target, str) else target)]
        if not seeds and (not sitemaps or ROBOTS in sitemaps):
            raise UsageError("nothing to crawl", hint="give a spider class or at least one URL")
        first = seeds[0] if seeds else absolute(sitemaps[0])
        reference, name = "", job or host_key(first).partition("//")[2].replace(":", "-")
    joined = Settings.from_layers([*layers, ("settings", settings or {})])
    config = CrawlConfig(
        spec=JobSpec(
            name=name,
            spider=reference if reference is not None else f"notebook:{name}",
            seeds=seeds,
            sitemaps=list(sitemaps),
            arguments=dict(arguments or {}),
            settings=joined.job_wide(),
            version=__version__,
            code=code_of(reference or "", Path.cwd()),
        ),
        frontier=frontier or default_frontier(name),
        settings=joined,
        outputs=collect_outputs(
            typed=[(str(each), overwrite) for each in outputs],
            job=name,
            spider=("the spider's sinks", sinks),
            item_key=item_key,
        ),
        fresh=fresh,
        event_level=logger.getEffectiveLevel(),
    )
    try:
        return run(_crawl(config, inline))
    except SkitterError as error:
        # The command line prints it; here a traceback is all that a person sees.
        if error.hint:
            error.add_note(f"hint: {error.hint}")
        raise


async def _crawl(config: CrawlConfig, spider: Spider | None) -> Summary:
    """Crawl; in the main thread, Ctrl-C and SIGTERM stop it as they stop the command."""
    node = crawl_node(config, on_report=_ignore, on_event=tell, spider=spider)
    signals = ShutdownSignals(tell, stop=node.stop, kill=node.kill)
    with signals.listening():
        summary = await node.run()
    if summary is None:
        # Before there was anything to sum up.
        raise KeyboardInterrupt
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


def _reference(spider: type[Spider]) -> str | None:
    """``FILE:CLASS`` for workers to load, as the command line has it; None when it cannot be loaded from a file."""
    try:
        file = Path(inspect.getfile(spider)).absolute()
    except (TypeError, OSError):
        return None
    if file.suffix != ".py" or not file.exists() or "." in spider.__qualname__:
        return None
    return full_reference(str(file), spider, Path.cwd())


def _ignore(report: Report) -> None:
    pass
