"""``skitter.crawl``: the same as the command, from a script or a notebook."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from skitter._version import __version__
from skitter.app.config import CrawlPlan, Summary
from skitter.app.crawl import run_crawl
from skitter.app.event_loop import new_loop
from skitter.app.frontiers import default_frontier
from skitter.app.outputs import collect_outputs
from skitter.app.script_log import logging_as
from skitter.errors import SkitterError, UsageError
from skitter.model.job import JobSpec, Report
from skitter.model.url import absolute, host_key
from skitter.observe.events import logger, tell
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.loading import LOADING, check_spider, code_of, full_reference, make_spider
from skitter.spiders.scrapy_settings import of_spider, translated
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
    ``settings`` are the names of docs/reference/settings.md, or Scrapy's, and win over the spider's own; ``log_level``
    and ``log_file`` change ``logging`` while the crawl runs. A spider that was defined in a notebook,
    at a prompt or inside a function runs in this process; any other runs in workers of its own, as
    ``skitter crawl`` does: they load it from its file, so the script calls this under ``if __name__ == "__main__":``.
    """
    if file := LOADING.get():
        # A worker that loads its spider from the script would start the script's crawl again, and so would its workers.
        raise UsageError(
            f"crawl() is called while {file} is being loaded", hint='put it under if __name__ == "__main__":'
        )
    warnings: list[str] = []
    given, feeds = translated("settings", settings or {}, warnings)
    layers = [given]
    inline: Spider | None = None
    sinks: Sequence[Any] = ()
    item_key: Any = ()
    outputs = [output] if isinstance(output, (str, Path)) else output or []
    if isinstance(target, type) and issubclass(target, Spider):
        spider = make_spider(target, arguments or {})
        if sitemaps and not isinstance(spider.sitemap_urls, str):
            spider.sitemap_urls = [*spider.sitemap_urls, *sitemaps]
        check_spider(spider)
        own, sinks = of_spider("the spider", spider, warnings)
        layers = [own, given]
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
    for warning in warnings:
        log.warning(warning)
    joined = Settings.from_layers(layers)
    plan = CrawlPlan(
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
            spider=("settings", feeds) if feeds else ("the spider's sinks", sinks),
            item_key=item_key,
        ),
        fresh=fresh,
    )
    # Only what was asked for: a script that says nothing of its log has set up ``logging`` as it likes.
    asked = {name for _, values in layers for name in values}
    try:
        with logging_as(joined.logging, asked):
            plan = msgspec.structs.replace(plan, event_level=logger.getEffectiveLevel())
            return run(run_crawl(plan, on_report=_ignore, on_event=tell, spider=inline))
    except SkitterError as error:
        # The command line prints it; here a traceback is all that a person sees.
        if error.hint:
            error.add_note(f"hint: {error.hint}")
        raise


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
