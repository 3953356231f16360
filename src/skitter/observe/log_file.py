"""A log file that is appended to, and rotated by size: FILE becomes FILE.1, FILE.1 becomes FILE.2, and so on.

Several processes may write one file. A line is one write to a file that is open for appending, so that lines do not
mix. Whoever finds the file full renames it under a lock, and the others notice at their next line that they have the
old one open. Nobody waits for the lock: whoever does not get it writes its line, and the file grows by that.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from skitter import private_files
from skitter.errors import UsageError


class LogFile:
    """One log file, which may be written from several threads; a context manager."""

    def __init__(self, name: str, *, max_bytes: int | None = None, max_files: int = 1) -> None:
        """``max_bytes``: a file that would grow beyond it is rotated. ``max_files``: old files that are kept."""
        # A link is followed: what is renamed is the file that it leads to.
        self._path = Path(name) if max_bytes is None else Path(name).resolve()
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._lock = threading.Lock()
        try:
            self._fd = self._open()
        except OSError as error:
            raise UsageError(
                f"cannot be written: {name}: {error.strerror}",
                hint="--log and log_file take a file, or - for standard error",
            ) from error

    def write(self, line: str) -> None:
        """Append a line; OSError: the disk is full, for example."""
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            if self._fd < 0:
                return
            if self._max_bytes is not None:
                # What cannot be renamed is written to.
                with suppress(OSError):
                    self._make_room(len(data), self._max_bytes)
            os.write(self._fd, data)

    def close(self) -> None:
        """Close the file; may be called again."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        # For its owner alone, if it is new: a spider may log anything.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return private_files.opener(str(self._path), flags)

    def _make_room(self, size: int, max_bytes: int) -> None:
        if not self._is_current():
            # Another process has rotated it, or somebody has moved it.
            self._reopen()
        held = os.fstat(self._fd).st_size
        if not held or held + size <= max_bytes:
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # Only who has locked the file that is in place renames: so nobody else does.
        if self._is_current():
            for number in range(self._max_files - 1, 0, -1):
                with suppress(FileNotFoundError):
                    self._rotated(number).replace(self._rotated(number + 1))
            self._path.replace(self._rotated(1))
        # The lock goes with the old descriptor.
        self._reopen()

    def _rotated(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _is_current(self) -> bool:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        own = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def _reopen(self) -> None:
        fd = self._open()
        os.close(self._fd)
        self._fd = fd
