"""What worker processes print: read from a pipe, so that it does not get between other output of the command."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

PIECE_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024
LAST_LINES_SECONDS = 3.0
"""How long the pipe is still read at the end: a worker may be slow to exit, or leave a process that keeps it open."""


class PrintedLines:
    """A pipe for worker processes to print to, and the thread that reads it."""

    def __init__(self, show: Callable[[str], None]) -> None:
        """``show`` gets one or more whole lines, from the thread."""
        self._show = show
        reading, self.fd = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.close(self.fd)
        self._thread.join(LAST_LINES_SECONDS)

    def _read(self, reading: int) -> None:
        unfinished = b""
        while piece := os.read(reading, PIECE_BYTES):
            # All lines of a piece together: the live display is drawn again after each call.
            lines, newline, unfinished = (unfinished + piece).rpartition(b"\n")
            if newline:
                self._show_text(lines)
            if len(unfinished) > MAX_LINE_BYTES:
                self._show_text(unfinished)
                unfinished = b""
        if unfinished:
            self._show_text(unfinished)
        os.close(reading)

    def _show_text(self, text: bytes) -> None:
        # A terminal that has gone must not end the thread: workers would block on a pipe that nobody reads.
        with suppress(OSError, ValueError):
            self._show(text.decode(errors="backslashreplace"))
