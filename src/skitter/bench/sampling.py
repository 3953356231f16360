"""A sampling profiler: a timer samples the main thread, and CPU clocks measure other threads.

A profiler that follows every call charges each one, and a page is some hundred calls: small functions look large. A
timer on CPU time (``ITIMER_PROF``) interrupts 250 times a second on most Linux machines, and the handler sees what the
main thread is at, which takes it some tens of four thousand microseconds. A call into C belongs to the Python function
that made it, because the handler runs when it returns. Another thread does one thing only, and what it took is read
off its own clock. The parts add up to the CPU time of the process. More in docs/adr.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import Counter, defaultdict
from types import FrameType
from typing import Self

import msgspec

from skitter.bench.profile_parts import OVERHEAD, PART_BY_NAME, THREADS, part_at

TICK_SECONDS = 0.001
"""The requested interval; the kernel's is mostly 4 ms."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sampling."""

    cpu_seconds: float
    """Of the process."""
    samples: int
    parts: dict[str, float]
    """Seconds of each part; together they are ``cpu_seconds``."""


class Sampler:
    """A context manager that samples the main thread, which must be the calling one."""

    def __init__(self, part_by_name: dict[str, str] | None = None) -> None:
        """``part_by_name`` has entries besides those of the table, such as a spider's module."""
        self._part_by_name = PART_BY_NAME | (part_by_name or {})
        self._parts: dict[tuple[str, str], str | None] = {}
        self._weights: Counter[str] = Counter()
        self._clocks: dict[int, tuple[str, int]] = {}
        """Of other threads: the part each works for, and the last time on its clock."""
        self._samples = 0
        self._main = threading.main_thread()

    def __enter__(self) -> Self:
        self._main_began = self._main_seen = time.thread_time_ns()
        self._began = self._seen = time.process_time_ns()
        signal.signal(signal.SIGPROF, self._tick)
        # A call that was interrupted goes on by itself.
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, TICK_SECONDS, TICK_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # Not as it was: one that is still on its way would end the process.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        self._read_clocks()
        self._main_seconds = (time.thread_time_ns() - self._main_began) / 1e9
        self._seconds = (time.process_time_ns() - self._began) / 1e9

    def result(self) -> Sampled:
        """Return the result, after the block."""
        seconds: dict[str, float] = defaultdict(float)
        weighed = sum(self._weights.values())
        for part, weight in self._weights.items():
            seconds[part] += self._main_seconds * weight / weighed
        for part, nanoseconds in self._clocks.values():
            seconds[part] += nanoseconds / 1e9
        # What nobody was seen at: threads of C libraries, and the last moments of threads that have ended.
        seconds[OVERHEAD] += self._seconds - sum(seconds.values())
        return Sampled(cpu_seconds=self._seconds, samples=self._samples, parts=dict(seconds))

    def _tick(self, _number: int, frame: FrameType | None) -> None:
        self._read_clocks()
        main, process = time.thread_time_ns(), time.process_time_ns()
        used, of = main - self._main_seen, process - self._seen
        self._seen = process
        if used * 2 < of:
            # It was another thread's tick. This one may be waiting, and what it took so far was for something else.
            return
        self._main_seen = main
        self._samples += 1
        self._weights[self._part_of(frame)] += used

    def _part_of(self, frame: FrameType | None) -> str:
        """Return the part of the innermost function that the table has."""
        while frame is not None:
            # Not by the code itself: two functions that are written alike have equal code.
            where = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
            if where not in self._parts:
                self._parts[where] = part_at(*where, self._part_by_name)
            if (part := self._parts[where]) is not None:
                return part
            frame = frame.f_back
        return OVERHEAD

    def _read_clocks(self) -> None:
        for thread in threading.enumerate():
            if thread is self._main or thread.ident is None:
                continue
            # One that is on the list has not ended, and cannot while this function does not let it run.
            now = time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))
            part = next((part for name, (_, part) in THREADS.items() if thread.name.startswith(name)), OVERHEAD)
            self._clocks[thread.ident] = (part, now)


def uncertainty(share: float, samples: int) -> float:
    """Return the standard error of a share estimated from so many samples."""
    return math.sqrt(max(0.0, share * (1 - share)) / samples) if samples else 1.0
