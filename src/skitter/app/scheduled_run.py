"""Run of one tick by this scheduler: all attempts of its command, renewal of its claim, and its result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

import msgspec

from skitter.app.job_situation import job_situation
from skitter.app.scheduled_command import CommandResult, ScheduledCommand, command_words
from skitter.delivery.job_sinks import OnEvent
from skitter.errors import ScheduleStoreError, SkitterError
from skitter.model.schedule import HistoryRow, JobSituation, ScheduleRecord, Tick, TickOutcome
from skitter.observe import events
from skitter.policy import schedule_ticks as ticks
from skitter.schedule_store.records import Change, ScheduleRecords

CLAIM_SECONDS = 6.0
"""A tick whose claim has not been renewed for this long is taken over."""
RENEWAL_SECONDS = 2.0
STORE_PAUSE_SECONDS = 1.0
NOT_STARTED = 126
"""Exit code of a command that could not be started, as in a shell."""


class ScheduledRun:
    """Run of a claimed tick, with retries, until it ends or is lost to another scheduler."""

    def __init__(
        self,
        records: ScheduleRecords,
        record: ScheduleRecord,
        tick: Tick,
        *,
        owner: str,
        frontier: str,
        job_frontier: str,
        program: Sequence[str],
        taken_over: bool,
        on_event: OnEvent,
    ) -> None:
        self._records = records
        self._record = record
        self._tick = tick
        self._owner = owner
        self._frontier = frontier
        self._job_frontier = job_frontier
        self._program = program
        self._taken_over = taken_over
        self._on_event = on_event
        self._command: ScheduledCommand | None = None
        self._stopping = asyncio.Event()
        self._is_lost = False
        self.outcome: TickOutcome | None = None
        """Outcome of the tick; None if it has not ended, or if another scheduler has taken it over."""

    def stop(self) -> None:
        """Stop the command gracefully, and leave the tick to another scheduler."""
        self._stopping.set()
        if self._command is not None:
            self._command.terminate()

    def kill(self) -> None:
        """Kill the command if it is running."""
        if self._command is not None:
            self._command.kill()

    async def run(self) -> None:
        """Run the command until it succeeds, has no attempts left, or the tick is lost or released."""
        try:
            if self._taken_over and await self._is_stopped_by_command():
                await self._end(CommandResult(exit_code=0, summary={}, output=""), "the job was stopped by command")
                return
            while not self._stopping.is_set():
                result = await self._attempt()
                if self._is_lost or (self._stopping.is_set() and result.exit_code != 0):
                    break
                if not ticks.is_retried(self._record, self._tick, result.exit_code):
                    await self._end(result, result.reason)
                    return
                await self._wait_for_retry(result)
            if not self._is_lost:
                await self._release()
        finally:
            if self._command is not None:
                self._command.kill()

    # ---- the command

    async def _attempt(self) -> CommandResult:
        """Run the command once, and renew the claim meanwhile."""
        words = command_words(self._record, self._tick, self._frontier)
        self._on_event(
            events.TICK_STARTED(
                schedule=self._record.schedule.name,
                scheduled_at=self._shown_time,
                command=" ".join(words),
                attempt=self._tick.attempt,
                taken_over=self._taken_over,
            )
        )
        try:
            command = self._command = await ScheduledCommand.start(self._program, words, self._record.schedule.name)
        except OSError as error:
            return CommandResult(
                exit_code=NOT_STARTED, summary={}, output=f"error: the command cannot be started: {error}"
            )
        if self._stopping.is_set():
            command.terminate()
        asked_to_stop = False
        while (result := await command.wait(RENEWAL_SECONDS)) is None:
            await self._renew()
            if (self._is_lost or self._tick.replaced_by) and not asked_to_stop:
                asked_to_stop = True
                command.terminate()
        self._command = None
        return result

    async def _wait_for_retry(self, result: CommandResult) -> None:
        seconds = self._record.schedule.retry_delay_seconds
        self._on_event(
            events.TICK_RETRY(
                schedule=self._record.schedule.name,
                scheduled_at=self._shown_time,
                reason=result.reason,
                seconds=seconds,
            )
        )
        await self._change(lambda tick: msgspec.structs.replace(tick, attempt=tick.attempt + 1))
        deadline = time.monotonic() + seconds
        while not self._is_lost and not self._tick.replaced_by and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, RENEWAL_SECONDS)):
                    await self._stopping.wait()
                    return
            await self._renew()

    async def _is_stopped_by_command(self) -> bool:
        """Return whether an operator stopped the job after its scheduler died: this tick must not start it again."""
        job = ticks.tick_job(self._record, self._tick)
        try:
            found = bool(job) and await job_situation(self._job_frontier, job)
        except SkitterError:
            return False
        return found is JobSituation.STOPPED and not self._tick.replaces

    # ---- the tick

    async def _renew(self) -> None:
        """Renew the claim, and find out whether the tick was replaced or lost.

        An unavailable store is ignored until the next renewal.
        """
        if self._is_lost:
            return
        with contextlib.suppress(ScheduleStoreError):
            claim = (await self._records.time()).claim(self._owner, CLAIM_SECONDS)
            await self._change_once(lambda tick: msgspec.structs.replace(tick, claim=claim))

    async def _release(self) -> None:
        """Let the claim expire now, so that the leader takes the tick over."""
        with contextlib.suppress(ScheduleStoreError):
            now = await self._records.time()
            await self._change_once(lambda tick: msgspec.structs.replace(tick, claim=now.claim(self._owner, 0.0)))

    async def _end(self, result: CommandResult, reason: str) -> None:
        failed = result.exit_code != 0
        if self._tick.replaced_by:
            failed, reason = True, f"replaced by the tick of {ticks.shown_time(self._tick.replaced_by)}"
        outcome = TickOutcome.FAILED if failed else TickOutcome.DONE
        ended_at, ended = 0.0, False
        kept: ScheduleRecord | None = None

        def row(tick: Tick) -> HistoryRow:
            return msgspec.structs.replace(
                ticks.row_of(self._record, tick, outcome, reason),
                ended_at=round(ended_at, 3),
                exit_code=result.exit_code,
                summary=result.summary,
                output=result.output,
            )

        def end(record: ScheduleRecord) -> Change | None:
            nonlocal ended
            tick = ticks.held(record, self._tick)
            # True also if an earlier write ended the tick but its reply was lost.
            ended = ended or tick is not None
            return Change(ticks.end(record, tick), [row(tick)]) if tick is not None else None

        while True:
            try:
                ended_at = (await self._records.time()).now
                kept = await self._records.change(self._record.schedule.name, end)
                break
            except ScheduleStoreError:
                # The scheduler reports the unavailable store. While this process lives, the ended tick is not run
                # again; if the process ends first, the next scheduler runs the command once more, and the run key
                # keeps its job from starting another run.
                if self._stopping.is_set():
                    return
                await asyncio.sleep(STORE_PAUSE_SECONDS)
        if not ended and kept is not None:
            self._on_event(events.TICK_LOST(schedule=self._record.schedule.name, scheduled_at=self._shown_time))
            return
        self.outcome = outcome
        self._on_event(
            events.TICK_ENDED(
                schedule=self._record.schedule.name,
                scheduled_at=self._shown_time,
                outcome=str(outcome),
                reason=reason or f"exit code {result.exit_code}",
                exit_code=result.exit_code,
                seconds=round(max(0.0, ended_at - self._tick.started_at), 1),
            )
        )

    async def _change(self, step: Callable[[Tick], Tick]) -> None:
        """Change the tick; wait while the store is unavailable."""
        while not self._is_lost and not self._stopping.is_set():
            try:
                await self._change_once(step)
                return
            except ScheduleStoreError:
                await asyncio.sleep(STORE_PAUSE_SECONDS)

    async def _change_once(self, step: Callable[[Tick], Tick]) -> None:
        """Change the tick if this scheduler still holds its claim; otherwise mark it as lost."""
        lost = False

        def change(record: ScheduleRecord) -> Change | None:
            nonlocal lost
            tick = ticks.held(record, self._tick)
            lost = tick is None
            return Change(ticks.with_tick(record, step(tick))) if tick is not None else None

        changed = await self._records.change(self._record.schedule.name, change)
        if changed is None:
            # The schedule was removed: its command runs to its end, and nothing is recorded.
            return
        if lost:
            self._is_lost = True
            self._on_event(events.TICK_LOST(schedule=self._record.schedule.name, scheduled_at=self._shown_time))
            return
        self._record = changed
        self._tick = ticks.held(changed, self._tick) or self._tick

    @property
    def _shown_time(self) -> str:
        return ticks.shown_time(self._tick.scheduled_at)
