"""Crawls as Celery tasks. ``register`` adds the tasks to an app; they work on the frontier of the app.

Tasks for jobs: ``add``, ``crawl``, ``finished``, ``export``, ``status``. For single pages: ``scrape``, ``parse``,
``save``.
"""

from __future__ import annotations

from skitter.errors import ExtraMissingError

try:
    import celery as _celery  # noqa: F401
except ModuleNotFoundError as _error:
    raise ExtraMissingError("tasks of Celery", "celery") from _error

from skitter.contrib.celery.base_task import SkitterTask
from skitter.contrib.celery.job_tasks import add, crawl, export, finished, status
from skitter.contrib.celery.page_tasks import parse, response_of, save, scrape
from skitter.contrib.celery.registration import beat_entry, register

__all__ = [
    "SkitterTask",
    "add",
    "beat_entry",
    "crawl",
    "export",
    "finished",
    "parse",
    "register",
    "response_of",
    "save",
    "scrape",
    "status",
]
