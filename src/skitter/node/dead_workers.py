"""Recovery of workers that died together with their supervisor: on this machine, or on one with our coordinator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from skitter.cluster.process_identity import is_dead, is_here
from skitter.errors import ClusterError, FrontierError, JobError
from skitter.frontier.contract import DistantSource, Frontier
from skitter.model.worker import WorkerSeen
from skitter.observe import events

if TYPE_CHECKING:
    from skitter.node.node_membership import NodeMembership

CHECK_SECONDS = 0.5
DISTANT_CHECK_SECONDS = 5.0
"""Of a frontier behind a network, which may serve many nodes."""
GRACE_SECONDS = 3.0
"""Before the leases of a dead worker are recovered here: its own supervisor, if that lives, knows which page is to
blame."""
OnEvent = Callable[[events.Event], None]


async def recover_dead_workers(
    frontier: Frontier,
    on_event: OnEvent,
    *,
    silent_seconds: float = 0.0,
    membership: NodeMembership | None = None,
) -> None:
    """Hand back at once what processes of this machine held that are gone: leases, and the ownership of sinks.

    Other machines cannot know that they are gone, and would wait until leases expire; unless a coordinator tells.
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
    if membership is not None:
        await _recover_lost_nodes(frontier, on_event, membership, workers)


async def _recover_lost_nodes(
    frontier: Frontier, on_event: OnEvent, membership: NodeMembership, workers: Sequence[WorkerSeen]
) -> None:
    """Hand back what workers of nodes that have left the group held. All that live do so: the first one finds them.

    A worker never comes back to work under its name: when its node has left, its permit has ended (``start_permit``).
    """
    # Of a process of this machine more is known: one that lost its supervisor may be about to stop.
    elsewhere = [
        (worker.id, worker.heartbeat.member) for worker in workers if worker.heartbeat and not is_here(worker.id)
    ]
    with contextlib.suppress(ClusterError):
        gone = await membership.gone({member for _, member in elsewhere if member})
        for worker, member in elsewhere:
            if member in gone and (back := await frontier.release_worker(worker)):
                on_event(events.WORKER_GONE(worker=worker, leases=back))


@contextlib.asynccontextmanager
async def dead_worker_recovery(
    frontier: Frontier, on_event: OnEvent, membership: NodeMembership | None = None
) -> AsyncIterator[None]:
    """While the body works: another command may be killed with its workers meanwhile."""

    pause = DISTANT_CHECK_SECONDS if isinstance(frontier, DistantSource) else CHECK_SECONDS

    async def recover() -> None:
        while True:
            # If the store is in trouble, the workers will say so; a job that was dropped has no workers.
            with contextlib.suppress(FrontierError, JobError):
                await recover_dead_workers(frontier, on_event, silent_seconds=GRACE_SECONDS, membership=membership)
            await (asyncio.sleep(pause) if membership is None else membership.wait_for_leave(pause))

    task = asyncio.create_task(recover())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
