"""What Ctrl-C and SIGTERM do to a crawl: the first asks, the second Ctrl-C does not ask, the third does not wait."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from skitter.observe.events import NODE_STOPPING, Event


class ShutdownSignals:
    """Signals of this process, aimed at whatever is at work."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self.signal = 0
        """The first one that came."""
        self.forced = False
        """It was not asked any more: leave at once, nothing is lost."""
        self._on_event = on_event
        self._ask: Callable[[], object] = lambda: None
        self._force: Callable[[], object] = lambda: None
        self._interrupts = 0

    def aim(self, ask: Callable[[], object], force: Callable[[], object]) -> None:
        """From now on signals mean this."""
        self._ask, self._force = ask, force
        if self.signal:
            ask()
        if self.forced:
            force()

    def now(self) -> None:
        """Stop as a first signal would, for another reason."""
        self._ask()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals here; what they meant before they mean again afterwards."""
        loop = asyncio.get_running_loop()

        def catch(number: int, frame: FrameType | None) -> None:
            # Called between two steps of the main thread, wherever that is.
            del frame
            self._interrupts += number == signal.SIGINT
            if self._interrupts > 2:
                # Twice was not enough: a callback in this very process blocks the loop.
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(self._hear, number)

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

    def _hear(self, number: int) -> None:
        if not self.signal:
            self.signal = number
            self._on_event(NODE_STOPPING(signal=number))
            self._ask()
        elif number == signal.SIGINT:
            self.forced = True
            self._force()
