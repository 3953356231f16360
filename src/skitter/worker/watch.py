"""What the loop is doing, readable from another thread: so that a callback that blocks it can be named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from skitter.model.lease import Lease


class Watch:
    """Written by the loop, read by the renewal thread. Each field is replaced whole, so no lock is needed."""

    def __init__(self) -> None:
        self.running_lease: Lease | None = None
        self.running_since = 0.0
        self.ticked_at = time.monotonic()
        """When the loop last came round."""
        self.pages = 0

    @contextmanager
    def running(self, lease: Lease) -> Iterator[None]:
        """A callback runs. Several async ones may overlap; a blocked loop has just one that is to blame."""
        self.running_since = time.monotonic()
        self.running_lease = lease
        try:
            yield
        finally:
            self.running_lease = None

    def blocked_seconds(self) -> float:
        """How long the loop has not come round."""
        return time.monotonic() - self.ticked_at

    def culprit(self) -> Lease | None:
        """The page whose callback holds the loop, if it is a callback."""
        return self.running_lease
