"""The reader of an intake: its thread, and the way from messages to requests.

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

from skitter.errors import IntakeError, IntakeUnavailableError, RequestError, UrlError, UsageError
from skitter.frontier.contract import BATCH, Frontier
from skitter.intakes.contract import DeadLetter, Intake, Message
from skitter.intakes.messages import reason_of, to_entry
from skitter.model.job import State
from skitter.model.request import Entry, Fingerprinter
from skitter.node.intake_record import KEEP_SECONDS, IntakeRecord
from skitter.observe import events
from skitter.stop_request import StopRequest

T = TypeVar("T")
OnEvent = Callable[[events.Event], None]

READ_SECONDS = 1.0
"""How long a source is waited for at a time; also between two looks while nothing is read."""
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
        self._record = IntakeRecord(frontier, intake.source)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._stopping = asyncio.Event()
        self._run = 0
        self._is_connected = False
        self._leaves_it_to_others = False
        """Nothing came for this process, and others still read."""
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
            await self._record.give_up()
            raise
        self._on_event(events.INTAKE_OPENED(source=self.source))

    async def run(self) -> None:
        """Read until the intake is closed or ``stop`` is called. Needs ``open``."""
        try:
            # A node that was asked to stop takes no more, while its workers finish what they have.
            while not self._is_stopping:
                if not self._record.is_reader and not await self._wait_for_turn():
                    return
                if await self._read_once() and await self._close():
                    return
        finally:
            await self.leave()

    # ---- becoming a reader, and ending

    async def _become_reader(self) -> bool:
        """Become a reader in the frontier; False: another process has the source for itself."""
        await self._record.forget_dead_readers()
        job = await self._frontier.job()
        if job.run != self._run:
            # In another run nothing was read yet; a job that was dropped and begun anew has another secret, too.
            await self._disconnect()
            self._record.begin_anew()
        self._run, self._fingerprinter = job.run, Fingerprinter.of_job(job)
        if not await self._record.open(alone=not self._intake.shared):
            return False
        self._came_at = time.monotonic()
        return True

    async def _wait_for_turn(self) -> bool:
        """Wait until this process may read; False: the intake is closed, or it was asked to stop."""
        # What the source holds for this process would be missing to the others.
        await self._disconnect()
        is_told = False
        while not self._is_stopping:
            seen = await self._record.seen()
            if seen is not None and seen.closed:
                return False
            is_left = self._leaves_it_to_others and await self._record.other_readers()
            if not is_left and await self._become_reader():
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

    async def _close(self) -> bool:
        """Nothing comes any more: close the intake; False: another process still reads it."""
        is_closed = await self._record.close()
        self._leaves_it_to_others = not is_closed
        if is_closed and (seen := await self._record.seen()) is not None:
            told = {"read": seen.read, "added": seen.added, "dead_letters": seen.dead_letters}
            self._on_event(events.INTAKE_CLOSED(source=self.source, **told))
        return is_closed

    async def leave(self) -> None:
        """Hand back what was not acknowledged; the intake stays open. For a reader that does not run, or has ended."""
        # Behind a call that a cancelled task has left running.
        with contextlib.suppress(IntakeError):
            await self._submit(self._intake.close)
        self._thread.shutdown(wait=False)
        await self._record.leave()

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
        if paused != self._record.progress.paused:
            self._record.set(paused=paused)
            kind = events.INTAKE_PAUSED if paused else events.INTAKE_RESUMED
            self._on_event(kind(source=self.source, **({"reason": paused} if paused else {})))
            await self._record.tell()
        if paused:
            await self._rest(READ_SECONDS)
        await self._tell_if_due()
        return is_over

    async def _pause_reason(self) -> str:
        """Why nothing is to be read now; empty: it is."""
        now = time.monotonic()
        if self._room > 0 and now - self._checked_at < CHECK_SECONDS and not self._record.progress.paused:
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
        progress = self._record.progress
        self._record.set(
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
        return bool(await self._record.other_readers()) or not await self._ask_backlog()

    # ---- trouble

    async def _connect(self) -> None:
        mark = self._record.progress.mark

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
        if not self._record.progress.trouble:
            self._trouble_since = time.monotonic()
            self._on_event(events.INTAKE_TROUBLE(source=self.source, reason=str(error)))
        self._record.set(trouble=str(error))
        await self._record.tell()
        tries = 0
        while not self._is_stopping:
            pause = min(AWAY_SECONDS * 2 ** min(tries, 16), LONGEST_AWAY_SECONDS) * random.uniform(0.5, 1.0)
            tries += 1
            await self._rest(pause)
            try:
                await self._connect()
            except IntakeUnavailableError:
                continue
            except IntakeError as failure:
                self._record.set(trouble=str(failure))
                continue
            self._came_at = time.monotonic()
            return

    def _comes_back(self) -> None:
        if self._record.progress.trouble:
            seconds = round(time.monotonic() - self._trouble_since, 1)
            self._on_event(events.INTAKE_BACK(source=self.source, seconds=seconds))
            self._record.end_trouble()

    # ---- the frontier and the thread

    async def _ask_backlog(self) -> int:
        """Ask the source what it still holds; 0: nothing, or it cannot tell."""
        backlog = await self._in_thread(self._intake.backlog)
        self._asked_at = time.monotonic()
        self._record.set_backlog(backlog)
        return backlog.messages or 0

    async def _tell_if_due(self) -> None:
        if not self._record.is_tell_due():
            return
        if time.monotonic() - self._asked_at >= BACKLOG_SECONDS and not self._record.progress.trouble:
            with contextlib.suppress(IntakeError):
                await self._ask_backlog()
        await self._record.tell_changes()

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
            await self._record.tell()


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
