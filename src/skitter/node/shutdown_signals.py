"""Ctrl-C and SIGTERM: the first stops, a second Ctrl-C kills, a third raises KeyboardInterrupt.

Installed by the command line and by ``skitter.crawl``, never by a node: a program that runs nodes has its own handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from skitter.observe.events import NODE_STOPPING, Event


class ShutdownSignals:
    """Signals of this process, connected to what stops and what kills the work."""

    def __init__(
        self, on_event: Callable[[Event], None], *, stop: Callable[[], object], kill: Callable[[], object]
    ) -> None:
        self.signal = 0
        """The first one that came; 0: none."""
        self._on_event = on_event
        self._stop = stop
        self._kill = kill
        self._interrupts = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals in the running loop; afterwards the handlers are what they were before."""
        loop = asyncio.get_running_loop()

        def catch(number: int, frame: FrameType | None) -> None:
            # Called between two steps of the main thread, wherever that is.
            del frame
            self._interrupts += number == signal.SIGINT
            if self._interrupts > 2:
                # Twice was not enough: a callback in this very process blocks the loop.
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(self._receive, number)

        before: list[tuple[signal.Signals, Any]] = []
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                # Outside the main thread (a notebook) there are no signals to handle.
                with contextlib.suppress(ValueError):
                    before.append((number, signal.signal(number, catch)))
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    def _receive(self, number: int) -> None:
        if not self.signal:
            self.signal = number
            self._on_event(NODE_STOPPING(signal=number))
            self._stop()
        elif number == signal.SIGINT:
            self._kill()
