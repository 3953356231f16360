"""The configuration of a crawl: the one place where a source, settings and outputs become what is run.

The command line and ``skitter.crawl`` both come here, so both give the same job name, database, sinks and checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from skitter._version import __version__
from skitter.app.crawl_source import CrawlSource
from skitter.app.fetchers import check_fetcher
from skitter.app.frontiers import default_frontier, is_shared
from skitter.app.intakes import IntakeConfig, intake_config
from skitter.app.outputs import Described, collect_outputs
from skitter.errors import UsageError
from skitter.model.audit import Actor
from skitter.model.job import JobSpec
from skitter.model.job_name import check_job_name
from skitter.observe.events import Level
from skitter.settings import Settings
from skitter.sinks.targets import Target
from skitter.spiders.base import Spider, has_login
from skitter.spiders.class_changes import code_of_class
from skitter.spiders.hook_loading import has_on_close
from skitter.spiders.loading import code_of


class CrawlConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a crawl needs: the job, its frontier, settings and outputs."""

    spec: JobSpec
    frontier: str
    settings: Settings
    outputs: list[Target] = []
    """In the order given; each place once."""
    sink_password: str | None = None
    """For targets that the run remembers: a password is not kept with it."""
    intakes: IntakeConfig = IntakeConfig()
    fresh: bool = False
    timeout: float | None = None
    """Seconds after which the crawl stops, with CrawlTimeoutError if it is incomplete."""
    attributes: dict[str, str] = {}
    """Attributes of the class that a program passed in (``attributes_of``); workers must find them in its file."""
    verbosity: int = 0
    event_level: int = Level.INFO
    """Events that matter less are not even told to this process."""
    print_fd: int = 2
    """File descriptor that worker processes print to; standard output is for results."""
    actor: Actor | None = None
    """Who begins the job, for the audit trail; None: a program of this user."""


def crawl_config(
    source: CrawlSource,
    settings: Settings,
    *,
    job: str | None,
    frontier: str | None,
    outputs: Sequence[tuple[str, bool]],
    project_sinks: Described = ("", ()),
    sink_password: str | None = None,
    intakes: Sequence[str] = (),
    until_idle_seconds: float | None = None,
    closes_unread_intakes: bool = False,
    fresh: bool = False,
    run_key: str = "",
    verbosity: int = 0,
    event_level: int = Level.INFO,
    actor: Actor | None = None,
) -> CrawlConfig:
    """A checked configuration. ``job``, ``frontier``: None is the default. ``outputs``: see ``collect_outputs``.

    ``run_key``: at most one run begins for it, however often the job is begun with it.
    """
    name = source.name if job is None else check_job_name(job)
    url = default_frontier(name) if frontier is None else frontier
    check_one_process(url, settings.run.workers, has_file=source.spider is not None)
    check_recrawl(url, settings)
    check_fetcher(settings)
    if settings.run.proxy:
        from skitter.fetch.proxy import read_proxy

        read_proxy(settings.run.proxy)
    kind = Spider if source.instance is None else type(source.instance)
    if source.spider is not None:
        spider, code = source.spider, code_of(source.spider, Path.cwd())
    else:
        # Other processes have no file of it: its name and its code tell it from another class.
        spider, code = f"notebook:{kind.__qualname__}", code_of_class(kind)
    return CrawlConfig(
        spec=JobSpec(
            name=name,
            spider=spider,
            seeds=source.seeds,
            sitemaps=source.sitemaps,
            arguments=dict(source.arguments),
            settings=settings.job_wide(),
            version=__version__,
            code=code,
            on_close=has_on_close(kind, settings.hooks.hooks),
            login=has_login(source.instance),
            run_keys=[run_key] if run_key else [],
        ),
        frontier=url,
        settings=settings,
        outputs=collect_outputs(
            typed=outputs,
            tables=project_sinks,
            spider=(f"the sinks of {spider}", source.sinks),
            item_key=source.item_key,
            job=name,
            password=sink_password,
        ),
        sink_password=sink_password,
        intakes=intake_config(
            intakes, job=name, until_idle_seconds=until_idle_seconds, closes_unread=closes_unread_intakes
        ),
        fresh=fresh,
        verbosity=verbosity,
        event_level=event_level,
        actor=actor,
    )


def check_one_process(frontier: str, workers: int, *, has_file: bool) -> None:
    """UsageError for several workers where only one process can work: for its frontier, or for its spider."""
    if workers > 1 and not has_file:
        raise UsageError(
            f"a spider without a file runs in one process: {workers} workers",
            hint="write it into a file of its own, or leave workers at 1",
        )
    if workers > 1 and not is_shared(frontier):
        raise UsageError(
            f"one process only: --frontier {frontier} with {workers} workers",
            hint="omit frontier= (--frontier): SQLite takes any number of workers",
        )


def check_recrawl(frontier: str, settings: Settings) -> None:
    """UsageError for a crawl that is to come back to its pages, and cannot."""
    if settings.recrawl.is_on and settings.dedup.dedup_scope == "job":
        raise UsageError(
            "dedup_scope=job does not fetch delivered pages again, so it cannot be used with --recrawl",
            hint="omit one of them",
        )
    if settings.recrawl.is_on and settings.run.cache_dir:
        raise UsageError("cached pages never change, so --cache cannot be used with --recrawl", hint="omit one of them")
    if not settings.recrawl.stay:
        return
    if settings.recrawl.recrawl != "due":
        raise UsageError("--stay needs --recrawl", hint='settings={"recrawl": "due", "stay": True} (--recrawl --stay)')
    if not is_shared(frontier):
        raise UsageError(
            f"page records would be lost after each run: --frontier {frontier} with --stay",
            hint="omit frontier= (--frontier): SQLite keeps them",
        )


def trusting_own_code(settings: Settings) -> Settings:
    """Item functions that these settings name are trusted, although workers read their names from the store."""
    named = settings.items.item_functions.split(",")
    modules = [name.partition(":")[0].strip() for name in named if ":" in name]
    run = msgspec.structs.replace(settings.run, trusted_code=",".join([*settings.run.trusted, *modules]))
    return msgspec.structs.replace(settings, run=run)
