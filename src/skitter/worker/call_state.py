"""The state that the calls of one worker carry: their tokens, and the mark of the permits that it knows."""

from __future__ import annotations

import secrets

from skitter.model.lease import Call, Grant


class CallState:
    """Makes the calls of one worker, and learns from their answers. One call is under way at a time."""

    def __init__(self, slots: int = 0) -> None:
        self._slots = slots
        # A worker that is started again under the same name must not be taken for the one before.
        self._prefix = secrets.token_hex(8)
        self._calls = 0
        self._run = self._permits = 0
        self._store: str | None = None

    def next(self) -> Call:
        """A call that was not made before."""
        self._calls += 1
        return Call(token=f"{self._prefix}-{self._calls}", run=self._run, permits=self._permits, slots=self._slots)

    def learn(self, grant: Grant) -> None:
        """Take over the mark of the permits that the worker knows with this answer."""
        self._run, self._permits = grant.run, grant.permits
        if self._store not in (None, grant.store):
            # A store that lost its newest writes may have fewer permits than were told: count from the start.
            self._run = self._permits = 0
        self._store = grant.store
