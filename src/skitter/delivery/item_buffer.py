"""A buffer between a crawl and the program that takes its items, which may be in another thread or another event loop.

It holds one batch. An item is confirmed when the program asks for the next one: what is in its hands when it leaves, or
is killed, comes again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

Record = Any
"""A dict with plain values, or the object that a callback in this process has yielded."""


class Waiting(NamedTuple):
    """Nothing is there now."""

    changed: Future[None]
    """Done when it is worth asking again."""


class ItemBuffer:
    """``put`` and ``confirmed`` are for the crawl, ``take``, ``confirm`` and ``leave`` for the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[tuple[int, Record]] = deque()
        self._in_hand: int | None = None
        self._confirmed = 0
        self._end_of_batch = 0
        self._is_over = False
        self._waiter: Future[None] | None = None
        self._wake_crawl: Callable[[], object] = lambda: None
        self.has_left = False
        """The program takes nothing more."""

    # ---- the crawl's side

    def connect(self, wake: Callable[[], object], position: int) -> None:
        """``wake``: called, from any thread, when a batch is confirmed or the program leaves."""
        with self._lock:
            self._wake_crawl = wake
            self._items.clear()
            self._in_hand = None
            self._confirmed = self._end_of_batch = position

    @property
    def confirmed(self) -> int:
        """The position up to which the program has dealt with everything."""
        with self._lock:
            # What stands behind its last item is not for the program.
            return self._end_of_batch if self._is_through else self._confirmed

    @property
    def is_through(self) -> bool:
        """Everything that was put is confirmed."""
        with self._lock:
            return self._is_through

    @property
    def _is_through(self) -> bool:
        return not self._items and self._in_hand is None

    def put(self, items: Sequence[tuple[int, Record]], begin: int, end: int) -> None:
        """The next batch, when the last one is through: everything from behind ``begin`` to ``end``."""
        with self._lock:
            self._items.extend(items)
            self._confirmed, self._end_of_batch = begin, end
            waiter = self._take_waiter() if items else None
        _set(waiter)

    def end(self) -> None:
        """Nothing more will come."""
        with self._lock:
            self._is_over = True
            waiter = self._take_waiter()
        _set(waiter)

    # ---- the program's side

    def take(self) -> Record | Waiting | None:
        """The next item; None: there are no more."""
        with self._lock:
            if self._items and not self.has_left:
                self._in_hand, record = self._items.popleft()
                return record
            if self._is_over or self.has_left:
                return None
            self._waiter = self._waiter or Future()
            return Waiting(self._waiter)

    def confirm(self) -> None:
        """The item that was taken last is dealt with."""
        with self._lock:
            if self._in_hand is None:
                return
            self._confirmed, self._in_hand = self._in_hand, None
            is_through = self._is_through
        if is_through:
            self._wake()

    def leave(self) -> None:
        """Take nothing more; may be called again."""
        with self._lock:
            self.has_left = True
            waiter = self._take_waiter()
        _set(waiter)
        self._wake()

    def _take_waiter(self) -> Future[None] | None:
        waiter, self._waiter = self._waiter, None
        return waiter

    def _wake(self) -> None:
        # RuntimeError: the crawl has ended, and its loop is closed.
        with contextlib.suppress(RuntimeError):
            self._wake_crawl()


def _set(waiter: Future[None] | None) -> None:
    # Outside the lock, because callbacks run here. A waiter that was cancelled is not told.
    if waiter is not None and waiter.set_running_or_notify_cancel():
        waiter.set_result(None)
