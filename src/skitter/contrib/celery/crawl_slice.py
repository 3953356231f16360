"""One slice of a crawl, as a task sees it: a process that works for the job until its time is over.

A process below the pool's: a pool process of Celery may not have children of ``multiprocessing`` and has signals of its
own, a thread of its pool has none, and a page that crashes its worker must not cost the task. The pipe to its standard
input is all that keeps it: when this process is killed, the slice ends in order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import IO

import msgspec
from celery.exceptions import SoftTimeLimitExceeded

from skitter.app.worker_slice import END_SECONDS, Ended, Failed, Line, Progress, SliceConfig, Told
from skitter.errors import BackendError, SliceError, UsageError

log = logging.getLogger("skitter.events")
_POLL_SECONDS = 1.0
_PIECE_BYTES = 1 << 16


class SliceRun:
    """A slice's process, and what it has told."""

    def __init__(
        self, config: SliceConfig, *, shutdown_fd: int | None, on_progress: Callable[[Progress], None]
    ) -> None:
        """``shutdown_fd``: readable as soon as this worker of Celery shuts down."""
        self._config = config
        self._shutdown_fd = shutdown_fd
        self._on_progress = on_progress
        self._stop_by: float | None = None
        self._rest = b""
        self._lines: deque[Line] = deque()
        self._decoder = msgspec.json.Decoder(Line)

    def run(self) -> Ended:
        """Run it to its end. BackendError: another try may succeed; UsageError: none will."""
        # Its own session: a Ctrl-C at the terminal of the worker is no signal for it.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "skitter.app.worker_slice"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(msgspec.json.encode(self._config) + b"\n")
                stdin.flush()
            while True:
                try:
                    return self._follow(process, stdin, stdout)
                except SoftTimeLimitExceeded:
                    log.warning("soft time limit: the slice of job %s ends", self._config.job)
                    self._stop(stdin)
        finally:
            # Whatever ends this task, SystemExit too: the process notices, and ends by itself.
            with contextlib.suppress(OSError):
                stdin.close()
            stdout.close()

    def _stop(self, stdin: IO[bytes]) -> None:
        if self._stop_by is None:
            self._stop_by = time.monotonic() + END_SECONDS
        with contextlib.suppress(OSError):
            stdin.close()

    def _follow(self, process: subprocess.Popen[bytes], stdin: IO[bytes], stdout: IO[bytes]) -> Ended:
        """Take lines until the last one. Broken off by a time limit, it may be called again, and loses none."""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if self._shutdown_fd is not None and self._stop_by is None:
                selector.register(self._shutdown_fd, selectors.EVENT_READ)
            while True:
                while self._lines:
                    # Removed when it is done with.
                    if (ended := self._take(self._lines[0], process)) is not None:
                        return ended
                    self._lines.popleft()
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fileobj is not stdout:
                        selector.unregister(key.fileobj)
                        self._stop(stdin)
                    elif not self._read(stdout):
                        raise SliceError(f"the process of the slice ended: exit code {process.wait()}")
                if self._stop_by is not None and time.monotonic() > self._stop_by:
                    # Its leases come back when they expire, or at once by the next slice on this machine.
                    process.kill()
                    self._stop_by = time.monotonic() + END_SECONDS

    def _take(self, line: Line, process: subprocess.Popen[bytes]) -> Ended | None:
        match line:
            case Progress():
                self._on_progress(line)
            case Told():
                log.log(line.level, "%s: %s", self._config.job, line.text)
            case Failed():
                process.wait()
                if line.passes:
                    raise BackendError(line.message, hint=line.hint)
                raise UsageError(line.message, hint=line.hint)
            case Ended():
                process.wait()
                return line
        return None

    def _read(self, stdout: IO[bytes]) -> bool:
        """False: there is nothing more to read."""
        piece = os.read(stdout.fileno(), _PIECE_BYTES)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._lines += map(self._decoder.decode, lines)
        return bool(piece or lines)
