"""One worker process, as its supervisor knows it: started, listened to, and ended.

Children speak over a pipe, one JSON object a line: ``hello`` (their worker id), ``beat`` (alive, how long one
step has held the loop, and the page it belongs to), ``committed`` (how many outcomes), ``event`` (see
``observe.events``), ``log``, and at last ``end`` (whether to be started again), ``error`` (why they cannot go on) or
``failed`` (an error that nobody expected).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from skitter.errors import BackendError, SkitterError, UsageError
from skitter.model.lease import Lease, Work
from skitter.observe.events import Event, log_line, received
from skitter.worker.identity import process_stat

LAST_WORDS_SECONDS = 1.0
"""What a dead process has said is in the pipe already. But a process that it forked may keep the pipe open."""
_STDERR = 2


class Child:
    """One worker process."""

    def __init__(self, process: asyncio.subprocess.Process, reading: int, on_event: Callable[[Event], None]) -> None:
        self.worker = ""
        """Its worker id, once it has said hello."""
        self.silent_seconds = 0.0
        """Since it was last heard; counted by the supervisor, so that a supervisor that was stopped blames nobody."""
        self.blocked_seconds = 0.0
        """How long one step has held its loop, by its last beat."""
        self.culprit: Lease | None = None
        """The page to which that step belongs."""
        self.error: SkitterError | None = None
        """Why it could not go on."""
        self.failure = ""
        """The error that nobody expected, of which it died. Not a page's: what a callback raises is caught."""
        self.committed = 0
        """Outcomes, by its last word on them."""
        self.has_finished = False
        """It said that there is nothing more to do. An exit code alone does not tell: a spider may call exit."""
        self.starts_over = False
        """It said that a new run of the job began, for which it wants to be started again."""
        self.verdict = ""
        """Why the supervisor ended it."""
        self._process = process
        self._on_event = on_event
        self._listening = asyncio.create_task(self._listen(reading))

    @classmethod
    async def start(
        cls,
        command: Callable[[int], Sequence[str]],
        on_event: Callable[[Event], None],
        told: bytes = b"",
        inherits: Sequence[int] = (),
    ) -> Child:
        """``command`` gives the command line of a child that speaks to the file descriptor given.

        ``told`` is what it reads from its standard input, to the end: everybody on the machine can read its command
        line, and addresses hold passwords. ``inherits`` are file descriptors that it has too.
        """
        reading, writing = os.pipe()
        stdin = _pipe_with(told)
        try:
            process = await asyncio.create_subprocess_exec(
                *command(writing),
                stdin=stdin,
                # Standard output is for results; what a spider prints must not get between them.
                stdout=_STDERR,
                pass_fds=[writing, *inherits],
            )
        except OSError as error:
            os.close(reading)
            raise BackendError(f"a worker process cannot be started: {error}", hint="too many processes?") from error
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            os.close(stdin)
        return cls(process, reading, on_event)

    async def ended(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        code = await self._process.wait()
        await asyncio.wait([self._listening], timeout=LAST_WORDS_SECONDS)
        self._listening.cancel()
        return code

    def terminate(self) -> None:
        """Ask it to finish what it has in flight."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self, verdict: str) -> None:
        """End it at once."""
        self.verdict = self.verdict or verdict
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def is_stopped(self) -> bool:
        """By SIGSTOP or Ctrl-Z."""
        return process_stat(self._process.pid)[:1] == ["T"]

    def how_it_ended(self) -> str:
        """In words."""
        code = self._process.returncode or 0
        if self.verdict or code >= 0:
            return self.verdict or self.failure or f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"

    async def _listen(self, reading: int) -> None:
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb")
        )
        try:
            while not stream.at_eof():
                # ValueError: half a line, of a process that was killed while it spoke.
                with contextlib.suppress(ValueError):
                    line = await stream.readline()
                    self.silent_seconds = 0.0
                    self._hear(json.loads(line))
        finally:
            transport.close()

    def _hear(self, message: dict[str, Any]) -> None:
        match message:
            case {"hello": worker}:
                self.worker = worker
            case {"beat": blocked_seconds, "lease": lease}:
                self.blocked_seconds = blocked_seconds
                self.culprit = Lease(work=Work(lease[0]), id=lease[1], epoch=lease[2]) if lease else None
            case {"event": name, "fields": fields, "level": level, "at": at}:
                self._on_event(received(name, {"worker": self.worker} | fields, level, at))
            case {"log": text, **rest}:
                said = log_line(text, rest.get("logger", ""), rest.get("level", logging.INFO))
                said.fields["worker"] = self.worker
                self._on_event(said)
            case {"committed": committed}:
                self.committed = committed
            case {"failed": text}:
                self.failure = text
            case {"end": again}:
                self.has_finished, self.starts_over = not again, again
            case {"error": text, "hint": hint, "code": code}:
                kind = UsageError if code == UsageError.exit_code else BackendError
                self.error = kind(text, hint=hint)


def _pipe_with(told: bytes) -> int:
    """To be read to its end. Not a pipe of asyncio's: waiting for the child would be waiting for its pipes too."""
    reading, writing = os.pipe()
    try:
        # Without waiting for a reader: it must fit into a pipe (64 KiB), and is far smaller.
        os.set_blocking(writing, False)
        if os.write(writing, told) != len(told):
            raise AssertionError("too much to tell a child")
    finally:
        os.close(writing)
    return reading
