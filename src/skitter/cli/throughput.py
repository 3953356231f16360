"""The throughput of a crawl, from the reports of its frontier."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 10.0
KEPT = 400
"""The number of samples kept: a spark line across a wide terminal."""
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*#@"


class Throughput:
    """Pages per second now, over a window, and as a line of the last samples."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=KEPT)
        self._rates: deque[float] = deque(maxlen=KEPT)

    def sample(self, now: float, pages: int) -> None:
        """Add the page count of a report. Counts fall when a new run begins; the speed is never negative."""
        if self._samples:
            then, before = self._samples[-1]
            if now <= then:
                return
            self._rates.append(max(0, pages - before) / (now - then))
            if pages < before:
                self._samples.clear()
        self._samples.append((now, pages))

    @property
    def pages_per_second(self) -> float:
        """Return the speed over the last ten seconds."""
        if len(self._samples) < 2:
            return 0.0
        now, pages = self._samples[-1]
        then, before = next(sample for sample in self._samples if now - sample[0] <= WINDOW_SECONDS)
        if then == now:
            then, before = self._samples[-2]
        return (pages - before) / (now - then)

    def spark(self, width: int, blocks: str = BLOCKS) -> str:
        """Draw the last ``width`` samples, the highest of them a full block; a sample without a page is a blank."""
        if width <= 0:
            return ""
        rates = list(self._rates)[-width:]
        top = max(rates, default=0.0)
        if not top:
            return " " * len(rates)
        last = len(blocks) - 1
        return "".join(" " if rate == 0 else blocks[min(last, int(rate / top * len(blocks)))] for rate in rates)
