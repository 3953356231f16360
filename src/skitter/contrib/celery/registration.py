"""Registration of skitter's tasks in an app: routes, beat entries, and notification of a worker shutdown."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from celery import Celery, signals

from skitter.contrib.celery import job_tasks, page_tasks
from skitter.contrib.celery.base_task import SkitterTask
from skitter.errors import UsageError


def register(
    app: Celery,
    *,
    frontier: str | None = None,
    base: type[SkitterTask] = SkitterTask,
    slice_seconds: float | None = None,
    node: str = "",
    sink_password: str | None = None,
) -> None:
    """Add the tasks to an app, under the names ``skitter.add``, ``skitter.crawl`` and so on.

    ``frontier`` is the store of all jobs, which every worker must reach. ``base`` is a subclass of ``SkitterTask`` with
    hooks. ``slice_seconds`` is the default length of a slice. ``node`` is the name of this machine, by default its host
    name. ``sink_password`` is the password for outputs, which is not stored with a job. All but ``base`` can be set in
    the configuration of the app instead: ``skitter_frontier`` and so on.
    """
    if app.finalized:
        raise UsageError("the app is already finalized", hint="call register right after Celery(…)")
    given = {
        "skitter_frontier": frontier,
        "skitter_slice_seconds": slice_seconds,
        "skitter_node": node or None,
        "skitter_sink_password": sink_password,
    }
    app.conf.update({name: value for name, value in given.items() if value is not None})
    app.conf.task_routes = _with_routes(app.conf.task_routes)
    for function, options in (*job_tasks.TASKS.values(), *page_tasks.TASKS.values()):
        # Registered now, because shared tasks do not replace an existing task of their name; only for this app.
        app.task(function, base=base, shared=False, lazy=False, **options)
    app.skitter_shutdown = ShutdownNotice()


def _with_routes(routes: Any) -> Any:
    """Return the routes of the app with those of the page tasks added; routes of the app take precedence."""
    if not routes:
        return dict(page_tasks.ROUTES)
    if isinstance(routes, Mapping):
        return {**page_tasks.ROUTES, **routes}
    return [*(routes if isinstance(routes, (list, tuple)) else [routes]), dict(page_tasks.ROUTES)]


def beat_entry(schedule: Any, job: str, **kwargs: Any) -> dict[str, Any]:
    """Return an entry for ``app.conf.beat_schedule`` that crawls a job at the times of the schedule.

    A finished job starts its next run; an interrupted job is resumed. Nothing happens while another crawl task is
    working on the job (``overlap="skip"``). A message that no worker takes within an hour is dropped.
    """
    return {
        "task": "skitter.crawl",
        "schedule": schedule,
        "kwargs": {"job": job, "overlap": "skip", **kwargs},
        "options": {"expires": 3600},
    }


class ShutdownNotice:
    """Notifies the slices of a worker of its shutdown, with a pipe that the main process of the worker closes.

    Without it, a warm shutdown would wait for the end of every slice.
    """

    def __init__(self) -> None:
        self.fd: int | None = None
        """File descriptor that becomes readable when the worker shuts down; None outside a worker."""
        self._writer: int | None = None
        self._main_pid = 0
        signals.worker_init.connect(self._open, weak=False)
        signals.worker_process_init.connect(self._keep_reader, weak=False)
        signals.worker_shutting_down.connect(self._close, weak=False)

    def _open(self, **_: Any) -> None:
        self.fd, self._writer = os.pipe()
        self._main_pid = os.getpid()

    def _keep_reader(self, **_: Any) -> None:
        """Close the write end in a pool process, so that closing it in the main process is noticed."""
        if os.getpid() != self._main_pid:  # with --pool solo this is the main process
            self._close()

    def _close(self, **_: Any) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):
                os.close(self._writer)
            self._writer = None
