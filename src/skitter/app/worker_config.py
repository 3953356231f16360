"""The configuration of one worker process. Kept apart from that of a crawl: a worker loads nothing of sinks."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.model.job import Job
from skitter.observe.events import Level
from skitter.settings import Settings


class WorkerConfig(msgspec.Struct, kw_only=True):
    """Everything that a worker process needs; its supervisor writes it to its standard input."""

    frontier: str
    job: str
    spider: str = ""
    run: dict[str, Any]
    """The group ``run`` of the settings: this node's own."""
    attributes: dict[str, str] = {}
    """See ``CrawlConfig.attributes``."""
    stay: bool = False
    verbosity: int = 0
    event_level: int = Level.INFO
    url_table: int = -1
    """A file descriptor of what this node's workers know together."""
    task: str = ""
    """See ``WorkerHeartbeat.task``."""
    counts: bool = False
    """Whether its node has metrics (``observe.node_counters``)."""
    permit: int = -1
    """A file descriptor of the permit to start requests, where the node has a coordinator (``worker.start_permit``)."""
    member: str = ""
    coordinator: str = ""
    """See ``WorkerHeartbeat``."""


def job_settings(job: Job, run: dict[str, Any]) -> Settings:
    """Job-wide settings from the job, this node's own from its command line."""
    return Settings.from_layers([("the job", job.spec.settings), ("the command line", run)])
