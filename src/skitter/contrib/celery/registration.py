"""Registration of skitter's tasks in an app, their routes, entries for beat, and the notice of a shutdown."""

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
    """Put the tasks into an app, under the names ``skitter.add``, ``skitter.crawl`` and so on.

    ``frontier``: the store of all jobs, which every worker can reach. ``base``: a subclass of ``SkitterTask`` with
    hooks. ``slice_seconds``: the length of slices that a crawl does not say itself. ``node``: this machine's name, by
    default its host name. ``sink_password``: for outputs, whose passwords are not stored with a job. All but
    ``base`` may be settings of the app instead: ``skitter_frontier`` and so on.
    """
    if app.finalized:
        raise UsageError("the app is finalized already", hint="call register right after Celery(…)")
    given = {
        "skitter_frontier": frontier,
        "skitter_slice_seconds": slice_seconds,
        "skitter_node": node or None,
        "skitter_sink_password": sink_password,
    }
    app.conf.update({name: value for name, value in given.items() if value is not None})
    app.conf.task_routes = _with_routes(app.conf.task_routes)
    for function, options in (*job_tasks.TASKS.values(), *page_tasks.TASKS.values()):
        # At once, before the shared ones, which take what is there under their name; and for this app alone.
        app.task(function, base=base, shared=False, lazy=False, **options)
    app.skitter_shutdown = ShutdownNotice()


def _with_routes(routes: Any) -> Any:
    """The app's own routes win."""
    if not routes:
        return dict(page_tasks.ROUTES)
    if isinstance(routes, Mapping):
        return {**page_tasks.ROUTES, **routes}
    return [*(routes if isinstance(routes, (list, tuple)) else [routes]), dict(page_tasks.ROUTES)]


def beat_entry(schedule: Any, job: str, **kwargs: Any) -> dict[str, Any]:
    """An entry of ``app.conf.beat_schedule``: a crawl whenever the schedule says so.

    A finished job begins its next run, and an interrupted one goes on. While another crawl task is at the job, nothing
    happens (``overlap="skip"``). An entry that no worker takes within an hour is dropped.
    """
    return {
        "task": "skitter.crawl",
        "schedule": schedule,
        "kwargs": {"job": job, "overlap": "skip", **kwargs},
        "options": {"expires": 3600},
    }


class ShutdownNotice:
    """Tells the slices of a worker that it shuts down: a pipe that the worker's main process closes.

    Without it, a warm shutdown would wait for the end of every slice.
    """

    def __init__(self) -> None:
        self.fd: int | None = None
        """Readable when the worker shuts down; None: this is no worker."""
        self._writer: int | None = None
        self._main_pid = 0
        signals.worker_init.connect(self._open, weak=False)
        signals.worker_process_init.connect(self._keep_reader, weak=False)
        signals.worker_shutting_down.connect(self._close, weak=False)

    def _open(self, **_: Any) -> None:
        self.fd, self._writer = os.pipe()
        self._main_pid = os.getpid()

    def _keep_reader(self, **_: Any) -> None:
        """In a pool process: the end that the main process closes must not stay open here."""
        if os.getpid() != self._main_pid:  # with --pool solo it is the main process itself
            self._close()

    def _close(self, **_: Any) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):
                os.close(self._writer)
            self._writer = None
