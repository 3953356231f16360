"""The reader of an intake: its thread, its record in the frontier, and the way from messages to requests.

The order inside one batch keeps the promise: requests are added to the frontier, unusable messages are made dead
letters, then all are acknowledged. Whoever dies in between leaves messages that come again, and the frontier knows
their requests. Intakes block, so each has one thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from skitter.cluster.process_identity import is_dead, worker_id
from skitter.errors import (
    FrontierError,
    IntakeAwayError,
    IntakeError,
    JobError,
    RequestError,
    UrlError,
    UsageError,
)
from skitter.frontier.contract import BATCH, Frontier
from skitter.intakes.contract import DeadLetter, Intake, Message
from skitter.intakes.messages import reason_of, to_entry
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.job import State
from skitter.model.request import Entry, Fingerprinter
from skitter.observe import events
from skitter.stop_request import StopRequest

T = TypeVar("T")
OnEvent = Callable[[events.Event], None]

READ_SECONDS = 1.0
"""How long a source is waited for at a time; also between two looks while nothing is read."""
TELL_SECONDS = 1.0
"""Between two reports to the frontier while something is read: each is a write."""
KEEP_SECONDS = 10.0
"""Between two reports while nothing changes: a third of the time that a reader counts as alive."""
CHECK_SECONDS = 0.25
"""Between two looks at the job's state and queue while messages come."""
BACKLOG_SECONDS = 2.0
"""Between two questions to the source how much it still holds."""
AWAY_SECONDS = 0.5
LONGEST_AWAY_SECONDS = 30.0
"""Between two tries of a source in trouble: doubling from the first to the second, with jitter."""


class IntakeReader:
    """Reads one intake into the frontier until it is closed or the reader is stopped."""

    def __init__(
        self,
        frontier: Frontier,
        intake: Intake,
        *,
        max_queued: int,
        until_idle_seconds: float | None,
        stop: StopRequest,
        on_event: OnEvent,
    ) -> None:
        """``until_idle_seconds``: when nothing came for so long, the intake is closed; None: it never is."""
        self._frontier = frontier
        self._intake = intake
        self._max_queued = max_queued
        self._until_idle_seconds = until_idle_seconds
        self._stop = stop
        self._on_event = on_event
        self._owner = worker_id()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._stopping = asyncio.Event()
        self._run = 0
        self._is_reader = False
        self._is_connected = False
        self._leaves_it_to_others = False
        """Nothing came for this process, and others still read."""
        self._progress = IntakeProgress()
        self._told = self._progress
        self._told_at = 0.0
        self._trouble_since = 0.0
        self._asked_at = 0.0
        self._checked_at = 0.0
        self._room = 0
        """How many requests may be queued until it is looked again."""
        self._came_at = time.monotonic()

    @property
    def source(self) -> str:
        return self._intake.source

    def stop(self) -> None:
        """Stop reading after the present batch; nothing is left half done."""
        self._stopping.set()

    @property
    def _is_stopping(self) -> bool:
        # A command that only reads has nobody who passes its signal on.
        return self._stopping.is_set() or self._stop.requested

    async def open(self) -> None:
        """Enter the intake in the frontier, and connect. IntakeError: it cannot be read; then it was not opened."""
        if not await self._become_reader():
            return
        try:
            await self._connect()
        except IntakeError:
            # An intake that never was must not keep the job from finishing.
            seen = await self._seen()
            if self._progress.mark or (seen is not None and seen.read):
                await self._frontier.leave_intake(self.source, self._owner)
            else:
                await self._frontier.close_intake(self.source, self._owner)
            self._is_reader = False
            raise
        self._on_event(events.INTAKE_OPENED(source=self.source))

    async def run(self) -> None:
        """Read until the intake is closed or ``stop`` is called. Needs ``open``."""
        try:
            # A node that was asked to stop takes no more, while its workers finish what they have.
            while not self._is_stopping:
                if not self._is_reader and not await self._wait_for_turn():
                    return
                if await self._read_once() and await self._close():
                    return
        finally:
            await self.leave()

    # ---- becoming a reader, and ending

    async def _become_reader(self) -> bool:
        """Become a reader in the frontier; False: another process has the source for itself."""
        for owner in seen.owners if (seen := await self._seen()) is not None else ():
            # A process of this machine that was killed: nobody need wait until its time has run out.
            if is_dead(owner):
                await self._frontier.leave_intake(self.source, owner)
        job = await self._frontier.job()
        if job.run != self._run:
            # In another run nothing was read yet; a job that was dropped and begun anew has another secret, too.
            await self._disconnect()
            self._progress = self._told = IntakeProgress()
        self._run, self._fingerprinter = job.run, Fingerprinter.of_job(job)
        mark = await self._frontier.open_intake(self.source, self._owner, alone=not self._intake.shared)
        if mark is None:
            return False
        # Counts are those since this call; the frontier has kept what it was told before.
        self._set(
            mark=self._progress.mark or mark,
            read=self._progress.read - self._told.read,
            added=self._progress.added - self._told.added,
            dead_letters=self._progress.dead_letters - self._told.dead_letters,
        )
        self._told = IntakeProgress()
        self._is_reader, self._told_at, self._came_at = True, time.monotonic(), time.monotonic()
        return True

    async def _seen(self) -> IntakeSeen | None:
        return next((intake for intake in await self._frontier.intakes() if intake.source == self.source), None)

    async def _wait_for_turn(self) -> bool:
        """Wait until this process may read; False: the intake is closed, or it was asked to stop."""
        # What the source holds for this process would be missing to the others.
        await self._disconnect()
        is_told = False
        while not self._is_stopping:
            seen = await self._seen()
            if seen is not None and seen.closed:
                return False
            others = self._others(seen)
            if not (self._leaves_it_to_others and others) and await self._become_reader():
                self._leaves_it_to_others = False
                try:
                    await self._connect()
                except IntakeError as error:
                    await self._wait_out(error)
                return True
            if not is_told:
                is_told = True
                self._on_event(events.INTAKE_READ_ELSEWHERE(source=self.source))
            await self._rest(READ_SECONDS)
        return False

    def _others(self, seen: IntakeSeen | None) -> list[str]:
        """Other readers that are alive."""
        owners = seen.owners if seen is not None else ()
        return [owner for owner in owners if owner != self._owner and not is_dead(owner)]

    async def _close(self) -> bool:
        """Nothing comes any more: close the intake; False: another process still reads it."""
        await self._tell()
        is_closed = await self._frontier.close_intake(self.source, self._owner)
        self._is_reader, self._leaves_it_to_others = False, not is_closed
        if is_closed and (seen := await self._seen()) is not None:
            told = {"read": seen.read, "added": seen.added, "dead_letters": seen.dead_letters}
            self._on_event(events.INTAKE_CLOSED(source=self.source, **told))
        return is_closed

    async def leave(self) -> None:
        """Hand back what was not acknowledged; the intake stays open. For a reader that does not run, or has ended."""
        # Behind a call that a cancelled task has left running.
        with contextlib.suppress(IntakeError):
            await self._submit(self._intake.close)
        self._thread.shutdown(wait=False)
        if self._is_reader:
            self._is_reader = False
            # If the store is away or the job was dropped, its time runs out by itself.
            with contextlib.suppress(FrontierError, JobError):
                await self._frontier.tell_intake(self.source, self._owner, self._progress)
                await self._frontier.leave_intake(self.source, self._owner)

    # ---- one batch

    async def _read_once(self) -> bool:
        """Read, add and acknowledge one batch; True: the intake is to be closed."""
        try:
            paused = await self._pause_reason()
            if paused:
                await self._in_thread(lambda: self._intake.read(0, 0.0))
            if paused or await self._take_batch():
                self._came_at = time.monotonic()
            is_over = not paused and await self._is_over()
        except IntakeError as error:
            await self._wait_out(error)
            return False
        if paused != self._progress.paused:
            self._set(paused=paused)
            kind = events.INTAKE_PAUSED if paused else events.INTAKE_RESUMED
            self._on_event(kind(source=self.source, **({"reason": paused} if paused else {})))
            await self._tell()
        if paused:
            await self._rest(READ_SECONDS)
        await self._tell_if_due()
        return is_over

    async def _pause_reason(self) -> str:
        """Why nothing is to be read now; empty: it is."""
        now = time.monotonic()
        if self._room > 0 and now - self._checked_at < CHECK_SECONDS and not self._progress.paused:
            return ""
        self._checked_at = now
        state = (await self._frontier.state()).state
        if state is not State.RUNNING:
            return f"the job is {state}"
        self._room = self._max_queued - (await self._frontier.counts()).queued
        return "" if self._room > 0 else f"max_queued={self._max_queued} is reached"

    async def _take_batch(self) -> bool:
        """Whether there was one."""
        limit = min(BATCH, self._room)
        messages = await self._in_thread(lambda: self._intake.read(limit, READ_SECONDS))
        if not messages:
            return False
        entries, letters = self._sort(messages)
        added = await self._frontier.add(entries) if entries else 0
        if letters:
            await self._in_thread(lambda: self._intake.dead_letter(letters))
        mark = await self._in_thread(lambda: self._intake.ack(messages))
        progress = self._progress
        self._set(
            mark=mark or progress.mark,
            read=progress.read + len(messages),
            added=progress.added + added,
            dead_letters=progress.dead_letters + len(letters),
        )
        self._room -= added
        if letters:
            told = {"messages": len(letters), "reason": letters[0].reason}
            self._on_event(events.INTAKE_DEAD_LETTERS(source=self.source, **told))
        return True

    def _sort(self, messages: Sequence[Message]) -> tuple[list[Entry], list[DeadLetter]]:
        """The requests of a batch, and the messages that cannot become one."""
        entries: list[Entry] = []
        letters: list[DeadLetter] = []
        for message in messages:
            try:
                entries.append(to_entry(message, self.source, self._fingerprinter))
            except (UrlError, RequestError) as error:
                letters.append(DeadLetter(message, reason_of(error)))
        return entries, letters

    async def _is_over(self) -> bool:
        """Whether nothing comes any more. All that was read is acknowledged by now."""
        self._comes_back()
        if self._intake.is_exhausted:
            return True
        if self._until_idle_seconds is None or time.monotonic() - self._came_at < self._until_idle_seconds:
            return False
        # What another reader holds comes again if that one dies: while it lives, the end is for it to see.
        return bool(self._others(await self._seen())) or not await self._ask_backlog()

    # ---- trouble

    async def _connect(self) -> None:
        mark = self._progress.mark

        def open_intake() -> None:
            try:
                self._intake.open(mark)
            except UsageError as error:
                # A file that an option names, for instance, and that is found to be wrong only now.
                raise IntakeError(str(error), hint=error.hint) from error

        await self._in_thread(open_intake)
        self._is_connected = True

    async def _disconnect(self) -> None:
        """Let go of the source: what it holds for this reader goes to others."""
        if self._is_connected:
            self._is_connected = False
            with contextlib.suppress(IntakeError):
                await self._in_thread(self._intake.close)

    async def _wait_out(self, error: IntakeError) -> None:
        """Connect again, and again less and less often, until that works; it is told once."""
        if not self._progress.trouble:
            self._trouble_since = time.monotonic()
            self._on_event(events.INTAKE_TROUBLE(source=self.source, reason=str(error)))
        self._set(trouble=str(error))
        await self._tell()
        tries = 0
        while not self._is_stopping:
            pause = min(AWAY_SECONDS * 2 ** min(tries, 16), LONGEST_AWAY_SECONDS) * random.uniform(0.5, 1.0)
            tries += 1
            await self._rest(pause)
            try:
                await self._connect()
            except IntakeAwayError:
                continue
            except IntakeError as failure:
                self._set(trouble=str(failure))
                continue
            self._came_at = time.monotonic()
            return

    def _comes_back(self) -> None:
        if self._progress.trouble:
            seconds = round(time.monotonic() - self._trouble_since, 1)
            self._on_event(events.INTAKE_BACK(source=self.source, seconds=seconds))
            self._set(trouble="")
            self._told_at = 0.0

    # ---- the frontier and the thread

    def _set(self, **changes: object) -> None:
        self._progress = msgspec.structs.replace(self._progress, **changes)

    async def _ask_backlog(self) -> int:
        """Ask the source what it still holds; 0: nothing, or it cannot tell."""
        backlog = await self._in_thread(self._intake.backlog)
        self._asked_at = time.monotonic()
        self._set(backlog=backlog.messages, lag_seconds=backlog.lag_seconds)
        return backlog.messages or 0

    async def _tell_if_due(self) -> None:
        now = time.monotonic()
        if not self._is_reader or now - self._told_at < TELL_SECONDS:
            return
        if now - self._asked_at >= BACKLOG_SECONDS and not self._progress.trouble:
            with contextlib.suppress(IntakeError):
                await self._ask_backlog()
        if self._progress != self._told or now - self._told_at >= KEEP_SECONDS:
            await self._tell()

    async def _tell(self) -> None:
        """Report to the frontier. One that counts as dead there begins anew, unless the intake was closed."""
        if not self._is_reader:
            return
        told, self._told_at = self._progress, time.monotonic()
        if await self._frontier.tell_intake(self.source, self._owner, told):
            self._told = told
        else:
            self._is_reader = False

    async def _rest(self, seconds: float) -> None:
        """Pause, and stay a reader meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._is_stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, READ_SECONDS)):
                    await self._stopping.wait()
            await self._tell_if_due()

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Wait, and stay a reader meanwhile. Being cancelled does not cancel the call."""
        working = self._submit(call)
        while True:
            done, _ = await asyncio.wait({working}, timeout=KEEP_SECONDS)
            if done:
                return working.result()
            await self._tell()


@contextlib.asynccontextmanager
async def reading_intakes(
    readers: Sequence[IntakeReader], stop: StopRequest
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """While the body works, its intakes are read, each by a task that ends when its intake is closed.

    One that fails stops the work, and its error is raised at the end.
    """

    async def read(reader: IntakeReader) -> None:
        try:
            await reader.run()
        except Exception:
            stop.stop_current()
            raise

    tasks: list[asyncio.Task[None]] = []
    try:
        for reader in readers:
            try:
                await reader.open()
            except BaseException:
                await reader.leave()
                raise
            tasks.append(asyncio.create_task(read(reader)))
        yield tasks
    finally:
        for reader in readers:
            reader.stop()
        if tasks:
            await asyncio.wait(tasks)
    for task in tasks:
        task.result()
