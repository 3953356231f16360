"""Recovery of workers that died on this machine together with their supervisor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from skitter.cluster.process_identity import is_dead
from skitter.errors import FrontierError, JobError
from skitter.frontier.contract import DistantSource, Frontier
from skitter.observe import events

CHECK_SECONDS = 0.5
DISTANT_CHECK_SECONDS = 5.0
"""Of a frontier behind a network, which may serve many nodes."""
GRACE_SECONDS = 3.0
"""Before the leases of a dead worker are recovered here: its own supervisor, if that lives, knows which page is to
blame."""
OnEvent = Callable[[events.Event], None]


async def recover_dead_workers(frontier: Frontier, on_event: OnEvent, *, silent_seconds: float = 0.0) -> None:
    """Hand back at once what processes of this machine held that are gone: leases, and the ownership of sinks.

    Other machines cannot know that they are gone, and would wait until leases expire.
    """
    try:
        workers = await frontier.workers()
    except JobError:
        return
    for worker in workers:
        if worker.silent_seconds >= silent_seconds and is_dead(worker.id):
            back = await frontier.release_worker(worker.id)
            on_event(events.WORKER_GONE(worker=worker.id, leases=back))
    for sink in await frontier.sinks():
        if sink.owner and is_dead(sink.owner):
            await frontier.close_sink(sink.target, sink.owner)


@contextlib.asynccontextmanager
async def dead_worker_recovery(frontier: Frontier, on_event: OnEvent) -> AsyncIterator[None]:
    """While the body works: another command on this machine may be killed with its workers meanwhile."""

    pause = DISTANT_CHECK_SECONDS if isinstance(frontier, DistantSource) else CHECK_SECONDS

    async def recover() -> None:
        while True:
            # If the store is in trouble, the workers will say so; a job that was dropped has no workers.
            with contextlib.suppress(FrontierError, JobError):
                await recover_dead_workers(frontier, on_event, silent_seconds=GRACE_SECONDS)
            await asyncio.sleep(pause)

    task = asyncio.create_task(recover())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
