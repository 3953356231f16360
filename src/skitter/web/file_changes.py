"""Whether a file was changed since it was last read, asked at most once a second."""

from __future__ import annotations

import time
from pathlib import Path

LOOK_SECONDS = 1.0


class FileChanges:
    """Watches one file by its time, size and inode."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked_at = time.monotonic()
        self._seen = self._stat()

    def found(self) -> bool:
        """Return whether the file is another one than at the last look; False also where that was a moment ago."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        before, self._seen = self._seen, self._stat()
        return self._seen != before

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)
