"""A gate that the requests of a crawl go through, which a test shuts at a request of its choice.

While it is shut nothing is answered. So a crawl cannot be over before a fault comes, however busy the machine is.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator

from rig.processes import wait_until


class Gate:
    """Counts what was asked for, each thing once. A server calls ``arrive`` before it answers."""

    def __init__(self) -> None:
        self._asked: set[object] = set()
        self._shut_from: float = math.inf
        self._waiting = 0
        self._changed = threading.Condition()

    @property
    def asked(self) -> int:
        return len(self._asked)

    @property
    def is_shut(self) -> bool:
        """Whether a request waits. One that may go through, and has not noticed yet, does not count."""
        with self._changed:
            return self._waiting > 0 and len(self._asked) >= self._shut_from

    def arrive(self, what: object) -> None:
        """Count a request, and wait while the gate is shut."""
        with self._changed:
            self._asked.add(what)
            self._waiting += 1
            self._changed.wait_for(lambda: len(self._asked) < self._shut_from)
            self._waiting -= 1

    def shut_from(self, number: float) -> None:
        """Let nothing through once so many things were asked for. What waits goes through if that has not come yet."""
        with self._changed:
            self._shut_from = number
            self._changed.notify_all()

    @contextlib.contextmanager
    def shut_at(
        self, number: int, keep_running: Callable[[], object] | None = None, then: float = math.inf
    ) -> Iterator[None]:
        """Wait until so many things were asked for, and let nothing through until the block ends.

        ``keep_running`` is called meanwhile. It fails if the crawl has ended. ``then``: where the gate is shut again,
        which is said before it is opened.
        """
        self.shut_from(number)
        try:
            wait_until(lambda: self.is_shut or (keep_running and keep_running()), what=f"request {number}")
            yield
        except BaseException:
            self.shut_from(math.inf)
            raise
        self.shut_from(then)
