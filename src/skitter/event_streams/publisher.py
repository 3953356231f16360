"""Publisher of a node's events: a thread with a bounded buffer, which never blocks the crawl.

An unavailable server is retried without limit; meanwhile events wait in memory, and when the buffer is full the oldest
are dropped and counted. Events of this thread itself are only logged, not published: otherwise each failure would
produce another event that fails.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

import msgspec

from skitter.errors import EventStreamError, EventStreamUnavailableError
from skitter.event_streams.contract import EventMessage, EventStream
from skitter.observe import events
from skitter.observe.event_record import event_record

BUFFER_BYTES = 16 << 20
"""Maximum size of waiting events: about 40,000 events of typical size."""
BATCH = 500
FIRST_SECONDS = 2.0
"""How long a crawl waits at its start for the first answer of the server, to report a refusal before it begins."""
FLUSH_SECONDS = 5.0
"""How long the end of a crawl waits for its last events."""
AWAY_SECONDS = 0.5
LONGEST_AWAY_SECONDS = 15.0
"""Pause between retries of an unavailable server: doubles from AWAY_SECONDS up to this, with jitter."""


class EventPublisher:
    """Publisher of events; runs between ``__enter__`` and ``__exit__``."""

    def __init__(self, stream: EventStream, job: str) -> None:
        self._stream = stream
        self._job = job
        self._id = secrets.token_hex(6)
        self._sequence = 0
        self._changed = threading.Condition()
        self._buffer: deque[EventMessage] = deque()
        self._bytes = 0
        self._sending: list[EventMessage] = []
        """Events taken from the buffer and not yet confirmed."""
        self._dropped = 0
        """Number of events dropped since the server became unavailable."""
        self._told_dropped = False
        self._is_stopping = False
        self._deadline = 0.0
        """Time at which a stopping publisher gives up."""
        self._is_open = False
        self._unavailable_since: float | None = None
        self._first_try = threading.Event()
        self._has_begun = False
        """Whether the crawl has begun. From then on, a server that refuses is retried like an unavailable one."""
        self._refusal: EventStreamError | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def publish(self, event: events.Event) -> None:
        """Add an event to the buffer. Thread-safe; never waits for the server."""
        if threading.current_thread() is self._thread:
            return
        with self._changed:
            if self._is_stopping:
                return
            self._sequence += 1
            record = event_record(event, self._job) | {"publisher": self._id, "sequence": self._sequence}
            body = msgspec.json.encode(record)
            level = event.level.name.lower()
            identity = f"{self._id}-{self._sequence}"
            self._buffer.append(EventMessage(identity, event.job or self._job, event.kind.name, level, event.at, body))
            self._bytes += len(body)
            while self._bytes > BUFFER_BYTES:
                self._bytes -= len(self._buffer.popleft().body)
                self._dropped += 1
            self._changed.notify()

    def __enter__(self) -> Self:
        """Start the thread. Raises EventStreamError if the server refuses; an unavailable server is retried in the
        background."""
        self._thread.start()
        self._first_try.wait(FIRST_SECONDS)
        with self._changed:
            self._has_begun = True
        if self._refusal is not None:
            self._stop(0.0)
            raise self._refusal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(FLUSH_SECONDS)
        with self._changed:
            left = len(self._buffer) + len(self._sending)
        if left:
            events.emit(events.EVENTS_DROPPED(stream=self._stream.name, events=left))

    def _stop(self, seconds: float) -> None:
        with self._changed:
            self._is_stopping, self._deadline = True, time.monotonic() + seconds
            self._changed.notify()
        # A call of the driver may take longer; the process does not wait for it.
        self._thread.join(seconds)

    # ---- the thread

    def _run(self) -> None:
        pause = AWAY_SECONDS
        try:
            while True:
                try:
                    self._open()
                    if not self._take_batch():
                        return
                    self._stream.publish(self._sending)
                except EventStreamError as error:
                    self._becomes_unavailable(error)
                    if not self._rest(pause * random.uniform(0.5, 1.0)):
                        return
                    pause = min(2 * pause, LONGEST_AWAY_SECONDS)
                else:
                    pause = AWAY_SECONDS
                    with self._changed:
                        self._sending = []
        finally:
            self._stream.close()

    def _open(self) -> None:
        if self._is_open:
            return
        try:
            self._stream.open()
        except EventStreamError as error:
            with self._changed:
                if not self._has_begun and not isinstance(error, EventStreamUnavailableError):
                    self._refusal = error
            raise
        finally:
            self._first_try.set()
        self._is_open = True
        self._comes_back()

    def _take_batch(self) -> bool:
        """Wait for events and move them to ``_sending``; return False if there are none and this is stopping."""
        with self._changed:
            while not self._sending and not self._buffer:
                if self._is_stopping:
                    return False
                self._changed.wait()
            while self._buffer and len(self._sending) < BATCH:
                self._sending.append(self._buffer.popleft())
                self._bytes -= len(self._sending[-1].body)
        return True

    def _rest(self, seconds: float) -> bool:
        """Sleep; return False if it is time to give up."""
        until = time.monotonic() + seconds
        with self._changed:
            while (now := time.monotonic()) < until:
                if self._is_stopping:
                    until = min(until, now + AWAY_SECONDS)
                    if now >= self._deadline:
                        return False
                self._changed.wait(until - now)
            return not self._is_stopping or time.monotonic() < self._deadline

    def _becomes_unavailable(self, error: EventStreamError) -> None:
        self._is_open = False
        if self._refusal is not None:
            return
        if self._unavailable_since is None:
            self._unavailable_since = time.monotonic()
            events.emit(events.EVENTS_AWAY(stream=self._stream.name, reason=str(error)))
        if self._dropped and not self._told_dropped:
            self._told_dropped = True
            events.emit(events.EVENTS_DROPPED(stream=self._stream.name, events=self._dropped))

    def _comes_back(self) -> None:
        if self._unavailable_since is None:
            return
        with self._changed:
            dropped, self._dropped, self._told_dropped = self._dropped, 0, False
        seconds = round(time.monotonic() - self._unavailable_since, 1)
        self._unavailable_since = None
        events.emit(events.EVENTS_BACK(stream=self._stream.name, seconds=seconds, dropped=dropped))
