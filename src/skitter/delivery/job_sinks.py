"""The sinks of a job: which of them this process delivers to, and delivery beside the work and after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from skitter.cluster.process_identity import worker_id
from skitter.delivery.archive import archives_here, is_elsewhere, only_one_archive
from skitter.delivery.runner import Delivery, Runner
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import FrontierError, JobError, SinkError
from skitter.frontier.contract import Frontier
from skitter.model.job import SinkProgress, State
from skitter.observe import events
from skitter.sinks.contract import Sink
from skitter.sinks.rejects_file import rejects_of
from skitter.sinks.targets import Target, parse_target, sink_of, without_options
from skitter.stop_request import StopRequest

STDOUT = "-"
OnEvent = Callable[[events.Event], None]


def make_delivery(
    frontier: Frontier, sinks: Sequence[Sink], job: str, on_event: OnEvent, others: Sequence[Runner] = ()
) -> Delivery:
    """A delivery that this process owns. ``others``: see ``Delivery``."""
    return Delivery(
        frontier,
        sinks,
        owner=worker_id(),
        rejects=lambda sink: rejects_of(sink, job),
        on_event=on_event,
        others=others,
    )


async def choose_sinks(
    frontier: Frontier,
    job: str,
    named: Iterable[Target],
    *,
    fresh: bool,
    password: str | None,
    trusted: tuple[str, ...],
    on_event: OnEvent,
) -> list[Sink]:
    """The targets of this command, and those an unfinished run began with; not those that another process owns.

    ``trusted``: code outside the project folder that targets of an earlier command may name.
    """
    try:
        # In this order: a job that is finished gets no more items.
        state = (await frontier.state()).state
        seen_sinks = await frontier.sinks()
    except JobError:
        return only_one_archive(sink_of(target) for target in named)
    goes_on = not fresh and (state is not State.FINISHED or any(seen.is_incomplete for seen in seen_sinks))
    kept = [seen.target for seen in seen_sinks] if goes_on else []
    # By the name that the frontier has, which for a file may be made of the target's pattern.
    sinks = {sink.target: sink for sink in (sink_of(as_kept(target, kept)) for target in named)}
    for archive in archives_here(seen_sinks) if goes_on else ():
        sinks.setdefault(archive, sink_of(parse_target(archive, job=job)))
    for seen in seen_sinks:
        if is_elsewhere(seen.target) or seen.target == CLIENT:
            continue
        if seen.owner:
            if sinks.pop(seen.target, None):
                on_event(events.SINK_ELSEWHERE(target=seen.target, owner=seen.owner))
        elif goes_on and seen.target not in sinks:
            if seen.target == STDOUT:
                # Nobody reads the standard output of a command that is gone.
                await frontier.open_sink(seen.target, worker_id())
                await frontier.close_sink(seen.target, worker_id(), forget=True)
            else:
                target = parse_target(seen.target, job=job, password=password, trusted=trusted)
                sinks[seen.target] = _StoredTargetSink(sink_of(target)) if target.scheme else sink_of(target)
    return only_one_archive(sinks.values())


def as_kept(target: Target, kept: Sequence[str]) -> Target:
    """With the options that the run began with, where it is the same place: its password is all that was missing."""
    if target.name in kept or not target.scheme:
        return target
    for name in kept:
        if without_options(name) == without_options(target.name):
            return msgspec.structs.replace(parse_target(name, job=target.job), password=target.password)
    return target


class _StoredTargetSink:
    """A sink whose target was read from the frontier, which keeps no passwords: its errors say so."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.target = sink.target
        self.exact = sink.exact
        self.write, self.finish, self.close = sink.write, sink.finish, sink.close

    def take(self) -> None:
        with self._explained():
            self._sink.take()

    def open(self, progress: SinkProgress) -> bytes:
        with self._explained():
            return self._sink.open(progress)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SinkError as error:
            if parse_target(self.target).scheme:
                hint = "a password is not kept with the job: give the output again with -o"
                error.hint = f"{error.hint}; {hint}" if error.hint else hint
                error.add_note(f"hint: {hint}")
            raise


async def work_and_deliver(
    working: Coroutine[Any, Any, None], delivery: Delivery, stop: StopRequest, on_event: OnEvent
) -> None:
    """Work and deliver at the same time, until the work is over. A sink that fails stops the work."""
    over = asyncio.Event()
    work, deliver = asyncio.create_task(working), asyncio.create_task(delivery.run(over))
    failing = asyncio.create_task(delivery.failed.wait())
    try:
        await asyncio.wait([work, deliver, failing], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            failure = delivery.failure or deliver.exception()
            if not isinstance(failure, FrontierError):
                on_event(events.SINK_FAILED(reason=str(failure)))
            stop.stop_current()
            await asyncio.wait([work])
        over.set()
        await asyncio.wait([deliver])
        deliver.result()
        # Both may have failed; the sink's error is the one that the user can mend, and ``finish`` raises it.
        if delivery.failure is None:
            work.result()
    finally:
        for task in (work, deliver, failing):
            task.cancel()
        await asyncio.wait([work, deliver, failing])


async def finish_delivery(delivery: Delivery, stop: StopRequest, *, complete: bool) -> None:
    """Write the rest. A stop no longer waits for targets that are unavailable, a kill for nothing."""
    finishing = asyncio.create_task(delivery.finish(complete=complete))
    stop.set_handlers(delivery.hurry, finishing.cancel)
    try:
        await asyncio.wait([finishing])
        with contextlib.suppress(asyncio.CancelledError):
            finishing.result()
    finally:
        finishing.cancel()
        await asyncio.wait([finishing])
