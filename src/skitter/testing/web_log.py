"""Request log of the synthetic web, for tests of politeness and refetching."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import IO, NamedTuple

_FLUSH_SECONDS = 0.1


class Hit(NamedTuple):
    """One request as the server saw it."""

    at: float
    """Time of arrival, by the monotonic clock that all processes of the machine share."""
    host: int
    """Index of the host; -1 is the canary."""
    path: str
    status: int
    in_flight: int
    """Requests in flight at this host, including this one."""
    everywhere: int = 0
    """Requests in flight at all hosts together, which share one address."""


class RequestLog:
    """Log of requests in memory, or as lines of JSON in a file. ``keep=False`` without a file keeps nothing."""

    def __init__(self, path: Path | None, *, keep: bool) -> None:
        self._path = path
        self._keep = keep
        self._hits: list[Hit] = []
        self._file: IO[str] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        if self._path is not None:
            self._file = self._path.open("w", encoding="utf-8")

    def add(self, hit: Hit) -> None:
        if self._file is None:
            if self._keep:
                self._hits.append(hit)
            return
        self._file.write(
            f'{{"at": {hit.at:.6f}, "host": {hit.host}, "path": {json.dumps(hit.path)}, '
            f'"status": {hit.status}, "in_flight": {hit.in_flight}, "everywhere": {hit.everywhere}}}\n'
        )
        # Flushed soon, but not per request: another process may read the log meanwhile, and a system call per line is
        # expensive.
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

    def read(self) -> list[Hit]:
        if self._path is None:
            return list(self._hits)
        self.flush()
        return read_log(self._path)

    def close(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._file is not None:
            self._file.flush()


def read_log(path: str | Path) -> list[Hit]:
    """Return the requests in a log file, in order of arrival, without a last line that is still being written."""
    text = Path(path).read_text(encoding="utf-8")
    return [Hit(**json.loads(line)) for line in text.split("\n")[:-1]]
