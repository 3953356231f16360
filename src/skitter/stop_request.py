"""A request to stop, passed on to whatever is at work at the moment: workers, then the last deliveries.

It knows nothing of signals: a command line, a server or a script calls ``stop`` and ``kill``.
"""

from __future__ import annotations

from collections.abc import Callable

Action = Callable[[], object]


def _nothing() -> None:
    pass


class StopRequest:
    """Whether somebody wants the work to end, and how urgently. Used from the thread of the event loop."""

    def __init__(self) -> None:
        self.requested = False
        self.forced = False
        """Leave at once, without finishing what is in flight: nothing is lost."""
        self._stop: Action = _nothing
        self._kill: Action = _nothing

    def stop(self) -> None:
        """Finish what is in flight, then end. A second call changes nothing."""
        if not self.requested:
            self.requested = True
            self._stop()

    def kill(self) -> None:
        """End at once."""
        self.requested = self.forced = True
        self._kill()

    def stop_current(self) -> None:
        """Stop what is at work now, for a reason of its own: what comes after it is not stopped."""
        self._stop()

    def aim(self, stop: Action, kill: Action) -> None:
        """From now on a request means this; one that was made before is passed on at once."""
        self._stop, self._kill = stop, kill
        if self.requested:
            stop()
        if self.forced:
            kill()

    def hold(self) -> None:
        """From now on a request waits for the next ``aim``."""
        self._stop = self._kill = _nothing
