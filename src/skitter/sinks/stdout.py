"""The standard output sink: JSON lines, at least once, because bytes written to a pipe cannot be removed.

After a crash the items of at most one batch come again; the order stays.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TextIO

from skitter.errors import SinkError
from skitter.model.control_characters import visible_json
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.durable_files import sink_errors, write_all
from skitter.sinks.json_records import json_lines

_MARK = b"1"


class StdoutSink:
    """The sink of ``-o -``."""

    exact = False
    target = "-"

    def __init__(self) -> None:
        # The one there is now: while a spider runs in this process, what it prints goes elsewhere.
        self._stream = sys.stdout

    def take(self) -> None:
        """Do nothing: every process has its own standard output."""

    def open(self, progress: SinkProgress) -> bytes:
        return progress.mark or _MARK

    def write(self, items: Sequence[Item]) -> bytes:
        lines = json_lines(items)
        if self._stream.isatty():
            # A pipe gets what the page had; somebody who looks gets it escaped, which means the same.
            lines = visible_json(lines.decode()).encode()
        try:
            with sink_errors("standard output"):
                _print(lines, self._stream)
        except SinkError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise SinkError(
                    "standard output was closed",
                    hint="nothing is lost: run the same command again to get the rest",
                ) from error.__cause__
            raise
        return _MARK

    def finish(self) -> None:
        """Do nothing: ``write`` has written everything."""

    def close(self, *, complete: bool = False) -> None:
        """Do nothing: standard output stays open."""


def _print(lines: bytes, stream: TextIO) -> None:
    stream.flush()
    try:
        fd = stream.fileno()
    except io.UnsupportedOperation:
        # A notebook, or a test: an object that only looks like a file.
        stream.write(lines.decode())
        stream.flush()
        return
    # Past Python's buffer: what stays there when the reader goes would make trouble again at exit.
    write_all(fd, lines)
