"""One slice of a crawl in a child process, as a task sees it: it works for the job for a limited time.

The slice needs a separate process: a pool process of Celery may not have children of ``multiprocessing`` and has its
own signal handlers, a thread of a pool cannot handle signals, and a page that crashes its worker must not crash the
task. The slice runs while the pipe to its standard input is open: if this process is killed, the slice ends gracefully.
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
    """Process of a slice, and the messages that it has sent."""

    def __init__(
        self, config: SliceConfig, *, shutdown_fd: int | None, on_progress: Callable[[Progress], None]
    ) -> None:
        """``shutdown_fd`` becomes readable when this Celery worker shuts down."""
        self._config = config
        self._shutdown_fd = shutdown_fd
        self._on_progress = on_progress
        self._stop_by: float | None = None
        self._rest = b""
        self._lines: deque[Line] = deque()
        self._decoder = msgspec.json.Decoder(Line)

    def run(self) -> Ended:
        """Run the slice until it ends. Raises BackendError if a retry may succeed, and UsageError if none can."""
        # In its own session, so that Ctrl-C in the terminal of the worker does not reach it.
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
                    log.warning("soft time limit reached: stopping the slice of job %s", self._config.job)
                    self._stop(stdin)
        finally:
            # However this task ends, even by SystemExit, the process sees its input closed and ends by itself.
            with contextlib.suppress(OSError):
                stdin.close()
            stdout.close()

    def _stop(self, stdin: IO[bytes]) -> None:
        if self._stop_by is None:
            self._stop_by = time.monotonic() + END_SECONDS
        with contextlib.suppress(OSError):
            stdin.close()

    def _follow(self, process: subprocess.Popen[bytes], stdin: IO[bytes], stdout: IO[bytes]) -> Ended:
        """Process lines until the last one. After an interruption by a time limit, call it again; it loses none."""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if self._shutdown_fd is not None and self._stop_by is None:
                selector.register(self._shutdown_fd, selectors.EVENT_READ)
            while True:
                while self._lines:
                    # Removed only after processing, so that an interruption does not lose it.
                    if (ended := self._take(self._lines[0], process)) is not None:
                        return ended
                    self._lines.popleft()
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fileobj is not stdout:
                        selector.unregister(key.fileobj)
                        self._stop(stdin)
                    elif not self._read(stdout):
                        raise SliceError(f"the process of the slice ended unexpectedly: exit code {process.wait()}")
                if self._stop_by is not None and time.monotonic() > self._stop_by:
                    # Its leases return when they expire, or at once when the next slice starts on this machine.
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
        """Read available output into lines; return False at the end of the output."""
        piece = os.read(stdout.fileno(), _PIECE_BYTES)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._lines += map(self._decoder.decode, lines)
        return bool(piece or lines)
