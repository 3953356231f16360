"""A command that a scheduler runs, as a child process: its words, its end, and the last lines that it printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.model.control_characters import visible
from skitter.model.schedule import SCHEDULE_VARIABLE, ScheduleRecord, Tick
from skitter.model.secrets import without_secrets
from skitter.policy.schedule_ticks import run_key, tick_job

TAIL_BYTES = 16_384
"""Of each stream, what is kept while the command runs."""
OUTPUT_CHARS = 2_000
"""Of what it printed, what the history keeps."""
SUMMARY_BYTES = 8_192
"""A larger object than this on stdout is no summary."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended."""

    exit_code: int
    """Negative: the number of the signal that killed it."""
    summary: dict[str, Any]
    output: str

    @property
    def reason(self) -> str:
        """Why it failed, or was stopped, in a line; empty: it came to its end."""
        if self.exit_code == 0:
            stopped = self.summary.get("state") == "stopped" and self.summary.get("reason")
            return f"stopped by {stopped}" if stopped else ""
        lines = [line.removeprefix("error: ") for line in self.output.splitlines() if line.startswith("error: ")]
        if lines:
            return lines[-1]
        if self.exit_code < 0 or self.exit_code in (130, 143):
            number = -self.exit_code if self.exit_code < 0 else self.exit_code - 128
            return f"ended by {signal.Signals(number).name}"
        return f"exit code {self.exit_code}"


def command_words(record: ScheduleRecord, tick: Tick, frontier: str) -> list[str]:
    """Return the words of a tick's command, with the frontier of its scheduler and the job and key of the tick."""
    schedule = record.schedule
    more = ["--frontier", frontier] if schedule.takes_frontier and frontier else []
    if schedule.job:
        job = tick_job(record, tick)
        if job != schedule.job or not any(word.partition("=")[0] == "--job" for word in schedule.command):
            more += ["--job", job]
        more += ["--run-key", run_key(record, tick), "--json"]
        if tick.replaces and "--fresh" not in schedule.command:
            more.append("--fresh")
    words = schedule.command
    # Behind the command's own, so that these count; what follows -- would be no options.
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], *more, *words[place:]]


class ScheduledCommand:
    """One child process in a group of its own, so that Ctrl-C in a terminal reaches the scheduler alone."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ending = asyncio.create_task(self._end())

    @classmethod
    async def start(cls, program: Sequence[str], words: Sequence[str], schedule: str) -> ScheduledCommand:
        """Start ``program`` with the words of a command; OSError if that cannot be.

        ``schedule``: what it says of itself in the audit trail.
        """
        environment = {**os.environ, SCHEDULE_VARIABLE: schedule}
        process = await asyncio.create_subprocess_exec(
            *program, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True, env=environment
        )
        return cls(process)

    async def wait(self, seconds: float) -> CommandResult | None:
        """Return how it ended; None: it has not, after so long."""
        done, _ = await asyncio.wait([self._ending], timeout=seconds)
        return self._ending.result() if done else None

    def terminate(self) -> None:
        """Let it end in order."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End it at once, with all that it has started; a crawl loses nothing by that."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _end(self) -> CommandResult:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        out, error, exit_code = await asyncio.gather(
            _tail(self._process.stdout), _tail(self._process.stderr), self._process.wait()
        )
        summary = _summary(out)
        # A summary is kept as such; anything else on stdout is part of what was printed.
        texts = [error] if summary else [error, out]
        output = "\n".join(text.decode(errors="replace").rstrip() for text in texts if text.strip())
        lines = [without_secrets(visible(line)) for line in output.splitlines()]
        return CommandResult(exit_code=exit_code, summary=summary, output="\n".join(lines)[-OUTPUT_CHARS:])


async def _tail(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, and return the last part of it."""
    kept = b""
    while piece := await stream.read(65_536):
        kept = (kept + piece)[-TAIL_BYTES:]
    return kept


def _summary(out: bytes) -> dict[str, Any]:
    """Return the object that a command printed as its last line with --json; empty: there is none."""
    line = out.rstrip().rpartition(b"\n")[2]
    if len(line) > SUMMARY_BYTES or not line.startswith(b"{"):
        return {}
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
