"""Request to stop, passed on to the current work: workers, then the last deliveries.

It knows nothing of signals: a command line, a server or a script calls ``stop`` and ``kill``.
"""

from __future__ import annotations

from collections.abc import Callable

Action = Callable[[], object]


def _nothing() -> None:
    pass


class StopRequest:
    """State of a request to stop: none, graceful or forced. Not thread-safe: used in the event loop only."""

    def __init__(self) -> None:
        self.requested = False
        self.forced = False
        """Whether to stop without finishing what is in flight; leases are recovered, so nothing is lost."""
        self._stop: Action = _nothing
        self._kill: Action = _nothing
        self._is_held = False
        self._stop_next = False

    def stop(self) -> None:
        """Request a graceful stop: finish what is in flight, then end. Idempotent."""
        if not self.requested:
            self.requested = True
            self._stop()

    def kill(self) -> None:
        """Request an immediate stop."""
        self.requested = self.forced = True
        self._kill()

    def stop_current(self) -> None:
        """Stop the current work only; later work is not stopped. While held, the next work is the current one."""
        self._stop_next = self._is_held
        self._stop()

    def set_handlers(self, stop: Action, kill: Action) -> None:
        """Set the handlers of the current work; a request that was made before is passed on at once."""
        self._stop, self._kill = stop, kill
        stop_now, self._is_held, self._stop_next = self.requested or self._stop_next, False, False
        if stop_now:
            stop()
        if self.forced:
            kill()

    def hold(self) -> None:
        """Remove the handlers; a request waits for the next ``set_handlers``."""
        self._stop = self._kill = _nothing
        self._is_held = True
