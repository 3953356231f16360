"""The supervisor: the parent that starts workers, replaces dead ones and hands their leases back.

Children speak over a pipe, one JSON object a line: ``hello`` (their worker id), ``beat`` (alive, and
what holds the loop), ``log``, and ``error`` (why they cannot go on). A child whose pipe breaks stops:
so no worker outlives its supervisor by more than its shutdown time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skitter.errors import BackendError, SkitterError, UsageError
from skitter.frontier.contract import Frontier
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, Outcome

STOPPED_SECONDS = 5.0
"""A process that is stopped (SIGSTOP) may hold the store's lock: it is ended soon."""
SILENT_MARGIN_SECONDS = 10.0
"""A process that runs but is silent may be in a callback that holds the interpreter: it has that long, and this."""
FALSE_STARTS = 3
_CHECK_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 1.0


class Child:
    """One worker process, as its parent knows it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.worker = ""
        """Its worker id, once it has said hello."""
        self.heard_at = time.monotonic()
        self.blocked_seconds = 0.0
        self.culprit: Lease | None = None
        self.error: SkitterError | None = None
        self.verdict = ""
        """Why the supervisor ended it."""

    def is_stopped(self) -> bool:
        try:
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False

    def kill(self, verdict: str) -> None:
        self.verdict = self.verdict or verdict
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()


class Supervisor:
    """Keeps ``count`` workers running until each of them ends by itself."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        count: int,
        *,
        frontier: Frontier,
        callback_seconds: float,
        on_event: Callable[[str], None],
    ) -> None:
        """``command`` gives the command line of a child that writes to the file descriptor given."""
        self._command = command
        self._count = count
        self._frontier = frontier
        self._callback_seconds = callback_seconds
        self._on_event = on_event
        self._children: set[Child] = set()
        self._stopping = False
        self._false_starts = 0

    async def run(self) -> None:
        """Until all workers have ended. Raises what keeps them from working."""
        slots = [asyncio.create_task(self._keep_one()) for _ in range(self._count)]
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.gather(*slots)
        finally:
            watching.cancel()
            for slot in slots:
                slot.cancel()
            for child in self._children:
                child.kill("")
            await asyncio.gather(*(child.process.wait() for child in self._children))

    def stop(self) -> None:
        """Ask every worker to finish what it has in flight."""
        self._stopping = True
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()

    def kill(self) -> None:
        """End every worker at once; nothing is lost."""
        self._stopping = True
        for child in self._children:
            child.kill("")

    async def _keep_one(self) -> None:
        """One worker after the other, until one ends by itself."""
        crashes = 0
        while True:
            began = time.monotonic()
            child = await self._run_one()
            code = child.process.returncode
            if code == 0:
                if child.worker:
                    # It holds nothing any more; from now on nobody takes it for alive.
                    await self._frontier.release_worker(child.worker)
                return
            if child.error is not None:
                self.stop()
                raise child.error
            await self._mourn(child)
            if self._stopping:
                return
            self._judge_start(child)
            # A worker that lived for a while is replaced at once; one that keeps dying, more and more slowly.
            crashes = 0 if time.monotonic() - began > _MAX_PAUSE_SECONDS else crashes + 1
            await asyncio.sleep(min(0.05 * 2**crashes, _MAX_PAUSE_SECONDS) if crashes > 1 else 0)

    def _judge_start(self, child: Child) -> None:
        if child.worker:
            self._false_starts = 0
        elif child.process.returncode != -signal.SIGKILL:
            # SIGKILL is somebody else's doing, and tells nothing about how a worker starts.
            self._false_starts += 1
        if self._false_starts >= FALSE_STARTS:
            self.stop()
            raise BackendError(
                f"workers die before they have started: {_how(child)}",
                hint="run with -v; the messages above may tell",
            )

    async def _run_one(self) -> Child:
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(writing), stdin=asyncio.subprocess.DEVNULL, pass_fds=[writing]
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        child = Child(process)
        self._children.add(child)
        if self._stopping:
            process.terminate()
        try:
            # The pipe ends when the child does: read it first, so that its last words are heard.
            await self._listen(child, reading)
            await process.wait()
        finally:
            if process.returncode is not None:
                self._children.discard(child)
        return child

    async def _listen(self, child: Child, reading: int) -> None:
        stream = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb")
        )
        try:
            while line := await stream.readline():
                child.heard_at = time.monotonic()
                with contextlib.suppress(ValueError):
                    self._hear(child, json.loads(line))
        finally:
            transport.close()

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        match message:
            case {"hello": worker}:
                child.worker = worker
            case {"beat": blocked_seconds, "lease": lease}:
                child.blocked_seconds = blocked_seconds
                child.culprit = Lease(work=Work(lease[0]), id=lease[1], epoch=lease[2]) if lease else None
            case {"log": text}:
                self._on_event(text)
            case {"error": text, "hint": hint, "code": code}:
                kind = UsageError if code == UsageError.exit_code else BackendError
                child.error = kind(text, hint=hint)

    async def _watch(self) -> None:
        """End what is silent, stopped, or held by a callback for too long."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            for child in list(self._children):
                silent = time.monotonic() - child.heard_at
                if silent > STOPPED_SECONDS and child.is_stopped():
                    child.culprit = None
                    child.kill(f"stopped for {silent:.0f} s")
                elif silent > self._callback_seconds + SILENT_MARGIN_SECONDS:
                    child.kill(f"silent for {silent:.0f} s")
                elif child.blocked_seconds + silent > self._callback_seconds and child.culprit is not None:
                    child.kill(f"held by a callback for more than {self._callback_seconds:g} s")

    async def _mourn(self, child: Child) -> None:
        """A worker died: its leases go back at once, and a callback that had to be ended has its page dead."""
        if not child.worker:
            return
        if child.verdict and child.culprit is not None and child.culprit.work is Work.PAGE:
            error = f"the callback blocked its worker: {child.verdict}"
            await self._frontier.commit(
                child.worker,
                [Outcome(lease=child.culprit, ending=Ending.DEAD, error_class="callback", error=error)],
            )
        back = await self._frontier.release_worker(child.worker)
        self._on_event(f"worker {child.worker} died ({_how(child)}); {back} leases go back")


def _how(child: Child) -> str:
    code = child.process.returncode or 0
    if child.verdict:
        return child.verdict
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
