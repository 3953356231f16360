"""Settings of the scheduler: job and frontier of a Scrapy or scrapy-redis project."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import scrapy
from scrapy.settings import BaseSettings

from skitter._version import __version__
from skitter.app.frontiers import default_frontier, is_shared
from skitter.app.outputs import collect_outputs
from skitter.errors import SettingsError, UsageError
from skitter.model.job import JobSpec
from skitter.model.job_name import check_job_name, job_name_of
from skitter.settings import Settings
from skitter.sinks.targets import Target
from skitter.spiders.foreign_settings import FRONTIER_NAMES, counterpart
from skitter.spiders.redis_settings import OWN_URL, redis_url

log = logging.getLogger("skitter.scrapy")
_ORIGIN = "Scrapy's settings"
_WITHOUT_EFFECT = (
    *("SCHEDULER_SERIALIZER", "SCHEDULER_QUEUE_CLASS", "SCHEDULER_QUEUE_KEY", "SCHEDULER_DUPEFILTER_KEY"),
    *("SCHEDULER_DUPEFILTER_CLASS", "REDIS_CLS", "JOBDIR"),
)
"""Settings of other schedulers that have no effect here."""


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the scheduler: its job, frontier and outputs."""

    frontier: str
    spec: JobSpec
    settings: Settings
    outputs: list[Target]
    fresh: bool
    slots: int
    """Maximum number of leases of this process: those that Scrapy is processing, and as many in reserve."""

    @property
    def lease_seconds(self) -> float:
        """Duration of a lease."""
        return self.settings.limits.lease_seconds


def read_settings(settings: BaseSettings, spider: scrapy.Spider) -> SchedulerSettings:
    """Return the settings of a spider's scheduler. Raises SettingsError or UsageError for invalid settings."""
    name = check_job_name(str(settings.get("SKITTER_JOB") or "")) if settings.get("SKITTER_JOB") else ""
    job = name or job_name_of(spider.name)
    frontier = _frontier(settings, job)
    if not is_shared(frontier):
        raise UsageError(
            f"exists inside one process only: {frontier}", hint="SKITTER_FRONTIER = 'sqlite:PATH' or redis://…"
        )
    concurrency = max(1, settings.getint("CONCURRENT_REQUESTS"))
    own = _job_settings(settings, spider)
    key = settings.get("SKITTER_RUN_KEY")
    for unused in _WITHOUT_EFFECT:
        if settings.get(unused):
            log.warning("%s has no effect: %s", unused, counterpart(unused))
    return SchedulerSettings(
        frontier=frontier,
        spec=JobSpec(
            name=job,
            spider=f"scrapy:{spider.name}",
            settings=own.job_wide(),
            version=__version__,
            run_keys=[str(key)] if key else [],
        ),
        settings=own,
        outputs=collect_outputs(typed=(), tables=("SKITTER_SINKS", _sinks(settings)), job=job),
        fresh=settings.getbool("SCHEDULER_FLUSH_ON_START"),
        slots=2 * concurrency,
    )


def _frontier(settings: BaseSettings, job: str) -> str:
    values = {name: settings.get(name) for name in FRONTIER_NAMES if settings.get(name)}
    if url := str(values.pop(OWN_URL, "")):
        return url if ":" in url else f"sqlite:{url}"
    return redis_url(_ORIGIN, values) if values else default_frontier(job)


def start_urls_server(settings: BaseSettings) -> str:
    """Return the URL of the Redis with the start URLs: from the settings, or else that of the frontier."""
    values = {name: settings.get(name) for name in FRONTIER_NAMES if settings.get(name)}
    url = str(values.pop(OWN_URL, ""))
    return url if not values and url.startswith(("redis", "unix")) else redis_url(_ORIGIN, values)


def _sinks(settings: BaseSettings) -> Sequence[Any]:
    given = settings.get("SKITTER_SINKS") or []
    return [given] if isinstance(given, (str, dict)) else list(given)


def _job_settings(settings: BaseSettings, spider: scrapy.Spider) -> Settings:
    """Return the job's settings: Scrapy's politeness, but across all processes. Scrapy itself handles robots.txt."""
    delay = getattr(spider, "download_delay", None)
    mapped = {
        "delay_seconds": settings.getfloat("DOWNLOAD_DELAY") if delay is None else float(delay),
        "per_host": max(1, settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")),
        "obey_robots": False,
        "concurrency": max(1, settings.getint("CONCURRENT_REQUESTS")),
    }
    given = settings.get("SKITTER_SETTINGS") or {}
    try:
        given = dict(given)
    except (TypeError, ValueError) as error:
        raise SettingsError("bad value: SKITTER_SETTINGS", hint='as in {"lease_seconds": 60}') from error
    return Settings.from_layers([(_ORIGIN, mapped), ("SKITTER_SETTINGS", given)])


def idle_seconds(settings: BaseSettings) -> float | None:
    """Return the time after which an empty start URL key is no longer read; None means never, as in scrapy-redis."""
    seconds = settings.getfloat("MAX_IDLE_TIME_BEFORE_CLOSE") or settings.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")
    return seconds or None
