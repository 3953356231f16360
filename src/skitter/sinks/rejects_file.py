"""Rejects files: JSON lines of the items that a target refused, with the reason.

Beside a file of results it is called after it, ``books.jsonl.rejects.jsonl``; for any other target it is
``.skitter/JOB.rejects.jsonl``. Several processes may add to one: each holds a lock while it does.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from skitter import private_files
from skitter.sinks.contract import Rejected, Sink
from skitter.sinks.durable_files import resolve_file, sink_errors, sync_folder, write_all
from skitter.sinks.stdout import StdoutSink
from skitter.sinks.targets import parse_target

SUFFIX = ".rejects.jsonl"
_ENCODER = msgspec.json.Encoder()


def rejects_of(sink: Sink, job: str) -> RejectsFile:
    """Return the rejects file of this sink; it is created with its first line."""
    target = parse_target(sink.target)
    is_file = not target.scheme and sink.target != StdoutSink.target and "{part}" not in sink.target
    return RejectsFile(target.name.rstrip("/") + SUFFIX if is_file else f".skitter/{job}{SUFFIX}")


class RejectsFile:
    """A rejects file, which is only appended to: people read it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, rejected: Sequence[Rejected]) -> None:
        with sink_errors(self.name):
            path = resolve_file(self.name)
            self._append(path, _ENCODER.encode_lines(rejected))

    @staticmethod
    def _append(path: Path, lines: bytes) -> None:
        is_new = not path.exists()
        mode = private_files.FILE_MODE if path.parent.name == private_files.FOLDER.name else 0o666
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # whoever wrote the last line was killed in the middle of it
            write_all(fd, lines)
            os.fsync(fd)
        finally:
            os.close(fd)
        if is_new:
            sync_folder(path.parent)
