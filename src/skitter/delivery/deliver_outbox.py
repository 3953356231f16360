"""Delivery of what a job's outbox holds, in place of an owner that is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from skitter.delivery.job_sinks import OnEvent, as_kept, finish_delivery, make_delivery
from skitter.delivery.runner import Delivery
from skitter.errors import JobError
from skitter.frontier.contract import Frontier
from skitter.model.job import State
from skitter.sinks.targets import Target, sink_of
from skitter.stop_request import StopRequest

POLL_SECONDS = 1.0


async def deliver_outbox(
    frontier: Frontier,
    job: str,
    outputs: Sequence[Target],
    *,
    stop: StopRequest,
    on_event: OnEvent,
    rest: bool = False,
    stay: bool = False,
) -> tuple[int, int]:
    """Write what the outbox holds for the targets. How many items were written, and how many rejected.

    ``rest``: what was written before is lost, and the targets begin anew with what is left. ``stay``: until the job is
    over.
    """
    kept = [sink.target for sink in await frontier.sinks()]
    sinks = [sink_of(as_kept(target, kept)) for target in outputs]
    for sink in sinks:
        if sink.target not in kept:
            raise JobError(
                f"the job keeps no items for this output: {sink.target}",
                hint=f"its outputs: {', '.join(kept)}"
                if kept
                else "the job was started without -o, and keeps no items",
            )
    delivery = make_delivery(frontier, sinks, job, on_event)
    stop.hold()
    await delivery.take()
    try:
        await delivery.open(anew=rest)
        if stay:
            await _deliver_until_the_end(frontier, delivery, stop)
        finished = (await frontier.state()).state is State.FINISHED
        await finish_delivery(delivery, stop, complete=finished)
    finally:
        await delivery.close()
    return delivery.delivered, delivery.rejected


async def _deliver_until_the_end(frontier: Frontier, delivery: Delivery, stop: StopRequest) -> None:
    over = asyncio.Event()
    stop.set_handlers(over.set, over.set)
    delivering = asyncio.create_task(delivery.run(over))
    try:
        # ``failed``: finish() will say how.
        while not over.is_set() and not delivery.failed.is_set() and not delivering.done():
            if (await frontier.state()).state in (State.FINISHED, State.STOPPED):
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await over.wait()
    finally:
        over.set()
        await delivering
