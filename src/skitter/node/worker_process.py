"""One worker process, as its supervisor knows it: started, watched, and ended.

It speaks over a pipe (``supervisor_pipe``); what its loop is doing is read from shared memory (``worker.loop_status``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from skitter.cluster.process_identity import cpu_ticks, process_stat
from skitter.errors import BackendError
from skitter.model.lease import Lease, Work
from skitter.node.supervisor_pipe import WorkerMessages
from skitter.observe.events import Event
from skitter.observe.node_counters import NodeCounters
from skitter.worker.loop_status import LoopStatus, is_ticking, lease_of, new_status

LAST_WORDS_SECONDS = 1.0
"""How long the pipe of a dead process is still read: a process that it forked may keep it open."""
HELD_NICENESS = 5
"""Added to that of a process that a page holds, which then has a third of a worker's share of a busy core: enough for
a callback that is slow and not endless."""


class WorkerProcess:
    """One worker process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reading: int,
        on_event: Callable[[Event], None],
        loop_status: LoopStatus,
        counters: NodeCounters,
    ) -> None:
        self.silent_seconds = 0.0
        """Since it was last heard; counted by the supervisor, so that a supervisor that was stopped blames nobody."""
        self.still_seconds = 0.0
        """Since its loop last moved; counted likewise."""
        self.relieved = asyncio.Event()
        """A page holds its loop: another worker is to take its place."""
        self.held_page: Lease | None = None
        """The page that holds its loop."""
        self.kill_reason = ""
        """Why the supervisor killed it."""
        self.blamed_page: Lease | None = None
        """The page for which the supervisor killed it."""
        self._process = process
        self._loop_status = loop_status
        self.counters = counters
        """What it has counted, where its node has metrics."""
        self._record = b""
        self._ticks_before: tuple[int, int] | None = None
        self._end = asyncio.get_running_loop().create_future()
        # Not asyncio's way: uvloop gives a child its signals as they are by default, and not as ``_spawned`` wants.
        threading.Thread(target=self._wait, args=(self._end.get_loop(),), daemon=True).start()
        self.said = WorkerMessages(on_event, self._note_alive)
        """What it has told its supervisor."""
        self._reading = asyncio.create_task(self.said.read(reading))

    @classmethod
    async def start(
        cls,
        command: Callable[[int, int], Sequence[str]],
        on_event: Callable[[Event], None],
        config: bytes = b"",
        inherits: Sequence[int] = (),
        print_fd: int = 2,
    ) -> WorkerProcess:
        """``command`` gives the command line of a child for two file descriptors: it speaks to the first and notes what
        its loop is doing in the second.

        ``config`` is what it reads from its standard input, to the end: everybody on the machine can read its command
        line, and addresses hold passwords. ``inherits`` are file descriptors that it has too. ``print_fd`` is its
        standard output and standard error.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as its_own:
            try:
                reading, writing = os.pipe()
                ours.callback(os.close, reading)
                its_own.callback(os.close, writing)
                stdin = _pipe_with(config)
                its_own.callback(os.close, stdin)
                status = new_status()
                its_own.callback(os.close, status)
                loop_status, counters = LoopStatus(status), NodeCounters(status)
                process = _spawned(command(writing, status), stdin, print_fd, [writing, status, *inherits])
            except OSError as error:
                hint = "too many processes or open files?"
                raise BackendError(f"a worker process cannot be started: {error}", hint=hint) from error
            ours.pop_all()
        return cls(process, reading, on_event, loop_status, counters)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def worker(self) -> str:
        """Its worker id, once it has said hello."""
        return self.said.worker

    async def ended(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        await self._end
        code = self._process.wait()
        await asyncio.wait([self._reading], timeout=LAST_WORDS_SECONDS)
        self._reading.cancel()
        return code

    def close(self) -> None:
        """Release its shared memory, after its end and the last ``update``."""
        self._loop_status.close()
        self.counters.close()

    def terminate(self) -> None:
        """Ask it to finish what it has in flight."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def update(self, seconds: float) -> tuple[Lease, float] | None:
        """Count time; the page that had held the loop and has let it go, and for how long. Called every ``seconds``."""
        self.silent_seconds += seconds
        record, let_go = self._loop_status.read(), None
        if record == self._record and is_ticking(record):
            if not self.still_seconds:
                self._ticks_before = cpu_ticks(self._process.pid)
            self.still_seconds += seconds
        else:
            if self.still_seconds and (page := self._page()) is not None:
                let_go = page, self.still_seconds
            self._record, self.still_seconds = record, 0.0
        return let_go

    def holding_page(self) -> Lease | None:
        """The page that held the loop at the last ``update``; None: it is not known which.

        Where the process has said nothing since its loop stands still, some thread holds the interpreter, and it need
        not be the loop's: another thread may have taken it in the middle of an innocent page. CPU time tells.
        """
        page, before, now = self._page(), self._ticks_before, cpu_ticks(self._process.pid)
        if self.silent_seconds >= self.still_seconds and before is not None and now is not None:
            main, whole = now[0] - before[0], now[1] - before[1]
            return page if main > 0 and 2 * main >= whole else None
        return page

    def _page(self) -> Lease | None:
        lease = lease_of(self._record) if self._record else None
        return lease if lease is not None and lease.work is Work.PAGE else None

    def retire(self) -> None:
        """Ask it to end after the page that holds it, and lower its priority: another worker is in its place."""
        self.terminate()
        with contextlib.suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, self._process.pid)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, own + HELD_NICENESS)

    def kill(self, reason: str, blamed_page: Lease | None = None) -> None:
        """End it at once."""
        if not self.kill_reason:
            self.kill_reason, self.blamed_page = reason, blamed_page
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def is_stopped(self) -> bool:
        """Whether SIGSTOP or Ctrl-Z has stopped it."""
        return process_stat(self._process.pid)[:1] == ["T"]

    def how_it_ended(self) -> str:
        """How it ended, for people: why it was killed, its error, its exit code or signal."""
        code = self._process.returncode or 0
        if self.kill_reason or code >= 0:
            return self.kill_reason or self.said.failure or f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"

    def _note_alive(self) -> None:
        self.silent_seconds = 0.0

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        # RuntimeError: the loop has ended before.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._tell_end)

    def _tell_end(self) -> None:
        if not self._end.done():  # whoever waited was cancelled
            self._end.set_result(None)


def _spawned(command: Sequence[str], stdin: int, print_fd: int, inherits: Sequence[int]) -> subprocess.Popen[bytes]:
    """A process that Ctrl-C does not reach before it says so (``app.__main__``): it would end in a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # Standard output is for results; what a spider prints must not get between them.
        return subprocess.Popen(  # noqa: S603  no shell
            command, stdin=stdin, stdout=print_fd, stderr=print_fd, pass_fds=inherits
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pipe_with(config: bytes) -> int:
    """The reading end of a pipe that holds the bytes. Not asyncio's, whose wait for a child waits for its pipes too."""
    reading, writing = os.pipe()
    try:
        # Without waiting for a reader: it must fit into a pipe (64 KiB), and is far smaller.
        os.set_blocking(writing, False)
        if os.write(writing, config) != len(config):
            raise AssertionError("too much to tell a child")
    finally:
        os.close(writing)
    return reading
