"""What every peer is measured with: pages, seconds and CPU from the start of the crawl to the last page that counts.

A peer's script calls `begin` when its crawl starts and `page` in its callback, and prints `report()` at the end. How
long the interpreter takes to start and the framework to close is in none of the figures.
"""

import importlib.metadata
import json
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn

IN_FLIGHT = 64


class Meter:
    def __init__(self, package: str) -> None:
        self.start_url, self.max_pages = sys.argv[1], int(sys.argv[2])
        self.redis_url = sys.argv[3] if len(sys.argv) > 3 else ""
        self.folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
        self._package = package
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._urls: set[str] = set()
        self._began = self._ended = (0.0, 0.0)
        self._lines = (self.folder / "pages.jsonl").open("w")

    def begin(self) -> None:
        self._began = self._ended = now()

    def page(self, url: str) -> None:
        """Count a page that was fetched and parsed, once, unless there were enough already."""
        with self._lock:
            if not self.full() and url not in self._urls:
                self._urls.add(url)
                self._ended = now()

    def write(self, item: dict[str, str | None]) -> None:
        """One JSON line, for a framework that writes none itself."""
        with self._lock:
            self._lines.write(json.dumps(item) + "\n")

    def full(self) -> bool:
        return len(self._urls) >= self.max_pages

    def end_process(self) -> NoReturn:
        """Report and end here and now, for a framework that cannot be told to stop at a number of pages."""
        with self._ending:  # for ever: of several threads that get here, one may speak
            print(self.report(), flush=True)
            os._exit(0)

    def report(self) -> str:
        self._lines.close()
        pages = len(self._urls)
        seconds, cpu = (end - begin for begin, end in zip(self._began, self._ended, strict=True))
        return json.dumps(
            {
                "peer": self._package,
                "version": importlib.metadata.version(self._package),
                "pages": pages,
                "pages_per_second": round(pages / seconds, 1) if pages else 0,
                "cpu_ms_per_page": round(cpu * 1000 / pages, 3) if pages else 0,
                "rss_mb": peak_mb(),
            }
        )


def now() -> tuple[float, float]:
    """Seconds of the clock, and seconds of CPU of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), usage.ru_utime + usage.ru_stime


def peak_mb() -> int:
    """Of this process alone: what getrusage says begins with the size of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1000
