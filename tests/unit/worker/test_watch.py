"""Which page holds the loop, seen from another thread."""

from __future__ import annotations

import asyncio
import threading

from skitter.model.lease import Lease, Work
from skitter.worker.watch import Watch

PAGE, OTHER = (Lease(work=Work.PAGE, id=number, epoch=number) for number in (1, 2))


class Looker:
    """Looks from a thread of its own, as the renewal thread does, whenever the blocked loop tells it to."""

    def __init__(self, watch: Watch) -> None:
        self.seen: list[tuple[float, Lease | None]] = []
        self._watch = watch

    def look(self) -> None:
        thread = threading.Thread(target=lambda: self.seen.append(self._watch.look(1.0)))
        thread.start()
        thread.join()


async def during(watch: Watch, lease: Lease | None, *steps: object) -> None:
    """A task of the lease runs these steps: functions, and tasks to wait for."""

    async def work() -> None:
        for step in steps:
            if callable(step):
                step()
            else:
                await step

    task = asyncio.create_task(work())
    if lease is not None:
        watch.tasks[task] = lease
    await task


async def watched() -> tuple[Watch, Looker, asyncio.Task[None]]:
    watch = Watch()
    ticking = asyncio.create_task(watch.tick())
    await asyncio.sleep(0)
    return watch, Looker(watch), ticking


async def test_a_page_that_holds_the_loop_is_named() -> None:
    watch, looker, ticking = await watched()
    await during(watch, PAGE, looker.look, looker.look, looker.look)
    assert looker.seen == [(0.0, None), (1.0, PAGE), (2.0, PAGE)]
    ticking.cancel()


async def test_a_page_that_awaited_before_it_blocks_is_named_although_others_ran_meanwhile() -> None:
    watch, looker, ticking = await watched()
    go = asyncio.Event()
    blocking = asyncio.create_task(during(watch, PAGE, go.wait(), looker.look, looker.look))
    await asyncio.sleep(0)
    await during(watch, OTHER, go.set)
    await blocking
    assert looker.seen[-1] == (1.0, PAGE)
    ticking.cancel()


async def test_a_loop_that_turns_is_not_blocked() -> None:
    watch, looker, ticking = await watched()
    for _ in range(3):
        await during(watch, PAGE, looker.look)
        watch._ticks += 1
    assert looker.seen == [(0.0, None)] * 3
    ticking.cancel()


async def test_a_busy_loop_blames_nobody() -> None:
    watch, looker, ticking = await watched()
    for lease in (PAGE, OTHER, PAGE):
        await during(watch, lease, looker.look)
    assert looker.seen == [(0.0, None)] * 3
    ticking.cancel()


async def test_what_blocks_without_a_page_is_counted_and_not_named() -> None:
    watch, looker, ticking = await watched()
    await during(watch, None, looker.look, looker.look)
    assert looker.seen == [(0.0, None), (1.0, None)]
    ticking.cancel()


def test_before_the_loop_runs_nothing_is_named() -> None:
    assert Watch().look(1.0) == (0.0, None)
