"""Memory of this worker process: warns at one size, and asks for another process at a larger one."""

from __future__ import annotations

from collections.abc import Callable

from skitter.cluster.process_identity import resident_bytes


class MemoryWatch:
    """Looks when it is called; each size is told once."""

    def __init__(
        self,
        *,
        warning_bytes: int | None,
        limit_bytes: int | None,
        on_warning: Callable[[int], None],
        on_limit: Callable[[int], None],
        measure: Callable[[], int] = resident_bytes,
    ) -> None:
        self.reached_bytes = 0
        """The size at which the limit was reached; 0: it was not."""
        self._warning_bytes = warning_bytes
        self._limit_bytes = limit_bytes
        self._on_warning = on_warning
        self._on_limit = on_limit
        self._measure = measure

    def look(self) -> None:
        """Compare the memory of now with both sizes."""
        if self.reached_bytes or (self._warning_bytes is None and self._limit_bytes is None):
            return
        size = self._measure()
        if self._limit_bytes is not None and size >= self._limit_bytes:
            self.reached_bytes = size
            self._on_limit(size)
        elif self._warning_bytes is not None and size >= self._warning_bytes:
            self._warning_bytes = None
            self._on_warning(size)
