"""Commands about the items of a job that no crawl writes: ``drain``, which delivers them, and looking at them."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.app.crawl import opened, release_the_dead
from skitter.app.delivering import OnEvent, as_kept, delivery_of, finish_delivery
from skitter.app.stop import Stop
from skitter.errors import JobError
from skitter.model.job import State
from skitter.sinks.targets import Target, sink_of


async def run_drain(
    *, frontier: str, job: str, outputs: Sequence[Target], on_event: OnEvent, rest: bool = False
) -> tuple[int, int]:
    """Write what the outbox holds for the targets, in place of an owner that is gone. Items written, and rejected.

    ``rest``: what was written before is lost, and the targets begin anew with what is left.
    """
    stop = Stop(on_event)
    async with opened(frontier, job, create=False) as store:
        await release_the_dead(store, lambda _: None)
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
                report = await store.report()
                await finish_delivery(delivery, stop, complete=report.job.state is State.FINISHED)
            finally:
                await delivery.close()
    if stop.signal:
        raise SystemExit(128 + stop.signal)
    return delivery.delivered, delivery.rejected
