"""``drain``: delivering the items of a job in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from skitter.app.crawl import opened, recover_dead_workers
from skitter.delivery.job_sinks import OnEvent, as_kept, delivery_of, finish_delivery
from skitter.delivery.runner import Delivery
from skitter.errors import JobError
from skitter.frontier.contract import Frontier
from skitter.model.job import State
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.sinks.targets import Target, sink_of

LOOK_SECONDS = 1.0


async def run_drain(
    *,
    frontier: str,
    job: str,
    outputs: Sequence[Target],
    on_event: OnEvent,
    rest: bool = False,
    stay: bool = False,
) -> tuple[int, int]:
    """Write what the outbox holds for the targets, in place of an owner that is gone. Items written, and rejected.

    ``rest``: what was written before is lost, and the targets begin anew with what is left. ``stay``: until the job is
    over.
    """
    stop = ShutdownSignals(on_event)
    async with opened(frontier, job, create=False) as store:
        await recover_dead_workers(store, lambda _: None)
        kept = [sink.target for sink in (await store.report()).sinks]
        sinks = [sink_of(as_kept(target, kept)) for target in outputs]
        for sink in sinks:
            if sink.target not in kept:
                raise JobError(
                    f"the job keeps no items for this target: {sink.target}",
                    hint=f"its targets: {', '.join(kept)}" if kept else "it was started without -o, and keeps none",
                )
        delivery = delivery_of(store, sinks, job, on_event)
        with stop.listening():
            await delivery.take()
            try:
                await delivery.open(anew=rest)
                if stay:
                    await _deliver_until_the_end(store, delivery, stop)
                report = await store.report()
                await finish_delivery(delivery, stop, complete=report.job.state is State.FINISHED)
            finally:
                await delivery.close()
    if stop.signal:
        raise SystemExit(128 + stop.signal)
    return delivery.delivered, delivery.rejected


async def _deliver_until_the_end(store: Frontier, delivery: Delivery, stop: ShutdownSignals) -> None:
    over = asyncio.Event()
    stop.aim(over.set, over.set)
    delivering = asyncio.create_task(delivery.run(over))
    try:
        # ``failed``: finish() will say how.
        while not over.is_set() and not delivery.failed.is_set() and not delivering.done():
            if (await store.job()).state in (State.FINISHED, State.STOPPED):
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await over.wait()
    finally:
        over.set()
        await delivering
