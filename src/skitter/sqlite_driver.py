"""SQLite driver rules that all files of skitter share: the write-ahead log, and errors that name the disk."""

from __future__ import annotations

import errno
import sqlite3
import time
from pathlib import Path

POLL_SECONDS = 0.01
LEAST_FREE_BYTES = 64 * 1024
"""With less, SQLite cannot open a file: the memory that its processes share takes 32 KB."""


def use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch a file to the write-ahead log, and wait while another process does the same.

    SQLite refuses this at once while another process opens the same new file, whatever its busy time-out is.
    """
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def disk_errno(error: sqlite3.Error | OSError, folder: Path) -> int | None:
    """Return the errno behind an error: ``ENOSPC``, ``EROFS`` or another; None if the disk is not at fault.

    SQLite does not tell why it cannot open or write one of its files, so a file is written beside them.
    """
    if isinstance(error, OSError):
        return error.errno
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_FULL"):
        return errno.ENOSPC
    if not name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR")):
        return None
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(LEAST_FREE_BYTES))
    except OSError as found:
        return found.errno
    return None


def error_text(error: sqlite3.Error | OSError, folder: Path) -> str:
    """Return the text of an error for people, which names a disk that is full or read-only."""
    trouble = disk_errno(error, folder)
    if trouble in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if trouble == errno.EROFS:
        return "the disk is read-only"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
