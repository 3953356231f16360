"""The base class of skitter's tasks: what they find in their app, and how one asks for its own continuation."""

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
"""The name of a job, or what a task that came before has returned, or the list of such results that a chord has."""
MAX_RETRY_SECONDS = 300


class SkitterTask(Task):  # type: ignore[misc]
    """Base class of all tasks; subclass it for ``on_success``, ``on_failure``, ``on_retry`` and ``after_return``.

    ``register(app, base=…)`` takes the subclass. Each hook is called once for a task, however many slices a crawl has
    and however often ``finished`` looks; ``on_retry`` for each retry after an error.
    """

    acks_late = True
    # Harmless, because what a lost process held is leased again; and no loop, because pages are fetched and parsed in
    # processes below it, where one that crashes costs itself and not the task.
    reject_on_worker_lost = True
    max_retries = 10

    @property
    def frontier(self) -> str:
        """The URL of the frontier that the app's tasks work on."""
        url = self.app.conf.get("skitter_frontier")
        if not url:
            raise UsageError("no frontier for the tasks", hint="register(app, frontier=…), or set skitter_frontier")
        return str(url)

    @property
    def node(self) -> str:
        """The name of this machine, by which a job says who writes its files."""
        return str(self.app.conf.get("skitter_node") or socket.gethostname())

    def tell_progress(self, **meta: Any) -> None:
        """Set the state PROGRESS with counts. Not with ``rpc://``, where each state is one more message."""
        backend = self.app.backend
        if not self.request.is_eager and not self.request.called_directly and not isinstance(backend, RPCBackend):
            self.update_state(state="PROGRESS", meta=meta)

    def continue_later(self, *, countdown: float = 0.0, **kwargs: Any) -> NoReturn:
        """Send the continuation of this task as a new message, and end without a result.

        It has the same id, chain, chord and callbacks, so that those who wait for the task wait for its last part.
        """
        continuation = self.signature_from_request(
            self.request, args=(), kwargs=kwargs, countdown=countdown or None, expires=None, retries=0
        )
        try:
            continuation.apply_async()
        except OperationalError as error:
            # The broker is away. This message is not acknowledged, so that it comes again instead.
            raise Reject(str(error), requeue=True) from error
        raise Ignore

    def retry_later(self, error: BackendError, **changed: Any) -> NoReturn:
        """Try again after a store was away: 1, 2, 4… seconds later, ten times. ``changed``: other args or kwargs."""
        raise self.retry(exc=error, countdown=min(MAX_RETRY_SECONDS, 2**self.request.retries), **changed)


def job_of(ref: JobRef) -> str:
    """The job that a caller, or a task before, has named."""
    if isinstance(ref, str) and ref:
        return ref
    if isinstance(ref, Mapping) and isinstance(ref.get("job"), str):
        return str(ref["job"])
    if isinstance(ref, Sequence) and not isinstance(ref, (str, bytes)) and ref:
        jobs = {job_of(each) for each in ref}
        if len(jobs) == 1:
            return jobs.pop()
        raise UsageError(f"several jobs: {', '.join(sorted(jobs))}", hint="one task for each")
    raise UsageError(f"not a job: {ref!r:.100}", hint="give its name, or the result of add, crawl or finished")
