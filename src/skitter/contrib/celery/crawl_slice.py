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
from collections.abc import Callable, Iterator
from typing import IO

import msgspec
from celery.exceptions import SoftTimeLimitExceeded

from skitter.app.worker_slice import END_SECONDS, Ended, Failed, Line, Progress, SliceConfig, Told
from skitter.errors import BackendError, UsageError

log = logging.getLogger("skitter.events")
_POLL_SECONDS = 1.0
_PIECE_BYTES = 1 << 16


class SliceError(BackendError):
    """The process of a slice ended without a word: it was killed, or it could not start."""


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
        self.last: Progress | None = None

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
        for line in self._lines(process, stdin, stdout):
            match line:
                case Progress():
                    self.last = line
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
        raise SliceError(f"the process of the slice ended: exit code {process.wait()}")

    def _lines(self, process: subprocess.Popen[bytes], stdin: IO[bytes], stdout: IO[bytes]) -> Iterator[Line]:
        rest = b""
        decoder = msgspec.json.Decoder(Line)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if self._shutdown_fd is not None and self._stop_by is None:
                selector.register(self._shutdown_fd, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fileobj is not stdout:
                        selector.unregister(key.fileobj)
                        self._stop(stdin)
                        continue
                    piece = os.read(stdout.fileno(), _PIECE_BYTES)
                    if not piece:
                        return
                    *lines, rest = (rest + piece).split(b"\n")
                    yield from map(decoder.decode, lines)
                if self._stop_by is not None and time.monotonic() > self._stop_by:
                    # Its leases come back when they expire, or at once by the next slice on this machine.
                    process.kill()
                    self._stop_by = time.monotonic() + END_SECONDS
