"""The permit to start requests, for a node with a coordinator: shared memory that the node writes and workers read.

A node that cannot reach its coordinator may be taken for gone by others, who then lease what its workers held. So a
worker starts only while its permit is valid, and breaks off what it has in flight when the permit ends. The clock
decides: whichever of the two processes is killed, stopped or cut off, nothing has to be told to anybody.
"""

from __future__ import annotations

import asyncio
import mmap

from skitter.cluster.clock import now_seconds
from skitter.worker.shared_memory import new_shared_memory

CHECK_SECONDS = 0.1
_BYTES = 24
_TERM, _START_UNTIL, _ENDS_AT = range(3)
"""Numbers of eight bytes each. A term is one unbroken membership of the node; it begins at 1."""


def new_permit() -> int:
    """A file descriptor of a permit that is not valid yet, to be handed to the workers of a node."""
    return new_shared_memory("skitter-start-permit", _BYTES)


class StartPermit:
    """One side's view of the permit: the node writes, its workers read."""

    def __init__(self, descriptor: int) -> None:
        self._numbers = memoryview(mmap.mmap(descriptor, _BYTES)).cast("d")
        self._term = 0.0

    # ---- the node's side

    def extend(self, ends_at: float) -> None:
        """The node is a member, and nobody takes it for gone before this time. Begins a term if the last has ended."""
        numbers = self._numbers
        if now_seconds() >= numbers[_ENDS_AT]:
            numbers[_START_UNTIL] = 0.0
            numbers[_TERM] += 1
        # In this order: who sees the new time sees the new term.
        numbers[_ENDS_AT] = numbers[_START_UNTIL] = ends_at

    def suspend(self) -> None:
        """Nothing is to be started until the next ``extend``."""
        self._numbers[_START_UNTIL] = 0.0

    def end(self) -> None:
        """Others may have taken the node for gone: what its workers hold may be others' by now."""
        self._numbers[_START_UNTIL] = self._numbers[_ENDS_AT] = 0.0

    # ---- the worker's side

    def begin(self) -> bool:
        """Belong to the present term, from now on and for good; False: there is none."""
        term = self._numbers[_TERM]
        if now_seconds() >= self._numbers[_START_UNTIL] or term != self._numbers[_TERM]:
            return False
        self._term = term
        return True

    @property
    def is_valid(self) -> bool:
        """Whether a request may be started."""
        numbers = self._numbers
        return now_seconds() < numbers[_START_UNTIL] and numbers[_TERM] == self._term

    @property
    def has_ended(self) -> bool:
        """Whether nothing may be in flight any more, and never again for this worker."""
        numbers = self._numbers
        return now_seconds() >= numbers[_ENDS_AT] or numbers[_TERM] != self._term

    async def ended(self) -> None:
        """Wait for its end."""
        while not self.has_ended:  # noqa: ASYNC110  another process extends it, and the clock ends it
            await asyncio.sleep(CHECK_SECONDS)
