"""Base class of skitter's tasks: settings from the app, progress, continuation in a new message, and retries."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from celery import Task
from celery.backends.rpc import RPCBackend
from celery.exceptions import Ignore, Reject
from kombu.exceptions import OperationalError

from skitter.errors import BackendError, UsageError

JobRef = str | Mapping[str, Any] | Sequence[Any]
"""Name of a job, the result of a previous task, or the list of such results that a chord passes."""
MAX_RETRY_SECONDS = 300


class SkitterTask(Task):  # type: ignore[misc]
    """Base class of all tasks. Subclass it to define ``on_success``, ``on_failure``, ``on_retry`` and ``after_return``.

    Pass the subclass to ``register(app, base=…)``. Each hook is called once per task, regardless of the number of
    slices of a crawl and of polls of ``finished``; ``on_retry`` is called for each retry after an error.
    """

    acks_late = True
    # Redelivery is harmless, because requests of a lost process are leased again. It does not loop, because pages are
    # fetched and parsed in child processes: a page that crashes one does not crash the task.
    reject_on_worker_lost = True
    max_retries = 10

    @property
    def frontier(self) -> str:
        """URL of the frontier that the tasks of the app work on."""
        url = self.app.conf.get("skitter_frontier")
        if not url:
            raise UsageError("no frontier for the tasks", hint="register(app, frontier=…), or set skitter_frontier")
        return str(url)

    @property
    def node(self) -> str:
        """Name of this machine, which a job uses to state where its files are written."""
        return str(self.app.conf.get("skitter_node") or socket.gethostname())

    def tell_progress(self, **meta: Any) -> None:
        """Set the state PROGRESS with counts; do nothing with ``rpc://``, where each state would be another message."""
        backend = self.app.backend
        if not self.request.is_eager and not self.request.called_directly and not isinstance(backend, RPCBackend):
            self.update_state(state="PROGRESS", meta=meta)

    def continue_later(self, *, countdown: float = 0.0, **kwargs: Any) -> NoReturn:
        """Send the continuation of this task as a new message, and end without a result.

        The message has the same id, chain, chord and callbacks, so that callers wait for the last part of the task.
        """
        continuation = self.signature_from_request(
            self.request, args=(), kwargs=kwargs, countdown=countdown or None, expires=None, retries=0
        )
        try:
            continuation.apply_async()
        except OperationalError as error:
            # The broker is unavailable. This message is requeued, so that it is delivered again instead.
            raise Reject(str(error), requeue=True) from error
        raise Ignore

    def retry_later(self, error: BackendError, **changed: Any) -> NoReturn:
        """Retry after an error of a store: after 1, 2, 4… seconds, up to ten times.

        ``changed`` replaces ``args`` or ``kwargs`` of the task.
        """
        raise self.retry(exc=error, countdown=min(MAX_RETRY_SECONDS, 2**self.request.retries), **changed)


def job_of(ref: JobRef) -> str:
    """Return the job name of a reference. Raises UsageError if it names no job, or several."""
    if isinstance(ref, str) and ref:
        return ref
    if isinstance(ref, Mapping) and isinstance(ref.get("job"), str):
        return str(ref["job"])
    if isinstance(ref, Sequence) and not isinstance(ref, (str, bytes)) and ref:
        jobs = {job_of(each) for each in ref}
        if len(jobs) == 1:
            return jobs.pop()
        raise UsageError(f"several jobs: {', '.join(sorted(jobs))}", hint="use one task for each job")
    raise UsageError(f"not a job: {ref!r:.100}", hint="give the name of a job, or the result of add, crawl or finished")
